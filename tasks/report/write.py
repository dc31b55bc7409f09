"""Write the report's pages, tables and figures into a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tasks.report.accuracy import (
    DEFAULT_INTERVAL,
    INTERVAL_TEXTS,
    LEAST_SHARE,
    IntervalKind,
    Matrix,
    accuracy_table,
    matrix_of,
)
from tasks.report.disagreement import disagreements, line_of, pair_page
from tasks.report.evaluator_tables import comparison_table, duration_tables, order_table, wins_table
from tasks.report.figures import Figure, figures_of, inline_svg
from tasks.report.formats import (
    csv_text,
    latex_document,
    latex_text,
    markdown_text,
    matrix_latex,
    matrix_markdown,
    render,
)
from tasks.report.judged_release import JudgedRelease
from tasks.report.localisation_table import localisation_table
from tasks.report.owned_folder import OwnedFolder
from tasks.report.paper_tables import PaperPiece, paper_document, paper_pieces
from tasks.report.people_tables import agreement_table, filter_tables, retention_table
from tasks.report.published import Against, Published, hold_against
from tasks.report.release_facts import content_tables, facts_table, release_facts
from tasks.report.severity_power_cost import cost_table, power_table, severity_tables
from tasks.report.table import Table
from tasks.statistics.comparisons import compare_all
from tasks.statistics.intervals import FEW_SOURCES
from tasks.votes.release_votes import PEOPLE

#: The file that says which files of a folder are the report's own; nothing else is ever removed.
LIST_NAME = "report.json"
#: Number of disputed pairs with a page.
DISAGREEMENTS = 20

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Section:
    """One section of the page; `short` is its name in the menu, `folded` are initially collapsed tables."""

    id: str
    short: str
    title: str
    text: str
    tables: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()


SECTIONS = (
    Section(
        "order",
        "Order",
        "Order of the two videos",
        "Does a judge prefer what it sees first?",
        ("order-bias",),
        ("order-bias",),
        ("order-bias-by-aspect",),
    ),
    Section(
        "comparisons",
        "Comparisons",
        "Is one better than another?",
        "Which differences are significant?",
        ("better-than",),
        (),
        ("mcnemar",),
    ),
    Section(
        "duration",
        "Length",
        "Length of the video",
        "Up to what length can a judge be trusted?",
        (),
        ("accuracy-by-duration",),
        ("duration-correlation", "accuracy-by-duration"),
    ),
    Section(
        "severity",
        "Severity",
        "Severity of the damage",
        "How much damage does a judge need to see it?",
        ("severity-thresholds",),
        ("severity-clips", "severity-strength"),
        ("severity-clips", "severity-strength"),
    ),
    Section(
        "where",
        "Where",
        "Where the damage is",
        "Does a judge that prefers the right video also see where the other is damaged?",
        ("localisation",),
    ),
    Section(
        "filter",
        "Filter",
        "People and their filter",
        "Which pairs people kept, whether the others change the result, and how well people agree.",
        ("retention", "filter-correlation", "agreement"),
        ("filter-accuracies",),
        ("filter-accuracies",),
    ),
    Section(
        "content",
        "Content",
        "What the videos are",
        "The sources by what kind of video they are, and by length.",
        ("content-categories",),
        ("content-categories", "source-durations"),
        ("source-durations",),
    ),
    Section(
        "power",
        "Power",
        "What this number of pairs can show",
        "Read this before a small difference.",
        ("power",),
    ),
    Section(
        "cost", "Cost", "Requests and cost", "Requests, failures, tokens and dollars by evaluator.", ("cost",)
    ),
)


@dataclass(frozen=True)
class Report:
    """All tables and figures of a report, before anything is written."""

    gathered: JudgedRelease
    matrix: Matrix
    tables: dict[str, Table]
    figures: dict[str, Figure]
    against: Against | None = None

    @cached_property
    def paper(self) -> list[PaperPiece]:
        """Its numbers in the form of the paper's tables and figures."""
        return paper_pieces(self.gathered, self.matrix, self.tables, self.figures)


def report_of(
    gathered: JudgedRelease,
    interval: IntervalKind = DEFAULT_INTERVAL,
    published: Published | None = None,
) -> Report:
    """Return the tables and figures on a release's judgements, held against published values if given."""
    matrix = matrix_of(gathered, interval)
    members = compare_all(gathered.trials, gathered.ties)
    made = [
        facts_table(gathered.release),
        *content_tables(gathered.release),
        accuracy_table(gathered, matrix),
        order_table(gathered),
        order_table(gathered, by_aspect=True),
        wins_table(gathered, members),
        comparison_table(gathered, members),
        *duration_tables(gathered),
        retention_table(gathered),
        *filter_tables(gathered),
        agreement_table(gathered),
        *severity_tables(gathered),
        localisation_table(gathered),
        power_table(matrix, members, gathered),
        cost_table(gathered),
    ]
    tables = {table.name: table for table in made}
    figures = figures_of(tables, list(gathered.names.values()))
    against = None if published is None else hold_against(published, gathered, matrix, tables)
    if against is not None:
        tables |= {table.name: table for table in against.tables}
    return Report(gathered, matrix, tables, {figure.name: figure for figure in figures}, against)


def write_report(
    report: Report,
    target: Path,
    *,
    private: bool = True,
    most: int = DISAGREEMENTS,
    progress: Progress | None = None,
) -> Path:
    """Write a report into `target` and return the path of its first page.

    Parameters
    ----------
    target
        A folder: new, empty, or from an earlier report.
    private
        False for a public report: a source that may not be redistributed then has numbers only.
    most
        Number of disputed pairs with a page.
    progress
        Called with (steps done, total steps, description).

    Raises
    ------
    UserInputError
        If `target` has other content.
    SetAside
        If the disk is full or `target` cannot be written.
    """
    owned = OwnedFolder(target, LIST_NAME)
    report_step = progress or (lambda _done, _total, _what: None)
    gathered = report.gathered
    disputed = disagreements(gathered, most)
    total = len(disputed) + 2
    report_step(1, total, "tables and figures")
    _write_tables(owned, report)
    for figure in report.figures.values():
        owned.write(f"figures/{figure.name}.svg", figure.svg)
        owned.write(f"figures/{figure.name}.pdf", figure.pdf)
    marked = private and any(not row.redistributable for row in gathered.release.sources())
    head = {"release": release_head(gathered), "marked": marked}
    lines = [line_of(gathered, one, private) for one in disputed]
    for place, one in enumerate(disputed):
        page = pair_page(gathered, one, private)
        data = {
            **head,
            "title": f"{page['aspect']}: {page['source']}",
            "pair": page,
            "before": lines[place - 1] if place else None,
            "after": lines[place + 1] if place + 1 < len(lines) else None,
        }
        owned.write(f"pairs/{page['slug']}.html", render("pair.html.j2", data))
        report_step(place + 2, total, f"pair {place + 1} of {len(disputed)}")
    data = {**head, "title": f"Report on {gathered.release.name}", **index_data(report, lines)}
    owned.write("index.html", render("index.html.j2", data))
    owned.settle()
    report_step(total, total, "done")
    return target / "index.html"


def _write_tables(owned: OwnedFolder, report: Report) -> None:
    for name, table in report.tables.items():
        owned.write(f"tables/{name}.csv", csv_text(table).encode())
        owned.write(f"tables/{name}.md", markdown_text(table).encode())
        owned.write(f"tables/{name}.tex", latex_text(table).encode())
    owned.write("tables/aspects-by-evaluators.md", matrix_markdown(report.matrix).encode())
    owned.write("tables/aspects-by-evaluators.tex", matrix_latex(report.matrix).encode())
    names = ["aspects-by-evaluators", *report.tables]
    head = release_head(report.gathered)
    document = latex_document(names, f"{head['name']}, version {head['version']}")
    owned.write("tables/all.tex", document.encode())
    for piece in report.paper:
        owned.write(f"paper/{piece.name}.tex", piece.latex.encode())
    owned.write(
        "paper/all.tex", paper_document(report.paper, f"{head['name']}, version {head['version']}").encode()
    )


def release_head(gathered: JudgedRelease) -> dict[str, str]:
    """Return the release's facts for the head of every page."""
    release = gathered.release
    return {
        "name": release.name,
        "version": str(release.version),
        "recipe": str(release.recipe.get("name", "")),
        "created_at": str(release.info.get("created_at", "")),
        "checksum": release.manifest.content_checksum,
    }


def index_data(report: Report, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the data of the first page."""
    gathered = report.gathered
    failed = sum(row.failure is not None for row in gathered.rows)
    votes = sum((row.evaluator, row.settings) == PEOPLE for row in gathered.rows)
    figures = [
        ("Pairs judged", f"{len({row.pair_id for row in gathered.rows}):,}"),
        ("Aspects", f"{len(gathered.aspects)}"),
        ("Evaluators", f"{len(gathered.names)}"),
        *([("Answers of people", f"{votes:,}")] if votes else []),
        ("Requests", f"{len(gathered.rows) - votes:,}"),
        ("Without an answer", f"{failed:,}"),
    ]
    return {
        "figures": figures,
        "small": small_sample(len({trial.pair.source_id for trial in gathered.trials})),
        "facts": release_facts(gathered.release).as_texts(),
        "paper": report.paper,
        "matrix": report.matrix,
        "interval_note": INTERVAL_TEXTS[report.matrix.interval],
        "least_share": f"{LEAST_SHARE:.0%}".replace("%", " %"),
        "ties": {"half": "half a point", "wrong": "nothing", "dropped": "not at all"}[gathered.ties],
        "severities": bool(gathered.main_strength),
        "sections": (*SECTIONS, *_against_section(report)),
        "beside": report.against.beside if report.against is not None else {},
        "against": report.against,
        "tables": report.tables,
        "drawings": {
            # made by matplotlib, which escapes its text
            name: Markup(inline_svg(figure.svg, name, f"{figure.title}; the numbers are in its table"))
            for name, figure in report.figures.items()
        },
        "lines": lines,
    }


def small_sample(sources: int) -> str:
    """Return what a reader has to know of a sample of so few sources; empty for enough of them."""
    if sources >= FEW_SOURCES:
        return ""
    return (
        f"The judged pairs are of {sources} source{'' if sources == 1 else 's'}. What holds for so few may "
        f"not hold for others, and with fewer than {FEW_SOURCES} sources intervals are mostly too narrow."
    )


def _against_section(report: Report) -> tuple[Section, ...]:
    against = report.against
    if against is None:
        return ()
    folded = tuple(table.name for table in against.tables)
    title = f"Against {against.title}"
    return (Section("against", "Against", title, "What is here, and what is published.", folded=folded),)
