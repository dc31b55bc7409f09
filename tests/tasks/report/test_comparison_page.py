from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from storage_schemas.errors import UserInputError
from tasks.report.comparison_page import compare_evaluators, comparison_files, comparison_table, verdict
from tasks.report.judged_release import JudgedRelease
from tasks.statistics.power import pairs_for_two_evaluators
from tasks.statistics.trials import Trial, TrialPair
from tests.tasks.report.printed_release import judged_release


def judged(rights: dict[str, dict[str, list[bool]]], settings: tuple[str, ...] = ("",)) -> JudgedRelease:
    """Return answers by evaluator and aspect, pair by pair; each pair is of a source of its own."""

    def trial(who: str, setting: str, aspect: str, n: int, right: bool) -> Trial:
        pair = TrialPair(f"{aspect}-{n}", f"source-{n}", aspect, 60.0)
        return Trial(who, setting, pair, "apart", 0, "high" if right else "low")

    trials = tuple(
        trial(who, setting, aspect, n, right)
        for who, held in rights.items()
        for setting in settings
        for aspect, answers in held.items()
        for n, right in enumerate(answers)
    )
    release: Any = SimpleNamespace(recipe={"aspects": {"color": {}, "scene": {}}}, name="main", version=1)
    names = {(who, one): f"{who} ({one})" if len(settings) > 1 else who for who in rights for one in settings}
    return judged_release(release, trials, names)


GOOD, BAD = [True] * 40, [True] * 20 + [False] * 20
CLEAR = judged(
    {"good": {"color": GOOD, "scene": GOOD}, "bad": {"color": BAD, "scene": [True] * 39 + [False]}}
)


def test_who_is_better_at_what_and_by_how_much() -> None:
    made = compare_evaluators(CLEAR, "good", "bad")
    color, scene, total = made.aspects
    p = [mcnemar([[20, 20], [0, 0]], exact=True).pvalue, mcnemar([[39, 1], [0, 0]], exact=True).pvalue]
    assert [color.p_holm, scene.p_holm] == pytest.approx(list(multipletests(p, method="holm")[1]))
    assert (color.better, scene.better, total.better, color.accuracies) == (0, None, 0, (1.0, 0.5))
    assert color.comparison.difference == 0.5
    assert color.pairs_for_asked == pairs_for_two_evaluators(0.05, 0.5)
    # the two differ on one of 40 pairs: no number of such pairs shows 5 points
    assert scene.pairs_for_asked is None
    assert scene.pairs_for_seen == pairs_for_two_evaluators(1 / 40, 1 / 40)
    mirror = compare_evaluators(CLEAR, "bad", "good")
    assert [row.better for row in mirror.aspects] == [1, None, 1]
    sentences = verdict(made)
    assert verdict(mirror)[0] == sentences[0]
    assert sentences[0].startswith("Over all aspects good is better than bad: +26.3 points (95 %: +1")
    assert sentences[0].endswith("; p < 0.001).")
    assert sentences[1:] == [
        "good is better at Color.",
        "No significant difference for Scene.",
        f"Detecting the observed differences takes up to {scene.pairs_for_seen} pairs per aspect (Scene); "
        "there are 40.",
    ]


def test_only_pairs_that_both_answered_count() -> None:
    held = judged({"long": {"color": [False] * 4 + [True] * 40}, "short": {"color": [True] * 4}})
    made = compare_evaluators(held, "long", "short")
    assert [row.aspect for row in made.aspects] == ["color"]
    assert made.aspects[0].accuracies == (0.0, 1.0)
    assert made.aspects[0].comparison.pairs == 4
    nothing = compare_evaluators(judged({"a": {"color": GOOD}, "b": {"scene": GOOD}}), "a", "b")
    assert nothing.aspects == ()
    assert verdict(nothing) == ["There is no pair that both a and b answered."]
    assert b"There is no pair that both answered." in comparison_files(nothing)["comparison.html"]


def test_few_sources_are_called_few() -> None:
    held = judged({"a": {"color": GOOD[:5]}, "b": {"color": [False] * 5}})
    made = compare_evaluators(held, "a", "b")
    # five sources cannot have a p under 2/32
    assert (made.aspects[0].better, made.aspects[0].p_holm) == (None, pytest.approx(2 / 32))
    assert any("The judged pairs are of 5 sources," in sentence for sentence in verdict(made))


def test_equal_answers_are_not_difference() -> None:
    made = compare_evaluators(judged({"a": {"color": GOOD}, "b": {"color": GOOD}}), "a", "b")
    row = made.aspects[0]
    assert (row.better, row.pairs_for_seen, row.pairs_for_asked, row.comparison.p) == (None, None, None, 1)
    assert verdict(made) == ["No significant difference for Color."]


def test_the_page_and_its_files() -> None:
    made = compare_evaluators(CLEAR, "good", "bad", 0.1)
    files = comparison_files(made)
    assert set(files) == {f"comparison.{kind}" for kind in ("html", "csv", "md", "tex", "svg", "pdf")}
    page = files["comparison.html"].decode()
    assert "<h1>Is good better than bad?</h1>" in page
    assert "pairs for 10 points" in page
    assert files == comparison_files(made)
    rows = comparison_table(made).rows
    assert [row["better"] for row in rows] == ["good", None, "good"]


@pytest.mark.parametrize(
    ("names", "asked", "message"),
    [
        ("good good", (), "compared with itself"),
        ("god bad", (), r"god has not judged these pairs: did you mean good\?"),
        ("good bad", (0.0,), "a difference of 0 points: give one between 0 and 100"),
    ],
)
def test_what_cannot_be_compared_is_reported(names: str, asked: tuple[float, ...], message: str) -> None:
    with pytest.raises(UserInputError, match=message):
        compare_evaluators(CLEAR, *names.split(), *asked)


def test_a_name_with_two_settings_is_asked_back() -> None:
    held = judged({"a": {"color": GOOD}, "b": {"color": BAD}}, settings=("x", "y"))
    with pytest.raises(UserInputError, match=r"with several settings, name one of: 'a \(x\)', 'a \(y\)'"):
        compare_evaluators(held, "a", "b (x)")
    assert compare_evaluators(held, "a (x)", "a (y)").aspects[0].comparison.difference == 0
