"""Damage to everything that a pair is made of, one at a time: each must be found."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.commit import MANIFEST_NAME
from storage_schemas.errors import IntegrityError, Reason, StoreError
from storage_schemas.frames import FrameReader, Planes
from storage_schemas.ids import artifact_id
from storage_schemas.pair import PairRecord, Segment
from storage_schemas.release import CLIP_FILE, clip_path, frames_path
from storage_schemas.store import DEGRADED_CLIP, FRAMES, PAIR, VERIFIED, Store
from storage_schemas.zip_store import ZipRanges, append
from tasks.pairs.degrade import low_checksum, read_pair
from tasks.pairs.verify import expected_intervals, verified_consumes, verify_deep, verify_pairs
from tests.frame_arrays import write_frames
from tests.resealed import reseal
from tests.tasks.pairs.synthetic import ASPECTS, COLOR, Made, picture


@pytest.fixture
def source(built: Made) -> Made:
    return built


def verify(source: Made, record: PairRecord) -> str:
    """What verification says of a pair, deep and not; empty if nothing."""
    result = verify_pairs(source.store, [record.pair_id])
    return " | ".join([*(str(reason) for reason in result.values())])


def tampered(source: Made, record: PairRecord, **other: Any) -> PairRecord:
    """Write another record in place of a pair's, with a manifest that fits it."""
    changed = PairRecord.model_validate({**record.model_dump(), **other})
    folder = source.store.artifact_path(PAIR, record.pair_id)
    reseal(folder, content=changed.model_dump(mode="json"))
    return changed


def edited(source: Made, record: PairRecord, segments: list[Segment], **other: Any) -> PairRecord:
    """Write another edit list, with the checksum and the number of frames that belong to it."""
    return tampered(
        source,
        record,
        segments=[segment.model_dump() for segment in segments],
        low_frames=sum(segment.frame_count for segment in segments),
        low_checksum=low_checksum(source.store, source.facts.timeline.digests, segments),
        **other,
    )


def flip(path: Path, place: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[place] ^= 1
    path.write_bytes(raw)


def shard(store: Store, id_: str) -> Path:
    return frames_path(store, id_) / "planes" / "c" / "0" / "0" / "0"


def rewritten(source: Made, id_: str, frames: list[Planes]) -> None:
    """Replace a degraded clip's frames by others, with checksums that fit them."""
    path = clip_path(source.store, id_)
    path.unlink()
    write_frames(path, frames, map(float, range(len(frames))), COLOR)


def first_degraded(record: PairRecord) -> tuple[int, Segment]:
    return next((n, s) for n, s in enumerate(record.segments) if s.kind == "degraded")


@pytest.mark.parametrize("aspect", ASPECTS)
def test_a_good_pair_is_good(source: Made, aspect: str) -> None:
    record = source.pair(aspect)
    assert verify(source, record) == ""
    assert verify_deep(source.store, record) == []
    assert source.store.has(VERIFIED, artifact_id(VERIFIED, verified_consumes(record.pair_id)))
    assert expected_intervals(record) == (record.high_intervals, record.low_intervals)


def test_a_verified_pair_is_not_read_again(source: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    pair_ids = list(source.degrade().built)
    seen: list[tuple[int, int]] = []
    assert verify_pairs(source.store, pair_ids, lambda *at: seen.append(at)) == {}
    assert seen[-1] == (len(pair_ids), len(pair_ids))
    monkeypatch.setattr(FrameReader, "read", None)
    assert verify_pairs(source.store, pair_ids) == {}


def test_a_flipped_byte_in_a_degraded_clip_harms_its_pair_alone(source: Made) -> None:
    pair_ids = source.degrade().built
    record = source.pair("aesthetics")
    _, segment = first_degraded(record)
    path = clip_path(source.store, segment.degraded_clip or "")
    flip(path, ZipRanges(path).places["planes/c/0/0/0"][0] + 100)
    result = verify_pairs(source.store, pair_ids)
    assert list(result) == [record.pair_id]
    assert result[record.pair_id].reason is Reason.VERIFICATION_FAILED
    assert "frames 0…" in result[record.pair_id].message
    assert not source.store.has(VERIFIED, artifact_id(VERIFIED, verified_consumes(record.pair_id)))
    assert any("does not match its manifest" in problem for problem in verify_deep(source.store, record))


def test_a_degraded_clip_that_is_gone_is_found(source: Made) -> None:
    record = source.pair("aesthetics")
    _, segment = first_degraded(record)
    source.store.remove(DEGRADED_CLIP, segment.degraded_clip or "")
    assert "no frame array" in verify(source, record)
    assert any("no complete artifact" in problem for problem in verify_deep(source.store, record))


def test_other_frames_under_old_checksums_are_found(source: Made, tmp_path: Path) -> None:
    record = source.pair("aesthetics")
    _, segment = first_degraded(record)
    count = segment.frame_count
    other = tmp_path / "other.zarr"
    write_frames(other, [picture(900 + n) for n in range(count)], map(float, range(count)), COLOR)
    target = clip_path(source.store, segment.degraded_clip or "")
    with zipfile.ZipFile(target) as packed:
        entries = {name: packed.read(name) for name in packed.namelist()}
    target.unlink()
    append(target, {**entries, "planes/c/0/0/0": (other / "planes/c/0/0/0").read_bytes()})
    assert "degraded frames are damaged" in verify(source, record)
    assert verify_deep(source.store, record) != []


def test_other_frames_with_checksums_of_their_own_are_found(source: Made) -> None:
    record = source.pair("aesthetics")
    _, segment = first_degraded(record)
    frames = [picture(900 + n) for n in range(segment.frame_count)]
    rewritten(source, segment.degraded_clip or "", frames)
    assert "the low side's checksum does not follow" in verify(source, record)
    assert verify_deep(source.store, record) != []


@pytest.mark.parametrize("aspect", ["aesthetics", "spatial_relationship"])
def test_an_undegraded_clip_in_place_of_a_degraded_one_is_found(source: Made, aspect: str) -> None:
    record = source.pair(aspect)
    place, segment = first_degraded(record)
    frames = [picture(segment.first_frame + n) for n in range(segment.frame_count)]
    rewritten(source, segment.degraded_clip or "", frames)
    changed = edited(source, record, list(record.segments))
    assert "mean difference 0.00 is below 2" in verify(source, changed)
    # nor does it help to say that the clip is as it was
    segments = list(record.segments)
    segments[place] = segment.model_copy(update={"kind": "source", "degraded_clip": None})
    changed = edited(source, record, segments)
    assert "not those that were drawn" in verify(source, changed)


def test_too_few_or_too_many_degraded_frames_are_found(source: Made) -> None:
    record = source.pair("aesthetics")
    _, segment = first_degraded(record)
    frames = [picture(900 + n) for n in range(segment.frame_count + 1)]
    rewritten(source, segment.degraded_clip or "", frames)
    assert f"{segment.frame_count + 1} degraded frames for {segment.frame_count}" in verify(source, record)


def test_the_clip_of_another_place_is_found(source: Made) -> None:
    record = source.pair("aesthetics")
    place, segment = first_degraded(record)
    stranger = [255 - picture(700 + n) for n in range(segment.frame_count)]
    consumes = {"stranger": True}
    with source.store.stage(DEGRADED_CLIP, consumes) as staged:
        write_frames(staged.path / CLIP_FILE, stranger, map(float, range(len(stranger))), COLOR)
    segments = list(record.segments)
    other = artifact_id(DEGRADED_CLIP, consumes)
    segments[place] = segment.model_copy(update={"degraded_clip": other})
    changed = tampered(source, record, segments=[s.model_dump() for s in segments])
    assert "the low side's checksum does not follow" in verify(source, changed)
    assert "the low side's frames do not match their checksum" in verify_deep(source.store, changed)


@pytest.mark.parametrize("aspect", ASPECTS)
def test_a_dropped_segment_is_found(source: Made, aspect: str) -> None:
    record = source.pair(aspect)
    for place in range(len(record.segments)):
        segments = [s for n, s in enumerate(record.segments) if n != place]
        # the record as it was, but for the segment
        assert verify(source, tampered(source, record, segments=[s.model_dump() for s in segments]))
        # with everything that can be made to fit
        assert verify(source, edited(source, record, segments))


@pytest.mark.parametrize("aspect", ASPECTS)
def test_two_swapped_segments_are_found(source: Made, aspect: str) -> None:
    record = source.pair(aspect)
    for place in range(len(record.segments) - 1):
        segments = list(record.segments)
        segments[place : place + 2] = segments[place + 1], segments[place]
        assert verify(source, tampered(source, record, segments=[s.model_dump() for s in segments]))
        # with a checksum that fits: found unless the result is as good an arrangement of the same clips
        changed = edited(source, record, segments)
        result = verify(source, changed)
        if not result:
            assert aspect == "temporal_flow"
            assert (changed.high_intervals, changed.low_intervals) == expected_intervals(changed)
            return
    tampered(source, record)
    assert verify(source, record) == ""


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"high_frames": -1}, "the source has"),
        ({"low_frames": 1}, "as many frames as the pair says"),
        ({"clips_degraded": 1}, "clips are concerned"),
        ({"high_checksum": "x"}, "not those that the pair was made from"),
        ({"low_checksum": "x"}, "checksum does not follow"),
        ({"drawn_clips": ()}, "0 clips are concerned"),
        ({"high_intervals": ()}, "no degraded interval is marked"),
        ({"low_intervals": ()}, "no degraded interval is marked"),
    ],
)
@pytest.mark.parametrize("aspect", ASPECTS)
def test_wrong_numbers_are_found(source: Made, aspect: str, change: dict[str, Any], found: str) -> None:
    record = source.pair(aspect)
    values = {
        name: getattr(record, name) + value if isinstance(value, int) else value
        for name, value in change.items()
    }
    assert found in verify(source, tampered(source, record, **values))


@pytest.mark.parametrize("side", ["high_intervals", "low_intervals"])
@pytest.mark.parametrize("aspect", ASPECTS)
def test_a_wrong_interval_is_found(source: Made, aspect: str, side: str) -> None:
    record = source.pair(aspect)
    intervals = getattr(record, side)
    (start, end), *others = intervals
    for wrong in ([(start + 1, end + 1), *others], [(start, end - 0.5), *others], [*intervals, (0.0, 0.5)]):
        assert "intervals are not those of the edit list" in verify(
            source, tampered(source, record, **{side: wrong})
        )
    if others:
        assert verify(source, tampered(source, record, **{side: others}))


@pytest.mark.parametrize("aspect", ASPECTS)
def test_a_changed_source_frame_is_found(source: Made, aspect: str) -> None:
    record = source.pair(aspect)
    frames = [picture(k) for k in range(record.high_frames)]
    frames[1] = np.where(frames[1] > 100, frames[1] - 1, frames[1] + 1).astype(np.uint8)
    path = frames_path(source.store, source.frames_id)
    shutil.rmtree(path)
    write_frames(path, frames, map(float, range(len(frames))), COLOR)
    assert "the source's frames are not those" in verify(source, record)
    assert "the high side's frames do not match their checksum" in verify_deep(source.store, record)


def test_damage_to_the_stored_source_is_found(source: Made) -> None:
    record = source.pair("temporal_flow")
    path = shard(source.store, source.frames_id)
    flip(path, 2000)
    assert "1 stored frames of the source are damaged" in verify(source, record)
    assert verify_deep(source.store, record) != []
    path.unlink()
    assert f"{record.high_frames} stored frames of the source are damaged" in verify(source, record)
    assert verify_deep(source.store, record) != []


def test_evicted_frames_cannot_be_verified(source: Made) -> None:
    record = source.pair("temporal_flow")
    source.store.remove(FRAMES, source.frames_id)
    with pytest.raises(StoreError, match="evicted"):
        verify_pairs(source.store, [record.pair_id])


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda s: tuple(range(s.first_frame, s.first_frame + s.frame_count)), "mean difference 0.00"),
        (lambda s: (s.first_frame,) * (s.frame_count - 1), "its frame map leaves the clip"),
        (lambda s: (s.first_frame + s.frame_count,) * s.frame_count, "its frame map leaves the clip"),
        (lambda s: (-1,) * s.frame_count, "its frame map leaves the clip"),
    ],
)
def test_a_wrong_frame_map_is_found(
    source: Made, change: Callable[[Segment], tuple[int, ...]], found: str
) -> None:
    record = source.pair("dynamics_degree")
    place, segment = first_degraded(record)
    segments = list(record.segments)
    segments[place] = segment.model_copy(update={"frame_map": change(segment)})
    assert found in verify(source, tampered(source, record, segments=[s.model_dump() for s in segments]))


def test_other_frames_in_an_untouched_segment_are_found(source: Made) -> None:
    record = source.pair("aesthetics")
    place, segment = next((n, s) for n, s in enumerate(record.segments) if s.kind == "source")
    segments = list(record.segments)
    segments[place] = segment.model_copy(update={"frame_map": (0,) * segment.frame_count})
    changed = edited(source, record, segments)
    assert "a segment that was not degraded has other frames" in verify(source, changed)
    assert any("untouched frames of clip" in problem for problem in verify_deep(source.store, changed))


@pytest.mark.parametrize("update", [{"frame_count": 0}, {"first_frame": -1}, {"first_frame": 10_000}])
def test_a_segment_outside_the_source_is_found(source: Made, update: dict[str, int]) -> None:
    record = source.pair("temporal_flow")
    segments = [record.segments[0].model_copy(update=update), *record.segments[1:]]
    assert verify(source, tampered(source, record, segments=[s.model_dump() for s in segments]))


def test_a_pair_file_that_cannot_be_read_harms_no_other(source: Made) -> None:
    pair_ids = source.degrade().built
    bad = source.pair("temporal_flow")
    reseal(source.store.artifact_path(PAIR, bad.pair_id), content={})
    result = verify_pairs(source.store, pair_ids)
    assert list(result) == [bad.pair_id]
    assert result[bad.pair_id].reason is Reason.CHECKSUM_MISMATCH


def test_deep_finds_a_record_that_is_not_the_stored_one(source: Made) -> None:
    record = source.pair("temporal_flow")
    path = source.store.artifact_path(PAIR, record.pair_id) / MANIFEST_NAME
    path.write_text(path.read_text().replace('"aspect": "temporal_flow"', '"aspect": "texture"'))
    assert any("does not match its own checksum" in problem for problem in verify_deep(source.store, record))
    with pytest.raises(IntegrityError, match="does not match its own checksum"):
        read_pair(source.store, record.pair_id)
