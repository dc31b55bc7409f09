"""The figures of LoCoT2V-Bench's metrics are kept one by one; nothing is timed here."""

from __future__ import annotations

import json
from pathlib import Path

from bench.suite_metrics import keep


def test_one_metric_measured_again_leaves_the_others_figures(tmp_path: Path) -> None:
    path = tmp_path / "suite_metrics_1_min.json"
    for metric, seconds in (("warping_error", 3), ("read", 1), ("cuts", 2), ("read", 4)):
        keep(path, {"metric": metric, "cpu_s_a_minute": seconds})
    result = [(one["metric"], one["cpu_s_a_minute"]) for one in json.loads(path.read_text(encoding="utf-8"))]
    # in the order of the table, not of the measurements
    assert result == [("read", 4), ("warping_error", 3), ("cuts", 2)]
