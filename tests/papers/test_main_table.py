"""SLVMEval, table 2: all 90 accuracies and intervals from counts, and what the text says of them."""

from __future__ import annotations

import pytest

from tasks.statistics.cells import Cell, cell_of
from tasks.statistics.intervals import printed_per_cent
from tests.papers.printed_counts import counts_that_print
from tests.papers.tables import (
    JUDGES,
    SCORERS,
    WORKERS,
    answers_of,
    claims,
    counts,
    pairs_of,
    printed,
    rows,
    trials_with,
)

ACCURACY, PLUS_MINUS = printed("table2", "accuracy"), printed("table2", "plus_minus")
ASPECTS = list(dict.fromkeys(row["aspect"] for row in rows("table2")))

#: Printed accuracies that no count gives.
NO_COUNT = {("gpt-5-video", "temporal_flow")}
#: People's cells in which two counts print the same accuracy.
TWO_COUNTS = {("human", "aesthetics"), ("human", "background_consistency"), ("human", "dynamics_degree")}
#: The one among them whose counts do not give the same interval either.
TWO_INTERVALS = {("human", "aesthetics")}


def computed(cell: tuple[str, str], right: int, tied: int = 0) -> Cell:
    return cell_of(trials_with(*cell, right, tied))


def half_width(cell: Cell) -> str:
    """The interval as the table prints it; no interval of the table reaches 0 or 100 %."""
    assert cell.paper is not None
    return printed_per_cent((cell.paper.high - cell.paper.low) / 2)


def test_the_table_has_ten_aspects_by_nine_evaluators() -> None:
    assert len(ACCURACY) == 90
    assert {evaluator for evaluator, _ in ACCURACY} == {*JUDGES, *SCORERS, "human"}
    assert len(ASPECTS) == 10


@pytest.mark.parametrize("evaluator", [*JUDGES, *SCORERS, "human"])
def test_counts_give_every_accuracy_n_and_interval(evaluator: str) -> None:
    for aspect in ASPECTS:
        cell = evaluator, aspect
        if cell in NO_COUNT:
            continue
        intervals = set()
        for right in counts()[cell]:
            result = computed(cell, right)
            assert result.accuracy == pytest.approx(right / answers_of(*cell))
            assert printed_per_cent(result.accuracy or 0) == ACCURACY[cell], cell
            assert result.n == pairs_of(aspect) * (2 if evaluator in JUDGES else 1)
            assert result.counted_pairs == result.pairs == pairs_of(aspect)
            intervals.add(half_width(result))
        if cell in TWO_INTERVALS:
            assert len(intervals) == 2
            assert PLUS_MINUS[cell] in intervals
        else:
            assert intervals == {PLUS_MINUS[cell]}, cell


def test_which_counts_are_not_unique() -> None:
    result = {cell: len(counts()[cell]) for cell in ACCURACY}
    assert {cell for cell, fitting in result.items() if fitting == 0} == NO_COUNT
    assert {cell for cell, fitting in result.items() if fitting > 1} == TWO_COUNTS


def test_the_interval_tells_which_of_two_counts_it_was() -> None:
    """A finding, not an input: of 1,360 and 1,361 right answers only the greater has the printed interval."""
    cell = "human", "aesthetics"
    assert counts()[cell] == (1360, 1361)
    assert [half_width(computed(cell, right)) for right in (1360, 1361)] == ["2.2", "2.1"]


def test_the_accuracy_that_no_count_gives() -> None:
    """50.3 % is not a share of 570 answers: the paper does not say whether one is missing or a tie."""
    (cell,) = NO_COUNT
    answers = answers_of(*cell)
    assert answers == 570
    assert counts_that_print(ACCURACY[cell], answers) == ()
    assert [printed_per_cent(right / answers) for right in (286, 287)] == ["50.2", "50.4"]
    # whichever count it was, the interval is the printed one
    assert {half_width(computed(cell, right)) for right in (286, 287)} == {PLUS_MINUS[cell]}
    assert counts_that_print(ACCURACY[cell], answers - 1) == (286,)
    one_tie = computed(cell, 286, tied=1)
    assert (one_tie.n, one_tie.ties) == (570, 1)
    assert printed_per_cent(one_tie.accuracy or 0) == ACCURACY[cell]
    assert half_width(one_tie) == PLUS_MINUS[cell]


def test_technical_quality_was_scored_on_130_pairs() -> None:
    aspect = "technical_quality"
    fits = {
        pairs: all(
            counts_that_print(ACCURACY[evaluator, aspect], times * pairs)
            for evaluators, times in ((JUDGES, 2), (SCORERS, 1), (("human",), WORKERS))
            for evaluator in evaluators
        )
        for pairs in range(125, 137)
    }
    assert [pairs for pairs, fitting in fits.items() if fitting] == [130]


@pytest.mark.parametrize("evaluator", ["gpt-5-video", "human"])
def test_n_of_the_other_convention_does_not_fit(evaluator: str) -> None:
    """Pairs for judges, or answers for people, give other intervals than the paper's."""
    wrong = 0
    for aspect in ASPECTS:
        for right in counts()[evaluator, aspect]:
            share = right / answers_of(evaluator, aspect)
            n = pairs_of(aspect) if evaluator in JUDGES else answers_of(evaluator, aspect)
            wrong += (
                printed_per_cent(1.96 * (share * (1 - share) / n) ** 0.5) != PLUS_MINUS[evaluator, aspect]
            )
    assert wrong >= 9


def test_what_the_text_says_of_the_table() -> None:
    output = claims()
    people = [float(ACCURACY["human", aspect]) for aspect in ASPECTS]
    assert [str(min(people)), str(max(people))] == output["human_range"]
    for aspect, gain in output["qwen3_gain"].items():
        # to the printed digit the rounded accuracies give it too; here from the counts
        text, video = (
            counts()[f"qwen3-vl-{view}", aspect][0] / answers_of(f"qwen3-vl-{view}", aspect)
            for view in ("text", "video")
        )
        assert printed_per_cent(text - video) == gain
    assert sum(pairs_of(aspect) for aspect in ASPECTS) + output["unique_prompts"] == output["videos"]


def test_the_gap_between_people_and_the_best_system() -> None:
    """Nine aspects and the greatest gap are as said; the least is technical quality's 6.0, not 6.3."""
    output = claims()
    gaps = {}
    for aspect in ASPECTS:
        best = max(float(ACCURACY[evaluator, aspect]) for evaluator in (*JUDGES, *SCORERS))
        gaps[aspect] = round(float(ACCURACY["human", aspect]) - best, 1)
    under = {aspect: gap for aspect, gap in gaps.items() if gap > 0}
    assert len(under) == output["aspects_under_people"]
    assert str(max(under.values())) == output["gap_range"][1]
    assert min(under, key=lambda aspect: under[aspect]) == "technical_quality"
    assert under["technical_quality"] == 6.0
    assert str(under["appearance_style"]) == output["gap_range"][0]
