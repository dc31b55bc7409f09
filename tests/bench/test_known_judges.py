"""Simulated judges of four known kinds are told apart by the numbers of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.known_judges import JUDGES, known_rows
from tasks.report.detection_tables import detection_table
from tasks.report.judged_release import load_judged_release
from tests.tasks.publish.judging import build_wide


def test_known_judges_are_told_apart(tmp_path: Path) -> None:
    release = build_wide(tmp_path, 30, controls=True)
    rows = list(known_rows(release.pairs()))
    assert len(rows) == len(release.pairs()) * len(JUDGES) * 2
    assert sum(row.control for row in rows) == len(rows) // 2
    table = detection_table(load_judged_release(release, judgements=rows))
    found: dict[tuple[str, str], Any] = {(row["evaluator"], row["aspect"]): row for row in table.rows}
    sees, edits, first = (found[name, "all"] for name in ("sees", "edits", "first"))
    # their accuracies are alike
    assert abs(sees["hits"] - edits["hits"]) < 0.1
    assert sees["alarms_low"] < 0.5 < sees["alarms_high"] < edits["alarms_low"]
    assert sees["d_beyond_low"] > 0.5
    assert edits["d_beyond_low"] < 0 < edits["d_beyond_high"] < sees["d_beyond_low"]
    assert first["bias_high"] < -1 < sees["bias_low"]
    assert (first["hits"], first["alarms"]) == (0.5, 0.5)
    # what reads lengths is as right as it is alarmed where the length differs, and knows nothing elsewhere
    shorter, frozen = (found["length", aspect] for aspect in ("comprehensiveness", "dynamics_degree"))
    assert (shorter["hits"], shorter["alarms"]) == (1.0, 1.0)
    assert frozen["hits_low"] < 0.5 < frozen["hits_high"]
