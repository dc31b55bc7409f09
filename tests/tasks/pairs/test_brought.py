from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.errors import Reason, SetAside, UserInputError
from tasks.media.decode import FrameSampler
from tasks.pairs.file_pairs import KEPT_FRAMES, VideoSide, open_video_pair, read_pairs_file

LONG_SIDE = 64
#: Of the long film; more than are kept.
SECONDS = 70


@pytest.fixture(scope="session")
def videos(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small films: H.264 with one key frame a second or in all, MPEG-2 in a stream, and one of a second."""
    folder = tmp_path_factory.mktemp("videos")
    one_key_frame = ("-c:v", "libx264", "-preset", "ultrafast", "-threads", "1")
    x264 = (*one_key_frame, "-g", "12")
    for name, seconds, coding in (
        ("film.mp4", SECONDS, x264),
        ("other.mp4", 8, x264),
        ("short.mp4", 1, x264),
        ("flash.mp4", 0.25, x264),
        ("steady.mp4", 20, one_key_frame),
        ("old.mpg", 20, ("-c:v", "mpeg2video", "-threads", "1")),
    ):
        picture = f"testsrc2=s=64x48:r={12 if name.endswith('mp4') else 25}:d={seconds}"
        command = [ffmpeg, "-v", "error", "-nostdin", "-f", "lavfi", "-i", picture, *coding, folder / name]
        subprocess.run(command, check=True)
    (folder / "text.mp4").write_text("not a video")
    return folder


class Decoded(list[int]):
    """Numbers of the frames that samplers gave out; and from where to where each was asked."""

    begun: list[tuple[int, int | None]]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Decoded:
    numbers = Decoded()
    numbers.begun = []
    original = FrameSampler.frames

    def frames(self: FrameSampler, start: int = 0, stop: int | None = None) -> Any:
        numbers.begun.append((start, stop))
        for frame in original(self, start, stop):
            numbers.append(frame.index)
            yield frame

    monkeypatch.setattr(FrameSampler, "frames", frames)
    return numbers


def expected(path: Path) -> list[Any]:
    return [frame.planes for frame in FrameSampler(path, long_side=LONG_SIDE)]


@pytest.mark.parametrize("name", ["film.mp4", "old.mpg", "short.mp4"])
def test_a_side_is_the_sampled_video(videos: Path, name: str) -> None:
    frames = expected(videos / name)
    side = VideoSide(videos / name, long_side=LONG_SIDE)
    assert len(side) == len(frames)
    assert all(np.array_equal(a, b) for a, b in zip(side, frames, strict=True))
    assert np.array_equal(side[-1], frames[-1])
    assert side.times_s.tolist() == [float(k) for k in range(len(frames))]
    assert (side.width, side.height, side.fps) == (64, 48, 1.0)
    assert side.rgb(0).shape == (48, 64, 3)


def test_identities_come_from_files_without_decoding(videos: Path, tmp_path: Path, decoded: Decoded) -> None:
    for name in ("film.mp4", "copy.mp4"):
        shutil.copy(videos / "film.mp4", tmp_path / name)
    side, copy = (
        VideoSide(path, long_side=LONG_SIDE) for path in (videos / "film.mp4", tmp_path / "copy.mp4")
    )
    assert side.frame_ids([4, 0]) == copy.frame_ids([4, 0]) == side[4:].frame_ids([0]) + side.frame_ids([0])
    assert side.family == copy.family
    assert side.identity() == copy.identity()
    shutil.copy(videos / "other.mp4", tmp_path / "other.mp4")

    def pair_id(film: Path, folder: Path, prompt: str = "p") -> str:
        return open_video_pair(film, folder / "other.mp4", prompt, "color", "a").id

    one = pair_id(videos / "film.mp4", videos)
    assert one == pair_id(videos / "film.mp4", tmp_path) == pair_id(tmp_path / "film.mp4", tmp_path)
    assert one != pair_id(videos / "film.mp4", videos, "q")
    others = [
        VideoSide(videos / "other.mp4", long_side=LONG_SIDE),
        VideoSide(videos / "film.mp4", long_side=32),
        VideoSide(videos / "film.mp4", Fraction(2), LONG_SIDE),
    ]
    assert len({id_ for one in (side, *others) for id_ in one.frame_ids(range(5))}) == 20
    assert decoded == []
    with pytest.raises(SetAside) as problem:
        VideoSide(tmp_path / "gone.mp4").frame_ids([0])
    assert problem.value.reason is Reason.VIDEO_MISSING


@pytest.mark.parametrize("name", ["film.mp4", "old.mpg"])
def test_frames_in_any_order(videos: Path, name: str) -> None:
    frames = expected(videos / name)
    side = VideoSide(videos / name, long_side=LONG_SIDE)
    for places in ([7], [3, 4, 5], [12, 2, 12, 3], [15, 16], [17], [0]):
        assert np.array_equal(side.planes(places), np.stack([frames[place] for place in places]))
    assert side.planes([]).shape == (0, 72, 64)
    part = side[5:15:2]
    assert np.array_equal(part.planes([1, 0]), np.stack([frames[7], frames[5]]))
    for place in (-1, len(frames)):
        with pytest.raises(IndexError, match=name):
            side.planes([place])


def test_only_touched_frames_are_decoded_and_few_are_kept(videos: Path, decoded: Decoded) -> None:
    side = VideoSide(videos / "film.mp4", long_side=LONG_SIDE)
    assert len(side) == SECONDS
    part = side[20:40]
    assert (len(part), decoded) == (20, [])
    _ = part[3]
    assert decoded == [23]
    _ = side.planes(range(22, 26))
    assert decoded == [23, 22, 24, 25]
    _ = side.planes([25, 23])
    assert len(decoded) == 4
    decoded.clear()
    side = VideoSide(videos / "film.mp4", long_side=LONG_SIDE)
    for _ in side:
        pass
    assert decoded == list(range(SECONDS))
    assert len(side._kept) == KEPT_FRAMES
    _ = side[SECONDS - 1]
    assert len(decoded) == SECONDS
    _ = side[0]
    assert decoded[SECONDS:] == [0]


def test_single_frames_are_decoded_on_from_the_one_before(videos: Path, decoded: Decoded) -> None:
    whole = VideoSide(videos / "steady.mp4", Fraction(12), LONG_SIDE)
    assert whole.sampler.mode == "packet_plan"
    wanted = whole.planes(range(len(whole)))
    assert len(wanted) == 240
    for every in (1, 3, 8):
        decoded.begun.clear()
        single = VideoSide(videos / "steady.mp4", Fraction(12), LONG_SIDE)
        result = np.stack([single[place] for place in range(0, len(single), every)])
        assert (result == wanted[::every]).all()
        assert len(decoded.begun) == 2
    decoded.begun.clear()
    side = VideoSide(videos / "steady.mp4", Fraction(12), LONG_SIDE)
    assert all((side[place] == wanted[place]).all() for place in (100, 101, 5, 6, 7, 180, 102, 103))
    assert decoded.begun[0] == (100, 101)
    assert {(180, 181), (5, 6)} <= set(decoded.begun)


def test_where_all_must_be_decoded_continuing_costs_once(videos: Path, decoded: Decoded) -> None:
    side = VideoSide(videos / "old.mpg", long_side=LONG_SIDE)
    assert side.sampler.mode == "filter_graph"
    count = len(side)
    assert decoded == list(range(count))
    decoded.clear()
    side._kept.clear()
    for start in range(0, count, 4):
        _ = side.planes(range(start, min(start + 4, count)))
    assert decoded == list(range(count))


def test_gold_says_which_is_high_without_reading(videos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = videos / "film.mp4", videos / "other.mp4"
    for gold, high in (("a", a), ("b", b), ("tie", a)):
        with monkeypatch.context() as patched:
            patched.setattr("tasks.pairs.file_pairs.FrameSampler", None)
            pair = open_video_pair(a, b, "A test picture.", "color", gold, long_side=LONG_SIDE)  # type: ignore[arg-type]
        assert isinstance(pair.high, VideoSide)
        assert isinstance(pair.low, VideoSide)
        assert pair.high.path == high
        assert {pair.high.path, pair.low.path} == {a, b}
        assert pair.details == {"gold": gold, "video_a": str(a), "video_b": str(b)}
        assert (pair.high_intervals, pair.low_intervals, pair.record) == ((), (), None)
        assert (pair.prompt, pair.aspect) == ("A test picture.", "color")
    assert (len(pair.high), len(pair.low)) == (SECONDS, 8)


def test_very_short_videos_need_a_higher_rate(videos: Path) -> None:
    flash, short = videos / "flash.mp4", videos / "short.mp4"
    pair = open_video_pair(flash, short, "p", "color", "a", fps=Fraction(8), long_side=LONG_SIDE)
    assert (len(pair.high), len(pair.low)) == (2, 8)
    assert pair.low.times_s.tolist() == [k / 8 for k in range(8)]
    slow = open_video_pair(flash, short, "p", "color", "a", long_side=LONG_SIDE)
    assert len(list(slow.low)) == 1
    with pytest.raises(SetAside, match="higher fps") as caught:
        len(slow.high)
    assert caught.value.reason is Reason.NO_FRAMES


def test_what_is_not_a_video_is_reported_when_it_is_touched(videos: Path) -> None:
    with pytest.raises(SetAside) as caught:
        len(VideoSide(videos / "text.mp4"))
    assert caught.value.reason is Reason.NOT_A_VIDEO


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": Path("nowhere.mp4")}, "no video nowhere.mp4"),
        ({"first": Path("/dev/null")}, "/dev/null is not a video: it is a device, not a file"),
        ({"aspect": "colour"}, "did you mean color?"),
        ({"aspect": "xyz"}, "there are aesthetics,"),
        ({"gold": "first"}, "say a, b or tie"),
        ({"fps": Fraction(0)}, "above 0"),
    ],
)
def test_mistakes_are_reported(videos: Path, change: dict[str, Any], message: str) -> None:
    values: dict[str, Any] = {"prompt": "p", "aspect": "color", "gold": "a"}
    values |= {"first": videos / "film.mp4", "second": videos / "other.mp4"}
    with pytest.raises(UserInputError, match=message):
        open_video_pair(**{**values, **change})


LINE: dict[str, Any] = {
    "id": "one",
    "video_a": "film.mp4",
    "video_b": "deep/other.mp4",
    "prompt": "Grün\nund rot",
    "aspect": "temporal_flow",
    "gold": "b",
}


@pytest.fixture
def write(videos: Path, tmp_path: Path) -> Callable[..., Path]:
    (tmp_path / "deep").mkdir()
    (tmp_path / "film.mp4").symlink_to(videos / "film.mp4")
    (tmp_path / "deep" / "other.mp4").symlink_to(videos / "other.mp4")

    def write(*lines: dict[str, Any] | bytes) -> Path:
        path = tmp_path / "pairs.jsonl"
        raw = (
            one if isinstance(one, bytes) else json.dumps(one, ensure_ascii=False).encode() for one in lines
        )
        path.write_bytes(b"\n".join(raw))
        return path

    return write


def test_a_pairs_file(write: Callable[..., Path], videos: Path) -> None:
    absolute = {**LINE, "id": "zwei ✓", "video_a": str(videos / "other.mp4"), "gold": "tie"}
    path = write(b"\xef\xbb\xbf" + json.dumps(LINE).encode() + b"\r", b"", absolute, b"")
    one, two = read_pairs_file(path, long_side=LONG_SIDE)
    assert (one.id, one.prompt, one.aspect) == ("one", LINE["prompt"], LINE["aspect"])
    assert one.details["gold"] == "b"
    assert (len(one.high), len(one.low)) == (8, SECONDS)
    assert (two.id, two.details["gold"], len(two.high)) == ("zwei ✓", "tie", 8)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (b"{", "not JSON at character 2"),
        (b"[1]", "a pair is a JSON object, this is a list"),
        (b'{"id": "\xff"}', "not UTF-8 at byte 8"),
        ({**LINE, "id": "two", "vidoe_a": "x"}, "vidoe_a: unknown key. Did you mean 'video_a'?"),
        ({key: LINE[key] for key in LINE if key != "gold"}, "gold: is missing"),
        ({**LINE, "id": "two", "gold": "first"}, "gold: must be 'a', 'b' or 'tie'"),
        ({**LINE, "id": "two", "prompt": 3}, "prompt: must be text"),
        ({**LINE, "id": "two", "aspect": "temporal-flow"}, "did you mean temporal_flow"),
        ({**LINE, "id": "two", "video_b": "other.mp4"}, "no video .*other.mp4"),
        ({**LINE, "id": "two", "video_b": "http://host/other.mp4"}, "no video .*http"),
        ({**LINE, "id": "two", "video_b": ""}, "video_b: must not be empty"),
        ({**LINE, "id": "two", "video_b": "deep"}, "deep is not a video: it is a folder"),
        ({**LINE, "id": "../two"}, "give the source another id"),
        ({**LINE, "id": "x" * 300}, "shorten it to 200"),
        (LINE, "line 1 has the id 'one' already"),
    ],
)
def test_mistake_has_line(write: Callable[..., Path], second: dict[str, Any] | bytes, message: str) -> None:
    path = write(LINE, b"", second)
    with pytest.raises(UserInputError, match=rf"(?s)pairs\.jsonl, line 3: .*{message}"):
        read_pairs_file(path)


def test_a_file_without_pairs_is_refused(write: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="has no pairs"):
        read_pairs_file(write(b"", b" "))
    with pytest.raises(UserInputError, match="No such file"):
        read_pairs_file(tmp_path / "none.jsonl")
