"""Krippendorff's α against published examples and against the package of that name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.statistics.krippendorff import Alpha, MeasurementLevel, RaterAnswer, alpha_of, rater_alphas
from tests.tasks.statistics.making import few, known

#: K. Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), part C: four observers, twelve units.
FOUR_OBSERVERS = (
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
)
#: The same, part A: two observers, binary data; and part B: two observers, five nominal values.
BINARY = ("0 1 0 0 0 0 0 0 1 0", "1 1 1 0 0 1 0 0 0 0")
NOMINAL = ("a a b b d c c c e d d a", "b a b b b c c c e d d d")
LEVELS: tuple[MeasurementLevel, ...] = ("nominal", "ordinal")
tables = st.integers(2, 6).flatmap(
    lambda raters: st.lists(
        st.lists(st.sampled_from("ABC."), min_size=raters, max_size=raters), min_size=1, max_size=25
    )
)


def answers(units: Iterable[Sequence[str]]) -> list[RaterAnswer]:
    """Answers on units, a letter for each rater."""
    return [
        RaterAnswer(f"{unit:03}", str(rater), value)
        for unit, row in enumerate(units)
        for rater, value in enumerate(row)
        if value != "."
    ]


def observed(table: tuple[str, ...]) -> list[RaterAnswer]:
    return answers(list(zip(*(line.split() for line in table), strict=True)))


@pytest.mark.parametrize(
    ("table", "values", "level", "published"),
    [
        (BINARY, "01", "nominal", 0.095),
        (NOMINAL, "abcde", "nominal", 0.692),
        (FOUR_OBSERVERS, "12345", "nominal", 0.743),
        (FOUR_OBSERVERS, "12345", "ordinal", 0.815),
    ],
)
def test_published_examples(
    table: tuple[str, ...], values: str, level: MeasurementLevel, published: float
) -> None:
    result = alpha_of(observed(table), tuple(values), level)
    assert round(known(result.alpha), 3) == published
    if table is FOUR_OBSERVERS:
        # the twelfth unit has one answer: 40 of the 41 can be paired
        assert (result.units, result.raters, result.answers) == (11, 4, 40)


@few
@given(tables, st.sampled_from(LEVELS), st.randoms(use_true_random=False))
def test_any_table(rows: list[list[str]], level: MeasurementLevel, random: Any) -> None:
    """It is what the package computes, order does not matter, and raters make up the whole."""
    given_ = answers(rows)
    whole, each = alpha_of(given_, "ABC", level), rater_alphas(given_, "ABC", level)
    assert sum(one.answers for one in each.values()) == whole.answers
    data = np.array([[np.nan if v == "." else "ABC".index(v) for v in row] for row in rows]).T
    paired = data[:, (~np.isnan(data)).sum(0) > 1]
    if len(set(paired[~np.isnan(paired)])) < 2:
        assert whole.alpha is None
        assert all(one.alpha is None for one in each.values())
    else:
        domain = [0.0, 1.0, 2.0]
        expected = krippendorff.alpha(data, level_of_measurement=level, value_domain=domain)
        mean = sum((one.alpha or 0.0) * one.answers for one in each.values()) / whole.answers
        assert [whole.alpha, mean] == pytest.approx([expected] * 2, abs=1e-9)
    mixed = list(given_)
    random.shuffle(mixed)
    one, other = (alpha_of(some, "ABC", level, key=("seed", 1), draws=50) for some in (mixed, given_))
    assert one == other
    assert rater_alphas(mixed, "ABC", level) == each


def test_who_answers_against_all_others_stands_out() -> None:
    result = rater_alphas(answers(["AAAAC", "CCCCA"] * 10), "ABC", "ordinal")
    assert (result["4"].alpha or 0) < -0.5 < 0.3 < min(result[str(n)].alpha or 0 for n in range(4))


@pytest.mark.parametrize("level", LEVELS)
def test_without_two_values_or_two_answers_there_is_none(level: MeasurementLevel) -> None:
    assert alpha_of([], "ABC", level) == Alpha(0, 0, 0, None)
    assert alpha_of(answers(["A"]), "ABC", level, key=("k",)) == Alpha(0, 0, 0, None)
    assert alpha_of(answers(["AA"] * 5), "ABC", level, key=("k",)) == Alpha(5, 2, 10, None)
    assert rater_alphas([], "ABC", level) == {}


def test_full_agreement_is_one_and_its_interval_has_no_width() -> None:
    result = alpha_of(answers(["AAA", "CCC"] * 15), "ABC", "ordinal", key=("k",))
    interval = known(result.interval)
    assert (result.alpha, interval.low, interval.high) == (1.0, 1.0, 1.0)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Raters say the unit's value with chance 0.8, else any: α of very many units is 0.8²."""

    def drawn(units: int, seed: int) -> list[RaterAnswer]:
        rng = np.random.default_rng(seed)
        truth = rng.integers(3, size=units)
        said = np.where(rng.random((units, 5)) < 0.8, truth[:, None], rng.integers(3, size=(units, 5)))
        return answers([["ABC"[value] for value in row] for row in said])

    true = known(alpha_of(drawn(20_000, 0), "ABC").alpha)
    assert true == pytest.approx(0.64, abs=0.01)
    inside = 0
    for seed in range(1, 101):
        result = alpha_of(drawn(80, seed), "ABC", key=("test", seed), draws=200)
        assert known(result.alpha) in known(result.interval)
        inside += true in known(result.interval)
    assert 88 <= inside <= 100


def test_units_of_one_source_hang_together() -> None:
    rng = np.random.default_rng(3)
    # on the pairs of every third source raters never agree
    units = [
        [("ABC"[rng.integers(3)] if source % 3 == 0 else "ABC"[place % 3]) for _ in range(4)]
        for source in range(12)
        for place in range(6)
    ]
    rows, cluster = answers(units), {f"{unit:03}": unit // 6 for unit in range(72)}
    alone = known(alpha_of(rows, "ABC", key=("k",)).interval)
    together = known(alpha_of(rows, "ABC", key=("k",), cluster=cluster).interval)
    assert together.high - together.low > 1.3 * (alone.high - alone.low)
    assert alpha_of(rows, "ABC", key=("k",), cluster=dict.fromkeys(cluster, 1)).interval is None


def test_what_is_not_an_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="'D' is none of the values A, B, C"):
        alpha_of(answers(["DA"]), ("A", "B", "C"))
    with pytest.raises(ValueError, match="0 answers twice on 000"):
        alpha_of(answers(["A"]) * 2, "ABC")
