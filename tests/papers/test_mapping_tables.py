"""SLVMEval, tables 6 and 10: what our aspects are to judges and to VideoScore."""

from __future__ import annotations

from tasks.aspects.registry import BUILT_IN, aspect
from tests.papers.tables import rows


def test_aspects_have_the_dimension_ids_that_judges_are_told() -> None:
    expected = {row["aspect"]: row["dimension"] for row in rows("table6")}
    assert {name: aspect(name).dimension for name in BUILT_IN} == expected


def test_videoscore_is_asked_for_four_of_its_five_dimensions() -> None:
    """Table 10 maps each of our aspects once; nothing is mapped to temporal consistency."""
    mapping = {row["aspect"]: row["videoscore"] for row in rows("table10")}
    assert set(mapping) == set(BUILT_IN)
    assert len(rows("table10")) == len(BUILT_IN)
    assert set(mapping.values()) == {
        "visual quality",
        "factual consistency",
        "text-to-video alignment",
        "dynamic degree",
    }
