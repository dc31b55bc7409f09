"""Thresholds in the report of a release with several severities."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_schemas.judgements import Order, Preferred
from storage_schemas.pair import PairRecord
from storage_schemas.rng import keyed_rng
from tasks.report.figures import figures_of
from tasks.report.judged_release import load_judged_release
from tasks.report.threshold_tables import threshold_tables
from tests.tasks.publish.judging import Answers, build_wide, judged


def sees(threshold: float) -> Answers:
    """Answer alike in both orders, with a chance that rises with the number of clips."""

    def answers(record: PairRecord, _order: Order) -> Preferred:
        share = record.clips_degraded**3 / (record.clips_degraded**3 + threshold**3)
        right = keyed_rng("sees", threshold, record.pair_id).random() < 0.5 + 0.5 * share
        return "high" if right else "low"

    return answers


def test_thresholds_by_clips_with_points_curve_and_interval(tmp_path: Path) -> None:
    release = build_wide(tmp_path, 40, severe=True)
    records = release.pairs()
    rows = [*judged("keen", records, sees(1.5)), *judged("dull", records, sees(40.0))]
    gathered = load_judged_release(release, judgements=rows)
    fits, points = threshold_tables(gathered)
    keen, dull = fits.rows[0], fits.rows[1]
    assert (keen["evaluator"], keen["axis"], keen["sources"], keen["answers"]) == ("dull", "clips", 40, 240)
    assert (dull["evaluator"], dull["reached"]) == ("keen", "reached")
    assert dull["threshold_low"] is None or dull["threshold_low"] < 1.5
    assert dull["threshold_high"] is None or dull["threshold_high"] > 1.5
    assert keen["reached"] == "not reached"
    assert [row["level"] for row in points.rows[:3]] == [1.0, 2.0, 5.0]
    for row in points.rows:
        assert row["low"] <= row["accuracy"] <= row["high"]
        assert row["fitted"] == pytest.approx(row["accuracy"], abs=0.15)
    (figure,) = figures_of({points.name: points}, ["keen", "dull"])
    assert (figure.name, b"<svg" in figure.svg) == ("psychometric-points", True)


def test_release_of_one_severity_has_no_thresholds(tmp_path: Path) -> None:
    release = build_wide(tmp_path, 3)
    rows = list(judged("keen", release.pairs(), sees(1.5)))
    for table in threshold_tables(load_judged_release(release, judgements=rows)):
        assert not table.rows
        assert "[severity]" in table.empty
