"""Frames against the ffmpeg command and against FFmpeg's own fps and scale filters."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from storage_schemas.errors import Reason, SetAside, UserInputError
from tasks.media.decode import FrameSampler, SampledFrame
from tasks.media.packet_plan import PacketPlan, probe_and_plan
from tests.tasks.media.corpus import (
    CASES,
    TS_PACKET,
    WIDTH,
    Case,
    Video,
    inside_a_picture,
    packets_of,
    place_of,
    run,
)
from tests.tasks.media.reference import filtered_frames

#: Whose frames are not of the corpus' size in 8-bit 4:2:0: scaled to that size they do not stay as decoded.
OTHER_FORMATS = {"wide_pixels", "ten_bit", "odd_size", "cropped_size", "vp9_ten_bit_444", "vp9_two_sizes"}
OTHER_FORMATS |= {"full_range"}
#: Decoders whose arithmetic is not fixed by their standard may differ between FFmpeg versions.
INEXACT = {"avi": 8, "mpeg2_program_stream": 8, "flash": 8}
TURNED = {
    "turned_90": ["transpose=cclock"],
    "turned_180": ["hflip", "vflip"],
    "turned_270": ["transpose=clock"],
}
#: One film of each codec, container and order of pictures: all are read by threads at 1 fps.
THREADED = ["plain", "b_pyramid", "variable_rate", "slow_rate", "fragments", "negative_composition"]
THREADED += ["matroska", "no_durations", "sound_first", "vp9_hidden_frames", "vp9_mp4", "vp9_variable_rate"]
THREADED += ["hevc_open_gop", "hevc_layers", "hevc_variable_rate", "av1", "av1_open_gop", "av1_libaom"]
RATES = [Fraction(1, 2), Fraction(2), Fraction(3), Fraction(30000, 1001), Fraction(24)]
#: Their time stamps are repaired by the ffmpeg command before filtering, which the bare graph below lacks.
REPAIRED_CLOCK = {"clock_starts_again", "raw_stream", "same_time_twice", "avi_h264"}


@pytest.fixture(autouse=True)
def _short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let threads share even short films."""
    monkeypatch.setattr("tasks.media.decode._MIN_FRAMES", 1)


def command_frames(ffmpeg: str, path: Path) -> bytes:
    """All frames at 1 fps as the ffmpeg command gives them, unscaled."""
    command = [ffmpeg, "-v", "error", "-nostdin", "-i", str(path), "-an", "-vf", "fps=1,format=yuv420p"]
    command += ["-fps_mode", "passthrough", "-f", "rawvideo", "-"]
    return subprocess.run(command, check=True, capture_output=True).stdout


def command_choice(ffmpeg: str, path: Path) -> list[tuple[int, list[float]]]:
    """(k, times at which an image with that content is shown) as the ffmpeg command chooses."""
    command = [ffmpeg, "-hide_banner", "-nostdin", "-i", str(path), "-an", "-vf", "showinfo,fps=1,showinfo"]
    command += ["-fps_mode", "passthrough", "-f", "null", "-"]
    log = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    pattern = r"Parsed_showinfo_(\d).*? pts: *(-?\d+) pts_time:(\S+).*? checksum:(\w+)"
    shown: dict[str, list[float]] = {}
    chosen = []
    for number, pts, time, checksum in re.findall(pattern, log):
        if number == "0":
            shown.setdefault(checksum, []).append(float(time))
        else:
            chosen.append((int(pts), checksum))
    return [(k, shown[checksum]) for k, checksum in chosen]


def same(frames: Iterable[SampledFrame]) -> list[tuple[int, float, bytes]]:
    """Numbers, times and bytes of frames."""
    return [(frame.index, frame.pts_s, frame.planes.tobytes()) for frame in frames]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_way_and_frames_are_those_of_the_ffmpeg_command(case: Case, video: Video, ffmpeg: str) -> None:
    path = video(case.name)
    sampler = FrameSampler(path, long_side=WIDTH)
    frames = list(sampler)
    assert sampler.mode == case.mode, sampler.fallback_reason
    assert (sampler.fallback_reason is None) == (case.mode == "packet_plan")
    if case.name in OTHER_FORMATS:
        choice = command_choice(ffmpeg, path)
        assert [frame.index for frame in frames] == [k for k, _ in choice]
        for frame, (_, times) in zip(frames, choice, strict=True):
            assert min(abs(frame.pts_s - time) for time in times) < 0.002
        return
    ours = np.stack([frame.planes for frame in frames]).reshape(-1)
    theirs = np.frombuffer(command_frames(ffmpeg, path), dtype=np.uint8)
    assert len(ours) == len(theirs)
    assert np.abs(ours.astype(np.int16) - theirs).max() <= INEXACT.get(case.name, 0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_ways_give_the_bytes_of_one_filter_graph_over_all_images(case: Case, video: Video) -> None:
    path = video(case.name)
    planned = FrameSampler(path, long_side=64, threads=3)
    frames = {frame.index: frame for frame in planned}
    assert same(frames.values()) == same(FrameSampler(path, long_side=64, mode="full"))
    assert {f.planes.shape for f in frames.values()} == {(planned.size[1] * 3 // 2, planned.size[0])}
    if planned.times_s is not None:
        assert planned.times_s.tolist() == [frame.pts_s for frame in frames.values()]
        assert (planned.first_index, planned.frame_count) == (min(frames), len(frames))
    if case.name not in REPAIRED_CLOCK:
        expected = filtered_frames(path, *planned.size, TURNED.get(case.name, []))
        assert sorted(k for k in expected if k >= 0) == list(frames)
        for k, frame in frames.items():
            assert np.array_equal(frame.planes, expected[k]), k


@pytest.mark.parametrize(
    "name", ["plain", "fragments", "matroska", "sound_first", "slow_rate", "open_gop", "vp9"]
)
def test_a_part_equals_that_part_of_the_whole(name: str, video: Video) -> None:
    sampler = FrameSampler(video(name), long_side=64)
    whole = same(sampler)
    for start, stop in [(0, 2), (2, 4), (3, None), (1, 99), (90, None), (2, 2)]:
        expected = [frame for frame in whole if start <= frame[0] < (stop or 10_000)]
        assert same(sampler.frames(start, stop)) == expected


@pytest.mark.parametrize("name", THREADED)
def test_threads_give_the_same_frames(name: str, video: Video) -> None:
    alone = FrameSampler(video(name), fps=Fraction(5), long_side=64)
    threaded = FrameSampler(video(name), fps=Fraction(5), long_side=64, threads=3)
    frames = same(alone)
    assert same(threaded) == frames
    assert same(threaded.frames(3, 11)) == [frame for frame in frames if 3 <= frame[0] < 11]


def test_threads_share_no_packet(video: Video) -> None:
    plan = probe_and_plan(video("vp9_key_frames_often"), Fraction(5))[1]
    assert isinstance(plan, PacketPlan)
    parts = plan.parts(1, len(plan.chosen), 2)
    assert [k for part in parts for k in part] == list(range(1, len(plan.chosen)))
    assert all(len(part) >= 2 for part in parts[:-1])
    packets = [packet for part in parts for packet in plan.packets(part.start, part.stop)]
    assert len(parts) > 3
    assert len(set(packets)) == len(packets)


def test_a_part_that_cannot_be_decoded_ends_the_threads(video: Video, tmp_path: Path) -> None:
    path = tmp_path / "changed.webm"
    path.write_bytes(video("vp9_key_frames_often").read_bytes())
    sampler = FrameSampler(path, fps=Fraction(5), long_side=64, threads=2)
    path.write_bytes(video("vp9").read_bytes())
    with pytest.raises(SetAside):
        list(sampler)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("decode")]


@pytest.mark.parametrize("fps", RATES, ids=str)
def test_other_rates_agree_too(fps: Fraction, video: Video) -> None:
    planned = FrameSampler(video("b_pyramid"), fps=fps, long_side=64)
    assert planned.mode == "packet_plan"
    assert same(planned) == same(FrameSampler(video("b_pyramid"), fps=fps, long_side=64, mode="full"))


def test_repeated_frames_share_their_planes(video: Video) -> None:
    frames = list(FrameSampler(video("slow_rate"), long_side=64))
    assert frames[1].planes is frames[2].planes
    assert not frames[0].planes.flags.writeable


def test_film_without_a_frame_at_this_rate(ffmpeg: str, tmp_path: Path) -> None:
    path = tmp_path / "short.mp4"
    run(ffmpeg, "-f", "lavfi", "-i", "testsrc2=s=64x64:r=24:d=0.3", "-c:v", "libx264", path)
    for mode in ("auto", "full"):
        with pytest.raises(SetAside) as caught:
            list(FrameSampler(path, mode=mode))  # type: ignore[arg-type]
        assert caught.value.reason is Reason.NO_FRAMES
    assert len(list(FrameSampler(path, fps=Fraction(10)))) == 3


@pytest.mark.parametrize("name", ["transport_stream", "transport_stream_with_lengths"])
def test_transport_stream_is_whole_if_cut_between_pictures(name: str, video: Video, tmp_path: Path) -> None:
    whole, path = video(name), tmp_path / "cut.ts"
    data, packets = whole.read_bytes(), packets_of(whole)
    path.write_bytes(data[: inside_a_picture(whole) // TS_PACKET * TS_PACKET])
    with pytest.raises(SetAside) as caught:
        list(FrameSampler(path, long_side=64))
    assert caught.value.reason is Reason.TRUNCATED_VIDEO
    path.write_bytes(data[: place_of(packets[len(packets) // 2])])
    assert 0 < len(list(FrameSampler(path, long_side=64))) < len(list(FrameSampler(whole, long_side=64)))


def test_senseless_requests_are_refused(video: Video) -> None:
    with pytest.raises(UserInputError, match="fps is 0"):
        FrameSampler(video("plain"), fps=Fraction(0))
    with pytest.raises(UserInputError, match="long_side is 510"):
        FrameSampler(video("plain"), long_side=510)
    with pytest.raises(UserInputError, match="start is -1"):
        FrameSampler(video("plain")).frames(-1)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length(ffmpeg: str, video: Video, tmp_path: Path) -> None:
    program = (
        "import resource, sys; from pathlib import Path; from tasks.media.decode import FrameSampler\n"
        "n = sum(1 for _ in FrameSampler(Path(sys.argv[1])))\n"
        "print(n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = []
    for loops in ("5", "60"):
        path = tmp_path / f"{loops}.mp4"
        run(ffmpeg, "-stream_loop", loops, "-i", video("no_b_frames"), "-c", "copy", path)
        done = subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True)
        peaks.append(int(done.stdout.split()[1]))
    assert peaks[1] < 1.1 * peaks[0]
