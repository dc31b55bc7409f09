"""Dimensions of a suite against aspects: only judges of one dimension, claims, strengths and the figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from storage_schemas.judgements import Judgement
from storage_schemas.release import Release
from tasks.report.figures import figures_of
from tasks.report.judged_release import load_judged_release
from tasks.report.specificity_tables import specificity_tables
from tests.tasks.publish.judging import build_wide, judged, scored

CLAIMED, OTHER = "comprehensiveness", "dynamics_degree"


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build_wide(tmp_path_factory.mktemp("wide"), 4)


def rows_of(release: Release) -> list[Judgement]:
    # a scorer's details are of each video
    said = {"dimension": "whole", "claims": [CLAIMED]}
    details = json.dumps({"high": said, "low": said})
    scorer = scored(
        "suite.whole",
        release.pairs(),
        lambda one, _: "high" if one.aspect == CLAIMED else "tie",
        details=details,
    )
    # a judge that sees both has its scores by place: here the damaged video always has the greater one
    paired = []
    for row in judged("suite.fooled", release.pairs(), lambda *_: "low"):
        both = [1.0, 2.0] if row.order == "high_first" else [2.0, 1.0]
        told = json.dumps({"dimension": "fooled", "claims": [], "scores": both})
        paired.append(row.model_copy(update={"details": told}))
    plain = scored("contrast", release.pairs(), lambda *_: "high")
    mapped = scored("suite", release.pairs(), lambda *_: "high", details='{"dimension": "whole"}')
    return [*scorer, *paired, *plain, *mapped]


def test_a_dimension_is_held_against_each_aspect(wide: Release) -> None:
    matrix, summary = specificity_tables(load_judged_release(wide, judgements=rows_of(wide)))
    held = {(row["evaluator"], row["aspect"]): row for row in matrix.rows}
    assert {name for name, _ in held} == {"suite.whole", "suite.fooled", "contrast"}
    assert {key: (row["auc"], row["claims"]) for key, row in held.items()} == {
        ("suite.whole", CLAIMED): (1.0, "yes"),
        ("suite.whole", OTHER): (0.5, "no"),
        ("suite.fooled", CLAIMED): (0.0, "no"),
        ("suite.fooled", OTHER): (0.0, "no"),
        ("contrast", CLAIMED): (1.0, ""),
        ("contrast", OTHER): (1.0, ""),
    }
    by_name = {row["evaluator"]: row for row in summary.rows}
    whole, fooled = by_name["suite.whole"], by_name["suite.fooled"]
    assert (whole["claims"], whole["on"], whole["off"], whole["moved"]) == (CLAIMED, 1.0, 0.5, CLAIMED)
    assert (fooled["on"], fooled["off"], fooled["strongest_auc"]) == (None, 1.0, 0.0)
    (figure,) = [one for one in figures_of({"specificity": matrix}, []) if one.name == "specificity"]
    assert b"suite.fooled" in figure.svg


def test_without_a_dimension_there_is_nothing(wide: Release, tmp_path: Path) -> None:
    plain = list(scored("contrast", wide.pairs(), lambda *_: "high"))
    matrix, summary = specificity_tables(load_judged_release(wide, judgements=plain))
    assert (matrix.rows, summary.rows) == ((), ())
    assert "dimension=all" in matrix.empty
