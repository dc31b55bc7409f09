"""What a later build keeps of an earlier one, and what it notices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flows.build.options import BuildOptions, SourceRoot
from flows.build.run import Build
from infra.executor import InlineExecutor
from infra.progress import BuildProgress
from storage_schemas.errors import Reason, SetAside
from storage_schemas.set_aside import known_failures
from storage_schemas.source import Source
from storage_schemas.store import FRAMES, Store
from tasks.pairs.ingest import ingest_source
from tasks.recipe import AspectRecipe, Severity
from tests.inline import build_inline
from tests.vript_layout import write_vript_layout

AddFilm = Callable[[Path, int], Path]


def only(options: BuildOptions, *aspects: str, **fields: object) -> BuildOptions:
    chosen = {name: options.recipe.aspects[name] for name in aspects}
    recipe = options.recipe.model_copy(update={"aspects": chosen, **fields})
    return options.model_copy(update={"recipe": recipe})


def evict_frames(store: Store) -> None:
    for manifest in list(store.manifests(FRAMES)):
        store.remove(FRAMES, manifest.id)


def catalogued(options: BuildOptions) -> Source:
    with BuildProgress(quiet=True) as progress:
        build = Build(options, progress)
        build.prepare()
    (source,) = build.sources.values()
    return source


def test_evicted_frames_are_never_remade_from_another_file(
    options: BuildOptions, add_film: AddFilm, film_maker: Callable[[int], Path], tmp_path: Path
) -> None:
    video = add_film(tmp_path / "videos", 1)
    simple = only(options, "aesthetics")
    store = build_inline(simple).release.store
    source = catalogued(simple)
    evict_frames(store)
    video.write_bytes(film_maker(2).read_bytes())
    with pytest.raises(SetAside) as refused:
        ingest_source(store, source, simple.recipe)
    assert refused.value.reason is Reason.VIDEO_CHANGED
    assert not list(store.manifests(FRAMES))
    video.write_bytes(film_maker(1).read_bytes())
    ingest_source(store, source, simple.recipe)
    assert len(list(store.manifests(FRAMES))) == 1


def test_a_replaced_video_with_the_same_id_is_built_anew(
    options: BuildOptions, add_film: AddFilm, film_maker: Callable[[int], Path], tmp_path: Path
) -> None:
    film = add_film(tmp_path / "films", 1)
    root = tmp_path / "vript"
    write_vript_layout(film, film.with_suffix(".jsonl"), root, video_id="same")
    simple = only(options, "aesthetics").model_copy(
        update={"sources": (SourceRoot(kind="vript", path=str(root)),)}
    )
    first = build_inline(simple).release
    video = root / "vript_long_videos" / "same.mp4"
    video.unlink()
    video.write_bytes(film_maker(2).read_bytes())
    second = build_inline(simple).release
    assert second.version == first.version + 1
    (before,), (after,) = first.pairs(), second.pairs()
    assert before.frames_id != after.frames_id
    assert second.source("same").frames_id == after.frames_id


def test_the_order_of_sources_makes_no_new_version(
    options: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    simple = only(options, "aesthetics")
    for number in (1, 2, 3, 4):
        add_film(tmp_path / "videos", number)
        version = build_inline(simple).release.version
        assert version == number
        again = build_inline(simple)
        assert (again.new, again.release.version) == (False, number)


def test_a_moved_video_is_found_again_after_eviction(
    options: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    video = add_film(tmp_path / "videos", 1)
    simple = only(options, "aesthetics")
    store = build_inline(simple).release.store
    evict_frames(store)
    (tmp_path / "videos" / "deeper").mkdir()
    for suffix in (".mp4", ".jsonl"):
        video.with_suffix(suffix).rename(tmp_path / "videos" / "deeper" / f"film1{suffix}")
    release = build_inline(simple).release
    (source,) = release.sources()
    assert Path(source.video) == tmp_path / "videos" / "deeper" / "film1.mp4"
    ingest_source(store, catalogued(simple), simple.recipe)
    assert store.has(FRAMES, source.frames_id)


def test_pairs_of_a_source_that_is_gone_stay_whatever_the_recipe_says(
    options: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    video = add_film(tmp_path / "videos", 1)
    simple = only(options, "aesthetics")
    first = build_inline(simple).release
    for suffix in (".mp4", ".jsonl"):
        video.with_suffix(suffix).unlink()
    add_film(tmp_path / "videos", 2)
    weaker = {"aesthetics": AspectRecipe(operation="ffmpeg-eq", parameters={"contrast": 0.2})}
    recipe = simple.recipe.model_copy(update={"aspects": weaker})
    second = build_inline(simple.model_copy(update={"recipe": recipe})).release
    (kept,) = first.pairs()
    assert {record.pair_id for record in second.pairs()} > {kept.pair_id}
    assert len(second.pairs()) == 2


def test_a_success_outlives_an_earlier_failure(
    options: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    video = add_film(tmp_path / "videos", 1)
    simple = only(options, "aesthetics")
    whole = video.read_bytes()
    taken = 0

    def gone(point: str) -> None:
        nonlocal taken
        if point == "analysis:renamed" and not taken:
            taken = 1
            video.write_bytes(whole[: len(whole) // 2])

    from storage_schemas.commit import set_commit_hook

    set_commit_hook(gone)
    try:
        failed = build_inline(simple)
    finally:
        set_commit_hook(None)
    assert failed.exit_code == 3
    assert known_failures(failed.release.store)
    video.write_bytes(whole)
    assert build_inline(simple.model_copy(update={"retry": True})).exit_code == 0
    assert build_inline(simple).exit_code == 0


def test_two_builds_at_once_lose_no_pair(options: BuildOptions, add_film: AddFilm, tmp_path: Path) -> None:
    """The other build writes its version between our draw and our release."""
    simple = only(options, "aesthetics")
    add_film(tmp_path / "videos", 1)
    other = simple.model_copy(update={"sources": (SourceRoot(path=str(tmp_path / "elsewhere")),)})
    add_film(tmp_path / "elsewhere", 2)
    with BuildProgress(quiet=True) as progress:
        build = Build(simple, progress)
        build.prepare()
        theirs = build_inline(other).release
        ours = build.run(InlineExecutor).release
    assert ours.version == theirs.version + 1
    assert {record.pair_id for record in ours.pairs()} > {record.pair_id for record in theirs.pairs()}


def test_an_operation_that_raises_costs_its_own_pair_only(
    options: BuildOptions, add_film: AddFilm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.aspects.spatial_relationship import HorizontalFlip

    def burst(*_: object) -> None:
        raise ZeroDivisionError("planted")

    add_film(tmp_path / "videos", 1)
    simple = only(options, "aesthetics", "spatial_relationship", "comprehensiveness")
    with monkeypatch.context() as patch:
        patch.setattr(HorizontalFlip, "apply", burst)
        result = build_inline(simple)
    assert {record.aspect for record in result.release.pairs()} == {"aesthetics", "comprehensiveness"}
    assert [(row.aspect, row.reason) for row in result.set_aside] == [
        ("spatial_relationship", Reason.INTERNAL_ERROR)
    ]
    assert build_inline(simple).exit_code == 0


def test_all_clips_means_all_that_can_be_degraded(
    options: BuildOptions, add_film: AddFilm, ffmpeg: str, tmp_path: Path
) -> None:
    """Half of this film stands still, so freezing changes only the other half."""
    import subprocess

    video = add_film(tmp_path / "videos", 1)
    moving = "testsrc2=size=160x90:rate=5:duration=24[a];color=size=160x90:rate=5:duration=18[b];[a][b]concat"
    subprocess.run([ffmpeg, "-v", "error", "-y", "-f", "lavfi", "-i", moving, str(video)], check=True)
    result = build_inline(only(options, "dynamics_degree", severity=Severity(clips=("all",))))
    assert result.exit_code == 0
    assert sorted(record.clips_degraded for record in result.release.pairs()) == [5, 8]
    for record in result.release.pairs():
        assert len(record.drawn_clips) == record.clips_degraded


def test_frames_that_only_decoding_can_tell(
    options: BuildOptions, add_film: AddFilm, ffmpeg: str, tmp_path: Path
) -> None:
    """A file whose frames are predicted wrongly before ingest: every severity finds its pair."""
    import subprocess

    film = add_film(tmp_path / "videos", 1)
    other = film.with_suffix(".mpg")
    command = [ffmpeg, "-v", "error", "-i", str(film), "-r", "30000/1001", "-c:v", "mpeg2video", str(other)]
    subprocess.run(command, check=True)
    film.unlink()
    simple = only(options, "aesthetics", "dynamics_degree", severity=Severity(clips=(1, 2)))
    result = build_inline(simple)
    assert result.exit_code == 0
    assert len(result.release.pairs()) == 6
    assert not build_inline(simple).new
