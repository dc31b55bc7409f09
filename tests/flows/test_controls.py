"""Controls through a whole build: stored, verified, shown and handed on, and nothing changes without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.release.options import BuildOptions, SourceRoot
from flows.release.result import BuildResult
from flows.release.run import Build
from flows.score.options import EvaluateOptions
from infra.executor import InlineExecutor
from infra.progress import BuildProgress
from slvmeval.cli.build.plan import plan_values
from storage_schemas.errors import Reason
from storage_schemas.judgements import JudgementsStore
from storage_schemas.parquet import read_dicts
from storage_schemas.placement import Placement
from storage_schemas.set_aside import CONTROL_STAGE
from tasks.pairs.verify import verify_deep
from tasks.publish.export import export_recipe, export_release
from tasks.publish.gallery.write import write_gallery
from tasks.recipe import load_recipe
from tasks.scoring.registry import choice_from_text
from tests.flows.small_builds import AddFilm, changed, only
from tests.inline import build_inline, evaluate_inline
from tests.small_films import CLIP_S, CLIPS, FilmsOfModule, write_captions

ASPECTS = ("aesthetics", "technical_quality", "comprehensiveness", "temporal_flow", "dynamics_degree")
PLAIN = "A red ball rolls quickly across the floor, number {n}. Behind it there is a green meadow."


def plain_captions(path: Path, caption: str = PLAIN) -> None:
    lines: list[dict[str, object]] = [
        {"start_s": n * CLIP_S, "end_s": (n + 1) * CLIP_S, "caption": caption.format(n=n)}
        for n in range(CLIPS)
    ]
    write_captions(path, lines)


@pytest.fixture(scope="module")
def site(films_of_module: FilmsOfModule) -> BuildOptions:
    """A film without sides in its captions, and a recipe with controls."""
    options = films_of_module(1)
    plain_captions(Path(options.sources[0].path) / "film1.jsonl")
    return only(options, *ASPECTS, controls=True, name="with-controls")


@pytest.fixture(scope="module")
def built(site: BuildOptions) -> BuildResult:
    return build_inline(site)


def test_controls_are_verified_and_rebuilt_equal(
    site: BuildOptions, built: BuildResult, tmp_path: Path
) -> None:
    assert built.exit_code == 0
    pairs = [record for record in built.release.pairs() if not record.control]
    controls = [record for record in built.release.pairs() if record.control]
    assert {(one.source_id, one.aspect) for one in controls} == {(one.source_id, one.aspect) for one in pairs}
    for record in controls:
        assert verify_deep(built.release.store, record) == []
    assert not build_inline(site).new
    pinned = load_recipe(str(export_recipe(built.release, tmp_path / "pinned.json")))
    other = build_inline(changed(site, store=str(tmp_path / "other"), recipe=pinned))
    assert other.release.manifest.content_checksum == built.release.manifest.content_checksum


def test_recipe_without_controls_makes_the_same_pairs(
    site: BuildOptions, built: BuildResult, tmp_path: Path
) -> None:
    without = changed(
        site, store=str(tmp_path / "without"), recipe=site.recipe.model_copy(update={"controls": False})
    )
    release = build_inline(without).release
    assert [r.pair_id for r in release.pairs()] == [r.pair_id for r in built.release.pairs() if not r.control]
    assert "controls" not in release.recipe
    assert "control" not in next(iter(read_dicts(release.path / "pairs.parquet")))


def test_source_without_room_loses_its_control_alone(
    site: BuildOptions, tmp_path: Path, add_film: AddFilm
) -> None:
    film = add_film(tmp_path / "videos", 1)
    plain_captions(film.with_suffix(".jsonl"), "On the left a ball rolls in front of a green meadow.")
    sources = (SourceRoot(path=str(tmp_path / "videos")),)
    result = build_inline(changed(site, sources=sources, store=str(tmp_path / "store")))
    assert result.exit_code == 0
    (row,) = [row for row in result.set_aside if row.stage == CONTROL_STAGE]
    assert (row.aspect, row.reason) == ("aesthetics", Reason.TOO_FEW_ELIGIBLE_CLIPS)
    assert row.message.startswith("the control of aesthetics needs 5 clips (a caption that names neither")
    made = {record.aspect for record in result.release.pairs() if not record.control}
    assert made == set(ASPECTS)
    assert result.release.summary()["aesthetics"]["reasons"] == {"too_few_eligible_clips (control)": 1}


def test_gallery_and_export_mark_controls(built: BuildResult, tmp_path: Path) -> None:
    store, release = built.release.store, built.release
    page = write_gallery(store, release, tmp_path / "gallery")
    text = page.read_text(encoding="utf-8")
    start = text.index('type="application/json"')
    data = json.loads(text[text.index(">", start) + 1 : text.index("</script>", start)])
    assert sum(pair["control"] for pair in data["pairs"]) == len(release.pairs()) // 2
    export_release(store, release, tmp_path / "export", private=True)
    rows = list(read_dicts(tmp_path / "export" / "data" / "pairs.parquet"))
    assert {(row["control"], row["gold"]) for row in rows} == {(False, "high"), (True, "tie")}
    assert all((tmp_path / "export" / row["low_video"]).is_file() for row in rows)


#: Where a trivial number is on controls: `same` for both sides, so at chance; `as far`: apart as on damage,
#: in the same direction; `less`: apart by less than a fifth of what damage does.
STANDING = {
    "aesthetics": {"duration": "same", "contrast": "same", "sharpness": "same"},
    "technical_quality": {"duration": "same", "sharpness": "less"},
    "comprehensiveness": {"duration": "as far"},
    "temporal_flow": {"duration": "same", "size": "same", "contrast": "same", "sharpness": "same"},
    "dynamics_degree": {"duration": "same", "size": "same", "contrast": "same", "sharpness": "same"},
}


def test_trivial_evaluators_are_at_chance_on_controls_or_as_far_as_on_damage(built: BuildResult) -> None:
    store, records = built.release.store, built.release.pairs()
    names = sorted({name for numbers in STANDING.values() for name in numbers})
    chosen = tuple(choice_from_text(name) for name in names)
    evaluated = EvaluateOptions.model_validate({"store": str(store.root), "evaluators": chosen})
    assert evaluate_inline(evaluated).exit_code == 0
    rows = {(row.pair_id, row.evaluator): row for row in JudgementsStore(store).rows()}
    assert {row.control for row in rows.values()} == {True, False}
    for aspect, numbers in STANDING.items():
        for name, standing in numbers.items():
            apart = {}
            for record in records:
                if record.aspect == aspect:
                    row = rows[record.pair_id, name]
                    assert row.control is record.control
                    apart[record.control] = (row.score_high or 0.0) - (row.score_low or 0.0)
            if standing == "same":
                assert apart[True] == 0, (aspect, name)
            elif standing == "as far":
                assert apart[True] == apart[False] > 0, (aspect, name)
            else:
                assert abs(apart[True]) < abs(apart[False]) / 5, (aspect, name)


def test_plan_counts_controls_wherever_their_aspect_runs(
    site: BuildOptions, tmp_path: Path, add_film: AddFilm
) -> None:
    film = add_film(tmp_path / "videos", 1)
    plain_captions(film.with_suffix(".jsonl"), "On the left a ball rolls in front of a green meadow.")
    placed = Placement(pools={"cpu": "cpu", "h100": "gpu"}, placed={"technical_quality": "h100"})
    sources = (SourceRoot(path=str(tmp_path / "videos")),)
    options = changed(site, sources=sources, store=str(tmp_path / "store"), placement=placed)
    with BuildProgress(quiet=True) as progress:
        build = Build(options, progress)
        build.prepare()
        build.inspect(InlineExecutor)
        planned = plan_values(build)["aspects"]
    # a pair and a control each, but there is no control of aesthetics: all captions name a side
    assert {name: row["planned"] for name, row in planned.items()} == {
        name: 1 if name == "aesthetics" else 2 for name in ASPECTS
    }
    assert planned["aesthetics"]["no_pair"] == {"too_few_eligible_clips (control)": 1}
