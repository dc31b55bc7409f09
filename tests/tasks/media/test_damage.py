"""Cut and damaged files: refused, used up to the cut, or as the ffmpeg command plays them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from av.packet import Packet

from storage_schemas.errors import Reason, SetAside
from tasks.media.decode import FrameSampler
from tests.tasks.media.corpus import WIDTH, Video, inside_a_picture, packets_of, place_of, remuxed, spoil

CUT = ["plain", "index_first", "fragments", "matroska", "vp9", "transport_stream", "mpeg2_program_stream"]
#: Whether the cut is known before anything is decoded.
FOUND_LATE = ["flash", "raw_stream"]
#: Films, and the number of a packet that is spoiled; 0 means the second key frame.
SPOILT = [
    ("plain", 0),
    ("plain", 28),
    ("no_b_frames", 0),
    ("b_pyramid", 30),
    ("open_gop", 7),
    ("interlaced", 28),
    ("matroska", 28),
    ("transport_stream", 0),
    ("avi", 7),
]


def spoilt(path: Path, number: int, folder: Path) -> Path:
    """Return a copy with half of one packet overwritten."""
    packets = packets_of(path)
    packet = packets[number] if number else [packet for packet in packets if packet.is_keyframe][1]
    data, transport = bytearray(path.read_bytes()), path.suffix == ".ts"
    start = place_of(packet) + packet.size // 4 + 40 * transport
    spoil(data, start, 40 if transport else max(4, packet.size // 2))
    target = folder / path.name
    target.write_bytes(data)
    return target


def without_a_reference(packets: list[Packet]) -> list[Packet]:
    """Leave out a picture of H.265 that others refer to."""
    trailing_reference = 1
    lost = next(i for i, p in enumerate(packets) if i > 20 and bytes(p)[4] >> 1 == trailing_reference)
    return packets[:lost] + packets[lost + 1 :]


def frames_of(path: Path, **options: Any) -> dict[int, bytes]:
    return {f.index: f.planes.tobytes() for f in FrameSampler(path, long_side=WIDTH, **options)}


def refused(path: Path, reason: Reason, hint: str, **options: Any) -> None:
    with pytest.raises(SetAside, match=hint) as caught:
        frames_of(path, **options)
    assert caught.value.reason is reason


def concealed_as_the_command_does(path: Path, ffmpeg: str) -> None:
    command = [ffmpeg, "-v", "quiet", "-nostdin", "-threads", "1", "-i", str(path), "-an"]
    command += ["-vf", "fps=1,format=yuv420p", "-fps_mode", "passthrough", "-f", "rawvideo", "-"]
    theirs = subprocess.run(command, check=True, capture_output=True).stdout
    sampler = FrameSampler(path, long_side=WIDTH, damaged="conceal")
    assert b"".join(frame.planes.tobytes() for frame in sampler) == theirs
    assert sampler.damage == "concealed"


@pytest.mark.parametrize("name", [*CUT, "avi", *FOUND_LATE])
def test_cut_file_is_refused_used_or_concealed(name: str, video: Video, ffmpeg: str, tmp_path: Path) -> None:
    path = tmp_path / video(name).name
    path.write_bytes(video(name).read_bytes()[: inside_a_picture(video(name))])
    for mode in ("auto", "full"):
        refused(
            path,
            Reason.TRUNCATED_VIDEO,
            path.name if name == "plain" else "--set damaged=truncate",
            mode=mode,
        )
    if name == "plain":  # its index is lost
        return
    if name != "avi":
        concealed_as_the_command_does(path, ffmpeg)
    whole = frames_of(video(name))
    sampler = FrameSampler(path, long_side=WIDTH, damaged="truncate")
    assert sampler.damage == ("" if name in {*FOUND_LATE, "mpeg2_program_stream"} else "truncated")
    found = {frame.index: frame.planes.tobytes() for frame in sampler}
    assert sampler.damage == "truncated"
    assert 1 < len(found) < len(whole)
    assert found == {k: whole[k] for k in found}
    assert len(found) - 0.6 < sampler.duration_s < len(found) + 0.6


@pytest.mark.parametrize(("name", "number"), SPOILT)
def test_damage_follows_the_rule(name: str, number: int, video: Video, ffmpeg: str, tmp_path: Path) -> None:
    path = spoilt(video(name), number, tmp_path)
    concealed_as_the_command_does(path, ffmpeg)
    for rule in ("refuse", "truncate"):
        refused(path, Reason.UNDECODABLE_VIDEO, "--set damaged=conceal", mode="full", damaged=rule)
    if number == 0:  # a plan needs it
        refused(path, Reason.UNDECODABLE_VIDEO, "--set damaged=conceal")


@pytest.mark.parametrize("name", ["hevc_closed_gop", "hevc_open_gop", "hevc_matroska"])
def test_lost_picture_of_hevc_is_damage(name: str, video: Video, ffmpeg: str, tmp_path: Path) -> None:
    path = remuxed(video(name), tmp_path / video(name).name, without_a_reference)
    for mode in ("auto", "full"):
        refused(path, Reason.UNDECODABLE_VIDEO, "--set damaged=conceal", mode=mode)
    concealed_as_the_command_does(path, ffmpeg)


@pytest.mark.parametrize(
    "name", ["plain", "open_gop", "transport_stream", "vp9", "edit_list", "late_key_frame"]
)
def test_the_rule_changes_nothing_in_a_whole_file(name: str, video: Video) -> None:
    strict = {f.index: f.planes.tobytes() for f in FrameSampler(video(name), long_side=64)}
    for rule in ("truncate", "conceal"):
        sampler = FrameSampler(video(name), long_side=64, damaged=rule)  # type: ignore[arg-type]
        assert {f.index: f.planes.tobytes() for f in sampler} == strict
        assert sampler.damage == ""
