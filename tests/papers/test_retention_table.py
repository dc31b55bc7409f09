"""SLVMEval, table 3: what the human filter left."""

from __future__ import annotations

import pytest

from tasks.statistics.printed import printed_per_cent
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
