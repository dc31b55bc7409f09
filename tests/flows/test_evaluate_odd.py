"""Odd evaluators and odd runs: what is wrong with one stays with it, and no number mixes two things."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.build.options import BuildOptions, SourceRoot
from storage_schemas.errors import UserInputError
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.publish.submission import Card, UsedPrices, check_submission, make_submission, submission_bytes
from tasks.recipe import Recipe
from tasks.report.judged_release import load_judged_release
from tasks.scoring.release_pairs import Selection
from tasks.statistics.cells import cells_of
from tests.flows.test_evaluate import asked, rows, total
from tests.inline import build_inline, evaluate_inline
from tests.planted_evaluators import PlantedPackage


@pytest.fixture(scope="module")
def built(
    tmp_path_factory: pytest.TempPathFactory, add_film: Callable[[Path, int], Path], small_recipe: Recipe
) -> Path:
    """A store with a release of two pairs."""
    folder = tmp_path_factory.mktemp("two")
    add_film(folder / "videos", 0)
    aspects = {name: small_recipe.aspects[name] for name in ("aesthetics", "comprehensiveness")}
    recipe = small_recipe.model_copy(update={"aspects": aspects})
    sources = (SourceRoot(path=str(folder / "videos")),)
    build_inline(BuildOptions(store=str(folder / "store"), sources=sources, recipe=recipe))
    return folder / "store"


@pytest.fixture
def store(built: Path, tmp_path: Path) -> Path:
    shutil.copytree(built, tmp_path / "store")
    return tmp_path / "store"


def test_what_an_evaluator_gives_of_a_wrong_type_harms_no_other(store: Path, planted: PlantedPackage) -> None:
    moods = ("mistyped", "exits", "unsettled", "half-a-sign")
    result = evaluate_inline(asked(store, *(f"planted?mood={mood}" for mood in moods), "planted"))
    assert total(result, "right") == (4, 0, 0)
    assert total(result, "mistyped") == (0, 4, 0)
    assert total(result, "exits") == (0, 4, 0)
    assert {row.message for row in rows(store, "mistyped")} == {"it gave raw = None: must be text"}
    (unsettled,) = [one for one in result.evaluators if one.label == "planted"]
    assert "settings() are not JSON-serialisable" in unsettled.stopped
    # half a sign is no reason to lose an answer, and must not spoil the store for all
    assert {(row.choice, row.raw) for row in rows(store, "half-a-sign")} == {("first", "good \ufffd")}


def test_one_evaluator_has_one_label(store: Path, planted: PlantedPackage) -> None:
    with pytest.raises(UserInputError, match="lengths and again are one evaluator with the same settings"):
        evaluate_inline(asked(store, "lengths", "lengths?label=again"))
    assert not planted.asked("lengths")
    evaluate_inline(asked(store, "planted?mood=first", "planted?mood=right&label=other"))


def test_an_evaluator_that_is_told_something_else_is_another(
    store: Path, planted: PlantedPackage, tmp_path: Path
) -> None:
    texts = tmp_path / "texts"
    (texts / "descriptions").mkdir(parents=True)
    (texts / "descriptions" / "aesthetics.txt").write_text("Is it a pleasure to look at?")
    evaluate_inline(asked(store, "planted"))
    again = evaluate_inline(asked(store, "planted", prompts=str(texts)))
    assert total(again, "right") == (4, 0, 0)
    assert planted.asked("right") == 6
    release = Release.open(Store.open(store))
    gathered = load_judged_release(release)
    assert len(gathered.names) == 2, "answers to two different questions are not averaged"
    cells = cells_of(gathered.trials)
    assert sorted((aspect, cell.requests) for (_, aspect), cell in cells.items()) == [
        ("aesthetics", 2),
        ("aesthetics", 2),
        ("comprehensiveness", 2),
    ]
    # a part of the pairs, and the same texts, are still the same evaluator
    some = Selection(aspects=("aesthetics",))
    evaluate_inline(asked(store, "planted", prompts=str(texts), selection=some, repeats=2))
    assert len({row.settings for row in rows(store, "right")}) == 2


def test_a_scorer_can_be_submitted(store: Path, planted: PlantedPackage, tmp_path: Path) -> None:
    evaluate_inline(asked(store, "lengths"))
    release = Release.open(Store.open(store))
    made = make_submission(release, rows(store, "lengths"), Card(name="L", authors=("A",)), UsedPrices())
    path = tmp_path / "lengths.json"
    path.write_bytes(submission_bytes(made))
    outcome = check_submission(path, release).submission
    assert outcome.orders == "apart"
    assert outcome.accuracies["comprehensiveness"].accuracy == 1.0
