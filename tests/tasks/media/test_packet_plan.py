"""When leaving packets out is proved to be safe, and when it is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_schemas.errors import Reason, SetAside
from tasks.media.bitstream import Bits, InvalidBitstream, sei_types, unescape
from tasks.media.h264_syntax import parse_avcc, parse_sps
from tasks.media.images import planned_images
from tasks.media.packet_plan import ALL_FRAMES, PacketPlan, Unsafe, _Section, probe_and_plan, sorted_by_buffer
from tasks.media.source_file import open_video
from tests.tasks.media.corpus import Video, remuxed

Change = Callable[[list[av.Packet]], list[av.Packet]]


def plan_of(path: Path) -> PacketPlan | Unsafe:
    """The plan for one frame a second."""
    return probe_and_plan(path, Fraction(1))[1]


def with_data(packet: av.Packet, data: bytes) -> av.Packet:
    new = av.Packet(data)
    new.pts, new.dts, new.duration, new.time_base = packet.pts, packet.dts, packet.duration, packet.time_base
    new.is_keyframe = packet.is_keyframe
    return new


def is_reference(packet: av.Packet) -> bool:
    """Whether the first slice of an x264 packet has nal_ref_idc above 0."""
    data, position = bytes(packet), 0
    while data[position + 4] & 31 not in (1, 5):
        position += 4 + int.from_bytes(data[position : position + 4], "big")
    return bool(data[position + 4] & 0x60)


def without_a_reference(packets: list[av.Packet]) -> list[av.Packet]:
    lost = next(i for i, p in enumerate(packets) if i > 4 and is_reference(p) and not p.is_keyframe)
    return packets[:lost] + packets[lost + 1 :]


def seventh(change: Callable[[bytes], bytes]) -> Change:
    """Change the bytes of the seventh packet."""
    return lambda packets: [*packets[:6], with_data(packets[6], change(bytes(packets[6]))), *packets[7:]]


def two_in_one(packets: list[av.Packet]) -> list[av.Packet]:
    return [*packets[:6], with_data(packets[6], bytes(packets[6]) + bytes(packets[7])), *packets[8:]]


def swapped_times(packets: list[av.Packet]) -> list[av.Packet]:
    times = [(p.pts, p.dts) for p in packets]
    i = next(i for i in range(6, 99) if times[i][0] >= times[i + 1][1] and times[i + 1][0] >= times[i + 1][1])
    packets[i].pts, packets[i + 1].pts = packets[i + 1].pts, packets[i].pts
    return packets


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without_a_reference, "frame_num jumps"),
        (lambda packets: packets[1:], "first picture depends|key frames|edit list"),
        (two_in_one, "several pictures in one packet"),
        (seventh(lambda data: b"\x00\x00\x7f" + data[3:]), "not a sequence of NAL units"),
        (seventh(lambda data: data + b"\0\0\0\2\x74\x80"), "NAL unit type 20"),
        (seventh(lambda _: b"\0\0\0\2\x09\xf0"), "without picture"),
        (swapped_times, "time stamps do not follow"),
    ],
)
def test_a_broken_condition_is_named(change: Change, reason: str, video: Video, tmp_path: Path) -> None:
    path = remuxed(video("plain"), tmp_path / "changed.mp4", change)
    plan = plan_of(path)
    assert isinstance(plan, Unsafe)
    assert re.search(reason, plan.reason), plan.reason


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("open_gop", "open GOP"),
        ("interlaced", "interlaced"),
        ("edit_list", "edit list"),
        ("variable_rate_edit_list", "edit list"),
        ("no_key_flags", "index"),
        ("two_parameter_sets", "parameter set changes"),
        ("same_time_twice", "time stamps"),
        ("transport_stream", "mpegts"),
        ("avi_h264", "avi"),
        ("hevc_edit_list", "edit list"),
        ("hevc_early_pictures", "shown before the entry"),
        ("vp9_two_sizes", "size or pixel format"),
        ("av1_two_headers", "sequence header changes"),
        ("av1_numbered_frames", "frames have numbers"),
        ("mpeg2_program_stream", "mpeg2video"),
    ],
)
def test_an_unsafe_file_is_refused_with_the_reason(name: str, reason: str, video: Video) -> None:
    plan = plan_of(video(name))
    assert isinstance(plan, Unsafe)
    assert reason in plan.reason


@settings(max_examples=50)
@given(data=st.data())
def test_what_a_section_needs_is_all_that_can_be_reached(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 8), min_size=1, max_size=12))
    section, frames = _Section(5), list[set[int]]()
    for size in sizes:
        packet = [
            data.draw(st.sets(st.integers(0, len(frames) + i - 1))) if len(frames) + i else set()
            for i in range(size)
        ]
        frames += packet
        section.add(map(tuple, packet))
    ends = np.cumsum(sizes)
    pictures = data.draw(st.sets(st.integers(0, len(sizes) - 1)))
    reached: set[int] = set()
    waiting = [int(ends[picture]) - 1 for picture in pictures]
    while waiting:
        frame = waiting.pop()
        if frame not in reached:
            reached.add(frame)
            waiting += frames[frame]
    needed = section.needed(picture + 5 for picture in pictures)
    assert len(needed) == len(section) == len(sizes)
    for bits, size, end in zip(needed, sizes, ends, strict=True):
        wanted = {frame - end + size for frame in reached if end - size <= frame < end}
        assert (bits == ALL_FRAMES) if len(wanted) == size else (bits == sum(1 << bit for bit in wanted))


def test_the_packets_of_a_part_reach_from_its_entry_to_its_last_picture() -> None:
    plan = PacketPlan(
        first=0,
        chosen=np.array([3, 2, 6, 9]),
        times_s=np.zeros(4),
        pts=np.arange(10),
        needed=np.full(10, ALL_FRAMES, dtype=np.uint8),
        seek_to=np.array([0, 5, 8]),
        entry=np.array([1, 0, 0, 0, 0, 1, 0, 0, 1, 0], dtype=bool),
    )
    parts = ((0, 2), (1, 2), (1, 3), (2, 3), (3, 4))
    expected = [range(4), range(3), range(7), range(5, 7), range(8, 10)]
    assert [plan.packets(*part) for part in parts] == expected


@settings(max_examples=50)
@given(order=st.permutations(range(9)), size=st.integers(0, 4))
def test_reordering_depth_is_that_of_a_sorting_buffer(order: list[int], size: int) -> None:
    deepest = max(sum(before > p for before in order[:i]) for i, p in enumerate(order))
    assert sorted_by_buffer(np.array(order), size) == (deepest <= size)


def test_bits_and_exp_golomb_numbers() -> None:
    bits = Bits(bytes([0b10100110, 0b01000010, 0b10000000]))
    assert [bits.ue() for _ in range(4)] == [0, 1, 2, 3]
    assert bits.se() == -2
    with pytest.raises(InvalidBitstream):
        bits.u(40)
    assert unescape(b"\0\0\3\1\0\0\3\0\0\3") == b"\0\0\1\0\0\0\0"
    # recovery points are found among other messages
    user_data = b"\x05\x03abc"
    assert sei_types(user_data + b"\x06\x01\xc4\x80") == {5, 6}
    assert sei_types(user_data + b"\x80") == {5}
    assert sei_types(b"\x05\xff\x01" + b"\x06" * 256 + b"\x80") == {5}


def test_parameter_sets_of_an_x264_film(video: Video) -> None:
    with av.open(str(video("one_reference"))) as box:
        avcc = parse_avcc(box.streams.video[0].codec_context.extradata or b"")
    sps = parse_sps(avcc.sps[0])
    assert (avcc.length_size, len(avcc.sps), len(avcc.pps)) == (4, 1, 1)
    assert (sps.profile, sps.frames_only, sps.gaps_allowed, sps.num_reorder_frames) == (100, True, False, 1)
    with pytest.raises(InvalidBitstream):
        parse_avcc(b"\0\0\0\1\x67\x42")
    with pytest.raises(InvalidBitstream):
        parse_sps(avcc.sps[0][:6])


@pytest.mark.parametrize("name", ["plain", "matroska"])
def test_an_index_that_leads_too_far_costs_nothing_but_time(name: str, video: Video) -> None:
    plan = plan_of(video(name))
    assert isinstance(plan, PacketPlan)
    late = replace(plan, seek_to=np.full_like(plan.seek_to, plan.pts.max()))
    result = []
    for misled in (plan, late):
        with open_video(video(name)) as opened:
            images = dict(planned_images(opened, misled, misled.packets(2, 4)))
            result.append([images[int(plan.pts[i])].to_ndarray().tobytes() for i in plan.chosen[2:4]])
    assert result[0] == result[1]


def test_a_file_that_changed_since_it_was_planned_is_noticed(video: Video) -> None:
    plan = plan_of(video("no_b_frames"))
    assert isinstance(plan, PacketPlan)
    with open_video(video("slow_rate")) as opened, pytest.raises(SetAside) as caught:
        list(planned_images(opened, plan, plan.packets(0, len(plan.chosen))))
    assert caught.value.reason is Reason.VIDEO_CHANGED
