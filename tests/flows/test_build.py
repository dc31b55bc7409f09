"""The build, end to end, in this process."""

from __future__ import annotations

import json
import shutil
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from flows.declaration import NothingToDo
from flows.release.options import BuildOptions, SourceRoot
from flows.release.result import BuildResult
from flows.release.run import Build
from infra.executor import ProcessExecutor
from infra.progress import BuildProgress
from storage_schemas.errors import PrerequisiteError, Reason, SetAside, UserInputError
from storage_schemas.store import FRAMES
from tasks.pairs.verify import verify_deep
from tasks.publish.export import export_recipe
from tasks.recipe import AspectRecipe, Recipe, Severity, load_recipe, recipe_from
from tests.flows.small_builds import (
    AddFilm,
    build_with,
    changed,
    committed,
    evict_frames,
    make_video,
    only,
    with_recipe,
)
from tests.inline import build_inline
from tests.small_films import FilmsOfModule

THREE = ("aesthetics", "dynamics_degree", "temporal_flow")


@pytest.fixture(scope="module")
def built(films_of_module: FilmsOfModule) -> BuildResult:
    """A build of three aspects of one film, beside its folder of videos; nobody changes either."""
    return build_inline(only(films_of_module(1), *THREE))


@pytest.fixture
def again(built: BuildResult, options: BuildOptions, tmp_path: Path) -> BuildOptions:
    """The same build in a copy of its store."""
    root = built.release.store.root
    shutil.copytree(root, tmp_path / "store")
    return changed(only(options, *THREE), sources=(SourceRoot(path=str(root.parent / "videos")),))


@pytest.fixture
def moved(again: BuildOptions, video: Path) -> BuildOptions:
    """The same build in a copy of its store, its film in another folder."""
    return changed(again, sources=(SourceRoot(path=str(video.parent)),))


def pairs_of(result: BuildResult) -> set[str]:
    return {record.pair_id for record in result.release.pairs()}


def test_every_aspect_has_its_pair_that_reads_back(options: BuildOptions, video: Path) -> None:
    result = build_inline(options)
    assert result.exit_code == 0
    made = {aspect: row["built"] for aspect, row in result.release.summary().items()}
    assert made == dict.fromkeys(options.recipe.aspects, 1)
    for record in result.release.pairs():
        assert verify_deep(result.release.store, record) == []
        assert record.clips_degraded == len(record.drawn_clips) == 5
    result.release.check()


def test_build_in_processes_makes_the_same_release(
    built: BuildResult, again: BuildOptions, tmp_path: Path
) -> None:
    elsewhere = changed(again, store=str(tmp_path / "other"))
    other = build_with(elsewhere, partial(ProcessExecutor, 2)).release
    assert other.manifest.content_checksum == built.release.manifest.content_checksum
    frames = {record.frames_id for record in other.pairs()}
    # one source, two cores
    assert {other.store.manifest(FRAMES, id_).provenance["threads"] for id_ in frames} == {2}


def test_second_build_redoes_nothing_even_without_frames(built: BuildResult, again: BuildOptions) -> None:
    before = committed(Path(again.store))
    with BuildProgress(quiet=True) as progress:
        build = Build(again, progress)
        build.prepare()
        assert build.idle()
        result = build.run(lambda: pytest.fail("an executor was started"))
    assert (result.new, result.release.version) == (False, built.release.version)
    assert committed(Path(again.store)) == before
    evict_frames(build.store)
    assert not build_inline(again).new
    assert not list(build.store.manifests(FRAMES))


def test_pinned_recipe_notices_other_captions(
    built: BuildResult, again: BuildOptions, video: Path, tmp_path: Path
) -> None:
    pinned = load_recipe(str(export_recipe(built.release, tmp_path / "pinned.json")))
    assert len(pinned.pins) == len(built.release.pairs())
    captions = video.with_suffix(".jsonl")
    captions.write_text("".join(captions.read_text().splitlines(keepends=True)[:-1]))
    sources = (SourceRoot(path=str(video.parent)),)
    noticed = build_inline(changed(again, store=str(tmp_path / "other"), recipe=pinned, sources=sources))
    assert noticed.exit_code == 3
    assert {row.reason for row in noticed.set_aside if row.stage == "verify"} == {Reason.CHECKSUM_MISMATCH}


def test_new_video_costs_only_its_own_work(
    built: BuildResult, again: BuildOptions, moved: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    before = committed(Path(again.store))
    add_film(tmp_path / "videos", 2)
    result = build_inline(moved)
    assert before.items() <= committed(Path(again.store)).items()
    assert result.release.version == built.release.version + 1
    assert result.release.info["extends"] == built.release.version
    assert pairs_of(built) < pairs_of(result)


def test_changed_parameter_remakes_only_what_depends_on_it(built: BuildResult, again: BuildOptions) -> None:
    store = Path(again.store)
    before = committed(store)
    other = AspectRecipe(operation="ffmpeg-eq", parameters={"contrast": -0.5})
    result = build_inline(with_recipe(again, aspects={**again.recipe.aspects, "aesthetics": other}))
    after = committed(store)
    assert before.items() <= after.items()
    new = [path.split("/")[1] for path in after.keys() - before.keys() if path.startswith("artifacts/")]
    assert sorted(new) == [*["degraded_clip"] * 5, "pair", "verified"]
    kept = {r.pair_id for r in built.release.pairs() if r.aspect != "aesthetics"}
    assert kept == {r.pair_id for r in result.release.pairs() if r.aspect != "aesthetics"}


def test_extension_keeps_every_pair_and_fills_free_places(
    simple: BuildOptions, video: Path, add_film: AddFilm
) -> None:
    one = with_recipe(simple, pairs_per_bin=1)
    first = build_inline(one)
    for number in (2, 3):
        add_film(video.parent, number)
    assert build_inline(one).release.version == first.release.version
    third = build_inline(with_recipe(simple, pairs_per_bin=2))
    assert pairs_of(first) < pairs_of(third)
    assert len(third.release.pairs()) == 2


def test_changed_licence_counts_from_the_next_version_on(
    built: BuildResult, moved: BuildOptions, video: Path
) -> None:
    assert not built.release.sources()[0].redistributable
    line = {"video": "film1.mp4", "title": "A film", "licence": "CC0", "redistributable": True}
    line |= {"content_category": "Music", "credit": "me"}
    (video.parent / "licences.jsonl").write_text(json.dumps(line) + "\n")
    artifacts = Path(moved.store) / "artifacts"
    before = committed(artifacts.parent)
    result = build_inline(moved)
    assert {path for path in committed(artifacts.parent).keys() - before.keys() if path[0] == "a"} == set()
    (source,) = result.release.sources()
    assert (source.licence, source.redistributable, source.credit) == ("CC0", True, "me")
    assert source.content_category == "Music"
    assert result.release.version == built.release.version + 1


def test_severity_draws_are_nested(options: BuildOptions, video: Path) -> None:
    aspects = ("aesthetics", "comprehensiveness", "temporal_flow", "dynamics_degree")
    severity = Severity(clips=(1, 2, "all"), strengths=("weak",))
    release = build_inline(only(options, *aspects, severity=severity)).release
    for aspect in aspects:
        strength = options.recipe.strength_label(aspect)
        drawn = sorted((set(r.drawn_clips) for r in release.pairs(aspect) if r.strength == strength), key=len)
        assert [len(clips) for clips in drawn][:3] == [1, 2, 5]
        assert all(small < large for small, large in pairwise(drawn))
    assert max(len(r.drawn_clips) for r in release.pairs("comprehensiveness")) == 7
    assert {r.strength for r in release.pairs("aesthetics")} >= {"weak", "paper"}


def test_build_names_all_missing_models_before_any_work(
    options: BuildOptions, video: Path, tmp_path: Path
) -> None:
    replaced = {"model": "u2net", "backgrounds": "nature"}
    aspects = {
        "background_consistency": AspectRecipe(operation="rembg-u2net", parameters=replaced),
        "object_integrity": AspectRecipe(operation="saliency-telea-inpainting"),
    }
    with pytest.raises(PrerequisiteError) as caught:
        build_inline(changed(with_recipe(options, aspects=aspects), model_folders=(str(tmp_path),)))
    first, second, third = str(caught.value).splitlines()
    assert first.endswith("slvmeval models add u2net")
    assert "backgrounds/nature" in second
    assert third.endswith("slvmeval models add u2netp")
    assert not list((tmp_path / "store").glob("artifacts/*"))


def test_build_that_does_not_fit_is_refused(simple: BuildOptions, video: Path, tmp_path: Path) -> None:
    with pytest.raises(SetAside, match="quota_bytes") as refused:
        build_inline(changed(simple, quota_bytes=100_000))
    assert refused.value.reason is Reason.OUT_OF_SPACE
    assert not list((tmp_path / "store").glob("artifacts/frames/*"))


def test_build_writes_no_version_while_all_is_still_being_copied(
    simple: BuildOptions, video: Path, tmp_path: Path
) -> None:
    left = changed(simple, settle_s=3600.0, leave_unsettled=True)
    with pytest.raises(NothingToDo, match="Nothing to build yet: 1 file still being written, left to the"):
        build_inline(left)
    assert not (tmp_path / "store" / "releases" / "main" / "versions").exists()


def test_failed_pair_gives_its_place_to_the_next(
    options: BuildOptions, video: Path, ffmpeg: str, tmp_path: Path
) -> None:
    """A film that stands still cannot be frozen; it is drawn first with half of the seeds."""
    still = video.with_name("still.mp4")
    make_video(ffmpeg, still, "-f", "lavfi", "-i", "color=size=160x90:rate=5:duration=42:color=gray")
    shutil.copy(video.with_suffix(".jsonl"), still.with_suffix(".jsonl"))
    for seed in range(20):
        store = str(tmp_path / f"store{seed}")
        one = changed(only(options, "dynamics_degree", pairs_per_bin=1, seed=seed), store=store)
        result = build_inline(one)
        if result.set_aside:
            break
    (pair,) = result.release.pairs()
    assert result.release.source(pair.source_id).title == "film1"
    assert [row.reason for row in result.set_aside] == [Reason.NOT_DIFFERENT_ENOUGH]
    assert (result.exit_code, build_inline(one).exit_code) == (3, 3)


def test_recipe_from_names_what_is_wrong(small_recipe: Recipe) -> None:
    with pytest.raises(UserInputError, match="clips_per_pair"):
        recipe_from({"base": "cpu-approx", "name": "mine", "clips_per_pair": 0})
    wrong = {"operation": "ffmpeg-eq", "parameters": {"contrats": 1}}
    with pytest.raises(UserInputError, match="contrats"):
        recipe_from({"base": "cpu-approx", "aspects": {"aesthetics": wrong}})
    assert recipe_from(small_recipe.model_dump(mode="json")) == small_recipe
