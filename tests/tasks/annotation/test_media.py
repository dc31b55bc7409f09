"""The videos that workers see: what they reveal, and what happens when work is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from storage_schemas.errors import IntegrityError, StoreError
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from storage_schemas.store import FRAMES, Store
from storage_schemas.votes import Check, check_id
from tasks.annotation import media
from tasks.annotation.campaign import Campaign
from tasks.annotation.installation import media_folder
from tasks.annotation.media import (
    MediaTask,
    MediaWork,
    PairFiles,
    byte_index,
    clear_drafts,
    clear_old_drafts,
    media_stage,
    media_tasks,
    pair_media,
    write_media,
)
from tasks.annotation.pair_task import first_look, must_see
from tasks.annotation.publish import check_tasks_of, equal_pairs, pair_tasks, showing
from tasks.publish.pair_videos import materialise_pair
from tests.tasks.publish.conftest import Small

KEY = b"k" * 32


Build = Callable[[Path], Small]


@dataclass(frozen=True)
class Published:
    """A release with all its videos written."""

    release: Release
    tasks: list[MediaTask]

    @property
    def folder(self) -> Path:
        return folder_of(self.release)

    @property
    def pairs(self) -> list[tuple[PairFiles, Path, Path]]:
        """Each pair with its high and its low video."""
        pairs = [pair for task in self.tasks for pair in task.pairs]
        return [(pair, self.folder / pair.high, self.folder / pair.low) for pair in pairs]


@pytest.fixture(scope="module")
def published(build_small: Build, tmp_path_factory: pytest.TempPathFactory) -> Published:
    release = build_small(tmp_path_factory.mktemp("shown")).release
    tasks = media_tasks(release, release.pairs(), KEY)
    for task in tasks:
        assert write_media(release, task) == 2 * len(task.pairs)
    assert len(list(folder_of(release).iterdir())) == sum(2 * len(task.pairs) for task in tasks)
    return Published(release, tasks)


def folder_of(release: Release) -> Path:
    return media_folder(release.store.root)


def facts(path: Path) -> dict[str, Any]:
    """Return all metadata of a file except its frames, its length and their counts."""
    with av.open(str(path)) as file:
        (stream,) = file.streams
        coding = stream.codec_context
        return {
            "streams": len(file.streams),
            "file": dict(file.metadata),
            "stream": dict(stream.metadata),
            "format": file.format.name,
            "chapters": file.chapters(),
            "first": (file.start_time, stream.start_time, stream.language, stream.disposition),
            "time": (stream.time_base, stream.average_rate, stream.base_rate),
            "extradata": bytes(coding.extradata or b""),
            "size": (coding.width, coding.height, coding.format.name, coding.profile),
            "brands": path.read_bytes()[:32],
            "modified": path.stat().st_mtime_ns,
            "mode": path.stat().st_mode,
        }


def frames(path: Path) -> list[np.ndarray[Any, Any]]:
    with av.open(str(path)) as file:
        return [frame.to_ndarray(format="yuv420p") for frame in file.decode(video=0)]


def nal_starts(data: bytes) -> list[int]:
    starts, at = [], 0
    while at < len(data):
        starts.append(at)
        at += 4 + int.from_bytes(data[at : at + 4], "big")
    return starts


def test_both_sides_say_the_same_of_themselves(published: Published) -> None:
    for _, *paths in published.pairs:
        high, low = (facts(path) for path in paths)
        assert high == low
        assert not {"comment", "encoder"} & high["file"].keys()
        # the names of the streams' handlers are the same everywhere and reveal nothing
        assert high["stream"].keys() <= {"language", "handler_name", "vendor_id"}
        for path in paths:
            data = path.read_bytes()
            # no mark of the encoder tells where it began
            assert b"x264" not in data
            with av.open(str(path)) as file:
                coding = file.streams.video[0].codec_context
                packets = [packet for packet in file.demux(video=0) if packet.size]
                parts = [bytes(packet) for packet in packets]
                kinds = {part[at + 4] & 31 for part in parts for at in nal_starts(part)}
                # browsers can play it while it comes
                assert (coding.name, coding.pix_fmt, coding.profile) == ("h264", "yuv420p", "High")
                assert packets[0].is_keyframe
            # slices, and the marks between pictures
            assert kinds == {1, 5, 9}
            assert data.index(b"moov") < data.index(b"mdat")


def test_the_pictures_are_those_of_the_pair(published: Published, tmp_path: Path) -> None:
    release = published.release
    for pair, high, low in published.pairs[: len(published.tasks[0].pairs)]:
        record = release.pair(pair.pair_id)
        plain = materialise_pair(release.store, record, release.clips(record.source_id), tmp_path / pair.low)
        shown = first_look_frames(release, record)
        for mine, theirs in ((high, plain["high"]), (low, plain["low"])):
            both = list(zip(frames(mine), frames(theirs), strict=True))
            # where clips are changed in place, what is not shown first is copied
            assert record.aspect in ("comprehensiveness", "temporal_flow") or all(
                np.array_equal(*pair) for place, pair in enumerate(both) if place not in shown
            )
            assert all(np.abs(one.astype(int) - other).mean() < 4 for one, other in both)


def first_look_frames(release: Release, record: PairRecord) -> set[int]:
    clips = release.clips(record.source_id)
    spans = first_look(record.pair_id, must_see(record, clips), clips, record.fps)
    return {
        place for start, end in spans for place in range(round(start * record.fps), round(end * record.fps))
    }


def test_names_tell_nothing_and_no_file_is_shown_twice(published: Published) -> None:
    release = published.release
    paths = [path for _, *both in published.pairs for path in both]
    assert len(set(paths)) == len({path.stat().st_ino for path in paths}) == len(paths)
    others = media_tasks(release, release.pairs(), b"another key of another installation")
    named = {name for task in others for pair in task.pairs for name in (pair.high, pair.low)}
    assert not named & {path.name for path in paths}
    assert media_tasks(release, release.pairs(), KEY) == published.tasks


def test_write_media_fills_gaps(build_small: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = build_small(tmp_path).release
    task = media_tasks(release, release.pairs("aesthetics"), KEY)[0]
    assert write_media(release, task) == 2
    low = folder_of(release) / task.pairs[0].low
    before = low.read_bytes()
    assert write_media(release, task) == 0
    low.unlink()
    # interrupted in the middle: no incomplete file under the name, and no leftovers
    with monkeypatch.context() as patch:
        patch.setattr(media, "sync_path", lambda _path: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            write_media(release, task)
    assert not low.exists()
    assert not list(folder_of(release).glob(".*"))
    assert write_media(release, task) == 2
    assert low.read_bytes() == before


def test_media_stage_at_once_and_with_frames_gone(build_small: Build, tmp_path: Path) -> None:
    release = build_small(tmp_path).release
    first, second = tasks = media_tasks(release, release.pairs(), KEY)
    work = MediaWork(str(release.store.root), release.name, release.version)
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda task: media_stage(work, task), tasks * 3))
    assert not [row for outcome in outcomes for row in outcome.rows]
    folder = folder_of(release)
    for pair in (pair for task in tasks for pair in task.pairs):
        record = release.pair(pair.pair_id)
        assert len(frames(folder / pair.high)) == record.high_frames
        assert len(frames(folder / pair.low)) == record.low_frames
        for name in (pair.high, pair.low):
            (folder / name).unlink()
    release.store.remove(FRAMES, release.source(first.id).frames_id)
    outcome = media_stage(work, first)
    assert outcome.written == 0
    assert "were evicted" in outcome.rows[0]
    assert media_stage(work, second).rows == ()
    with pytest.raises(StoreError):
        write_media(release, first)


def test_drafts_of_killed_processes_are_cleared_and_younger_ones_left(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store")
    folder = media_folder(store.root)
    folder.mkdir(parents=True)
    (folder / ".draft.mp4").write_bytes(b"half")
    (folder / "whole.mp4").write_bytes(b"whole")
    assert clear_drafts(store.root) == 0
    assert clear_old_drafts([folder, store.root / "none"], older_s=-1) == 1
    assert [path.name for path in folder.iterdir()] == ["whole.mp4"]


def test_byte_index_has_the_place_of_each_second(published: Published) -> None:
    release = published.release
    pair, _, path = published.pairs[0]
    media = pair_media(release.store.root, pair)
    record = release.pair(pair.pair_id)
    assert (media.low_file, media.low_bytes) == (pair.low, path.stat().st_size)
    assert [second for second, _ in media.low_index] == [n / record.fps for n in range(record.low_frames)]
    with av.open(str(path)) as file:
        read = [(float(one.pts * one.time_base), one.pos) for one in file.demux(video=0) if one.size]
    assert list(media.low_index) == read
    places = [byte for _, byte in media.low_index]
    assert places == sorted(set(places))
    assert path.read_bytes().index(b"mdat") < places[0]
    assert places[-1] < media.low_bytes
    # only key frames of a long video: a browser that seeks requests the bytes from one on
    with av.open(str(path)) as file:
        keys = [(float(one.pts * one.time_base), one.pos) for one in file.demux(video=0) if one.is_keyframe]
    assert 1 < len(keys) < len(read)
    assert list(byte_index(path, most_rows=7)) == keys
    with pytest.raises(IntegrityError, match="publish"):
        pair_media(release.store.root, PairFiles(pair.pair_id, pair.high, "gone.mp4", pair.key))


def test_a_check_task_of_equal_videos_has_two_files_of_the_same_pictures(published: Published) -> None:
    release, task = published.release, published.tasks[0]
    record = next(one for one in release.pairs(source_id=task.id) if one.high_frames == one.low_frames)
    id_ = check_id(record.pair_id, Check.EQUAL)
    (with_equal,) = media_tasks(release, release.pairs(source_id=task.id), KEY, {record.pair_id})
    assert [pair.pair_id for pair in with_equal.pairs if pair not in task.pairs] == [id_]
    assert write_media(release, with_equal) == 2
    files = with_equal.pairs[-1]
    high, low = folder_of(release) / files.high, folder_of(release) / files.low
    assert files.high != files.low
    # two encodings of the same pictures: files that are equal to the byte would tell that it is a check
    assert high.read_bytes() != low.read_bytes()
    both = zip(frames(high), frames(low), strict=True)
    assert all(np.abs(one.astype(int) - other).mean() < 4 for one, other in both)
    (pair,) = [one for one in task.pairs if one.pair_id == record.pair_id]
    assert facts(high) == facts(folder_of(release) / pair.high)


def test_a_campaign_makes_equal_pairs_and_repeats_for_its_rule(published: Published) -> None:
    release = published.release
    settings = {"name": "spring", "release": release.name, "version": release.version, "languages": ("en",)}
    paper, strict = Campaign(**settings, rule="paper"), Campaign(**settings, equal_pairs=1)
    assert equal_pairs(paper, release.pairs()) == set()
    (equal,) = equal_pairs(strict, release.pairs())
    assert equal_pairs(strict, release.pairs()[::-1]) == {equal}
    shown = showing(release, strict, KEY, private_audience=True)
    for task in shown.media:
        write_media(release, task)
    files = {pair.pair_id: pair for task in shown.media for pair in task.pairs}
    pairs = pair_tasks(release, strict, shown.records, files)
    checks = check_tasks_of(release, strict, pairs, files)
    assert {task.pair_id for task in checks if task.check is Check.AGAIN} == {
        check_id(task.pair_id, Check.AGAIN) for task in pairs
    }
    (same,) = [task for task in checks if task.check is Check.EQUAL]
    of = next(task for task in pairs if task.pair_id == equal)
    assert same.gold and same.pair_id == check_id(equal, Check.EQUAL)
    assert (same.must_see, same.prompt_clips, same.high_s) == (of.must_see, of.prompt_clips, of.high_s)
    assert {same.high_file, same.low_file}.isdisjoint({of.high_file, of.low_file})
    assert check_tasks_of(release, paper, pairs, files) == []
