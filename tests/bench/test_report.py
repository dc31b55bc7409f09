"""The report keeps what was measured before and says what was missed; nothing is timed here."""

from __future__ import annotations

import json
import runpy
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.__main__ import FIGURES, main
from bench.measuring import ProcessUsage, compare, run
from bench.report import RATIOS, Aim, BenchFigure, machine, print_report, write_figure
from bench.suite_metrics import keep


def measured(ratio: float) -> BenchFigure:
    return BenchFigure(ratio, ratio * 4, 4.0, "CPU s", "this over that", ["a.mp4"], {"more": 1}, [{"run": 1}])


def test_figures_join_those_that_are_there_and_replace_their_own(tmp_path: Path) -> None:
    about = {"cpu": "a processor"}
    write_figure(tmp_path, "first", measured(0.6), Aim(0.65), about)
    write_figure(tmp_path, "second", measured(0.7), Aim(0.65), about)
    report = write_figure(tmp_path, "first", measured(0.5), Aim(0.65), about)
    assert report == json.loads((tmp_path / RATIOS).read_text(encoding="utf-8"))
    assert report["machine"] == about
    assert {key: value["met"] for key, value in report["figures"].items()} == {"first": True, "second": False}
    figure = report["figures"]["first"]
    assert (figure["ratio"], figure["aim"], figure["unit"]) == (0.5, "≤ 0.65", "CPU s")
    assert figure["numerator"] / figure["denominator"] == figure["ratio"]
    assert (figure["files"], figure["runs"]) == (["a.mp4"], [{"run": 1}])


def test_one_metric_measured_again_leaves_the_others_figures(tmp_path: Path) -> None:
    path = tmp_path / "suite_metrics_1_min.json"
    for metric, seconds in (("warping_error", 3), ("read", 1), ("cuts", 2), ("read", 4)):
        keep(path, {"metric": metric, "cpu_s_a_minute": seconds})
    result = [(one["metric"], one["cpu_s_a_minute"]) for one in json.loads(path.read_text(encoding="utf-8"))]
    # in the order of the table, not of the measurements
    assert result == [("read", 4), ("warping_error", 3), ("cuts", 2)]


def test_an_exact_aim_takes_nothing_else() -> None:
    assert Aim(1.0, exact=True).met(1.0)
    assert not Aim(1.0, exact=True).met(0.9999)
    assert Aim(1.1).met(1.1)


def test_the_machine_is_described_and_the_table_names_every_figure(tmp_path: Path) -> None:
    about = machine()
    assert about["cores"] > 0
    assert about["memory_gb"] > 0
    assert about["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"av", "zarr", "prefect"} <= set(about["packages"])
    for key in FIGURES:
        report = write_figure(tmp_path, key, measured(0.5), Aim(0.65), about)
    text = StringIO()
    print_report(report, list(FIGURES), Console(file=text, width=200))
    assert all(key in text.getvalue() for key in FIGURES)


def test_without_an_ffmpeg_command_one_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--out", str(tmp_path / "out")]) == 1
    missing = "no ffmpeg command, which the figures are compared with: install ffmpeg\n"
    assert capsys.readouterr().err == missing
    assert not (tmp_path / "out").exists()


def test_the_ratio_is_the_median_of_neighbours() -> None:
    values = iter([2.0, 1.0, 1.0, 30.0, 3.0, 1.0])  # the second turn measures the denominator first

    def usage() -> ProcessUsage:
        return ProcessUsage(next(values), 0.0, 0.0)

    assert compare(usage, usage, 3).ratio == 3.0


def test_children_count_with_all_that_they_start() -> None:
    spin = "import time\nwhile time.process_time() < 0.2: pass"
    alone = run([sys.executable, "-S", "-c", spin])
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {spin!r}], check=True)"
    started = run([sys.executable, "-S", "-c", parent + "; print('{\"said\": 1}')"])
    assert min(alone.cpu_s, started.cpu_s) >= 0.19
    assert started.output == {"said": 1}
    assert started.peak_mb > 1
    with pytest.raises(RuntimeError, match="nothing but trouble"):
        run([sys.executable, "-S", "-c", "raise ValueError('nothing but trouble')"])


def test_it_runs_as_make_bench_runs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "--help"])
    monkeypatch.delitem(sys.modules, "bench.__main__")
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("bench", run_name="__main__")
    assert not ended.value.code
    assert "orchestrated_over_direct" in capsys.readouterr().out
