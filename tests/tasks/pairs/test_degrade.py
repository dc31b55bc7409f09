from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from storage_schemas.commit import set_commit_hook
from storage_schemas.errors import IntegrityError, Reason, StoreError
from storage_schemas.frames import FrameReader, Planes
from storage_schemas.ids import digest_frame, digest_frames
from storage_schemas.pair import PairRecord
from storage_schemas.store import DEGRADED_CLIP, PAIR
from tasks.aspects.aesthetics import eq_contrast_table
from tasks.aspects.base import PixelOperation
from tasks.pairs import clip_frames
from tasks.pairs.degrade import degrade_source, read_pair
from tasks.pairs.view import open_record
from tests.resealed import reseal
from tests.tasks.pairs.synthetic import ASPECTS, HEIGHT, RECIPE, WIDTH, Made, NoModels, make_source, picture


@pytest.fixture(autouse=True)
def no_hook() -> Iterator[None]:
    yield
    set_commit_hook(None)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Which frames of which artifact were read."""
    noted: list[tuple[str, int, int]] = []
    original = FrameReader.read

    def read(self: FrameReader, first: int, count: int = 1) -> Planes:
        noted.append((self.path.parent.name, first, count))
        return original(self, first, count)

    monkeypatch.setattr(FrameReader, "read", read)
    return noted


def flat(number: int) -> Planes:
    """Grey that the paper's contrast leaves as it is, and that looks the same in a mirror."""
    return np.full((HEIGHT * 3 // 2, WIDTH), 127, np.uint8)


def low(source: Made, record: PairRecord) -> list[Planes]:
    return list(open_record(source.store, record, "").low)


def test_every_aspect_gives_its_pair(source: Made) -> None:
    seen: list[tuple[int, int]] = []

    def progress(*told: int) -> None:
        seen.append((told[0], told[1]))

    result = degrade_source(source.store, source.facts, source.jobs(), NoModels(), progress)
    assert seen == [(done, 9) for done in range(1, 10)]
    assert result.set_aside == {}
    assert set(result.built) == {job.pair_id for job in source.jobs()}
    for job in source.jobs():
        record = read_pair(source.store, job.pair_id)
        assert record.clips_degraded == len(record.drawn_clips) == 3
        assert record.low_checksum == digest_frames(digest_frame(frame) for frame in low(source, record))
        assert record.high_checksum == digest_frames(source.facts.timeline.digests)
    # only degraded clips are stored
    stored = Counter(m.content["operation"] for m in source.store.manifests(DEGRADED_CLIP))
    assert stored == {"ffmpeg-eq": 3, "horizontal-flip": 3}
    for manifest in source.store.manifests(DEGRADED_CLIP):
        span = source.facts.spans[manifest.content["clip"]]
        assert manifest.content["frames"] == span.frame_count
        assert manifest.content["first_frame"] == span.first_frame
        assert manifest.content["difference"] >= 2.0


def test_frames_are_what_the_operations_say(source: Made) -> None:
    record = source.pair("aesthetics")
    table = eq_contrast_table(-0.8)
    drawn = {k for n in record.drawn_clips for k in _frames(source, n)}
    for k, frame in enumerate(low(source, record)):
        expected = picture(k)
        if k in drawn:
            expected[:HEIGHT] = table[expected[:HEIGHT]]
        assert np.array_equal(frame, expected)
    record = source.pair("dynamics_degree")
    frozen = low(source, record)
    for n in record.drawn_clips:
        own = _frames(source, n)
        assert all(np.array_equal(frozen[k], picture(own[len(own) // 2])) for k in own)


def _frames(source: Made, clip: int) -> range:
    span = source.facts.spans[clip]
    return range(span.first_frame, span.first_frame + span.frame_count)


def test_degrade_reads_a_clip_once_for_all_aspects(source: Made, reads: list[tuple[str, int, int]]) -> None:
    built = source.degrade().built
    pixels = [read for read in reads if read[0] == source.frames_id]
    assert pixels
    assert max(Counter(pixels).values()) == 1
    drawn = {n for job in source.jobs() for n in read_pair(source.store, job.pair_id).drawn_clips}
    spans = [source.facts.spans[n] for n in drawn]
    assert {read[1:] for read in pixels} <= {(span.first_frame, span.frame_count) for span in spans}
    reads.clear()
    points: list[str] = []
    set_commit_hook(points.append)
    assert source.degrade().built == built
    assert (reads, points) == ([], [])


def test_long_clip_is_read_in_parts(source: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = source.pair("aesthetics")
    monkeypatch.setattr(clip_frames, "BLOCK_FRAMES", 2)
    monkeypatch.setattr(PixelOperation, "frames_at_once", 2)
    assert make_source(tmp_path / "other").pair("aesthetics") == whole


def test_what_was_committed_is_not_made_again(source: Made) -> None:
    class StopError(BaseException):
        pass

    made: list[str] = []

    def stop_at_third(point: str) -> None:
        if point == f"{DEGRADED_CLIP}:renamed":
            made.append(point)
            if len(made) == 3:
                raise StopError

    set_commit_hook(stop_at_third)
    with pytest.raises(StopError):
        source.degrade()
    set_commit_hook(made.append)
    assert source.degrade().set_aside == {}
    assert made.count(f"{DEGRADED_CLIP}:renamed") == 6
    assert made.count(f"{DEGRADED_CLIP}:staged") == 3


def test_aspects_do_not_depend_on_each_other(built: Made, tmp_path: Path) -> None:
    for aspect in ASPECTS:
        assert make_source(tmp_path / aspect).pair(aspect) == built.pair(aspect)


def test_degrade_replaces_a_clip_that_does_not_change(source: Made, tmp_path: Path) -> None:
    (job,) = source.jobs("aesthetics")
    first = job.draw[0].index
    grey = set(_frames(source, first))
    other = make_source(tmp_path / "grey", show=lambda k: flat(k) if k in grey else picture(k))
    record = other.pair("aesthetics")
    assert set(record.drawn_clips) == {span.index for span in job.draw[1:4]}
    assert list(record.passed_over) == [str(first)]
    assert "mean difference 0.00 is below 2" in record.passed_over[str(first)]
    assert not any(m.content["clip"] == first for m in other.store.manifests(DEGRADED_CLIP))
    assert list(other.store.staging.iterdir()) == []
    # nor is a motionless clip frozen
    (job,) = source.jobs("dynamics_degree")
    frames = _frames(source, job.draw[0].index)
    still = make_source(tmp_path / "s", show=lambda k: picture(frames[0] if k in frames else k))
    assert list(still.pair("dynamics_degree").passed_over) == [str(job.draw[0].index)]


def test_a_pair_that_runs_out_of_clips_is_set_aside_and_costs_no_other(made: Callable[..., Made]) -> None:
    source = made(show=flat)
    result = source.degrade()
    by_aspect = {job.aspect.name: job.pair_id for job in source.jobs()}
    failed = {"aesthetics", "spatial_relationship", "dynamics_degree"}
    assert set(result.set_aside) == {by_aspect[aspect] for aspect in failed}
    assert set(result.built) == {by_aspect[aspect] for aspect in set(ASPECTS) - failed}
    for reason in result.set_aside.values():
        assert reason.reason is Reason.NOT_DIFFERENT_ENOUGH
        assert "3 are needed" in reason.message
    assert not any(source.store.has(PAIR, by_aspect[aspect]) for aspect in failed)
    assert list(source.store.manifests(DEGRADED_CLIP)) == []


def test_fewer_clips_of_the_same_draw_share_their_frames(made: Callable[..., Made]) -> None:
    source = made()
    source.pair("aesthetics")
    before = {manifest.id for manifest in source.store.manifests(DEGRADED_CLIP)}
    source.recipe = RECIPE.model_copy(update={"clips_per_pair": 2})
    fewer = source.pair("aesthetics")
    assert {s.degraded_clip for s in fewer.segments if s.degraded_clip} < before
    source.recipe = RECIPE.model_copy(update={"clips_per_pair": 5})
    source.pair("aesthetics")
    assert before < {manifest.id for manifest in source.store.manifests(DEGRADED_CLIP)}


def test_a_damaged_pair_file_is_reported(source: Made) -> None:
    record = source.pair("temporal_flow")
    folder = source.store.artifact_path(PAIR, record.pair_id)
    reseal(folder, content={})
    with pytest.raises(IntegrityError, match=r"record of pair .* does not fit"):
        read_pair(source.store, record.pair_id)
    with pytest.raises(StoreError, match="no complete artifact"):
        read_pair(source.store, "0" * 64)
