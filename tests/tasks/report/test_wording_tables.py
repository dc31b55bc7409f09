"""Wordings in a report: in their own section only, and beside what is published."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from storage_schemas.pair import PairRecord
from tasks.report.figures import figures_of
from tasks.report.judged_release import load_judged_release
from tasks.report.published import Published, PublishedValue
from tasks.report.release_report import report_of
from tasks.report.table import Table
from tasks.report.write import write_report
from tasks.statistics.wordings import PARTS
from tests.tasks.publish.judging import build_wide, judged
from tests.tasks.publish.pages import Elements


def test_figures_show_how_far_words_move_a_judge_and_what_varies() -> None:
    ends = {"mean": 0.8, "least": 0.7, "most": 0.9}
    spread = [
        {"aspect": aspect, "evaluator": name, "low": low, "high": high, **ends}
        for aspect in ("all", "color")
        for name, low, high in (("judge", 0.5, 1.0), ("sure", None, None))
    ]
    parts = [
        {"aspect": "all", "evaluator": "judge", "part": part, "share": share}
        for part, share in (("pair", 0.5), ("wording", 0.25), ("pair and wording", 0.25), ("order", 0.0))
    ]
    tables = {
        name: Table(name, name, (), tuple(rows))
        for name, rows in (("wordings", spread), ("wording-variance", parts))
    }
    # a judge with wordings alone need not be in the other figures
    wordings, variance = (one.svg.decode() for one in figures_of(tables, ["judge"]))
    assert set(re.findall('id="mean-([^"]+)"', wordings)) == {"0-0", "0-1", "1-0", "1-1"}
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", wordings)
    assert {"judge", "sure", "All aspects", "Color", "another, 95 %"} <= set(texts)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", variance)
    assert [one for one in texts if one in PARTS] == list(PARTS[:4])
    # a bar's parts stand side by side, as wide as their shares
    bars = re.findall(r'<path d="M ([\d.]+) [\d.]+ \nL ([\d.]+) [\d.]+ \n[^z]*z\n" clip-path', variance)
    widths = [float(end) - float(start) for start, end in bars]
    assert [round(width / sum(widths), 3) for width in widths if width] == [0.5, 0.25, 0.25]


def test_gap_to_a_published_value_names_wordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.report.write.figures_of", lambda *_: [])
    release = build_wide(tmp_path / "wide", 4)

    def right_on(films: int) -> list[PairRecord]:
        return [one for one in release.pairs() if int(one.source_id.rpartition("-")[2]) < films]

    rows = []
    for name, films in (("", 4), ("a", 3), ("b", 4), ("c", 3)):
        right = {one.pair_id for one in right_on(films)}
        details = json.dumps({"wording": {"of": "judge", "name": name}} if name else {})
        label = f"judge+{name}" if name else "judge"
        rows += judged(
            label,
            release.pairs(),
            lambda one, _, r=right: "high" if one.pair_id in r else "low",
            details=details,
        )
    published = Published(
        "a paper",
        tuple(
            PublishedValue("accuracy", "2", "6", "judge", column, "", value, 2.0)
            for column, value in (("comprehensiveness", 90.0), ("dynamics_degree", 20.0))
        ),
    )
    report = report_of(load_judged_release(release, judgements=rows), published=published)
    assert set(report.gathered.names.values()) == {"judge"}
    whole = report.tables["wordings"].rows[0]
    assert (whole["aspect"], whole["wordings"], whole["pairs"], whole["mean"]) == ("all", 4, 8, 0.875)
    # s = 0.144, t = 3.18: another wording may be anywhere from 0.36 on
    assert whole["low"] == pytest.approx(0.875 - 3.182 * 0.1443 * 1.118, abs=1e-3)
    found = {row["aspect"]: row["words"] for row in report.tables["against-accuracy"].rows}
    assert found == {"comprehensiveness": "may be enough", "dynamics_degree": "are not enough"}
    page = write_report(report, tmp_path / "report")
    assert {given.get("id") for _, given in Elements(page).found} >= {"wordings"}
    plain = report_of(load_judged_release(release, judgements=[one for one in rows if one.wording is None]))
    assert not plain.tables["wordings"].rows
