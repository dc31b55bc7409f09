"""Small videos of every awkward kind, made with the ffmpeg command, each with the way it must be decoded."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import av
from av.packet import Packet

Video = Callable[[str], Path]
#: Makes a video with an ffmpeg command.
Make = Callable[[str, Path], object]

TS_PACKET = 188
#: Packet identifier that the ffmpeg command gives the first stream of a transport stream.
TS_VIDEO_PID = 0x100
WIDTH, HEIGHT = 128, 72
SOURCE = f"testsrc2=s={WIDTH}x{HEIGHT}:r={{rate}}:d={{seconds}}"
X264 = "-c:v libx264 -preset veryfast -g 36 -threads 1"
#: Key frames every 2 s; every frame shown, or frames decoded ahead and shown later.
VP9 = "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 48 -b:v 200k"
VP9_HIDDEN = "-c:v libvpx-vp9 -cpu-used 8 -g 48 -b:v 100k -auto-alt-ref 1 -lag-in-frames 16"
AV1 = "-c:v libsvtav1 -preset 12 -g 48"
#: Half as many pictures a second as the others, since it is slow.
AOM = "-c:v libaom-av1 -cpu-used 8 -g 24 -b:v 200k"
#: x265's key frames begin open groups of pictures unless told otherwise.
X265 = "-c:v libx265 -preset ultrafast -x265-params log-level=none:pools=1:"
AHEAD = ":rc-lookahead=20"
#: Pictures are shown before the IDR picture that they follow in the file.
EARLY = "open-gop=0:keyint=24:min-keyint=24:radl=2:bframes=3:scenecut=0" + AHEAD
JITTER = "setpts='(N/24+0.013*mod(N*7,3)+if(gt(N,60),2.4,0))/TB'"


@dataclass(frozen=True)
class Case:
    """One video: its file, the way that must be chosen for it, and how it is made."""

    file: str
    mode: Literal["packet_plan", "filter_graph"]
    make: Make

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return Path(self.file).stem


def run(ffmpeg: str, *arguments: str | Path) -> None:
    """Run the ffmpeg command quietly, and kill it where an encoder hangs."""
    command = [ffmpeg, "-hide_banner", "-v", "error", "-nostdin", "-y", *map(str, arguments)]
    subprocess.run(command, check=True, timeout=120)


def made(arguments: str, rate: str = "24", seconds: str = "5.3", vf: str = "null") -> Make:
    """Encode the moving test picture with these output arguments."""
    picture = SOURCE.format(rate=rate, seconds=seconds)
    return lambda ffmpeg, path: run(ffmpeg, "-f", "lavfi", "-i", picture, "-vf", vf, *arguments.split(), path)


def remade(before: str = "", after: str = "", arguments: str = X264) -> Make:
    """Encode the plain film, then copy its packets with options for reading and writing."""

    def make(ffmpeg: str, path: Path) -> None:
        plain = path.with_name("whole.mp4")
        made(arguments)(ffmpeg, plain)
        run(ffmpeg, *before.split(), "-i", plain, "-c", "copy", *after.split(), path)

    return make


def with_sound(delay: str) -> Make:
    """Encode the film so that its sound begins earlier."""
    picture = SOURCE.format(rate="24", seconds="4.2")
    options = (
        f"-f lavfi -i sine=d=6 -itsoffset {delay} -f lavfi -i {picture} -map 1:v -map 0:a {X264} -c:a aac"
    )
    return lambda ffmpeg, path: run(ffmpeg, *options.split(), path)


def packets_of(path: Path) -> list[Packet]:
    """Packets of the video, each with its place in the file, whatever the encoder wrote."""
    with av.open(str(path)) as box:
        return [packet for packet in box.demux(box.streams.video[0]) if packet.size]


def place_of(packet: Packet) -> int:
    """Where a packet begins in its file, bytes."""
    assert packet.pos is not None
    return packet.pos


def inside_a_picture(path: Path) -> int:
    """A place within the bytes of one picture, the largest of those in the middle of the film."""
    packets = packets_of(path)
    third = len(packets) // 3
    largest = max(packets[third:-third], key=lambda packet: packet.size)
    return place_of(largest) + largest.size // 2


def remuxed(source: Path, target: Path, change: Callable[[list[Packet]], list[Packet]]) -> Path:
    """Copy a film, with its list of packets changed on the way."""
    with av.open(str(source)) as box, av.open(str(target), "w") as out:
        stream = box.streams.video[0]
        copy = out.add_stream_from_template(stream)
        for packet in change([packet for packet in box.demux(stream) if packet.size]):
            packet.stream = copy
            out.mux(packet)
    return target


def spoil(data: bytearray, start: int, length: int) -> None:
    """Overwrite some bytes."""
    data[start : start + length] = bytes((37 * i + 11) % 256 for i in range(length))


def _late_key_frame(ffmpeg: str, path: Path) -> None:
    made(X264)(ffmpeg, path)
    data, packets = path.read_bytes(), packets_of(path)
    assert [packet.is_keyframe for packet in packets[:25]] == [True] + 24 * [False]
    path.write_bytes(data[: place_of(packets[0])] + data[place_of(packets[24]) :])


def _no_key_flags(ffmpeg: str, path: Path) -> None:
    made(X264)(ffmpeg, path)
    path.write_bytes(path.read_bytes().replace(b"stss", b"free", 1))


def _two_parameter_sets(ffmpeg: str, path: Path) -> None:
    both = path.with_name("both.h264")
    for profile in ("main", "high"):
        part = path.with_name(f"{profile}.h264")
        made(f"{X264} -bf 0 -profile:v {profile}", seconds="2.5")(ffmpeg, part)
        with both.open("ab") as file:
            file.write(part.read_bytes())
    run(ffmpeg, "-r", "24", "-i", both, "-c", "copy", path)


def _two_recordings(ffmpeg: str, path: Path) -> None:
    parts = []
    for vf in ("null", "negate"):
        made(X264, seconds="3", vf=vf)(ffmpeg, path)
        parts.append(path.read_bytes())
    path.write_bytes(b"".join(parts))


def _vp9_of_two_sizes(ffmpeg: str, path: Path) -> None:
    joined = path.with_name("joined.txt")
    joined.write_text("file large.ivf\nfile small.ivf\n")
    for name, size in (("large", f"{WIDTH}:{HEIGHT}"), ("small", f"{WIDTH // 2}:{HEIGHT // 2}")):
        made(VP9, seconds="2", vf=f"scale={size}")(ffmpeg, path.with_name(f"{name}.ivf"))
    run(ffmpeg, "-f", "concat", "-i", joined, "-c", "copy", path)


def _av1_with_two_headers(ffmpeg: str, path: Path) -> None:
    made(AV1)(ffmpeg, path)
    data = bytearray(path.read_bytes())
    key_frame = next(packet for packet in reversed(packets_of(path)) if packet.is_keyframe)
    assert bytes(key_frame)[0] == 0x0A  # a sequence header comes first
    data[place_of(key_frame) + 5] ^= 8  # its level
    path.write_bytes(data)


def without_durations(make: Make) -> Make:
    """Take the duration of a frame out of a Matroska file, as browsers and aomenc write none."""

    def changed(ffmpeg: str, path: Path) -> None:
        make(ffmpeg, path)
        data = bytearray(path.read_bytes())
        start = data.index(bytes.fromhex("23e383"))
        size = data[start + 3] & 0x7F
        data[start : start + 2] = bytes((0xEC, 0x80 | size + 2))  # an element of any content, as long
        path.write_bytes(data)

    return changed


PLANNED: dict[str, Make] = {
    "plain.mp4": made(X264),
    "no_b_frames.mp4": made(f"{X264} -bf 0"),
    "one_reference.mp4": made(f"{X264} -refs 1 -bf 1"),
    "b_pyramid.mp4": made(f"{X264} -bf 8 -refs 6 -b-pyramid normal"),
    "slices.mp4": made(f"{X264} -slices 4"),
    "baseline.mp4": made(f"{X264} -profile:v baseline -pix_fmt yuv420p"),
    "ntsc_rate.mp4": made(X264, rate="30000/1001"),
    "slow_rate.mp4": made(X264, rate="2/5", seconds="10"),
    "ends_on_half.mp4": made(X264, seconds="2.5"),
    "variable_rate.mp4": made(f"{X264} -fps_mode vfr -video_track_timescale 90000", vf=JITTER),
    "wide_pixels.mp4": made(X264, vf="setsar=4/3"),
    "ten_bit.mp4": made(f"{X264} -pix_fmt yuv420p10le"),
    "odd_size.mp4": made(f"{X264} -pix_fmt yuv444p", vf=f"scale={WIDTH + 1}:{HEIGHT - 1}"),
    "cropped_size.mp4": made(f"{X264} -pix_fmt yuv420p", vf=f"scale={WIDTH + 2}:{HEIGHT + 2}"),
    "tagged_bt709.mp4": made(f"{X264} -colorspace bt709 -color_primaries bt709 -color_trc bt709"),
    "full_range.mp4": made(f"{X264} -pix_fmt yuvj420p"),
    "turned_90.mp4": remade("-display_rotation 90"),
    "turned_180.mp4": remade("-display_rotation 180"),
    "turned_270.mp4": remade("-display_rotation 270"),
    "index_first.mp4": made(f"{X264} -movflags +faststart"),
    "fragments.mp4": made(f"{X264} -movflags +frag_keyframe+empty_moov"),
    "no_edit_list.mp4": made(f"{X264} -use_editlist 0"),
    "negative_composition.mp4": made(f"{X264} -movflags +negative_cts_offsets"),
    "matroska.mkv": made(X264),
    "no_durations.mkv": without_durations(made(f"{X264} -fps_mode vfr", vf=JITTER)),
    "vp9_recorded.webm": without_durations(made(f"{VP9} -fps_mode vfr -live 1", vf=JITTER)),
    "av1_no_durations.webm": without_durations(made(f"{AOM} -usage realtime", rate="12")),
    "sound_first.mp4": with_sound("1.3"),
    "sound_first_matroska.mkv": with_sound("0.7"),
    "sound_with_start.mp4": with_sound("0"),
    "vp9.webm": made(VP9),
    "vp9_defaults.webm": made("-c:v libvpx-vp9 -cpu-used 8", seconds="3.3"),
    "vp9_hidden_frames.mkv": made(VP9_HIDDEN),
    "vp9_mp4.mp4": made(VP9_HIDDEN),
    "vp9_key_frames_often.webm": made(f"{VP9} -g 7"),
    "vp9_slow_rate.webm": made(VP9, rate="2/5", seconds="10"),
    "vp9_error_resilient.webm": made(f"{VP9} -error-resilient 1"),
    "vp9_variable_rate.webm": made(f"{VP9_HIDDEN} -fps_mode vfr", vf=JITTER),
    "vp9_ten_bit_444.webm": made(f"{VP9} -pix_fmt yuv444p10le"),
    "hevc.mp4": made(f"{X265}pools=1"),
    "hevc_matroska.mkv": made(f"{X265}keyint=48"),
    "hevc_closed_gop.mp4": made(f"{X265}keyint=48:open-gop=0:bframes=4"),
    "hevc_open_gop.mp4": made(f"{X265}keyint=20:bframes=6{AHEAD}"),
    "hevc_layers.mp4": made(f"{X265}temporal-layers=3:bframes=3:open-gop=0"),
    "hevc_pyramid.mp4": made(f"{X265}bframes=8:ref=5:b-adapt=0{AHEAD}"),
    "hevc_slices.mp4": made(f"{X265}slices=3:aud=1:hrd=0"),
    "hevc_repeated_headers.mp4": made(f"{X265}repeat-headers=1:keyint=24"),
    "hevc_refresh.mp4": made(f"{X265}intra-refresh=1:keyint=24"),
    "hevc_variable_rate.mkv": made(f"{X265}keyint=48 -fps_mode vfr", vf=JITTER),
    "av1.mp4": made(AV1),
    "av1_matroska.mkv": made(AV1),
    "av1_film_grain.mp4": made(f"{AV1} -svtav1-params film-grain=30"),
    "av1_variable_rate.mkv": made(f"{AV1} -fps_mode vfr", vf=JITTER),
    "av1_key_frames_often.mp4": made(f"{AV1} -g 9"),
    "av1_low_delay.mp4": made(f"{AV1} -svtav1-params pred-struct=1:lp=1"),
    "av1_open_gop.mp4": made(f"{AV1} -svtav1-params irefresh-type=1"),
    "av1_libaom.mkv": made(AOM, rate="12", seconds="4.2"),
    "av1_rav1e.mp4": made("-c:v librav1e -speed 10 -g 12", rate="8"),
}
ALL_DECODED: dict[str, Make] = {
    "intra_refresh.mp4": made(f"{X264} -intra-refresh 1"),
    "open_gop.mp4": made(f"{X264} -x264-params open-gop=1:bframes=3:keyint=24"),
    "interlaced.mp4": made(f"{X264} -flags +ilme+ildct -x264-params tff=1"),
    "edit_list.mp4": remade("-ss 2.2"),
    "no_key_flags.mp4": _no_key_flags,
    "two_parameter_sets.mp4": _two_parameter_sets,
    "same_time_twice.mp4": remade(after="-bsf:v setts=pts=PTS-mod(N\\,2)*512:dts=DTS"),
    "variable_rate_edit_list.mp4": remade("-itsscale 1.07 -ss 1.7"),
    "transport_stream.ts": made(X264),
    "transport_stream_with_lengths.ts": made(f"{X264} -omit_video_pes_length 0"),
    "transport_stream_with_sound.ts": with_sound("0.9"),
    "late_key_frame.ts": _late_key_frame,
    "clock_starts_again.ts": _two_recordings,
    "avi.avi": made("-c:v mpeg4 -bf 2 -g 24", rate="25"),
    "avi_h264.avi": made(X264),
    "mpeg2_program_stream.mpg": made("-c:v mpeg2video -bf 2 -g 15 -b:v 2M", rate="25"),
    "vp9_two_sizes.webm": _vp9_of_two_sizes,
    "hevc_edit_list.mp4": remade("-ss 2.2", arguments=f"{X265}keyint=24"),
    "hevc_early_pictures.mp4": made(f"{X265}{EARLY}"),
    "av1_numbered_frames.webm": made(f"{AOM} -usage realtime -error-resilience 1", rate="12"),
    "av1_two_headers.mp4": _av1_with_two_headers,
    "flash.flv": made("-c:v flv1", rate="25"),
    "raw_stream.h264": made(X264, rate="25"),
}
CASES = [
    *(Case(file, "packet_plan", make) for file, make in PLANNED.items()),
    *(Case(file, "filter_graph", make) for file, make in ALL_DECODED.items()),
]
