"""SLVMEval, table 3: what the human filter left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks.statistics.intervals import printed_per_cent
from tasks.votes.filter import TOTAL, FilterRule, PairOutcome, retention, verdict
from tests.papers.tables import rows

ROWS = {row["aspect"]: row for row in rows("table3")}
COLUMNS = ("initial", "excluded_c", "excluded_a_not_above_b", "final")


@pytest.mark.parametrize("aspect", ROWS)
def test_exclusions_leave_the_final_pairs(aspect: str) -> None:
    initial, with_c, a_not_above_b, final = (int(ROWS[aspect][column]) for column in COLUMNS)
    assert initial - with_c - a_not_above_b == final


@pytest.mark.parametrize("aspect", ROWS)
def test_rates_follow_to_the_printed_digit(aspect: str) -> None:
    rate = printed_per_cent(int(ROWS[aspect]["final"]) / int(ROWS[aspect]["initial"]))
    if aspect == "aesthetics":
        # 282 of 446 are 63.23 %: the one rate that is printed otherwise
        assert (rate, ROWS[aspect]["rate"]) == ("63.2", "63.3")
    else:
        assert rate == ROWS[aspect]["rate"]


@pytest.mark.parametrize("column", COLUMNS)
def test_totals_are_sums(column: str) -> None:
    assert sum(int(row[column]) for aspect, row in ROWS.items() if aspect != "total") == int(
        ROWS["total"][column]
    )


#: Ratings of five workers that the paper's rule excludes for C, excludes for A ≤ B, and keeps.
RATINGS = {
    "excluded_c": ("AAAAC", "CCCCC", "ABBBC"),
    "excluded_a_not_above_b": ("AABBB", "BBBBB"),
    "final": ("AAABB", "AAAAA"),
}


def voted(aspect: str) -> Iterator[PairOutcome]:
    """As many pairs of an aspect as the table counts, with votes that the filter has to decide on."""
    for column, ratings in RATINGS.items():
        for number in range(int(ROWS[aspect][column])):
            votes = ratings[number % len(ratings)]
            pair = f"{aspect}-{column}-{number}"
            yield PairOutcome(pair, pair, aspect, verdict(votes, FilterRule()))  # type: ignore[arg-type]


def test_the_filter_makes_the_table_of_such_votes() -> None:
    aspects = [aspect for aspect in ROWS if aspect != "total"]
    table = retention(one for aspect in aspects for one in voted(aspect))
    assert [row.aspect for row in table] == [*aspects, TOTAL]
    for row in table:
        printed = ROWS["total" if row.aspect == TOTAL else row.aspect]
        counts = (row.initial, row.excluded_c, row.excluded_a, row.final)
        assert counts == tuple(int(printed[column]) for column in COLUMNS)
        assert row.undecided == 0
        assert row.rate is not None
        if row.aspect != "aesthetics":
            assert printed_per_cent(row.rate) == printed["rate"]
