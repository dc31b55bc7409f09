"""The build, end to end, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from flows.build.options import BuildOptions
from flows.build.run import Build, BuildResult
from infra.executor import InlineExecutor, ProcessExecutor
from infra.progress import BuildProgress
from storage_schemas.errors import PrerequisiteError, Reason, SetAside, UserInputError
from storage_schemas.store import FRAMES, Store
from tasks.pairs.verify import verify_deep
from tasks.recipe import AspectRecipe, Recipe, Severity, load_recipe, recipe_from
from tests.inline import build_inline

AddFilm = Callable[[Path, int], Path]


def manifests(store: Path) -> dict[str, int]:
    """Every committed artifact with the time it was written."""
    outcome = (store / "artifacts").rglob("manifest.json")
    return {str(path.relative_to(store)): path.stat().st_mtime_ns for path in outcome}


def changed(options: BuildOptions, **fields: object) -> BuildOptions:
    return options.model_copy(update=fields)


def with_recipe(options: BuildOptions, **fields: object) -> BuildOptions:
    return changed(options, recipe=options.recipe.model_copy(update=fields))


@pytest.fixture
def built(options: BuildOptions, add_film: AddFilm, tmp_path: Path) -> BuildResult:
    add_film(tmp_path / "videos", 1)
    return build_inline(options)


def test_every_aspect_has_its_pair_and_reads_back(built: BuildResult, options: BuildOptions) -> None:
    assert built.exit_code == 0
    assert {aspect: row["built"] for aspect, row in built.release.summary().items()} == dict.fromkeys(
        options.recipe.aspects, 1
    )
    for record in built.release.pairs():
        assert verify_deep(built.release.store, record) == []
        assert record.clips_degraded == 5
        assert len(record.drawn_clips) == 5
    built.release.check()


def test_second_build_redoes_nothing(built: BuildResult, options: BuildOptions, tmp_path: Path) -> None:
    before = manifests(tmp_path / "store")
    with BuildProgress(quiet=True) as progress:
        build = Build(options, progress)
        build.prepare()
        assert build.idle()
        again = build.run(lambda: pytest.fail("an executor was started"))
    assert not again.new
    assert again.release.version == built.release.version
    assert manifests(tmp_path / "store") == before


def test_two_builds_have_the_same_checksums(
    built: BuildResult, options: BuildOptions, tmp_path: Path
) -> None:
    def processes() -> ProcessExecutor:
        return ProcessExecutor(2)

    with BuildProgress(quiet=True) as progress:
        build = Build(changed(options, store=str(tmp_path / "other")), progress)
        build.prepare()
        other = build.run(processes)
    threads = {
        build.store.manifest(FRAMES, record.frames_id).provenance["threads"]
        for record in other.release.pairs()
    }
    assert threads == {2}  # one source, two cores
    assert other.release.manifest.content_checksum == built.release.manifest.content_checksum
    assert [r.low_checksum for r in other.release.pairs()] == [r.low_checksum for r in built.release.pairs()]


def test_a_moved_file_is_the_same_source(built: BuildResult, options: BuildOptions, tmp_path: Path) -> None:
    before = manifests(tmp_path / "store")
    videos = tmp_path / "videos"
    (videos / "deeper").mkdir()
    for name in ("film1.mp4", "film1.jsonl"):
        (videos / name).rename(videos / "deeper" / name)
    build_inline(options)
    assert manifests(tmp_path / "store") == before


def test_a_new_video_costs_only_its_own_work(
    built: BuildResult, options: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    before = manifests(tmp_path / "store")
    add_film(tmp_path / "videos", 2)
    result = build_inline(options)
    after = manifests(tmp_path / "store")
    assert before.items() <= after.items()
    assert result.release.version == built.release.version + 1
    assert result.release.info["extends"] == built.release.version
    old = {record.pair_id for record in built.release.pairs()}
    assert old < {record.pair_id for record in result.release.pairs()}


def test_a_changed_parameter_remakes_only_what_depends_on_it(
    built: BuildResult, options: BuildOptions, tmp_path: Path
) -> None:
    before = manifests(tmp_path / "store")
    aspects = {
        **options.recipe.aspects,
        "aesthetics": AspectRecipe(operation="ffmpeg-eq", parameters={"contrast": -0.5}),
    }
    result = build_inline(with_recipe(options, aspects=aspects))
    after = manifests(tmp_path / "store")
    assert before.items() <= after.items()
    new = [Store.open(tmp_path / "store").root / path for path in after.keys() - before.keys()]
    kinds = {json.loads(path.read_text())["kind"] for path in new}
    assert kinds == {"degraded_clip", "pair", "verified"}
    assert len(new) == 5 + 1 + 1
    kept = {r.pair_id for r in built.release.pairs() if r.aspect != "aesthetics"}
    assert kept == {r.pair_id for r in result.release.pairs() if r.aspect != "aesthetics"}


def test_evicted_frames_are_not_made_again_for_nothing(
    built: BuildResult, options: BuildOptions, tmp_path: Path
) -> None:
    store = Store.open(tmp_path / "store")
    for manifest in list(store.manifests(FRAMES)):
        store.remove(FRAMES, manifest.id)
    assert not build_inline(options).new
    assert not list(store.manifests(FRAMES))


def test_an_extension_keeps_every_pair_and_fills_free_places(
    options: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    one = with_recipe(options, pairs_per_bin=1)
    add_film(tmp_path / "videos", 1)
    first = build_inline(one)
    for number in (2, 3):
        add_film(tmp_path / "videos", number)
    second = build_inline(one)
    assert second.release.version == first.release.version
    two = with_recipe(options, pairs_per_bin=2)
    third = build_inline(two)
    kept = {record.pair_id for record in first.release.pairs()}
    assert kept < {record.pair_id for record in third.release.pairs()}
    assert len(third.release.pairs("aesthetics")) == 2


def test_pairs_of_a_source_that_is_gone_are_kept(
    built: BuildResult, options: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    (tmp_path / "videos" / "film1.mp4").unlink()
    (tmp_path / "videos" / "film1.jsonl").unlink()
    add_film(tmp_path / "videos", 2)
    result = build_inline(options)
    assert {r.pair_id for r in built.release.pairs()} < {r.pair_id for r in result.release.pairs()}
    assert len(result.release.sources()) == 2


def test_a_licence_that_changed_counts_from_the_next_version_on(
    built: BuildResult, options: BuildOptions, tmp_path: Path
) -> None:
    assert not built.release.sources()[0].redistributable
    line = {
        "video": "film1.mp4",
        "title": "A film",
        "licence": "CC0",
        "redistributable": True,
        "content_category": "Music",
        "credit": "me",
    }
    (tmp_path / "videos" / "licences.jsonl").write_text(json.dumps(line) + "\n")
    before = manifests(tmp_path / "store")
    result = build_inline(options)
    assert manifests(tmp_path / "store") == before
    (source,) = result.release.sources()
    assert (source.licence, source.redistributable, source.credit) == ("CC0", True, "me")
    assert source.content_category == "Music"
    assert result.release.version == built.release.version + 1


def test_severity_draws_are_nested(options: BuildOptions, add_film: AddFilm, tmp_path: Path) -> None:
    add_film(tmp_path / "videos", 1)
    severe = with_recipe(options, severity=Severity(clips=(1, 2, "all"), strengths=("weak",)))
    release = build_inline(severe).release
    for aspect in ("aesthetics", "comprehensiveness", "temporal_flow", "dynamics_degree"):
        strength = options.recipe.strength_label(aspect)
        drawn = sorted((set(r.drawn_clips) for r in release.pairs(aspect) if r.strength == strength), key=len)
        assert [len(clips) for clips in drawn][:3] == [1, 2, 5]
        assert all(small < large for small, large in pairwise(drawn))
    removed = max(len(r.drawn_clips) for r in release.pairs("comprehensiveness"))
    assert removed == 7
    assert {r.strength for r in release.pairs("aesthetics")} >= {"weak", "paper"}


def test_a_pinned_recipe_makes_the_same_checksums(
    built: BuildResult, options: BuildOptions, tmp_path: Path
) -> None:
    from tasks.publish.export import export_recipe

    path = export_recipe(built.release, tmp_path / "pinned.json")
    pinned = load_recipe(str(path))
    assert len(pinned.pins) == len(built.release.pairs())
    again = build_inline(changed(options, store=str(tmp_path / "other"), recipe=pinned))
    assert again.exit_code == 0
    assert again.release.manifest.content_checksum == built.release.manifest.content_checksum


def test_a_pinned_recipe_notices_other_captions(
    built: BuildResult, options: BuildOptions, tmp_path: Path
) -> None:
    from tasks.publish.export import export_recipe

    pinned = load_recipe(str(export_recipe(built.release, tmp_path / "pinned.json")))
    captions = tmp_path / "videos" / "film1.jsonl"
    captions.write_text("".join(captions.read_text().splitlines(keepends=True)[:-1]))
    again = build_inline(changed(options, store=str(tmp_path / "other"), recipe=pinned))
    assert again.exit_code == 3
    assert {row.reason for row in again.set_aside if row.stage == "verify"} == {Reason.CHECKSUM_MISMATCH}


def test_missing_weights_stop_the_build_before_any_work(
    options: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    add_film(tmp_path / "videos", 1)
    aspects = {"object_integrity": AspectRecipe(operation="saliency-telea-inpainting")}
    with pytest.raises(PrerequisiteError, match="slvmeval models fetch u2netp"):
        build_inline(with_recipe(options, aspects=aspects))
    assert not list((tmp_path / "store").glob("artifacts/*"))


def test_a_build_that_does_not_fit_is_refused(
    options: BuildOptions, add_film: AddFilm, tmp_path: Path
) -> None:
    add_film(tmp_path / "videos", 1)
    with pytest.raises(SetAside, match="quota_bytes") as refused:
        build_inline(changed(options, quota_bytes=100_000))
    assert refused.value.reason is Reason.OUT_OF_SPACE
    assert not list((tmp_path / "store").glob("artifacts/frames/*"))


def test_a_failed_pair_gives_its_place_to_the_next(
    options: BuildOptions, add_film: AddFilm, ffmpeg: str, tmp_path: Path
) -> None:
    """A film that stands still cannot be frozen: another one takes its place in the bin."""
    import subprocess

    still = tmp_path / "videos" / "still.mp4"
    still.parent.mkdir()
    source = "color=size=160x90:rate=5:duration=42:color=gray"
    subprocess.run([ffmpeg, "-v", "error", "-f", "lavfi", "-i", source, str(still)], check=True)
    add_film(tmp_path / "videos", 1)
    (tmp_path / "videos" / "still.jsonl").write_bytes((tmp_path / "videos" / "film1.jsonl").read_bytes())
    for seed in range(4):
        one = with_recipe(
            changed(options, store=str(tmp_path / f"store{seed}")),
            pairs_per_bin=1,
            seed=seed,
            aspects={"dynamics_degree": options.recipe.aspects["dynamics_degree"]},
        )
        result = build_inline(one)
        (pair,) = result.release.pairs("dynamics_degree")
        assert result.release.source(pair.source_id).title != "still"
        if result.exit_code == 3:
            assert [row.reason for row in result.set_aside] == [Reason.NOT_DIFFERENT_ENOUGH]
            assert build_inline(one).exit_code == 3
            break
    else:
        pytest.fail("the still film was never drawn")


def test_a_recipe_says_what_is_wrong_with_it(small_recipe: Recipe) -> None:
    with pytest.raises(UserInputError, match="Did you mean 'cpu-approx'"):
        load_recipe("cpu-aprox")
    with pytest.raises(UserInputError, match="clips_per_pair"):
        recipe_from({"base": "cpu-approx", "name": "mine", "clips_per_pair": 0})
    with pytest.raises(UserInputError, match="contrats"):
        recipe_from(
            {
                "base": "cpu-approx",
                "aspects": {"aesthetics": {"operation": "ffmpeg-eq", "parameters": {"contrats": 1}}},
            }
        )
    assert recipe_from(small_recipe.model_dump(mode="json")) == small_recipe


def test_inline_executor_is_closed_after_use() -> None:
    with InlineExecutor() as executor:
        handle = executor.submit("one", "cpu", lambda: 1)
        assert executor.result(handle) == 1
