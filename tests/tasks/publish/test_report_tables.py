"""The report's tables: numbers, marks, reasons for what is empty, and what leaves as text."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Judgement, JudgementsStore, Order, Preferred
from storage_schemas.pair import PairRecord
from storage_schemas.release import Release
from tasks.report.accuracy import MEAN, POOLED, Mark, Matrix, is_compared, matrix_of
from tasks.report.figures import figures_of
from tasks.report.formats import (
    csv_text,
    latex,
    latex_document,
    latex_text,
    markdown_text,
    matrix_latex,
    matrix_markdown,
)
from tasks.report.judged_release import JudgedRelease, load_judged_release
from tasks.report.people_tables import filter_tables
from tasks.report.release_report import ReleaseReport, report_of
from tasks.report.table import Column, Table
from tasks.statistics.intervals import Interval
from tests.tasks.publish.judging import Answers, build_wide, judged, row, scored, skilled
from tests.tasks.report.latex_source import environments

FILMS = 10
Kept = Preferred | None


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build_wide(tmp_path_factory.mktemp("wide"), FILMS)


def first_right(count: int, rest: Kept = "low") -> Answers:
    """Give answers that are right on the first films."""
    return lambda record, _order: "high" if int(record.source_id[-2:]) < count else rest


def judgements(release: Release) -> list[Judgement]:
    pairs = release.pairs()
    dynamics = [pair for pair in pairs if pair.aspect == "dynamics_degree"]

    def careful(record: PairRecord, order: Order) -> Kept:
        number = int(record.source_id[-2:])
        if number == 9 and order == "low_first":
            return None
        return "low" if number == 0 and order == "high_first" else "high"

    return [
        *judged("careful", pairs, careful),
        *scored("half", pairs, first_right(5, "tie")),
        *scored("lucky", dynamics[:1], first_right(FILMS)),
        *judged("human", pairs, first_right(8)),
    ]


@pytest.fixture(scope="module")
def gathered(wide: Release) -> JudgedRelease:
    return load_judged_release(wide, judgements=judgements(wide))


@pytest.fixture(scope="module")
def report(gathered: JudgedRelease) -> ReleaseReport:
    return report_of(gathered)


def test_every_cell_has_accuracy_interval_n_and_failures(report: ReleaseReport) -> None:
    matrix = report.matrix
    assert matrix.evaluators == ("careful", "half", "human", "lucky")
    dynamics = next(line for line in matrix.rows if line.aspect == "dynamics_degree")
    # careful: nine pairs with both answers, one of the 18 wrong
    assert [cell.accuracy for cell in dynamics.cells] == [pytest.approx(17 / 18), 0.75, 0.8, 1.0]
    careful, half, human, lucky = (cell.cell for cell in dynamics.cells)
    assert careful is not None
    assert (careful.n, careful.failed, careful.failures) == (18, 1, (("cut_off", 1),))
    assert careful.bounds == Interval(18 / 20, 19 / 20)
    assert half is not None
    assert half.ties == 5
    assert human is not None
    assert human.n == 20
    # one right answer on one pair is not compared with others
    assert lucky is not None
    assert (is_compared(careful), is_compared(lucky), lucky.not_asked) == (True, False, FILMS - 1)
    assert dynamics.pairs == FILMS


def test_the_best_is_marked_where_it_is_clear(wide: Release) -> None:
    rows = [
        *scored("good", wide.pairs(), first_right(FILMS)),
        *scored("bad", wide.pairs(), first_right(0)),
        *judged("first", wide.pairs(), lambda _, order: "high" if order == "high_first" else None),
        *judged("lazy", wide.pairs(), lambda record, _: "high" if record.source_id < "film-05" else None),
    ]
    matrix = matrix_of(load_judged_release(wide, judgements=rows))
    for line in (*matrix.rows, *matrix.summary):
        # bad, first, good, lazy
        assert [cell.mark for cell in line.cells] == ["", "", "best", ""]
        assert [cell.accuracy for cell in line.cells] == [0.0, None, 1.0, 1.0]
    counted = matrix_of(load_judged_release(wide, judgements=rows, failures="wrong"))
    assert [cell.accuracy for cell in counted.rows[0].cells] == [0.0, 0.5, 1.0, 0.5]
    assert [cell.cell.bounds for cell in counted.rows[0].cells if cell.cell] == [
        None, Interval(0.5, 1), None, Interval(0.5, 1)
    ]  # fmt: skip


def test_means_and_pools_compare_only_what_was_asked_everywhere(report: ReleaseReport) -> None:
    pooled, mean = report.matrix.summary
    assert (pooled.aspect, mean.aspect) == (POOLED, MEAN)
    assert mean.cells[3].accuracy is None, "asked on one aspect of two"
    assert mean.cells[1].accuracy == pytest.approx(0.75)
    assert pooled.cells[0].accuracy == pytest.approx(34 / 36)
    assert pooled.cells[3].mark == ""


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    # n = 20 for the paper's, 10 pairs for Wilson's; ten sources that answer alike in both orders are worth 10
    [("paper", 0.6247, 0.9753), ("wilson", 0.4902, 0.9433)],
)
def test_interval_can_be_chosen(gathered: JudgedRelease, kind: str, low: float, high: float) -> None:
    human = matrix_of(gathered, kind).rows[0].cells[2]  # type: ignore[arg-type]
    assert human.interval is not None
    assert (human.interval.low, human.interval.high) == pytest.approx((low, high), abs=1e-4)


def test_the_csv_has_all_three_intervals(report: ReleaseReport) -> None:
    lines = list(csv.DictReader(io.StringIO(csv_text(report.tables["accuracy"]))))
    (human,) = (one for one in lines if (one["aspect"], one["evaluator"]) == ("dynamics_degree", "human"))
    assert [human[name] for name in ("accuracy", "n", "pairs", "clusters")] == ["0.8", "20", "10", "10"]
    assert float(human["paper_low"]) == pytest.approx(0.6247, abs=1e-4)
    assert float(human["wilson_low"]) == pytest.approx(0.4902, abs=1e-4)
    # ten sources, less what is lost because their likeness is estimated
    assert 0.45 < float(human["clustered_low"]) < 0.4902
    careful = next(line for line in lines if line["evaluator"] == "careful")
    assert [careful[name] for name in ("failures", "bounds_low", "bounds_high", "coverage")] == [
        "cut_off 1", "0.9", "0.95", "0.95"
    ]  # fmt: skip
    mean = next(line for line in lines if (line["aspect"], line["evaluator"]) == (MEAN, "human"))
    assert float(mean["clustered_low"]) < float(mean["accuracy"]) < float(mean["clustered_high"])


def test_order_bias_leaves_scorers_out(report: ReleaseReport) -> None:
    lines = {line["evaluator"]: line for line in report.tables["order-bias"].rows}
    assert set(lines) == {"careful", "human"}
    # of 18 pairs with both answers two differ by order
    assert (lines["careful"]["both"], lines["careful"]["equal"]) == (18, 16)
    assert lines["human"]["first_rate"] == 0.5


def test_comparisons_are_corrected_within_their_aspect(report: ReleaseReport) -> None:
    members = report.tables["comparisons"].rows
    assert len(members) == 3 + 6
    names = ("comprehensiveness", "half", "human")
    (one,) = (row for row in members if (row["aspect"], row["first"], row["second"]) == names)
    # better on the two films that people got wrong, worse on the three that it tied
    assert (one["first_better"], one["second_better"], one["pairs"]) == (2, 3, FILMS)
    assert (one["p"], one["p_holm"]) == (1.0, 1.0)
    wins = report.tables["better-than"]
    over = [f"over {name}" for name in ("careful", "half", "human", "lucky")]
    assert [column.title for column in wins.columns][1:] == over
    assert wins.rows[0]["over_1"] == "0 of 2"
    assert "over_0" not in wins.rows[0]


def test_equal_evaluators_share_the_first_place(wide: Release) -> None:
    pairs = wide.pairs()
    rows = [
        *scored("a", pairs, first_right(8)),
        *scored("b", pairs, first_right(5)),
        *scored("c", pairs, first_right(8)),
    ]
    (power, _) = report_of(load_judged_release(wide, judgements=rows)).tables["power"].rows
    assert (power["first"], power["second"]) == ("a, c", "b")
    assert "difference" not in power
    (power, _) = report_of(load_judged_release(wide, judgements=rows[20:])).tables["power"].rows
    assert (power["first"], power["second"], power["effective_n"]) == ("c", "b", 10)
    assert power["difference"] == pytest.approx(0.3)


def test_durations(report: ReleaseReport) -> None:
    lines = {(line["aspect"], line["evaluator"]): line for line in report.tables["duration-correlation"].rows}
    # right on the eight shortest films, wrong on the two longest
    human = lines["dynamics_degree", "human"]
    assert human["pairs"] == FILMS
    assert human["rho_pairs"] == pytest.approx(-0.6963, abs=1e-4)
    assert lines["dynamics_degree", "lucky"]["rho_pairs"] is None
    bins = [
        line
        for line in report.tables["accuracy-by-duration"].rows
        if (line["aspect"], line["evaluator"]) == ("all", "human")
    ]
    assert [line["accuracy"] for line in bins] == [1.0, 1.0, 1.0, pytest.approx(1 / 3)]
    assert sum(line["pairs"] for line in bins) == 2 * FILMS


def test_tables_without_data_say_why(report: ReleaseReport) -> None:
    for name in ("severity-clips", "severity-strength", "severity-thresholds"):
        assert not report.tables[name].rows
        assert "one severity" in report.tables[name].empty
    assert "no votes yet" in report.tables["filter-correlation"].empty
    for table in report.tables.values():
        assert bool(table.rows) != bool(table.empty), table.name
    drawn = {"accuracy", "accuracy-by-duration", "order-bias", "content-categories", "source-durations"}
    assert set(report.figures) == drawn


def test_one_scorer_alone_and_one_that_always_failed(wide: Release) -> None:
    def of(rows: Iterable[Judgement]) -> ReleaseReport:
        return report_of(load_judged_release(wide, judgements=list(rows)))

    alone = of(scored("coin", wide.pairs(), skilled("c", 0.5)))
    assert "nothing to compare" in alone.tables["comparisons"].empty
    assert "both videos in one request" in alone.tables["order-bias"].empty
    assert all(cell.mark == "" for line in alone.matrix.rows for cell in line.cells)
    failed = of(judged("down", wide.pairs(), lambda *_: None))
    cell = failed.matrix.rows[0].cells[0]
    assert cell.accuracy is None
    assert cell.cell is not None
    assert cell.cell.failed == 20
    assert "–" in matrix_markdown(failed.matrix)


def test_the_filter(wide: Release) -> None:
    kept = {pair.pair_id: int(pair.source_id[-2:]) % 2 == 0 for pair in wide.pairs()}
    rated = load_judged_release(wide, judgements=judgements(wide), kept=kept)
    correlations, accuracies = filter_tables(rated)
    counted = {line["aspect"]: line["evaluators"] for line in correlations.rows}
    assert counted == {"dynamics_degree": 4, "comprehensiveness": 3}
    for name, values in (("human", (0.8, 0.8)), ("half", (0.75, 0.8))):
        line = next(line for line in accuracies.rows if line["evaluator"] == name)
        assert (line["unfiltered"], line["filtered"]) == values


def test_severity(tmp_path: Path) -> None:
    release = build_wide(tmp_path, FILMS, severe=True)

    def sees_much(record: PairRecord, _order: Order) -> Kept:
        return "low" if record.clips_degraded < 2 and int(record.source_id[-2:]) % 2 else "high"

    rows = list(scored("eyes", release.pairs(), sees_much))
    report = report_of(load_judged_release(release, judgements=rows))
    assert report.matrix.rows[0].pairs == FILMS, "the main table is at the recipe's own severity"
    assert report.matrix.rows[0].cells[0].accuracy == 1.0
    points = [line for line in report.tables["severity-clips"].rows if line["aspect"] == "dynamics_degree"]
    assert [(line["level"], line["accuracy"]) for line in points] == [(1.0, 0.5), (2.0, 1.0), (5.0, 1.0)]
    result = report.tables["severity-thresholds"].rows[0]
    assert (result["reached"], result["level"]) == ("reached", pytest.approx(2**0.5))
    assert figures_of({"severity-clips": report.tables["severity-clips"]}, ["eyes"])


def test_two_settings_of_one_name_are_two_evaluators(wide: Release) -> None:
    pairs = wide.pairs()
    rows = [
        *scored("clip", pairs, first_right(3), settings="aaaaaaaa1"),
        *scored("clip", pairs, first_right(9), settings="bbbbbbbb2"),
    ]
    names = matrix_of(load_judged_release(wide, judgements=rows)).evaluators
    assert names == ("clip (aaaaaa)", "clip (bbbbbb)")


def test_judgements_read_are_of_this_release_only(wide: Release, tmp_path: Path) -> None:
    other = build_wide(tmp_path, 2)
    store = JudgementsStore(other.store)
    with pytest.raises(UserInputError, match="no judgements yet for release wide"):
        load_judged_release(other)
    foreign = other.pairs()[0].model_copy(update={"pair_id": "f" * 64})
    store.add([row("coin", foreign, "apart", "high"), *scored("coin", other.pairs(), skilled("c", 0.5))])
    assert len(load_judged_release(other).rows) == 4
    with pytest.raises(UserInputError, match="is from 'cion': there are coin"):
        load_judged_release(other, ["cion"])


def test_figures_are_the_same_bytes_again_and_carry_no_date(report: ReleaseReport) -> None:
    again = figures_of(report.tables, list(report.gathered.names.values()))
    for figure in again:
        held = report.figures[figure.name]
        assert (figure.svg, figure.pdf) == (held.svg, held.pdf)
        assert b"<dc:date>" not in figure.svg
        assert b"CreationDate" not in figure.pdf
        assert figure.pdf.startswith(b"%PDF")
        assert report.tables[figure.table].rows


EVIL = Table(
    "evil",
    "50 % & more_things",
    (Column("name", "name"), Column("share", "share", "percent")),
    (
        {"name": "=HYPERLINK(1)", "share": 0.5},
        {"name": "a|b\nc <img src=x> \\input{/etc/passwd} $x$ 日本", "share": None},
        {"name": "-1", "share": -0.25},
    ),
)


def test_a_cell_stays_a_cell() -> None:
    lines = list(csv.reader(io.StringIO(csv_text(EVIL))))
    assert lines[1] == ["'=HYPERLINK(1)", "0.5"]
    assert lines[3] == ["'-1", "-0.25"]
    assert lines[2][0].count("\n") == 1
    assert len(lines) == 4
    markdown = markdown_text(EVIL).splitlines()
    assert "| a\\|b c &lt;img src=x&gt; \\\\input{/etc/passwd} $x$ 日本 | – |" in markdown
    assert latex("50 % of $x_1$ & \\input{a} # ~ ^ “日”") == (
        r"50 \% of \$x\_1\$ \& \textbackslash{}input\{a\} \# \textasciitilde{} \textasciicircum{} ``?''"
    )


def marked(matrix: Matrix) -> Matrix:
    """Mark the first evaluator as the best, and the third as the second."""
    marks: tuple[Mark, ...] = ("best", "", "second", "")
    rows = [
        replace(
            row, cells=tuple(replace(cell, mark=mark) for cell, mark in zip(row.cells, marks, strict=True))
        )
        for row in matrix.rows
    ]
    return replace(matrix, rows=tuple(rows))


def test_markdown_has_the_golden_cells(report: ReleaseReport) -> None:
    text = matrix_markdown(marked(report.matrix))
    assert "| aspect | careful | half | human | lucky |" in text
    assert re.search(
        r"\| Dynamics degree \| \*\*94\.4\*\*<br>[\d.]+–[\d.]+<br>n 18, 1 failed<br>"
        r"bounds 90\.0–95\.0 \| 75\.0<br>",
        text,
    )
    assert "100.0<br>20.7–100.0<br>n 1, 0 failed, 9 not asked" in text
    assert "_80.0_" in text


def test_latex_is_well_formed(report: ReleaseReport) -> None:
    main = matrix_latex(marked(report.matrix))
    assert environments(main) == ["tabular"]
    assert r"\textbf{94.4}" in main
    assert r"\underline{80.0}" in main
    columns = len(report.matrix.evaluators) + 2
    for line in main.splitlines():
        if line.endswith(r"\\"):
            assert len(re.findall(r"(?<!\\)&", line)) == columns - 1
    for table in (*report.tables.values(), EVIL):
        text = latex_text(table)
        assert environments(text) == (["longtable"] if table.rows else [])
        for line in text.splitlines():
            if line.endswith(r" \\"):
                assert len(re.findall(r"(?<!\\)&", line)) == len(table.shown) - 1


def test_latex_compiles(report: ReleaseReport, tmp_path: Path) -> None:
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("no pdflatex here; its structure is checked above")
    texts = {name: latex_text(table) for name, table in {**report.tables, "evil": EVIL}.items()}
    texts |= {"main": matrix_latex(report.matrix)}
    for name, text in {**texts, "all": latex_document(list(texts), "A release")}.items():
        (tmp_path / f"{name}.tex").write_text(text)
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:]
