"""A pair of a real release as a task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_schemas.errors import UserInputError
from storage_schemas.pair import PairRecord, Segment
from storage_schemas.release import Release
from storage_schemas.source import ClipRow
from tasks.annotation.desk.playback import ServedVideo, accepted, reachable
from tasks.annotation.media import media_tasks, pair_media, write_media
from tasks.annotation.pair_task import PairMedia, PairTask, first_look, must_see, task_of
from tasks.aspects.base import ClipSpan
from tasks.pairs.intervals import degraded_intervals, merged, reordered, replaced, units
from tests.tasks.publish.conftest import Small
from tests.tasks.publish.judging import clip_rows, pair_record

MEDIA = PairMedia(high_file="a.mp4", low_file="b.mp4", high_bytes=10, low_bytes=9, low_index=((0.0, 3),))


Build = Callable[[Path], Small]


@pytest.fixture(scope="module")
def release(build_small: Build, tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build_small(tmp_path_factory.mktemp("tasks")).release


def test_a_task_has_the_prompt_by_clip_and_the_two_videos(release: Release) -> None:
    record = release.pairs()[0]
    clips = release.clips(record.source_id)
    task = task_of(release, record, MEDIA, {clips[1].clip: "翻訳"}, gold=True)
    assert [clip.caption for clip in task.prompt_clips] == [clip.caption for clip in clips]
    assert [clip.translation for clip in task.prompt_clips] == ["", "翻訳"] + [""] * (len(clips) - 2)
    assert [clip.start_s for clip in task.prompt_clips] == [clip.start_s for clip in clips]
    assert (task.pair_id, task.source_id, task.aspect) == (record.pair_id, record.source_id, record.aspect)
    assert (task.high_s, task.low_s) == (record.high_frames / record.fps, record.low_frames / record.fps)
    assert (task.file_of("high"), task.bytes_of("low"), task.gold) == ("a.mp4", 9, True)
    assert task.index_of("low") == ((0.0, 3),)
    assert task_of(release, record, MEDIA, ["one"]).prompt_clips[0].translation == "one"


def test_must_see_is_what_the_release_says_is_degraded(release: Release) -> None:
    for record in release.pairs():
        task = task_of(release, record, MEDIA)
        seen = {
            side: [(s.start_s, s.end_s) for s in task.must_see if s.video == side] for side in ("high", "low")
        }
        assert merged(seen["low"]) == record.low_intervals, record.aspect
        both = record.aspect in ("comprehensiveness", "temporal_flow")
        assert merged(seen["high"]) == (record.high_intervals if both else ()), record.aspect
    assert {"comprehensiveness", "temporal_flow"} <= {record.aspect for record in release.pairs()}


def test_a_real_video_can_be_seen_once_it_was_sent_and_no_sooner(release: Release) -> None:
    (first, *_) = media_tasks(release, release.pairs(), b"k" * 32)
    write_media(release, first)
    files = first.pairs[0]
    record = release.pair(files.pair_id)
    task = task_of(release, record, pair_media(release.store.root, files))
    film = ServedVideo(task.low_s, task.low_bytes, task.low_index)
    assert reachable(((0, film.size),), film.index, film.size, film.seconds) == ((0.0, film.seconds),)
    assert accepted((), [(0, 1e9)], film, 1e9, ((0, film.size),)).seen == ((0.0, film.seconds),)
    half = film.size // 2
    (part,) = reachable(((0, half),), film.index, film.size, film.seconds)
    assert part[0] == 0.0 < part[1] < film.seconds
    (rest,) = reachable(((half, film.size),), film.index, film.size, film.seconds)
    assert part[1] <= rest[0]
    assert rest[1] == film.seconds


#: A gap of 2 frames, six clips, the fourth without frames, a gap of 4 before the last.
PLACES = ((2, 8), (10, 10), (20, 10), (30, 0), (30, 10), (44, 16))
SPANS = [ClipSpan(index, first, count) for index, (first, count) in enumerate(PLACES)]
FRAMES = 60
CLIPS = clip_rows("s", PLACES)
SOURCE = units(SPANS, FRAMES)


def record(
    segments: list[Segment], drawn: list[int], fps: float = 1.0, choices: dict[str, Any] | None = None
) -> PairRecord:
    high, low = degraded_intervals(SOURCE, segments, drawn, fps)
    names = {"pair_id": "p", "frames_id": "f", "category": "quality", "operation": "any"}
    changed = {"high_frames": FRAMES, "high_intervals": high, "low_intervals": low}
    return pair_record("s", "any", segments, drawn, fps=fps, choices=choices or {}, **names, **changed)


Row = tuple[str, float, float, str]


def seen_of(pair: PairRecord, clips: list[ClipRow] = CLIPS) -> list[Row]:
    return [(one.video, one.start_s, one.end_s, one.kind) for one in must_see(pair, clips)]


def without(*clips: int, order: tuple[int, ...] | None = None) -> PairRecord:
    """A pair whose low side lacks clips, or has all in another order."""
    rest = [clip for clip in (0, 1, 2, 4, 5) if clip not in clips]
    return record(reordered(SOURCE, list(order or rest), list(clips)), list(clips))


def degraded(*clips: int) -> list[Segment]:
    changed = {
        unit.clip: unit.model_copy(update={"kind": "degraded"})
        for unit in SOURCE
        if unit.clip is not None and unit.clip in clips
    }
    return replaced(SOURCE, changed)


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        # changed in place: one by one on the low side
        (
            record(degraded(1, 2, 5), [5, 1, 2]),
            [("low", 10, 20, "degraded"), ("low", 20, 30, "degraded"), ("low", 44, 60, "degraded")],
        ),
        # seconds are frames by the frame rate
        (record(degraded(1), [1], fps=2.0), [("low", 5, 10, "degraded")]),
        # removed, seen on the high side, with joins on the low one: clip 0 2–10, 2 10–20, 4 20–30, gap 30–34
        (
            without(5, 1),
            [
                ("high", 10, 20, "removed"),
                ("high", 44, 60, "removed"),
                ("low", 8, 12, "join"),
                ("low", 32, 34, "join"),
            ],
        ),
        # neighbours that were removed leave one join
        (without(1, 2), [("high", 10, 20, "removed"), ("high", 20, 30, "removed"), ("low", 8, 12, "join")]),
        # near joins run together: at 30, and at 34, the end
        (without(4, 5), [("high", 30, 40, "removed"), ("high", 44, 60, "removed"), ("low", 28, 34, "join")]),
        # moved, seen on both sides: gap 0–2, clip 2 2–12, 0 12–20, 1 20–30, 5 30–46, gap 46–50, 4 50–60
        (
            without(1, 2, order=(2, 0, 1, 5, 4)),
            [
                ("high", 10, 20, "moved"),
                ("high", 20, 30, "moved"),
                ("low", 2, 12, "moved"),
                ("low", 20, 30, "moved"),
            ],
        ),
    ],
)
def test_must_see_of_changed_removed_and_moved_clips(pair: PairRecord, expected: list[Row]) -> None:
    assert seen_of(pair) == expected


def test_a_clip_removed_at_the_beginning_leaves_a_join_there() -> None:
    clips = [clip for clip in CLIPS if clip.clip < 2]
    clips[0] = clips[0].model_copy(update={"first_frame": 0, "frame_count": 10})
    source = units([ClipSpan(0, 0, 10), ClipSpan(1, 10, 10)], 20)
    segments = reordered(source, [1], [0])
    high, low = degraded_intervals(source, segments, [0], 1.0)
    pair = record(segments, [0]).model_copy(update={"high_intervals": high, "low_intervals": low})
    assert seen_of(pair, clips) == [("high", 0, 10, "removed"), ("low", 0, 2, "join")]


def test_notes_tell_what_the_operation_chose() -> None:
    choices = {
        "0": {"style": "pencil"},
        "1": {"object": "car", "color": "red", "new_color": "blue", "instruction": "…"},
        "2": {"object": "dog", "boxes": []},
        "4": {"subject": "man"},
        "5": {"images": ["x"]},
    }
    stretches = must_see(record(degraded(0, 1, 2, 4, 5), [0, 1, 2, 4, 5], choices=choices), CLIPS)
    assert [stretch.note for stretch in stretches] == ["pencil", "car: red → blue", "dog", "man", ""]


def test_a_pair_without_damage_cannot_be_annotated() -> None:
    with pytest.raises(UserInputError, match="pair p has no degraded clip"):
        must_see(record(list(SOURCE), []), CLIPS)


def total(intervals: Any) -> float:
    return float(sum(end - start for start, end in intervals))


def test_the_first_look_is_all_that_is_changed_among_as_many_other_clips() -> None:
    stretches = must_see(record(degraded(1, 4), [1, 4]), CLIPS)
    look = first_look("p", stretches, CLIPS, 1.0)
    # clips of 10 s are changed; of the others 0, 2 and 5 the two that are drawn for this pair
    assert all(any(a <= s.start_s and s.end_s <= b for a, b in look) for s in stretches)
    assert total(look) - 20 in (8 + 10, 8 + 16, 10 + 16)
    assert look == first_look("p", stretches, CLIPS, 1.0)
    assert len({first_look(f"pair {n}", stretches, CLIPS, 1.0) for n in range(30)}) == 3


@settings(max_examples=25)
@given(st.sets(st.sampled_from([0, 1, 2, 4, 5]), min_size=1), st.text(max_size=5))
def test_the_first_look_never_repeats_anything_and_ends_with_the_clips(drawn: set[int], pair: str) -> None:
    stretches = must_see(record(degraded(*drawn), sorted(drawn)), CLIPS)
    look = first_look(pair, stretches, CLIPS, 1.0)
    assert look == merged(look)
    others = total(look) - total(merged([(s.start_s, s.end_s) for s in stretches]))
    spans = {span.index: span.frame_count for span in SPANS if span.frame_count}
    free = [spans[clip] for clip in set(spans) - drawn]
    assert others <= sum(free)
    assert (others == 0) == (not free)
    assert look[-1][1] <= FRAMES


def test_watch_s_follows_from_the_share_or_the_stretches(release: Release) -> None:
    for one in release.pairs():
        task = task_of(release, one, MEDIA)
        longer = max(task.high_s, task.low_s)
        # both play side by side, and what was changed is watched after the first answer
        for share in (0.5, 1.0):
            assert task.watch_s(share) == pytest.approx(share * longer + changed_s(task))
        looked = max(total(task.looks(side)) for side in ("high", "low"))
        assert task.watch_s(0.0) == pytest.approx(looked + changed_s(task))
        assert task.looks("high")[-1][1] <= task.high_s
        assert all(start < end <= task.low_s for start, end in task.looks("low"))


def changed_s(task: PairTask) -> float:
    return total(merged([(s.start_s, s.end_s) for s in task.must_see]))
