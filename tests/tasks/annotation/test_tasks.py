"""A pair of a real release as a task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from storage_schemas.release import Release
from tasks.annotation.media import media_tasks, pair_media, write_media
from tasks.annotation.tasks import PairMedia, task_of
from tasks.annotation.viewing import Film, believed, reachable
from tasks.pairs.intervals import merged
from tests.tasks.publish.conftest import Small, build_small  # noqa: F401 - a fixture

MEDIA = PairMedia(high_file="a.mp4", low_file="b.mp4", high_bytes=10, low_bytes=9, low_index=((0.0, 3),))


@pytest.fixture(scope="module")
def release(
    build_small: Callable[[Path], Small],  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Release:
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
    assert (task.file_of("high"), task.bytes_of("low"), task.index_of("low"), task.gold) == (
        "a.mp4",
        9,
        ((0.0, 3),),
        True,
    )
    assert task_of(release, record, MEDIA, ["one"]).prompt_clips[0].translation == "one"


def test_what_has_to_be_seen_is_what_the_release_says_is_degraded(release: Release) -> None:
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
    film = Film(task.low_s, task.low_bytes, task.low_index)
    assert reachable(((0, film.size),), film.index, film.size, film.seconds) == ((0.0, film.seconds),)
    assert believed((), [(0, 1e9)], film, 1e9, 2.0, ((0, film.size),)).seen == ((0.0, film.seconds),)
    half = film.size // 2
    (part,) = reachable(((0, half),), film.index, film.size, film.seconds)
    assert part[0] == 0.0 < part[1] < film.seconds
    (rest,) = reachable(((half, film.size),), film.index, film.size, film.seconds)
    assert part[1] <= rest[0] and rest[1] == film.seconds
