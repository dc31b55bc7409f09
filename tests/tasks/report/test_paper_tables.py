"""The paper's tables and figures as LaTeX: structure, order, and every printed cell again."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from storage_schemas.judgements import JudgementsStore
from storage_schemas.release import Release
from storage_schemas.votes import VotesStore
from tasks.report.accuracy import Matrix, marked_cells
from tasks.report.judged_release import JudgedRelease, load_judged_release
from tasks.report.paper_tables import PaperPiece, accuracy_latex, paper_document, paper_pieces
from tasks.report.release_report import ReleaseReport, report_of
from tasks.report.systems import ASPECT_ORDER, systems_of
from tasks.report.table import Column, Table
from tasks.statistics.cells import cell_of
from tasks.votes.release_votes import read_release_votes
from tests.papers.tables import printed, rows
from tests.tasks.publish.judging import build_wide, judged, scored, skilled
from tests.tasks.report.latex_source import columns_of, environments, lines_of, plain_text
from tests.tasks.statistics import making
from tests.tasks.statistics.making import Outcome
from tests.tasks.votes.voting import votes_on


@pytest.fixture(scope="module")
def paper(judgements: JudgedRelease, matrix: Matrix) -> dict[str, PaperPiece]:
    """Give the pieces of the paper's own release; its correlations and retention are typed in."""
    correlations = [
        {
            "evaluator": row["evaluator"],
            "aspect": row["aspect"],
            "rho_bins": float(row["rho"]),
            "p_bins": None,
        }
        for row in rows("table7")
    ]
    retention = [
        {
            "aspect": "all" if row["aspect"] == "total" else row["aspect"],
            "initial": int(row["initial"]),
            "excluded_c": int(row["excluded_c"]),
            "excluded_a": int(row["excluded_a_not_above_b"]),
            "undecided": 0,
            "final": int(row["final"]),
            "rate": int(row["final"]) / int(row["initial"]),
        }
        for row in sorted(rows("table3"), key=lambda row: row["aspect"])
    ]
    titles = {"excluded_c": "excluded by C", "excluded_a": "excluded, A ≤ B", "initial": "pairs"}
    titles |= {"undecided": "undecided", "final": "kept"}
    columns = [*(Column(*one, "count") for one in titles.items()), Column("rate", "rate", "percent")]
    empty = ("accuracy-by-duration", "filter-accuracies", "content-categories", "source-durations")
    tables = {
        "release": Table("release", "", (Column("videos", "Videos", "count"),), ({"videos": 3932},)),
        "retention": Table("retention", "", tuple(columns), tuple(retention)),
        "duration-correlation": Table("duration-correlation", "", (), tuple(correlations)),
        **dict.fromkeys(empty, Table("", "", (), (), empty="nothing")),
    }
    pieces = paper_pieces(judgements, matrix, tables, {})
    return {piece.name: piece for piece in pieces}


def shown(piece: PaperPiece, after: int = 3) -> list[list[str]]:
    """The lines of a table that have values."""
    return [line for line in lines_of(piece.latex)[after:] if line[1]]


def plain(line: list[str]) -> list[str]:
    return [plain_text(cell) for cell in line[1:]]


def with_interval(table: str, row: str) -> list[str]:
    accuracy, half = printed(table, "accuracy"), printed(table, "plus_minus")
    return [f"{accuracy[row, aspect]}±{half[row, aspect]}" for aspect in ASPECT_ORDER]


ROWS = ["GPT-5", "GPT-5-mini", "Qwen3"]
MODELS = ("gpt-5", "gpt-5-mini", "qwen3-vl")


def test_table_2_has_the_papers_ninety_cells_in_its_order(paper: dict[str, PaperPiece]) -> None:
    lines = lines_of(paper["table-2"].latex)
    assert [cell for cell in lines[0] if cell] == ["Video Quality", "Video-Text Consistency"]
    assert [line[0] for line in lines[3:]] == [
        *(r"\textit{Video-based}", *ROWS),
        *(r"\textit{Text-based}", *ROWS),
        *("CLIPScore", "VideoScore", "Human"),
    ]
    judges = [f"{model}-{kind}" for kind in ("video", "text") for model in MODELS]
    for name, line in zip(
        [*judges, "clipscore", "videoscore", "human"], shown(paper["table-2"]), strict=True
    ):
        assert plain(line) == with_interval("table2", name), name
    # rules below the categories span their columns
    assert "\\cmidrule(lr){2-5} \\cmidrule(lr){6-11}" in paper["table-2"].latex


def test_the_best_and_the_second_of_a_column_are_the_papers(paper: dict[str, PaperPiece]) -> None:
    accuracy = printed("table2", "accuracy")
    for place, aspect in enumerate(ASPECT_ORDER, 1):
        ranked = sorted({float(text) for (_, of), text in accuracy.items() if of == aspect}, reverse=True)
        cells = [line[place] for line in shown(paper["table-2"])]
        for mark, value in zip(("textbf", "underline"), ranked, strict=False):
            marked = [plain_text(cell).split("±")[0] for cell in cells if mark in cell]
            assert set(marked) == {str(value)}
            assert mark == "underline" or len(marked) == 1


def test_table_5_has_the_papers_twenty_cells(paper: dict[str, PaperPiece]) -> None:
    lines = lines_of(paper["table-5"].latex)[3:]
    assert [line[0] for line in lines] == ["IgnMax", "EachTrunc"]
    assert [plain(line) for line in lines] == [
        with_interval("table5", policy) for policy in ("ignore-max", "each-truncate")
    ]


def test_table_3_has_the_papers_rows_in_its_order(paper: dict[str, PaperPiece]) -> None:
    header, *lines = lines_of(paper["table-3"].latex)
    assert (header[0], len(header)) == ("Aspect", 6)
    columns = ("initial", "excluded_c", "excluded_a_not_above_b", "final", "rate")
    for line, row in zip(lines, rows("table3"), strict=True):
        assert line[0].lower().replace(" ", "_") == row["aspect"]
        # 282 of 446 are 63.2 %, printed as 63.3
        assert line[1:] == ["63.2" if row[column] == "63.3" else row[column] for column in columns]


def test_tables_7_and_8_have_four_digits_and_no_hyphen_for_a_minus(paper: dict[str, PaperPiece]) -> None:
    rho = printed("table7", "rho")
    lines = shown(paper["table-7"])
    for line, name in ((lines[0], "gpt-5-video"), (lines[8], "human")):
        assert plain(line) == [rho[name, aspect] for aspect in ASPECT_ORDER]
    assert not re.search(r"[& ]-\d", paper["table-7"].latex)
    assert [line[1:] for line in shown(paper["table-8"])] == [["--"] * 10] * 9


def test_each_table_is_well_formed_and_its_columns_are_equal(paper: dict[str, PaperPiece]) -> None:
    for name, piece in paper.items():
        result = environments(piece.latex)
        assert result == ([] if piece.empty else ["table*", "tabular"]), name
        if not piece.empty:
            assert {len(line) for line in lines_of(piece.latex)} == {columns_of(piece.latex)}, name
            assert piece.latex.count("\\toprule") == piece.latex.count("\\bottomrule") == 1
            assert "main\\_1 \\& more, version 3" in piece.latex
            assert f"\\label{{tab:slvmeval-{name[-1]}}}" in piece.latex
    document = paper_document(list(paper.values()), "A & B")
    assert environments(document) == ["document"]
    assert re.findall(r"\\input\{([\w-]+)\}", document) == list(paper)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Release:
    release = build_wide(tmp_path_factory.mktemp("wide"), 10)
    pairs = release.pairs()
    store = JudgementsStore(release.store)
    store.add(judged("my_judge-video", pairs, skilled("a", 0.9)))
    store.add(judged("gpt-5-text", pairs, skilled("b", 0.8), settings="aaaaaaaa"))
    store.add(judged("gpt-5-text", pairs, skilled("c", 0.7), settings="bbbbbbbb"))
    store.add(scored("50%_scorer & co", pairs, skilled("d", 0.6)))
    for record in pairs:
        letter = "C" if int(record.source_id[-2:]) < 3 else "A"
        about = {"source_id": record.source_id, "aspect": record.aspect}
        VotesStore(release.store).add(votes_on(record.pair_id, letter * 5, **about))
    return release


@pytest.fixture(scope="module")
def gathered(wide: Release) -> JudgedRelease:
    return load_judged_release(wide, people=read_release_votes(wide))


@pytest.fixture(scope="module")
def report(gathered: JudgedRelease) -> ReleaseReport:
    return report_of(gathered)


def test_evaluators_that_the_paper_lacks_have_a_place(gathered: JudgedRelease) -> None:
    assert [(system.group, system.shown) for system in systems_of(gathered)] == [
        ("Video-based", "my_judge"),
        ("Text-based", "GPT-5 (aaaaaa)"),
        ("Text-based", "GPT-5 (bbbbbb)"),
        ("", "50%_scorer & co"),
        ("", "Human"),
    ]


def test_any_release_gives_well_formed_pieces(report: ReleaseReport) -> None:
    pieces = {piece.name: piece for piece in report.paper}
    assert list(pieces) == [
        *(f"table-{n}" for n in (1, 2, 3, 5, 7, 8)),
        *(f"figure-{n}" for n in (3, 4, 8, 9)),
    ]
    assert {name for name, piece in pieces.items() if piece.empty} == {"table-5"}
    assert "clipscore?policy=ignore-max" in pieces["table-5"].empty
    for name, piece in pieces.items():
        kinds = environments(piece.latex)
        if name.startswith("table") and not piece.empty:
            assert kinds == ["table*", "tabular"]
            assert {len(line) for line in lines_of(piece.latex)} == {columns_of(piece.latex)}, name
        elif not piece.empty:
            assert kinds == ["figure*"]
            (picture,) = re.findall(r"\\includegraphics\[width=\\linewidth\]\{([\w-]+)\}", piece.latex)
            assert picture in report.figures
    assert "50\\%\\_scorer \\& co" in pieces["table-2"].latex
    assert ["Dynamics Degree", "10", "3", "0", "7", "70.0"] in lines_of(pieces["table-3"].latex)


def test_the_document_compiles(report: ReleaseReport, tmp_path: Path) -> None:
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("no pdflatex here; its structure is checked above")
    files = {f"figures/{figure.name}.pdf": figure.pdf for figure in report.figures.values()}
    files |= {f"paper/{piece.name}.tex": piece.latex.encode() for piece in report.paper}
    files["paper/all.tex"] = paper_document(report.paper, "A release").encode()
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"]
    ran = subprocess.run(command, cwd=tmp_path / "paper", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:]


def test_table_1_has_the_papers_other_sets_and_who_was_annotated_by_people(report: ReleaseReport) -> None:
    (piece,) = [
        one
        for one in paper_pieces(report.gathered, report.matrix, report.tables, report.figures)
        if one.name == "table-1"
    ]
    assert "Set & Human annotation & Aspects" in piece.latex
    assert re.search(r"UVE-Bench & yes & 15 & .*1,045 & 293 & 6\.1", piece.latex)
    assert re.search(r"VBench Long & no & 16 & .*-- & 944 & -- ", piece.latex)


@pytest.mark.parametrize(
    ("outcomes", "printed_as"),
    [(["right"] * 3, "100.0"), (["wrong"] * 3, "0.0"), (["right", "right", "wrong"], r"66.7$\pm$53.3")],
)
def test_accuracy_latex_has_no_interval_without_a_width(outcomes: list[Outcome], printed_as: str) -> None:
    (shown,) = marked_cells([cell_of(making.scored(outcomes))], "paper")
    assert accuracy_latex(shown) == printed_as
