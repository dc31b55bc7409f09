"""The report's tables on preferences, from rows with a probability."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.judgements import Judgement
from tasks.report.figures import figures_of
from tasks.report.judged_release import load_judged_release
from tasks.report.release_report import ReleaseReport, report_of
from tasks.report.write import write_report
from tests.tasks.publish.judging import build_wide, judged
from tests.tasks.publish.pages import Elements


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReleaseReport:
    """Two judges that always answer "first"; one is less sure where the second video is the better one."""
    release = build_wide(tmp_path_factory.mktemp("wide"), 4)
    sure = {"high_first": 0.9, "low_first": 0.6}

    def first(_record: Any, order: str) -> Any:
        return "high" if order == "high_first" else "low"

    def weighed(row: Judgement) -> Judgement:
        return row.model_copy(update={"details": json.dumps({"p_first": sure[row.order]})})

    rows = [weighed(row) for row in judged("weighing", release.pairs(), first)]
    return report_of(
        load_judged_release(release, judgements=[*rows, *judged("plain", release.pairs(), first)])
    )


def test_the_order_free_preference_is_right_where_all_answers_are_first(report: ReleaseReport) -> None:
    every, *aspects = report.tables["preferences"].rows
    assert [row["aspect"] for row in aspects] == ["comprehensiveness", "dynamics_degree"]
    assert {row["evaluator"] for row in report.tables["preferences"].rows} == {"weighing"}
    assert (every["requests"], every["pairs"], every["accuracy"], every["free_accuracy"]) == (16, 8, 0.5, 1)
    assert every["auc"] == 1
    assert every["brier"] == pytest.approx((0.1**2 + 0.6**2) / 2)
    bins = [(row["bin_low"], row["observed"]) for row in report.tables["calibration"].rows]
    assert bins == [(0.6, 0.0), (0.9, 1.0)]
    assert figures_of({"calibration": report.tables["calibration"]}, ["weighing"])


def test_the_page_has_the_section_and_the_pairs(report: ReleaseReport, tmp_path: Path) -> None:
    page = write_report(report, tmp_path / "report")
    assert {given.get("id") for _, given in Elements(page).found} >= {"preferences"}
    lines = (tmp_path / "report/tables/preferences-by-pair.csv").read_text().splitlines()
    assert len(lines) == 9
    assert lines[1].endswith(",film-00,0.9,0.4,0.65")
