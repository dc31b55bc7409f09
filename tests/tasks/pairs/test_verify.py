"""Damage to everything that a pair is made of, one at a time: each must be found."""

from __future__ import annotations

import errno
import os
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from storage_schemas import away
from storage_schemas.commit import MANIFEST_NAME
from storage_schemas.errors import IntegrityError, Reason, StoreError
from storage_schemas.frames import FrameReader, Planes
from storage_schemas.ids import artifact_id
from storage_schemas.pair import PairRecord, Segment
from storage_schemas.release import CLIP_FILE, clip_path, frames_path
from storage_schemas.store import DEGRADED_CLIP, FRAMES, PAIR, VERIFIED, Store
from storage_schemas.store_check import artifact_problems
from storage_schemas.zip_store import ZipRanges, append
from tasks.pairs.degrade import low_checksum, read_pair
from tasks.pairs.verify import (
    SourceCheck,
    expected_intervals,
    pair_problems,
    verified_consumes,
    verify_deep,
    verify_pairs,
)
from tests.frame_arrays import write_frames
from tests.resealed import reseal
from tests.tasks.pairs.synthetic import ASPECTS, COLOR, Made, picture

each_aspect = pytest.mark.parametrize("aspect", ASPECTS)


@pytest.fixture
def source(built: Made) -> Made:
    return built


@pytest.fixture
def whole(built_once: Made) -> Made:
    """The source that all tests share: only records are changed, nothing on disk."""
    return built_once


def verify(source: Made, record: PairRecord) -> str:
    """What verification says of a pair; empty if nothing. It discards what is damaged, so it sees a copy."""
    with TemporaryDirectory(dir=source.store.root.parent) as copy:
        shutil.copytree(source.store.root, copy, copy_function=os.link, dirs_exist_ok=True)
        return " | ".join(map(str, verify_pairs(Store(Path(copy)), [record.pair_id]).values()))


def deep(source: Made, record: PairRecord) -> str:
    return " | ".join(verify_deep(source.store, record))


def changed(source: Made, record: PairRecord, **other: Any) -> tuple[PairRecord, str]:
    """Another record of a pair, and what is wrong with it beside the frames that are stored."""
    other_record = record.model_copy(update=other)
    check = SourceCheck(FrameReader(frames_path(source.store, record.frames_id)))
    return other_record, " | ".join(pair_problems(source.store, other_record, check))


def edited(source: Made, record: PairRecord, segments: Sequence[Segment]) -> tuple[PairRecord, str]:
    """The same for another edit list, with the checksum and the number of frames that belong to it."""
    checksum = low_checksum(source.store, source.facts.timeline.digests, segments)
    count = sum(segment.frame_count for segment in segments)
    return changed(source, record, segments=tuple(segments), low_frames=count, low_checksum=checksum)


def replaced(record: PairRecord, place: int, **changes: Any) -> tuple[Segment, ...]:
    """The record's segments with another one at a place."""
    segments = list(record.segments)
    segments[place] = segments[place].model_copy(update=changes)
    return tuple(segments)


def flip(path: Path, place: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[place] ^= 1
    path.write_bytes(raw)


def strangers(count: int) -> list[Planes]:
    return [picture(900 + n) for n in range(count)]


def put(path: Path, frames: Sequence[Planes]) -> str:
    """Put frames in place of a frame array, with checksums that fit them; return that of all."""
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return write_frames(path, frames, map(float, range(len(frames))), COLOR).checksum


def first_degraded(source: Made, record: PairRecord) -> tuple[int, Segment, Path]:
    """Place and segment of the first degraded clip, and the path that its frames have."""
    place, segment = next((n, s) for n, s in enumerate(record.segments) if s.kind == "degraded")
    return place, segment, clip_path(source.store, segment.degraded_clip or "none")


def test_verify_accepts_good_pairs_and_reads_each_once(source: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [source.pair(aspect) for aspect in ASPECTS]
    pair_ids = [record.pair_id for record in records]
    seen: list[tuple[int, int]] = []
    assert verify_pairs(source.store, pair_ids, lambda *at: seen.append(at)) == {}
    assert seen == [(done, len(ASPECTS)) for done in range(1, len(ASPECTS) + 1)]
    for record in records:
        assert deep(source, record) == ""
        assert source.store.has(VERIFIED, artifact_id(VERIFIED, verified_consumes(record.pair_id)))
        assert expected_intervals(record) == (record.high_intervals, record.low_intervals)
    monkeypatch.setattr(FrameReader, "read", None)
    assert verify_pairs(source.store, pair_ids) == {}


def test_verify_discards_only_the_pair_with_a_flipped_byte(source: Made) -> None:
    pair_ids = source.degrade().built
    record = source.pair("aesthetics")
    _, segment, path = first_degraded(source, record)
    flip(path, ZipRanges(path).ranges["planes/c/0/0/0"][0] + 100)
    result = verify_pairs(source.store, pair_ids)
    assert list(result) == [record.pair_id]
    assert result[record.pair_id].reason is Reason.DAMAGED_ARTIFACT
    assert "frames 0…" in result[record.pair_id].message
    assert not source.store.has(VERIFIED, artifact_id(VERIFIED, verified_consumes(record.pair_id)))
    assert "no complete artifact" in deep(source, record)
    # what is damaged is gone, and made again
    clip = segment.degraded_clip or ""
    assert not source.store.has(DEGRADED_CLIP, clip) and not source.store.has(PAIR, record.pair_id)
    source.degrade()
    assert source.pair("aesthetics") == record
    assert verify_pairs(source.store, pair_ids) == {}


def test_verify_finds_a_missing_clip(source: Made) -> None:
    record = source.pair("aesthetics")
    _, segment, _ = first_degraded(source, record)
    source.store.remove(DEGRADED_CLIP, segment.degraded_clip or "")
    assert "no frame array" in verify(source, record)
    assert "no complete artifact" in deep(source, record)


def test_verify_discards_a_clip_without_pixels_whose_manifest_fits(source: Made) -> None:
    """As a file that was emptied before its commit."""
    source.degrade()
    record = source.pair("aesthetics")
    _, segment, path = first_degraded(source, record)
    clip = segment.degraded_clip or ""
    with zipfile.ZipFile(path) as packed:
        kept = {name: packed.read(name) for name in packed.namelist() if "/c/" not in name}
    path.write_bytes(b"")
    append(path, kept)
    reseal(path.parent)
    assert artifact_problems(source.store, DEGRADED_CLIP, clip) == [
        f"{path.parent}: {segment.frame_count} of {segment.frame_count} frames are damaged"
    ]
    assert verify_pairs(source.store, [record.pair_id])[record.pair_id].reason is Reason.DAMAGED_ARTIFACT
    source.degrade()
    assert verify_pairs(source.store, [record.pair_id]) == {}


def test_verify_gives_no_verdict_without_an_answer(source: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    record = source.pair("aesthetics")
    monkeypatch.setattr(away, "PAUSES_S", (0.0,))
    real = os.pread
    stale = Mock(side_effect=OSError(errno.ESTALE, "Stale file handle"))
    monkeypatch.setattr(os, "pread", stale)
    with pytest.raises(OSError, match="Stale file handle"):
        verify_pairs(source.store, [record.pair_id])
    assert stale.call_count == 2
    monkeypatch.setattr(os, "pread", real)
    assert verify_pairs(source.store, [record.pair_id]) == {}


def test_verify_finds_other_frames_in_a_degraded_clip(source: Made, tmp_path: Path) -> None:
    record = source.pair("aesthetics")
    _, segment, path = first_degraded(source, record)
    count = segment.frame_count
    with zipfile.ZipFile(path) as packed:
        entries = {name: packed.read(name) for name in packed.namelist()}
    # with checksums of their own
    put(path, strangers(count))
    assert "the low side's checksum does not follow" in verify(source, record)
    assert deep(source, record)
    put(path, strangers(count + 1))
    assert f"{count + 1} degraded frames for {count}" in verify(source, record)
    # under old checksums
    put(tmp_path / "other.zarr", strangers(count))
    path.write_bytes(b"")
    append(path, {**entries, "planes/c/0/0/0": (tmp_path / "other.zarr/planes/c/0/0/0").read_bytes()})
    assert "degraded frames are damaged" in verify(source, record)
    assert deep(source, record)


@pytest.mark.parametrize("aspect", ["aesthetics", "spatial_relationship"])
def test_verify_finds_an_undegraded_clip_in_place_of_a_degraded_one(source: Made, aspect: str) -> None:
    record = source.pair(aspect)
    place, segment, path = first_degraded(source, record)
    put(path, [picture(segment.first_frame + n) for n in range(segment.frame_count)])
    assert "mean difference 0.00 is below 2" in edited(source, record, record.segments)[1]
    # nor does it help to say that the clip is as it was
    as_source = replaced(record, place, kind="source", degraded_clip=None)
    assert "not those that were drawn" in edited(source, record, as_source)[1]


def test_verify_finds_the_clip_of_another_place(source: Made) -> None:
    record = source.pair("aesthetics")
    place, segment, _ = first_degraded(source, record)
    consumes = {"stranger": True}
    with source.store.stage(DEGRADED_CLIP, consumes) as staged:
        frames = [255 - frame for frame in strangers(segment.frame_count)]
        staged.content_checksum = put(staged.path / CLIP_FILE, frames)
    segments = replaced(record, place, degraded_clip=artifact_id(DEGRADED_CLIP, consumes))
    other, found = changed(source, record, segments=segments)
    assert "the low side's checksum does not follow" in found
    # as it is found in the store too
    reseal(source.store.artifact_path(PAIR, record.pair_id), content=other.model_dump(mode="json"))
    assert f"verification_failed: aesthetics: {found}" in verify(source, record)
    assert "the low side's frames do not match their checksum" in deep(source, other)


@each_aspect
def test_verify_finds_dropped_and_swapped_segments(whole: Made, aspect: str) -> None:
    record = whole.pair(aspect)
    segments = list(record.segments)
    assert edited(whole, record, segments) == (record, "")
    for place in range(len(segments)):
        left = [*segments[:place], *segments[place + 1 :]]
        # the record as it was, but for the segment; and with everything that can be made to fit
        assert changed(whole, record, segments=tuple(left))[1]
        assert edited(whole, record, left)[1]
    for place in range(len(segments) - 1):
        turned = [*segments[:place], segments[place + 1], segments[place], *segments[place + 2 :]]
        assert changed(whole, record, segments=tuple(turned))[1]
        # with a checksum that fits: found unless the result is as good an arrangement of the same clips
        other, found = edited(whole, record, turned)
        if not found:
            assert aspect == "temporal_flow"
            assert (other.high_intervals, other.low_intervals) == expected_intervals(other)


@each_aspect
def test_verify_finds_wrong_numbers_and_intervals(whole: Made, aspect: str) -> None:
    record = whole.pair(aspect)
    for change, found in (
        ({"high_frames": record.high_frames - 1}, "the source has"),
        ({"low_frames": record.low_frames + 1}, "as many frames as the pair says"),
        ({"clips_degraded": record.clips_degraded + 1}, "clips are concerned"),
        ({"high_checksum": "x"}, "not those that the pair was made from"),
        ({"low_checksum": "x"}, "checksum does not follow"),
        ({"drawn_clips": ()}, "0 clips are concerned"),
        ({"high_intervals": ()}, "no degraded interval is marked"),
        ({"low_intervals": ()}, "no degraded interval is marked"),
    ):
        assert found in changed(whole, record, **change)[1]
    for side in ("high_intervals", "low_intervals"):
        intervals = getattr(record, side)
        (start, end), *others = intervals
        for wrong in (
            [(start + 1, end + 1), *others],
            [(start, end - 0.5), *others],
            [*intervals, (0.0, 0.5)],
        ):
            found = changed(whole, record, **{side: tuple(wrong)})[1]
            assert "intervals are not those of the edit list" in found
        assert changed(whole, record, **{side: tuple(others)})[1]


@pytest.mark.parametrize("aspect", ["aesthetics", "comprehensiveness"])
def test_verify_finds_a_changed_source_frame(source: Made, aspect: str) -> None:
    record = source.pair(aspect)
    frames = [picture(k) for k in range(record.high_frames)]
    frames[1] = np.where(frames[1] > 100, frames[1] - 1, frames[1] + 1).astype(np.uint8)
    put(frames_path(source.store, source.frames_id), frames)
    assert "the source's frames are not those" in verify(source, record)
    assert "the high side's frames do not match their checksum" in deep(source, record)


def test_verify_finds_damage_to_the_stored_source(source: Made) -> None:
    record = source.pair("temporal_flow")
    path = frames_path(source.store, source.frames_id) / "planes" / "c" / "0" / "0" / "0"
    flip(path, 2000)
    assert "1 stored frames of the source are damaged" in verify(source, record)
    assert deep(source, record)
    path.unlink()
    assert f"{record.high_frames} stored frames of the source are damaged" in verify(source, record)
    assert deep(source, record)
    (path.parents[4] / "zarr.json").unlink()
    assert "damaged_artifact: temporal_flow: no frame array in" in verify(source, record)
    source.store.remove(FRAMES, source.frames_id)
    with pytest.raises(StoreError, match="evicted"):
        verify(source, record)


def test_verify_finds_a_wrong_frame_map(whole: Made) -> None:
    record = whole.pair("dynamics_degree")
    place, segment, _ = first_degraded(whole, record)
    first, count = segment.first_frame, segment.frame_count
    for frame_map, found in (
        (range(first, first + count), "mean difference 0.00"),
        ((first,) * (count - 1), "its frame map leaves the clip"),
        ((first + count,) * count, "its frame map leaves the clip"),
        ((-1,) * count, "its frame map leaves the clip"),
    ):
        segments = replaced(record, place, frame_map=tuple(frame_map))
        assert found in changed(whole, record, segments=segments)[1]


def test_verify_finds_other_frames_in_an_untouched_segment(whole: Made) -> None:
    record = whole.pair("aesthetics")
    place, segment = next((n, s) for n, s in enumerate(record.segments) if s.kind == "source")
    segments = replaced(record, place, frame_map=(0,) * segment.frame_count)
    other, found = edited(whole, record, segments)
    assert "a segment that was not degraded has other frames" in found
    assert "untouched frames of clip" in deep(whole, other)


def test_verify_finds_a_segment_outside_the_source(whole: Made) -> None:
    record = whole.pair("temporal_flow")
    for update in ({"frame_count": 0}, {"first_frame": -1}, {"first_frame": 10_000}):
        assert changed(whole, record, segments=replaced(record, 0, **update))[1]


def test_verify_of_a_pair_that_cannot_be_read_harms_no_other(source: Made) -> None:
    pair_ids = source.degrade().built
    bad = source.pair("temporal_flow")
    reseal(source.store.artifact_path(PAIR, bad.pair_id), content={})
    result = verify_pairs(source.store, pair_ids)
    assert list(result) == [bad.pair_id]
    assert result[bad.pair_id].reason is Reason.DAMAGED_ARTIFACT
    assert not source.store.has(PAIR, bad.pair_id)


def test_verify_deep_finds_a_record_that_is_not_the_stored_one(source: Made) -> None:
    record = source.pair("temporal_flow")
    path = source.store.artifact_path(PAIR, record.pair_id) / MANIFEST_NAME
    path.write_text(path.read_text().replace('"aspect": "temporal_flow"', '"aspect": "texture"'))
    assert "does not match its own checksum" in deep(source, record)
    with pytest.raises(IntegrityError, match="does not match its own checksum"):
        read_pair(source.store, record.pair_id)
