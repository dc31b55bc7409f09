"""SLVMEval, table 3: what the human filter left."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.statistics.intervals import printed_per_cent
from tasks.votes.filter import TOTAL, FilterRule, PairOutcome, retention, verdict
from tests.papers.tables import rows

ROWS = {row["aspect"]: row for row in rows("table3")}
COLUMNS = ("initial", "excluded_c", "excluded_a_not_above_b", "final")


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
    """What is excluded leaves the final pairs, the totals are sums, and the rates follow."""
    aspects = [aspect for aspect in ROWS if aspect != "total"]
    table = retention(one for aspect in aspects for one in voted(aspect))
    assert [row.aspect for row in table] == [*aspects, TOTAL]
    for row in table:
        printed = ROWS["total" if row.aspect == TOTAL else row.aspect]
        counts = (row.initial, row.excluded_c, row.excluded_a, row.final)
        assert counts == tuple(int(printed[column]) for column in COLUMNS)
        assert row.undecided == 0
        assert row.rate is not None
        # 282 of 446 are 63.23 %: the one rate that is printed otherwise
        otherwise = ("63.2", "63.3") if row.aspect == "aesthetics" else (printed["rate"],) * 2
        assert (printed_per_cent(row.rate), printed["rate"]) == otherwise
