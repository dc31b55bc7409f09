"""What the headers of each codec let a plan leave out, and that damaged headers never change a frame."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from storage_schemas.errors import SetAside
from tasks.media.bitstream import InvalidBitstream, NotProvable
from tasks.media.decode import FrameSampler
from tasks.media.packet_plan import PacketPlan, probe_and_plan
from tasks.media.vp9_syntax import Vp9Reader, frame_sizes, parse_frame
from tests.tasks.media.corpus import packets_of, place_of

Video = Callable[[str], Path]
Frames = list[tuple[int, bytes]]

#: Corpus video and the largest share of its packets that the frames at 1 fps may need.
SHARES = {
    "vp9": 0.7,
    "vp9_hidden_frames": 0.7,
    "vp9_mp4": 0.7,
    "vp9_key_frames_often": 0.5,
}


@pytest.mark.parametrize("name", SHARES)
def test_a_plan_leaves_out_what_no_frame_needs(name: str, video: Video) -> None:
    plan = probe_and_plan(video(name), Fraction(1))[1]
    assert isinstance(plan, PacketPlan)
    needed = plan.needed(plan.chosen)
    assert needed[plan.chosen].all()
    assert needed.mean() <= SHARES[name]
    for start, stop in zip(np.flatnonzero(plan.entry), [*np.flatnonzero(plan.entry)[1:], None], strict=True):
        wanted = plan.chosen[(plan.chosen >= start) & (plan.chosen < (stop or len(needed)))]
        assert needed[start:stop].any() == bool(len(wanted)), "a section without wanted frames is decoded"
        if len(wanted):
            assert not needed[wanted[-1] + 1 : stop].any(), "what follows the last wanted frame is decoded"


def frames_of(path: Path, mode: str) -> tuple[Frames, bool]:
    """The frames at 3 fps up to the end or the first damage, and whether there is damage."""
    frames: Frames = []
    try:
        for frame in FrameSampler(path, fps=Fraction(3), long_side=64, mode=mode):  # type: ignore[arg-type]
            frames.append((frame.index, frame.planes.tobytes()))
    except SetAside:
        return frames, True
    return frames, False


def check_damaged_headers(source: Path, target: Path, seeds: range) -> None:
    """Change bytes at the head or the tail of packets; frames that both ways give must be the same."""
    packets, original = packets_of(source), source.read_bytes()
    places = [original.index(bytes(packet), place_of(packet)) for packet in packets]
    for seed in seeds:
        draw = random.Random(seed)
        data = bytearray(original)
        for _ in range(draw.choice([1, 1, 2, 5])):
            number = draw.randrange(len(packets))
            from_head = min(draw.choice([1, 2, 4, 12, 40]), packets[number].size)
            at = draw.randrange(from_head) if draw.random() < 0.8 else packets[number].size - 1
            data[places[number] + at] ^= draw.choice([1 << draw.randrange(8), draw.randrange(1, 256)])
        target.write_bytes(data)
        planned, planned_damage = frames_of(target, "auto")
        full, full_damage = frames_of(target, "full")
        common = min(len(planned), len(full))
        assert planned[:common] == full[:common], seed
        assert full_damage or planned_damage or len(planned) == len(full), seed


@pytest.mark.parametrize("name", ["vp9_hidden_frames", "vp9_mp4"])
def test_damaged_headers_never_change_a_frame(name: str, video: Video, tmp_path: Path) -> None:
    source = video(name)
    check_damaged_headers(source, tmp_path / f"damaged{source.suffix}", range(4))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vp9", "vp9_hidden_frames", "vp9_mp4"])
def test_many_damaged_headers_never_change_a_frame(name: str, video: Video, tmp_path: Path) -> None:
    source = video(name)
    check_damaged_headers(source, tmp_path / f"damaged{source.suffix}", range(1000, 1100))


VP9_KEY = bytes.fromhex("82498342001 3f00b38000000".replace(" ", ""))
VP9_INTER, VP9_HIDDEN, VP9_AGAIN = b"\x86\x00" + bytes(9), b"\x84\x00" + bytes(9), b"\x88"


def superframe(*frames: bytes) -> bytes:
    """Frames and their index, with sizes of one byte."""
    marker = bytes([0xC0 | len(frames) - 1])
    return b"".join(frames) + marker + bytes(map(len, frames)) + marker


def test_vp9_headers() -> None:
    key = parse_frame(VP9_KEY)
    assert (key.shown, key.key, key.format) == (True, True, (0, 0, 0, 0, 319, 179))
    assert parse_frame(VP9_INTER) == parse_frame(VP9_AGAIN)
    assert not parse_frame(VP9_HIDDEN).shown
    assert frame_sizes(memoryview(superframe(VP9_HIDDEN, VP9_INTER))) == [11, 11]
    for wrong in (b"\x00", b"\xb8", b"\x82\x00\x00\x00", b"\x82\x49"):
        with pytest.raises(InvalidBitstream):
            parse_frame(wrong)


@pytest.mark.parametrize(
    "packets",
    [
        [VP9_KEY, VP9_HIDDEN],
        [VP9_KEY, superframe(VP9_INTER, VP9_INTER)],
        [VP9_KEY, superframe(VP9_INTER, VP9_HIDDEN)],
        [superframe(VP9_HIDDEN, VP9_KEY)],
        [VP9_KEY, VP9_KEY[:-5] + b"\x0c" + VP9_KEY[-4:]],
    ],
)
def test_vp9_packets_that_prove_nothing(packets: list[bytes]) -> None:
    reader = Vp9Reader(b"", 0)
    for packet in packets[:-1]:
        reader.read(memoryview(packet))
    with pytest.raises(NotProvable):
        reader.read(memoryview(packets[-1]))


def test_a_vp9_superframe_whose_sizes_do_not_add_up_is_refused() -> None:
    with pytest.raises(InvalidBitstream):
        frame_sizes(memoryview(superframe(VP9_HIDDEN, VP9_INTER)[1:]))
