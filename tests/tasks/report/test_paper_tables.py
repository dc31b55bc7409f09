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
from tasks.report.accuracy import matrix_of
from tasks.report.judged_release import JudgedRelease, load_judged_release
from tasks.report.paper_tables import PaperPiece, paper_document, paper_pieces
from tasks.report.release_report import report_of
from tasks.report.systems import ASPECT_ORDER, systems_of
from tasks.report.table import Column, Table
from tasks.votes.release_votes import read_release_votes
from tests.papers.tables import printed, rows
from tests.tasks.publish.judging import build_wide, judged, scored, skilled
from tests.tasks.report.latex_source import columns_of, environments, lines_of, plain_text
from tests.tasks.report.printed_release import printed_release
from tests.tasks.votes.voting import vote


@pytest.fixture(scope="module")
def printed_judgements() -> JudgedRelease:
    return printed_release()


def of_printed_values(gathered: JudgedRelease) -> dict[str, PaperPiece]:
    """Give the pieces of the paper's own release; its correlations and retention are typed in."""
    correlations = Table(
        "duration-correlation",
        "",
        (),
        tuple(
            {
                "evaluator": row["evaluator"],
                "aspect": row["aspect"],
                "rho_bins": float(row["rho"]),
                "p_bins": None,
            }
            for row in rows("table7")
        ),
    )
    retention = Table(
        "retention",
        "",
        (
            Column("excluded_c", "excluded by C", "count"),
            Column("excluded_a", "excluded, A ≤ B", "count"),
            Column("initial", "pairs", "count"),
            Column("undecided", "undecided", "count"),
            Column("final", "kept", "count"),
            Column("rate", "rate", "percent"),
        ),
        tuple(
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
        ),
    )
    facts = Table("release", "", (Column("videos", "Videos", "count"),), ({"videos": 3932},))
    nothing = Table("", "", (), (), empty="nothing")
    tables = {
        "release": facts,
        "retention": retention,
        "duration-correlation": correlations,
        "accuracy-by-duration": nothing,
        "filter-accuracies": nothing,
        "content-categories": nothing,
        "source-durations": nothing,
    }
    pieces = paper_pieces(gathered, matrix_of(gathered), tables, {})
    return {piece.name: piece for piece in pieces}


@pytest.fixture(scope="module")
def paper(printed_judgements: JudgedRelease) -> dict[str, PaperPiece]:
    return of_printed_values(printed_judgements)


ROWS = ["GPT-5", "GPT-5-mini", "Qwen3"]


def test_table_2_has_the_papers_ninety_cells_in_its_order(paper: dict[str, PaperPiece]) -> None:
    lines = lines_of(paper["table-2"].latex)
    assert [cell for cell in lines[0] if cell] == ["Video Quality", "Video-Text Consistency"]
    assert [line[0] for line in lines[3:]] == [
        r"\textit{Video-based}",
        *ROWS,
        r"\textit{Text-based}",
        *ROWS,
        "CLIPScore",
        "VideoScore",
        "Human",
    ]
    names = [
        *(f"{model}-video" for model in ("gpt-5", "gpt-5-mini", "qwen3-vl")),
        *(f"{model}-text" for model in ("gpt-5", "gpt-5-mini", "qwen3-vl")),
        "clipscore",
        "videoscore",
        "human",
    ]
    accuracy, half = printed("table2", "accuracy"), printed("table2", "plus_minus")
    shown = [line for line in lines[3:] if line[1]]
    for name, line in zip(names, shown, strict=True):
        expected = [f"{accuracy[name, aspect]}±{half[name, aspect]}" for aspect in ASPECT_ORDER]
        assert [plain_text(cell) for cell in line[1:]] == expected, name


def test_the_best_and_the_second_of_a_column_are_the_papers(paper: dict[str, PaperPiece]) -> None:
    accuracy = printed("table2", "accuracy")
    shown = [line for line in lines_of(paper["table-2"].latex)[3:] if line[1]]
    for place, aspect in enumerate(ASPECT_ORDER, 1):
        ranked = sorted({float(text) for (_, of), text in accuracy.items() if of == aspect}, reverse=True)
        bold = [cell for line in shown if "textbf" in (cell := line[place])]
        underlined = [cell for line in shown if "underline" in (cell := line[place])]
        assert [plain_text(cell).split("±")[0] for cell in bold] == [str(ranked[0])]
        assert {plain_text(cell).split("±")[0] for cell in underlined} == {str(ranked[1])}


def test_table_5_has_the_papers_twenty_cells(paper: dict[str, PaperPiece]) -> None:
    accuracy, half = printed("table5", "accuracy"), printed("table5", "plus_minus")
    shown = lines_of(paper["table-5"].latex)[3:]
    assert [line[0] for line in shown] == ["IgnMax", "EachTrunc"]
    for policy, line in zip(("ignore-max", "each-truncate"), shown, strict=True):
        expected = [f"{accuracy[policy, aspect]}±{half[policy, aspect]}" for aspect in ASPECT_ORDER]
        assert [plain_text(cell) for cell in line[1:]] == expected


def test_table_3_has_the_papers_rows_in_its_order(paper: dict[str, PaperPiece]) -> None:
    header, *shown = lines_of(paper["table-3"].latex)
    assert header[0] == "Aspect"
    assert len(header) == 6
    columns = ("initial", "excluded_c", "excluded_a_not_above_b", "final", "rate")
    for line, row in zip(shown, rows("table3"), strict=True):
        assert line[0].lower().replace(" ", "_") == row["aspect"]
        # 282 of 446 are 63.2 %, printed as 63.3
        expected = ["63.2" if row[column] == "63.3" else row[column] for column in columns]
        assert line[1:] == expected


def test_tables_7_and_8_have_four_digits_and_no_hyphen_for_a_minus(paper: dict[str, PaperPiece]) -> None:
    rho = printed("table7", "rho")
    shown = [line for line in lines_of(paper["table-7"].latex)[3:] if line[1]]
    assert [plain_text(cell) for cell in shown[0][1:]] == [
        rho["gpt-5-video", aspect] for aspect in ASPECT_ORDER
    ]
    assert [plain_text(cell) for cell in shown[8][1:]] == [rho["human", aspect] for aspect in ASPECT_ORDER]
    assert not re.search(r"[& ]-\d", paper["table-7"].latex)
    assert [line[1:] for line in lines_of(paper["table-8"].latex)[3:] if line[1]] == [["--"] * 10] * 9


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


def test_rules_below_the_categories_span_their_columns(paper: dict[str, PaperPiece]) -> None:
    assert "\\cmidrule(lr){2-5} \\cmidrule(lr){6-11}" in paper["table-2"].latex


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Release:
    release = build_wide(tmp_path_factory.mktemp("wide"), 10)
    pairs = release.pairs()
    store = JudgementsStore(release.store)
    store.add(judged("my_judge-video", pairs, skilled("a", 0.9)))
    store.add(judged("gpt-5-text", pairs, skilled("b", 0.8), settings="aaaaaaaa"))
    store.add(judged("gpt-5-text", pairs, skilled("c", 0.7), settings="bbbbbbbb"))
    store.add(scored("50%_scorer & co", pairs, skilled("d", 0.6)))
    VotesStore(release.store).add(
        [
            vote(
                record.pair_id,
                f"worker{place}",
                "C" if int(record.source_id[-2:]) < 3 else "A",
                "high",
                source_id=record.source_id,
                aspect=record.aspect,
            )
            for record in pairs
            for place in range(5)
        ]
    )
    return release


@pytest.fixture(scope="module")
def gathered(wide: Release) -> JudgedRelease:
    return load_judged_release(wide, people=read_release_votes(wide))


def test_evaluators_that_the_paper_lacks_have_a_place(gathered: JudgedRelease) -> None:
    assert [(system.group, system.shown) for system in systems_of(gathered)] == [
        ("Video-based", "my_judge"),
        ("Text-based", "GPT-5 (aaaaaa)"),
        ("Text-based", "GPT-5 (bbbbbb)"),
        ("", "50%_scorer & co"),
        ("", "Human"),
    ]


def test_any_release_gives_well_formed_pieces(gathered: JudgedRelease, tmp_path: Path) -> None:
    report = report_of(gathered)
    pieces = {piece.name: piece for piece in report.paper}
    assert list(pieces) == [
        *("table-1", "table-2", "table-3", "table-5", "table-7", "table-8"),
        *("figure-3", "figure-4", "figure-8", "figure-9"),
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
    retained = lines_of(pieces["table-3"].latex)
    assert (
        retained[1] == ["Dynamics Degree", "10", "3", "0", "7", "70.0"] or "Comprehensiveness" in retained[1]
    )


def test_the_document_compiles(gathered: JudgedRelease, tmp_path: Path) -> None:
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("no pdflatex here; its structure is checked above")
    report = report_of(gathered)
    (tmp_path / "figures").mkdir()
    (tmp_path / "paper").mkdir()
    for figure in report.figures.values():
        (tmp_path / "figures" / f"{figure.name}.pdf").write_bytes(figure.pdf)
    for piece in report.paper:
        (tmp_path / "paper" / f"{piece.name}.tex").write_text(piece.latex)
    (tmp_path / "paper" / "all.tex").write_text(paper_document(report.paper, "A release"))
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"]
    ran = subprocess.run(command, cwd=tmp_path / "paper", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:]
