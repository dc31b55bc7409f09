from __future__ import annotations

import random
import shutil
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.ids import artifact_id
from storage_schemas.pair import PairRecord, Segment
from storage_schemas.release import CLIP_FILE
from storage_schemas.store import DEGRADED_CLIP, ENCODED, FRAMES, Store
from tasks.media.ffmpeg_command import Encoder, FfmpegCommand
from tasks.publish.pair_videos import (
    encode_pair,
    encode_source,
    is_encoded,
    materialise_pair,
    unit_starts,
    write_low,
)
from tests.frame_arrays import write_frames
from tests.tasks.publish.judging import pair_record

WIDTH, HEIGHT, COUNT = 96, 64, 60
COLOR = ColorSpec("bt709")


@dataclass(frozen=True)
class Row:
    first_frame: int
    frame_count: int


# a gap before the first clip, one between two clips, a clip without frames, and a gap at the end
CLIPS = [Row(3, 10), Row(13, 1), Row(14, 12), Row(20, 0), Row(30, 11), Row(41, 14)]


def picture(number: int, changed: bool = False) -> Planes:
    rng = np.random.default_rng(number)
    small = rng.integers(16, 235, (HEIGHT * 3 // 16, WIDTH // 8), dtype=np.uint8)
    planes = np.kron(small, np.ones((8, 8), np.uint8))
    return 255 - planes if changed else planes


@pytest.fixture(scope="module")
def whole_store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store.create(tmp_path_factory.mktemp("whole") / "store")
    with store.stage(FRAMES, {"source": "one"}) as staged:
        path, pictures = staged.path / "planes.zarr", map(picture, range(COUNT))
        staged.content_checksum = write_frames(path, pictures, map(float, range(COUNT)), COLOR).checksum
    return store


@pytest.fixture
def store(whole_store: Store, tmp_path: Path) -> Store:
    return Store.open(Path(shutil.copytree(whole_store.root, tmp_path / "store")))


@pytest.fixture
def frames_id(store: Store) -> str:
    return next(store.manifests(FRAMES)).id


def degraded(store: Store, clip: int, count: int | None = None) -> str:
    row = CLIPS[clip]
    frames = [picture(row.first_frame + place, changed=True) for place in range(count or row.frame_count)]
    with store.stage(DEGRADED_CLIP, {"clip": clip, "count": count}) as staged:
        write_frames(staged.path / CLIP_FILE, frames, map(float, range(len(frames))), COLOR)
    return artifact_id(DEGRADED_CLIP, {"clip": clip, "count": count})


def whole() -> list[Segment]:
    segments, place = [], 0
    for index, clip in enumerate(CLIPS):
        if clip.frame_count:
            first, count = clip.first_frame, clip.frame_count
            if first > place:
                segments.append(Segment(kind="gap", clip=None, first_frame=place, frame_count=first - place))
            segments.append(Segment(kind="source", clip=index, first_frame=first, frame_count=count))
            place = first + count
    return [*segments, Segment(kind="gap", clip=None, first_frame=place, frame_count=COUNT - place)]


def degrade(segment: Segment, **how: Any) -> Segment:
    return segment.model_copy(update={"kind": "degraded", **how})


def record(frames_id: str, segments: list[Segment], **other: Any) -> PairRecord:
    values: dict[str, Any] = {
        "pair_id": "p",
        "frames_id": frames_id,
        "category": "quality",
        "operation": "contrast",
        "clips_degraded": 1,
        "high_frames": COUNT,
        "high_checksum": "",
        "low_checksum": "",
        "high_intervals": (),
        "low_intervals": (),
    }
    return pair_record("one", "aesthetics", segments, (), **{**values, **other})


def decoded(path: Path) -> list[Planes]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="yuv420p") for frame in container.decode(video=0)]


def duration(path: Path) -> float:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.duration is not None
        assert stream.time_base is not None
        return float(stream.duration * stream.time_base)


def test_units_begin_where_a_clip_or_a_gap_begins() -> None:
    assert unit_starts(CLIPS, COUNT) == [0, 3, 13, 14, 26, 30, 41, 55]
    assert unit_starts([], 5) == [0]
    assert unit_starts([Row(0, 5)], 5) == [0]


def test_pixels_change_in_the_degraded_clips_only(store: Store, frames_id: str, tmp_path: Path) -> None:
    segments = whole()
    for position, segment in enumerate(segments):
        if segment.clip in (1, 4):
            segments[position] = degrade(segment, degraded_clip=degraded(store, segment.clip))
    paths = materialise_pair(store, record(frames_id, segments), CLIPS, tmp_path / "out")
    assert paths == {"high": tmp_path / "out/high.mp4", "low": tmp_path / "out/low.mp4"}
    high, low = decoded(paths["high"]), decoded(paths["low"])
    assert len(high) == len(low) == COUNT
    assert duration(paths["high"]) == duration(paths["low"]) == COUNT
    changed = {13, *range(30, 41)}
    for index in range(COUNT):
        assert np.abs(high[index].astype(int) - picture(index)).mean() < 4
        if index in changed:
            assert np.abs(low[index].astype(int) - picture(index, changed=True)).mean() < 4
        else:
            assert np.array_equal(high[index], low[index])


def test_moved_and_removed_clips_keep_their_pictures(store: Store, frames_id: str, tmp_path: Path) -> None:
    segments = whole()
    segments[3] = degrade(segments[3], frame_map=(20,) * 12)
    moved = [segments[-2], *segments[:5], segments[-1]]
    pair = record(frames_id, moved)
    low = decoded(materialise_pair(store, pair, CLIPS, tmp_path / "out", ["low"])["low"])
    high = decoded(encode_source(store, frames_id, COUNT, CLIPS, 1.0))
    order = [segment.first_frame + place for segment in moved for place in range(segment.frame_count)]
    assert len(low) == len(order) == pair.low_frames < COUNT
    assert duration(tmp_path / "out/low.mp4") == len(order)
    for shown, index in zip(low, order, strict=True):
        if index in range(14, 26):
            # a frame map shows the frames that it names
            assert np.abs(shown.astype(int) - picture(20)).mean() < 4
        else:
            assert np.array_equal(shown, high[index])
    assert not (tmp_path / "out/high.mp4").exists()


def test_a_source_is_encoded_once(
    store: Store, frames_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = whole()
    materialise_pair(store, record(frames_id, segments), CLIPS, tmp_path / "a")
    made = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()}

    monkeypatch.setattr("tasks.publish.pair_videos.encode_units", None)
    monkeypatch.setattr("tasks.publish.pair_videos.UnitWriter.encode", None)
    materialise_pair(store, record(frames_id, segments), CLIPS, tmp_path / "a")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir()} == made
    # another pair of the source; its frames are not needed any more
    store.remove(FRAMES, frames_id)
    other = record(frames_id, segments[::-1], pair_id="q")
    materialise_pair(store, other, CLIPS, tmp_path / "a")
    assert (tmp_path / "a/high.mp4").stat().st_mtime_ns == made[tmp_path / "a/high.mp4"]
    assert (tmp_path / "a/low.mp4").stat().st_mtime_ns > made[tmp_path / "a/low.mp4"]
    manifest = next(store.manifests(ENCODED))
    assert manifest.content["units"] == unit_starts(CLIPS, COUNT)
    assert manifest.provenance["libraries"]["libavcodec"]


def test_nothing_half_written_stays(store: Store, frames_id: str, tmp_path: Path) -> None:
    encoded = encode_source(store, frames_id, COUNT, CLIPS, 1.0)
    gap, first, *_ = segments = whole()
    short = degrade(first, degraded_clip=degraded(store, 0, 2))
    out = tmp_path / "out" / "low.mp4"
    for wrong, told in (
        (record(frames_id, segments, low_frames=COUNT + 1), "promises"),
        (record(frames_id, [gap, first.model_copy(update={"first_frame": 4})]), "frame 4"),
        (record(frames_id, [degrade(gap)]), "no degraded frames"),
        (record(frames_id, [short]), "has 2 frames"),
    ):
        with pytest.raises(IntegrityError, match=told):
            write_low(store, wrong, encoded, out)
        assert list(out.parent.iterdir()) == []
    assert not list(store.staging.iterdir())


def test_damaged_file_is_written_again_from_frames(store: Store, frames_id: str, tmp_path: Path) -> None:
    pair = record(frames_id, whole())
    paths = materialise_pair(store, pair, CLIPS, tmp_path)
    good = {path: path.read_bytes() for path in paths.values()}
    for path in good:
        path.write_bytes(b"")
    seen: list[int] = []
    materialise_pair(store, pair, CLIPS, tmp_path, progress=seen.append)
    assert {path: path.read_bytes() for path in good} == good
    assert sum(seen) == COUNT
    store.remove(FRAMES, frames_id)
    store.remove(ENCODED, next(store.manifests(ENCODED)).id)
    with pytest.raises(StoreError, match="run the build again"):
        materialise_pair(store, pair, CLIPS, tmp_path / "other")


def test_an_encoder_of_the_ffmpeg_command_writes_both_sides_whole_and_once_or_is_found_out(
    store: Store, frames_id: str, tmp_path: Path, ffmpeg: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = FfmpegCommand(ffmpeg, "of the tests")
    encoder = Encoder("libx264", "h264", {"preset": "ultrafast", "crf": "10"})
    segments = whole()
    segments[1] = degrade(segments[1], degraded_clip=degraded(store, 0))
    segments[3] = degrade(segments[3], frame_map=(20,) * 12)
    del segments[-1]
    pair = record(frames_id, segments)
    paths = encode_pair(store, pair, tmp_path / "a", command, encoder)
    assert is_encoded(pair, tmp_path / "a", encoder)
    shown = [*range(3), *range(3, 13), 13, *[20] * 12, *range(26, 55)]
    for side, numbers in (("high", range(COUNT)), ("low", shown)):
        frames = decoded(paths[side])  # type: ignore[index]
        assert len(frames) == len(numbers)
        for place, number in enumerate(numbers):
            truth = picture(number, changed=side == "low" and 3 <= place < 13)
            assert np.abs(frames[place].astype(int) - truth).mean() < 6

    with monkeypatch.context() as patched:
        patched.setattr(FfmpegCommand, "encode", None)
        assert encode_pair(store, pair, tmp_path / "a", command, encoder) == paths
        other = encode_pair(store, pair, tmp_path / "b", command, encoder, ["high"], same=paths["high"])
    assert other["high"].read_bytes() == paths["high"].read_bytes()
    assert not is_encoded(pair, tmp_path / "a", Encoder("libx265", "hevc", {}))
    assert not is_encoded(record(frames_id, whole()), tmp_path / "a", encoder)
    drops = Encoder("libx264", "h264", {"preset": "ultrafast", "frames:v": "5"})
    with pytest.raises(IntegrityError, match=r"promises 60 frames.*wrote 5"):
        encode_pair(store, record(frames_id, whole()), tmp_path / "c", command, drops, ["high"])
    assert not list((tmp_path / "c").glob("*.mp4"))


@pytest.mark.slow
def test_untouched_units_cost_copying_only(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store")
    width, height, count = 512, 288, 300
    rng = np.random.default_rng(1)
    texture = rng.integers(16, 235, (height * 3 // 2, width), dtype=np.uint8)
    with store.stage(FRAMES, {"source": "large"}) as staged:
        write_frames(
            staged.path / "planes.zarr",
            (np.roll(texture, 7 * place, axis=1) for place in range(count)),
            map(float, range(count)),
            COLOR,
        )
    frames_id = next(store.manifests(FRAMES)).id
    edges = [*range(0, count, 10), count]
    clips = [Row(first, end - first) for first, end in pairwise(edges)]
    segments = [
        Segment(kind="source", clip=place, first_frame=clip.first_frame, frame_count=clip.frame_count)
        for place, clip in enumerate(clips)
    ]
    started = time.process_time()
    encoded = encode_source(store, frames_id, count, clips, 1.0)
    all_of_it = time.process_time() - started
    random.Random(1).shuffle(segments)
    started = time.process_time()
    write_low(store, record(frames_id, segments), encoded, tmp_path / "low.mp4")
    assert time.process_time() - started < 0.05 * all_of_it
