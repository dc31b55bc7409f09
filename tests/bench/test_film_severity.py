"""The tables of the results on free film: who is right in every draw, and from which severity on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from bench.film_severity import EVALUATORS, FILMS, Answer, cells_of, least_table, main_table, share

FILM = replace(FILMS[0], main=5, clips=(1, 2, 10), seeds=(1, 2))


def answers(outcomes: Mapping[tuple[str, str], Sequence[str]]) -> list[Answer]:
    """Two draws' answers for aesthetics, by severity and evaluator."""
    return [
        Answer("bunny", seed, f"{point}-{seed}", "aesthetics", point, who, outcome)
        for (point, who), both in outcomes.items()
        for seed, outcome in zip((1, 2), both, strict=True)
    ]


def row(table: str) -> list[str]:
    (line,) = (line for line in table.splitlines() if line.startswith("| aesthetics |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_severities_stand_in_order() -> None:
    assert FILM.points == ("1", "2", "5", "10", "weak", "medium")


def test_only_who_gives_the_same_answer_in_every_draw_is_named() -> None:
    given = {"size": "right right", "contrast": "right wrong", "motion": "wrong wrong", "duration": "tie tie"}
    outcomes = {("5", who): both.split() for who, both in (given | {"coin": "right right"}).items()}
    cells = cells_of(answers(outcomes))
    assert row(main_table(FILM, cells)) == ["2", "size", "motion", "duration"]


def test_an_evaluator_stands_where_it_begins_to_be_right_for_good() -> None:
    points, right, mixed = ("1", "2", "5", "10"), ("right", "right"), ("right", "wrong")
    outcomes = {(point, "size"): right for point in points}
    outcomes |= {(point, "motion"): mixed if point == "2" else right for point in points}
    outcomes |= {(point, "contrast"): mixed for point in points} | {("weak", "contrast"): right}
    assert row(least_table(FILM, cells_of(answers(outcomes)))) == ["size", "motion (5)", "contrast"]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [(("right", "tie"), 0.75), (("failed", "wrong"), 0.0), (("failed", "failed"), None)],
)
def test_a_tie_is_half_and_a_failure_is_not_an_answer(
    outcomes: tuple[str, str], expected: float | None
) -> None:
    assert share(answers({("5", EVALUATORS[0]): outcomes})) == expected
