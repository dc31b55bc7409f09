"""Small videos of every awkward kind, made with the ffmpeg command, each with the way it must be decoded."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import av
from av.packet import Packet

TS_PACKET = 188
#: Packet identifier that the ffmpeg command gives the first stream of a transport stream.
TS_VIDEO_PID = 0x100
SOURCE = "testsrc2=s=320x180:r={rate}:d={seconds}"
#: Key frames every 2 s; every frame shown, or frames decoded ahead and shown later.
VP9 = ["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-g", "48", "-b:v", "200k"]
VP9_HIDDEN = [*"-c:v libvpx-vp9 -cpu-used 8 -g 48 -b:v 100k -auto-alt-ref 1 -lag-in-frames 16".split()]
AV1 = ["-c:v", "libsvtav1", "-preset", "12", "-g", "48"]
AOM = ["-c:v", "libaom-av1", "-cpu-used", "8", "-g", "48", "-b:v", "200k"]
AOM_NUMBERED = ["-usage", "realtime", "-error-resilience", "1"]
AHEAD = "rc-lookahead=20"
#: Pictures are shown before the IDR picture that they follow in the file.
EARLY = "open-gop=0:keyint=24:min-keyint=24:radl=2:bframes=3:scenecut=0:" + AHEAD


def x265(parameters: str) -> list[str]:
    """Arguments for x265; its key frames begin open groups of pictures unless told otherwise."""
    quiet = f"log-level=none:pools=1:{parameters}"
    return ["-c:v", "libx265", "-preset", "ultrafast", "-x265-params", quiet]


X264 = ["-c:v", "libx264", "-preset", "veryfast", "-g", "36", "-threads", "1"]


@dataclass(frozen=True)
class Case:
    """One video: how it is made, and the way that must be chosen for it."""

    name: str
    mode: Literal["packet_plan", "filter_graph"]
    make: Callable[[str, Path], Path]
    slow: bool = False


def run(ffmpeg: str, *arguments: str | Path) -> None:
    """Run the ffmpeg command quietly, and kill it where an encoder hangs."""
    command = [ffmpeg, "-hide_banner", "-v", "error", "-nostdin", "-y", *map(str, arguments)]
    subprocess.run(command, check=True, timeout=120)


def made(
    name: str, *arguments: str, rate: str = "24", seconds: str = "5.3", source: str = SOURCE, vf: str = "null"
) -> Callable[[str, Path], Path]:
    """Encode the moving test picture with these output arguments."""

    def make(ffmpeg: str, folder: Path) -> Path:
        path = folder / name
        picture = source.format(rate=rate, seconds=seconds)
        run(ffmpeg, "-f", "lavfi", "-i", picture, "-vf", vf, *arguments, path)
        return path

    return make


def remade(name: str, *arguments: str, before: tuple[str, ...] = ()) -> Callable[[str, Path], Path]:
    """Encode the plain film, then copy its packets with these arguments."""

    def make(ffmpeg: str, folder: Path) -> Path:
        plain = made("plain_of_" + Path(name).stem + ".mp4", *X264)(ffmpeg, folder)
        path = folder / name
        run(ffmpeg, *before, "-i", plain, "-c", "copy", *arguments, path)
        return path

    return make


def _with_sound(name: str, delay: str) -> Callable[[str, Path], Path]:
    def make(ffmpeg: str, folder: Path) -> Path:
        path = folder / name
        run(
            ffmpeg,
            *("-f", "lavfi", "-i", "sine=d=6"),
            *("-itsoffset", delay, "-f", "lavfi", "-i", SOURCE.format(rate="24", seconds="4.2")),
            *("-map", "1:v", "-map", "0:a", *X264, "-c:a", "aac"),
            path,
        )
        return path

    return make


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


def _late_key_frame(ffmpeg: str, folder: Path) -> Path:
    whole = made("whole.ts", *X264)(ffmpeg, folder)
    path = folder / "late_key_frame.ts"
    data, packets = whole.read_bytes(), packets_of(whole)
    assert packets[0].is_keyframe
    assert not any(packet.is_keyframe for packet in packets[1:25])
    tables = data[: place_of(packets[0])]
    path.write_bytes(tables + data[place_of(packets[24]) :])
    return path


def _no_key_flags(ffmpeg: str, folder: Path) -> Path:
    path = made("no_key_flags.mp4", *X264)(ffmpeg, folder)
    path.write_bytes(path.read_bytes().replace(b"stss", b"free", 1))
    return path


def _two_parameter_sets(ffmpeg: str, folder: Path) -> Path:
    parts = []
    for profile in ("main", "high"):
        part = made(f"{profile}.h264", *X264, "-bf", "0", "-profile:v", profile, seconds="2.5")(
            ffmpeg, folder
        )
        parts.append(part.read_bytes())
    joined = folder / "joined.h264"
    joined.write_bytes(b"".join(parts))
    path = folder / "two_parameter_sets.mp4"
    run(ffmpeg, "-r", "24", "-i", joined, "-c", "copy", path)
    return path


def _two_recordings(ffmpeg: str, folder: Path) -> Path:
    first = made("first.ts", *X264, seconds="3")(ffmpeg, folder)
    second = made("second.ts", *X264, seconds="3", vf="negate")(ffmpeg, folder)
    path = folder / "two_recordings.ts"
    path.write_bytes(first.read_bytes() + second.read_bytes())
    return path


def _vp9_of_two_sizes(ffmpeg: str, folder: Path) -> Path:
    parts = [
        made(f"{name}.ivf", *VP9, seconds="2", vf=f"scale={size}")(ffmpeg, folder)
        for name, size in [("large", "320:180"), ("small", "160:90")]
    ]
    path = folder / "two_sizes.webm"
    joined = folder / "joined.txt"
    joined.write_text("".join(f"file {part.name}\n" for part in parts))
    run(ffmpeg, "-f", "concat", "-i", joined, "-c", "copy", path)
    return path


def _hevc_cut_out(ffmpeg: str, folder: Path) -> Path:
    whole = made("whole.mp4", *x265("keyint=24"))(ffmpeg, folder)
    path = folder / "cut_out.mp4"
    run(ffmpeg, "-ss", "2.2", "-i", whole, "-c", "copy", path)
    return path


def _av1_with_two_headers(ffmpeg: str, folder: Path) -> Path:
    path = made("two_headers.mp4", *AV1)(ffmpeg, folder)
    data = bytearray(path.read_bytes())
    key_frame = next(packet for packet in reversed(packets_of(path)) if packet.is_keyframe)
    assert bytes(key_frame)[:2] == b"\x0a\x0b"  # a sequence header of 11 bytes comes first
    data[place_of(key_frame) + 5] ^= 8  # its level
    path.write_bytes(data)
    return path


JITTER = "setpts='(N/24+0.013*mod(N*7,3)+if(gt(N,60),2.4,0))/TB'"

CASES = [
    Case("plain", "packet_plan", made("plain.mp4", *X264)),
    Case("no_b_frames", "packet_plan", made("no_b.mp4", *X264, "-bf", "0")),
    Case("one_reference", "packet_plan", made("one_ref.mp4", *X264, "-refs", "1", "-bf", "1")),
    Case(
        "b_pyramid",
        "packet_plan",
        made("pyramid.mp4", *X264, "-bf", "8", "-refs", "6", "-b-pyramid", "normal"),
    ),
    Case("slices", "packet_plan", made("slices.mp4", *X264, "-slices", "4")),
    Case(
        "baseline",
        "packet_plan",
        made("baseline.mp4", *X264, "-profile:v", "baseline", "-pix_fmt", "yuv420p"),
    ),
    Case("ntsc_rate", "packet_plan", made("ntsc.mp4", *X264, rate="30000/1001")),
    Case("slow_rate", "packet_plan", made("slow.mp4", *X264, rate="2/5", seconds="10")),
    Case("ends_on_half", "packet_plan", made("half.mp4", *X264, seconds="2.5")),
    Case(
        "variable_rate",
        "packet_plan",
        made("vfr.mp4", *X264, "-fps_mode", "vfr", "-video_track_timescale", "90000", vf=JITTER),
    ),
    Case("wide_pixels", "packet_plan", made("sar.mp4", *X264, vf="setsar=4/3")),
    Case("ten_bit", "packet_plan", made("ten.mp4", *X264, "-pix_fmt", "yuv420p10le")),
    Case("odd_size", "packet_plan", made("odd.mp4", *X264, "-pix_fmt", "yuv444p", vf="scale=321:179")),
    Case("cropped_size", "packet_plan", made("crop.mp4", *X264, "-pix_fmt", "yuv420p", vf="scale=322:182")),
    Case(
        "tagged_bt709",
        "packet_plan",
        made("bt709.mp4", *X264, *"-colorspace bt709 -color_primaries bt709 -color_trc bt709".split()),
    ),
    Case("full_range", "packet_plan", made("full.mp4", *X264, "-pix_fmt", "yuvj420p")),
    Case("turned_90", "packet_plan", remade("turned90.mp4", before=("-display_rotation", "90"))),
    Case("turned_180", "packet_plan", remade("turned180.mp4", before=("-display_rotation", "180"))),
    Case("turned_270", "packet_plan", remade("turned270.mp4", before=("-display_rotation", "270"))),
    Case("index_first", "packet_plan", made("faststart.mp4", *X264, "-movflags", "+faststart")),
    Case("fragments", "packet_plan", made("fragments.mp4", *X264, "-movflags", "+frag_keyframe+empty_moov")),
    Case("no_edit_list", "packet_plan", made("no_edit.mp4", *X264, "-use_editlist", "0")),
    Case(
        "negative_composition", "packet_plan", made("ctts.mp4", *X264, "-movflags", "+negative_cts_offsets")
    ),
    Case("matroska", "packet_plan", made("plain.mkv", *X264)),
    Case("sound_first", "packet_plan", _with_sound("late.mp4", "1.3")),
    Case("sound_first_matroska", "packet_plan", _with_sound("late.mkv", "0.7")),
    Case("sound_with_start", "packet_plan", _with_sound("sound.mp4", "0")),
    Case("intra_refresh", "filter_graph", made("refresh.mp4", *X264, "-intra-refresh", "1")),
    Case(
        "open_gop", "filter_graph", made("open.mp4", *X264, "-x264-params", "open-gop=1:bframes=3:keyint=24")
    ),
    Case(
        "interlaced", "filter_graph", made("tff.mp4", *X264, "-flags", "+ilme+ildct", "-x264-params", "tff=1")
    ),
    Case("edit_list", "filter_graph", remade("edit.mp4", before=("-ss", "2.2"))),
    Case("no_key_flags", "filter_graph", _no_key_flags),
    Case("two_parameter_sets", "filter_graph", _two_parameter_sets),
    Case(
        "same_time_twice",
        "filter_graph",
        remade("twice.mp4", "-bsf:v", "setts=pts=PTS-mod(N\\,2)*512:dts=DTS"),
    ),
    Case(
        "variable_rate_edit_list",
        "filter_graph",
        remade("vfr_edit.mp4", before=("-itsscale", "1.07", "-ss", "1.7")),
    ),
    Case("transport_stream", "filter_graph", made("plain.ts", *X264)),
    Case(
        "transport_stream_with_lengths", "filter_graph", made("len.ts", *X264, "-omit_video_pes_length", "0")
    ),
    Case("transport_stream_with_sound", "filter_graph", _with_sound("sound.ts", "0.9")),
    Case("late_key_frame", "filter_graph", _late_key_frame),
    Case("clock_starts_again", "filter_graph", _two_recordings),
    Case("avi", "filter_graph", made("b.avi", "-c:v", "mpeg4", "-bf", "2", "-g", "24", rate="25")),
    Case("avi_h264", "filter_graph", made("h264.avi", *X264)),
    Case(
        "mpeg2_program_stream",
        "filter_graph",
        made("a.mpg", "-c:v", "mpeg2video", "-bf", "2", "-g", "15", "-b:v", "2M", rate="25"),
    ),
    Case("vp9", "packet_plan", made("a.webm", *VP9)),
    Case("vp9_defaults", "packet_plan", made("b.webm", "-c:v", "libvpx-vp9", "-cpu-used", "8")),
    Case("vp9_hidden_frames", "packet_plan", made("hidden.mkv", *VP9_HIDDEN)),
    Case("vp9_mp4", "packet_plan", made("vp9.mp4", *VP9_HIDDEN)),
    Case("vp9_key_frames_often", "packet_plan", made("often.webm", *VP9, "-g", "7")),
    Case("vp9_slow_rate", "packet_plan", made("slow.webm", *VP9, rate="2/5", seconds="10")),
    Case("vp9_error_resilient", "packet_plan", made("resilient.webm", *VP9, "-error-resilient", "1")),
    Case("vp9_variable_rate", "packet_plan", made("vfr.webm", *VP9_HIDDEN, "-fps_mode", "vfr", vf=JITTER)),
    Case("vp9_ten_bit_444", "packet_plan", made("vp9_ten.webm", *VP9, "-pix_fmt", "yuv444p10le")),
    Case("vp9_two_sizes", "filter_graph", _vp9_of_two_sizes),
    Case("hevc", "packet_plan", made("hevc.mp4", *x265("pools=1"))),
    Case("hevc_matroska", "packet_plan", made("hevc.mkv", *x265("keyint=48"))),
    Case("hevc_closed_gop", "packet_plan", made("closed.mp4", *x265("keyint=48:open-gop=0:bframes=4"))),
    Case("hevc_open_gop", "packet_plan", made("hevc_open.mp4", *x265("keyint=20:bframes=6:" + AHEAD))),
    Case("hevc_layers", "packet_plan", made("layers.mp4", *x265("temporal-layers=3:bframes=3:open-gop=0"))),
    Case("hevc_pyramid", "packet_plan", made("hevc_b.mp4", *x265("bframes=8:ref=5:b-adapt=0:" + AHEAD))),
    Case("hevc_slices", "packet_plan", made("hevc_slices.mp4", *x265("slices=3:aud=1:hrd=0"))),
    Case("hevc_repeated_headers", "packet_plan", made("headers.mp4", *x265("repeat-headers=1:keyint=24"))),
    Case("hevc_refresh", "packet_plan", made("hevc_refresh.mp4", *x265("intra-refresh=1:keyint=24"))),
    Case(
        "hevc_variable_rate",
        "packet_plan",
        made("hevc_vfr.mkv", *x265("keyint=48"), "-fps_mode", "vfr", vf=JITTER),
    ),
    Case("hevc_edit_list", "filter_graph", _hevc_cut_out),
    Case(
        "hevc_early_pictures",
        "filter_graph",
        made("radl.mp4", *x265(EARLY)),
    ),
    Case("av1", "packet_plan", made("av1.mp4", *AV1)),
    Case("av1_matroska", "packet_plan", made("av1.mkv", *AV1)),
    Case("av1_film_grain", "packet_plan", made("grain.mp4", *AV1, "-svtav1-params", "film-grain=30")),
    Case("av1_variable_rate", "packet_plan", made("av1_vfr.mkv", *AV1, "-fps_mode", "vfr", vf=JITTER)),
    Case("av1_key_frames_often", "packet_plan", made("often.mp4", *AV1, "-g", "9")),
    Case("av1_low_delay", "packet_plan", made("delay.mp4", *AV1, "-svtav1-params", "pred-struct=1:lp=1")),
    Case("av1_open_gop", "packet_plan", made("av1_open.mp4", *AV1, "-svtav1-params", "irefresh-type=1")),
    Case("av1_libaom", "packet_plan", made("aom.mkv", *AOM)),
    Case("av1_numbered_frames", "filter_graph", made("numbered.webm", *AOM, *AOM_NUMBERED)),
    Case("av1_rav1e", "packet_plan", made("rav1e.mp4", "-c:v", "librav1e", "-speed", "10", "-g", "48")),
    Case("av1_two_headers", "filter_graph", _av1_with_two_headers),
    Case("flash", "filter_graph", made("a.flv", "-c:v", "flv1", rate="25")),
    Case("raw_stream", "filter_graph", made("raw.h264", *X264, rate="25")),
]
