"""What a later build keeps of an earlier one, what it notices, and what it does not use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.release.options import BuildOptions, SourceRoot
from flows.release.run import Build
from infra.executor import InlineExecutor
from infra.progress import BuildProgress
from storage_schemas.commit import set_commit_hook
from storage_schemas.errors import IntegrityError, Reason, SetAside
from storage_schemas.set_aside import known_failures
from storage_schemas.source import Source
from storage_schemas.store import ANALYSIS, FRAMES, TIMELINE, Store
from tasks.aspects.spatial_relationship import HorizontalFlip
from tasks.pairs.ingest import ingest_source
from tasks.recipe import AspectRecipe, Severity
from tests.flows.small_builds import (
    AddFilm,
    add_to_vript,
    changed,
    committed,
    evict_frames,
    make_video,
    only,
    with_captions,
    with_recipe,
)
from tests.inline import build_inline
from tests.small_films import caption_lines, write_captions
from tests.tasks.sources.vript_layout import Layout

FilmMaker = Callable[[int], Path]


def catalogued(options: BuildOptions) -> Source:
    with BuildProgress(quiet=True) as progress:
        build = Build(options, progress)
        build.prepare()
    (source,) = build.state.sources.values()
    return source


def test_evicted_frames_are_remade_from_the_same_file_alone_wherever_it_is(
    simple: BuildOptions, video: Path, film_maker: FilmMaker
) -> None:
    store = build_inline(simple).release.store
    source = catalogued(simple)
    evict_frames(store)
    video.write_bytes(film_maker(2).read_bytes())
    with pytest.raises(SetAside) as refused:
        ingest_source(store, source, simple.recipe)
    assert refused.value.reason is Reason.VIDEO_CHANGED
    assert not list(store.manifests(FRAMES))
    video.write_bytes(film_maker(1).read_bytes())
    deeper = video.parent / "deeper"
    deeper.mkdir()
    before = committed(store.root / "artifacts")
    for path in with_captions(video):
        path.rename(deeper / path.name)
    (row,) = build_inline(simple).release.sources()
    assert Path(row.video) == deeper / "film1.mp4"
    assert committed(store.root / "artifacts") == before
    ingest_source(store, catalogued(simple), simple.recipe)
    assert store.has(FRAMES, row.frames_id)


def test_replaced_video_with_the_same_id_is_built_again(
    simple: BuildOptions, video: Path, film_maker: FilmMaker, tmp_path: Path
) -> None:
    layout = Layout(tmp_path / "vript")
    add_to_vript(layout, "same", video)
    options = changed(simple, sources=(SourceRoot(kind="vript", path=str(layout.root)),))
    first = build_inline(options).release
    layout.write("vript_long_videos/same.mp4", film_maker(2).read_bytes())
    second = build_inline(options).release
    assert second.version == first.version + 1
    (before,), (after,) = first.pairs(), second.pairs()
    assert before.frames_id != after.frames_id == second.source("same").frames_id


def test_order_of_sources_makes_no_new_version(
    simple: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    for number in (1, 2, 3):
        add_film(tmp_path / "videos", number)
        assert build_inline(simple).release.version == number
        again = build_inline(simple)
        assert (again.new, again.release.version) == (False, number)


def test_pairs_of_a_source_that_is_gone_stay_whatever_the_recipe_says(
    simple: BuildOptions, video: Path, add_film: AddFilm
) -> None:
    (kept,) = build_inline(simple).release.pairs()
    for path in with_captions(video):
        path.unlink()
    add_film(video.parent, 2)
    weaker = {"aesthetics": AspectRecipe(operation="ffmpeg-eq", parameters={"contrast": 0.2})}
    second = build_inline(with_recipe(simple, aspects=weaker)).release
    assert {record.pair_id for record in second.pairs()} > {kept.pair_id}
    assert len(second.pairs()) == len(second.sources()) == 2


def test_success_outlives_an_earlier_failure(simple: BuildOptions, video: Path) -> None:
    whole = video.read_bytes()

    def gone(point: str) -> None:
        if point == "analysis:renamed":
            video.write_bytes(whole[: len(whole) // 2])

    set_commit_hook(gone)
    try:
        failed = build_inline(simple)
    finally:
        set_commit_hook(None)
    assert failed.exit_code == 3
    assert known_failures(failed.release.store)
    video.write_bytes(whole)
    assert build_inline(changed(simple, retry=True)).exit_code == 0
    assert build_inline(simple).exit_code == 0


def test_builds_at_once_lose_no_pair(
    simple: BuildOptions, video: Path, add_film: AddFilm, tmp_path: Path
) -> None:
    """The other build writes its version between our draw and our release."""
    other = changed(simple, sources=(SourceRoot(path=str(tmp_path / "elsewhere")),))
    add_film(tmp_path / "elsewhere", 2)
    with BuildProgress(quiet=True) as progress:
        build = Build(simple, progress)
        build.prepare()
        theirs = build_inline(other).release
        ours = build.run(InlineExecutor).release
    assert ours.version == theirs.version + 1
    assert {record.pair_id for record in ours.pairs()} > {record.pair_id for record in theirs.pairs()}


def test_operation_that_raises_costs_its_own_pair_only(
    options: BuildOptions, video: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def burst(*_: object) -> None:
        raise ZeroDivisionError("planted")

    two = only(options, "spatial_relationship", "comprehensiveness")
    with monkeypatch.context() as patch:
        patch.setattr(HorizontalFlip, "apply", burst)
        result = build_inline(two)
    assert [record.aspect for record in result.release.pairs()] == ["comprehensiveness"]
    reasons = [(row.aspect, row.reason) for row in result.set_aside]
    assert reasons == [("spatial_relationship", Reason.INTERNAL_ERROR)]
    assert build_inline(two).exit_code == 0


def test_severity_of_all_clips_means_all_that_can_be_degraded(
    options: BuildOptions, video: Path, ffmpeg: str
) -> None:
    """Half of this film stands still, so freezing changes only the other half."""
    moving = "testsrc2=size=160x90:rate=5:duration=24[a];color=size=160x90:rate=5:duration=18[b];[a][b]concat"
    make_video(ffmpeg, video, "-f", "lavfi", "-i", moving)
    result = build_inline(only(options, "dynamics_degree", severity=Severity(clips=("all",))))
    assert result.exit_code == 0
    degraded = sorted(record.clips_degraded for record in result.release.pairs())
    assert degraded == sorted(len(record.drawn_clips) for record in result.release.pairs()) == [5, 8]


def test_build_of_frames_that_only_decoding_can_tell(options: BuildOptions, video: Path, ffmpeg: str) -> None:
    """A file whose frames are predicted wrongly before ingest: every severity finds its pair."""
    other = video.with_suffix(".mpg")
    make_video(ffmpeg, other, "-i", str(video), "-t", "21", "-r", "30000/1001", "-c:v", "mpeg2video")
    write_captions(video.with_suffix(".jsonl"), caption_lines(7))
    video.unlink()
    shorter = {"severity": Severity(clips=(1, 2)), "least_duration_s": 10}
    both = only(options, "aesthetics", "dynamics_degree", **shorter)
    result = build_inline(both)
    assert result.exit_code == 0
    assert len(result.release.pairs()) == 6
    assert not build_inline(both).new


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    os.utime(path, (1, 1))


@pytest.mark.parametrize(("kind", "name"), [(ANALYSIS, "analyses.parquet"), (TIMELINE, "timeline.parquet")])
def test_damaged_artifact_is_made_again(kind: str, name: str, simple: BuildOptions, video: Path) -> None:
    store = build_inline(simple).release.store
    (stored,) = store.manifests(kind)
    folder = store.artifact_path(kind, stored.id)
    for damaged in ((name,), (name, "manifest.json")):
        for file in damaged:
            flip(folder / file)
        after = build_inline(simple)
        assert (after.new, after.exit_code) == (False, 0)
        (again,) = store.manifests(kind)
        assert (again.content_checksum, again.files) == (stored.content_checksum, stored.files)
        assert store.read(kind, stored.id, name)


def test_build_without_anything_new_reads_no_artifact_and_extends_no_damaged_version(
    simple: BuildOptions, video: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = build_inline(simple).release
    with monkeypatch.context() as patch:
        patch.setattr(Store, "read", None)
        patch.setattr(Store, "manifest", None)
        assert not build_inline(simple).new
    flip(release.path / "pairs.parquet")
    with pytest.raises(IntegrityError, match=r"pairs\.parquet does not match its manifest"):
        build_inline(simple)
