"""Krippendorff's α against published examples and against the package of that name."""

from __future__ import annotations

from typing import Any

import krippendorff
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.statistics.krippendorff import Alpha, MeasurementLevel, RaterAnswer, alpha_of, rater_alphas
from tests.tasks.statistics.making import few

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


def answers(table: tuple[str, ...]) -> list[RaterAnswer]:
    return [
        RaterAnswer(f"unit-{unit:02}", f"rater-{rater}", value)
        for rater, line in enumerate(table)
        for unit, value in enumerate(line.split())
        if value != "."
    ]


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
    result = alpha_of(answers(table), tuple(values), level)
    assert result.alpha is not None
    assert round(result.alpha, 3) == published


def test_what_takes_part_is_counted() -> None:
    """The twelfth unit has one answer: 40 of the 41 can be paired."""
    result = alpha_of(answers(FOUR_OBSERVERS), tuple("12345"))
    assert (result.units, result.raters, result.answers) == (11, 4, 40)


tables = st.integers(2, 6).flatmap(
    lambda raters: st.lists(
        st.lists(st.sampled_from("ABC."), min_size=raters, max_size=raters), min_size=1, max_size=25
    )
)


@few
@given(tables, st.sampled_from(LEVELS))
def test_it_is_what_the_package_computes(rows: list[list[str]], level: MeasurementLevel) -> None:
    data = np.array([[np.nan if v == "." else "ABC".index(v) for v in row] for row in rows]).T
    given_ = [
        RaterAnswer(str(unit), str(rater), value)
        for unit, row in enumerate(rows)
        for rater, value in enumerate(row)
        if value != "."
    ]
    result = alpha_of(given_, ("A", "B", "C"), level)
    paired = data[:, (~np.isnan(data)).sum(0) > 1]
    if len(set(paired[~np.isnan(paired)])) < 2:
        assert result.alpha is None
        return
    expected = krippendorff.alpha(
        reliability_data=data, level_of_measurement=level, value_domain=[0.0, 1.0, 2.0]
    )
    assert result.alpha == pytest.approx(expected, abs=1e-9)


@few
@given(tables, st.sampled_from(LEVELS), st.randoms(use_true_random=False))
def test_order_and_names_do_not_matter(rows: list[list[str]], level: MeasurementLevel, random: Any) -> None:
    first = [
        RaterAnswer(f"{unit:03}", str(rater), value)
        for unit, row in enumerate(rows)
        for rater, value in enumerate(row)
        if value != "."
    ]
    mixed = list(first)
    random.shuffle(mixed)
    key = ("seed", 1)
    assert alpha_of(mixed, "ABC", level, key=key, draws=50) == alpha_of(
        first, "ABC", level, key=key, draws=50
    )
    assert rater_alphas(mixed, "ABC", level) == rater_alphas(first, "ABC", level)


@few
@given(tables, st.sampled_from(LEVELS))
def test_raters_make_up_the_whole(rows: list[list[str]], level: MeasurementLevel) -> None:
    """Each rater's difference, weighted by the rater's answers, is the difference of all."""
    some = [
        RaterAnswer(str(unit), str(rater), value)
        for unit, row in enumerate(rows)
        for rater, value in enumerate(row)
        if value != "."
    ]
    whole, each = alpha_of(some, "ABC", level), rater_alphas(some, "ABC", level)
    assert sum(one.answers for one in each.values()) == whole.answers
    if whole.alpha is None:
        assert all(one.alpha is None for one in each.values())
    else:
        mean = sum((one.alpha or 0.0) * one.answers for one in each.values()) / whole.answers
        assert mean == pytest.approx(whole.alpha, abs=1e-9)


def test_who_answers_against_all_others_stands_out() -> None:
    rows = [RaterAnswer(str(unit), f"good-{n}", "AC"[unit % 2]) for unit in range(20) for n in range(4)]
    rows += [RaterAnswer(str(unit), "bad", "CA"[unit % 2]) for unit in range(20)]
    result = rater_alphas(rows, "ABC", "ordinal")
    assert (result["bad"].alpha or 0) < -0.5 < 0.3 < min(result[f"good-{n}"].alpha or 0 for n in range(4))


@pytest.mark.parametrize("level", LEVELS)
def test_without_two_values_or_two_answers_there_is_none(level: MeasurementLevel) -> None:
    assert alpha_of([], "ABC", level) == Alpha(0, 0, 0, None)
    assert alpha_of([RaterAnswer("1", "a", "A")], "ABC", level, key=("k",)) == Alpha(0, 0, 0, None)
    same = [RaterAnswer(str(unit), rater, "A") for unit in range(5) for rater in "ab"]
    assert alpha_of(same, "ABC", level, key=("k",)) == Alpha(5, 2, 10, None)
    assert rater_alphas([], "ABC", level) == {}


def test_full_agreement_is_one_and_its_interval_has_no_width() -> None:
    rows = [RaterAnswer(str(unit), rater, "AC"[unit % 2]) for unit in range(30) for rater in "abc"]
    result = alpha_of(rows, "ABC", "ordinal", key=("k",))
    assert result.alpha == 1.0
    assert result.interval is not None
    assert (result.interval.low, result.interval.high) == (1.0, 1.0)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Raters that say the unit's value with chance 0.8, else any: α of very many units is the truth."""

    def drawn(units: int, seed: int) -> list[RaterAnswer]:
        rng = np.random.default_rng(seed)
        truth = rng.integers(3, size=units)
        output = np.where(rng.random((units, 5)) < 0.8, truth[:, None], rng.integers(3, size=(units, 5)))
        return [RaterAnswer(str(u), str(r), "ABC"[output[u, r]]) for u in range(units) for r in range(5)]

    true = alpha_of(drawn(20_000, 0), "ABC").alpha
    assert true is not None
    assert true == pytest.approx(0.64, abs=0.01)
    inside = 0
    for seed in range(1, 101):
        result = alpha_of(drawn(80, seed), "ABC", key=("test", seed), draws=200)
        assert result.interval is not None
        assert result.alpha is not None
        assert result.alpha in result.interval
        inside += true in result.interval
    assert 88 <= inside <= 100


def test_units_of_one_source_hang_together() -> None:
    rng = np.random.default_rng(3)
    rows, cluster = [], {}
    for source in range(12):
        split = source % 3 == 0  # on the pairs of these sources raters never agree
        for place in range(6):
            unit = f"{source}-{place}"
            cluster[unit] = source
            for rater in range(4):
                value = rng.integers(3) if split else place % 3
                rows.append(RaterAnswer(unit, str(rater), "ABC"[value]))
    alone = alpha_of(rows, "ABC", key=("k",)).interval
    together = alpha_of(rows, "ABC", key=("k",), cluster=cluster).interval
    assert alone is not None
    assert together is not None
    assert together.high - together.low > 1.3 * (alone.high - alone.low)
    assert alpha_of(rows, "ABC", key=("k",), cluster=dict.fromkeys(cluster, 1)).interval is None


def test_what_is_no_answer_is_refused() -> None:
    with pytest.raises(ValueError, match="'D' is none of the values A, B, C"):
        alpha_of([RaterAnswer("1", "a", "D"), RaterAnswer("1", "b", "A")], ("A", "B", "C"))
    with pytest.raises(ValueError, match="a answers twice on 1"):
        alpha_of([RaterAnswer("1", "a", "A"), RaterAnswer("1", "a", "A")], "ABC")
