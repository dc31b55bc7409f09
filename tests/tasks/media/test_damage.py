"""Cut and damaged files: refused, used up to the cut, or as the ffmpeg command plays them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import av
import imageio_ffmpeg
import pytest

from storage_schemas.errors import Reason, SetAside
from tasks.media.decode import FrameSampler
from tests.tasks.media.corpus import inside_a_picture, packets_of, place_of

Video = Callable[[str], Path]

SIDE = 320
CUT = ["index_first", "fragments", "matroska", "vp9", "transport_stream", "mpeg2_program_stream"]
#: Whether the cut is known before anything is decoded.
FOUND_LATE = ["flash", "raw_stream"]
#: Films, and the number of a packet that is spoiled.
SPOILT = [
    ("plain", 0),
    ("plain", 30),
    ("b_pyramid", 30),
    ("open_gop", 7),
    ("interlaced", 30),
    ("matroska", 30),
    ("transport_stream", 0),
    ("avi", 7),
]


def cut(path: Path, folder: Path) -> Path:
    """Return a copy that ends inside a picture."""
    target = folder / path.name
    target.write_bytes(path.read_bytes()[: inside_a_picture(path)])
    return target


def spoilt(path: Path, number: int, folder: Path) -> Path:
    """Return a copy with half of one packet overwritten; 0 means the second key frame."""
    packets = packets_of(path)
    packet = packets[number] if number else [packet for packet in packets if packet.is_keyframe][1]
    data = bytearray(path.read_bytes())
    transport = path.suffix == ".ts"
    start = place_of(packet) + packet.size // 4 + 40 * transport
    length = 40 if transport else max(4, packet.size // 2)
    data[start : start + length] = bytes((37 * i + 11) % 256 for i in range(length))
    target = folder / path.name
    target.write_bytes(data)
    return target


def command_frames(path: Path) -> bytes:
    """Return the frames that ffmpeg 9.0.2 plays by default, unscaled."""
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "quiet", "-nostdin", "-threads", "1", "-i", str(path)]
    command += ["-an", "-vf", "fps=1,format=yuv420p", "-fps_mode", "passthrough", "-f", "rawvideo", "-"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def frames_of(sampler: FrameSampler) -> dict[int, bytes]:
    return {frame.index: frame.planes.tobytes() for frame in sampler}


@pytest.mark.parametrize("name", [*CUT, "avi", *FOUND_LATE])
def test_a_cut_file_is_used_up_to_its_last_whole_picture(name: str, video: Video, tmp_path: Path) -> None:
    path = cut(video(name), tmp_path)
    whole = frames_of(FrameSampler(video(name), long_side=SIDE))
    sampler = FrameSampler(path, long_side=SIDE, damaged="truncate")
    assert sampler.damage == ("" if name in {*FOUND_LATE, "mpeg2_program_stream"} else "truncated")
    found = frames_of(sampler)
    assert sampler.damage == "truncated"
    assert 1 < len(found) < len(whole)
    assert found == {k: whole[k] for k in found}
    assert len(found) - 0.6 < sampler.duration_s < len(found) + 0.6
    with pytest.raises(SetAside, match="--damaged truncate"):
        frames_of(FrameSampler(path, long_side=SIDE))


@pytest.mark.parametrize("name", [*CUT, *FOUND_LATE])
def test_a_cut_file_is_concealed_as_the_command_does(name: str, video: Video, tmp_path: Path) -> None:
    path = cut(video(name), tmp_path)
    sampler = FrameSampler(path, long_side=SIDE, damaged="conceal")
    assert b"".join(frames_of(sampler).values()) == command_frames(path)
    assert sampler.damage == "concealed"


@pytest.mark.parametrize(("name", "number"), SPOILT)
def test_damage_is_concealed_as_the_command_does(
    name: str, number: int, video: Video, tmp_path: Path
) -> None:
    path = spoilt(video(name), number, tmp_path)
    sampler = FrameSampler(path, long_side=SIDE, damaged="conceal")
    assert b"".join(frames_of(sampler).values()) == command_frames(path)
    assert sampler.damage == "concealed"
    for rule in ("refuse", "truncate"):
        with pytest.raises(SetAside, match="--damaged conceal") as caught:
            frames_of(FrameSampler(path, long_side=SIDE, mode="full", damaged=rule))  # type: ignore[arg-type]
        assert caught.value.reason is Reason.UNDECODABLE_VIDEO


def without_a_reference(path: Path, folder: Path) -> Path:
    """Return a copy of a film of H.265 without a picture that others refer to."""
    packets = packets_of(path)
    trailing_reference = 1
    lost = next(i for i, p in enumerate(packets) if i > 20 and bytes(p)[4] >> 1 == trailing_reference)
    with av.open(str(path)) as box, av.open(str(folder / path.name), "w") as out:
        copy = out.add_stream_from_template(box.streams.video[0])
        for packet in packets[:lost] + packets[lost + 1 :]:
            packet.stream = copy
            out.mux(packet)
    return folder / path.name


@pytest.mark.parametrize("name", ["hevc_closed_gop", "hevc_open_gop", "hevc_matroska"])
def test_a_lost_picture_of_hevc_counts_as_damage(name: str, video: Video, tmp_path: Path) -> None:
    path = without_a_reference(video(name), tmp_path)
    for mode in ("auto", "full"):
        with pytest.raises(SetAside, match="--damaged conceal") as caught:
            frames_of(FrameSampler(path, long_side=SIDE, mode=mode))  # type: ignore[arg-type]
        assert caught.value.reason is Reason.UNDECODABLE_VIDEO
    sampler = FrameSampler(path, long_side=SIDE, damaged="conceal")
    assert b"".join(frames_of(sampler).values()) == command_frames(path)
    assert sampler.damage == "concealed"


@pytest.mark.parametrize("rule", ["truncate", "conceal"])
@pytest.mark.parametrize(
    "name", ["plain", "open_gop", "transport_stream", "vp9", "edit_list", "late_key_frame"]
)
def test_the_rule_changes_nothing_in_a_whole_file(name: str, rule: str, video: Video) -> None:
    strict = FrameSampler(video(name), long_side=64)
    sampler = FrameSampler(video(name), long_side=64, damaged=rule)  # type: ignore[arg-type]
    assert frames_of(sampler) == frames_of(strict)
    assert sampler.damage == ""
