"""SLVMEval, tables 6 and 10: what our aspects are to judges and to VideoScore."""

from __future__ import annotations

from tasks.aspects.registry import BUILT_IN, aspect
from tests.papers.tables import rows


def test_aspects_have_the_dimension_ids_that_judges_are_told() -> None:
    expected = {row["aspect"]: row["dimension"] for row in rows("table6")}
    assert {name: aspect(name).dimension for name in BUILT_IN} == expected
