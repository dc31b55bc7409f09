"""Write a report's pages, tables and figures into a folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from markupsafe import Markup

from tasks.report.accuracy import INTERVAL_TEXTS, MARKS_NOTE, Matrix
from tasks.report.disagreement import DisputedPair, PairLine, PairPage, disagreements
from tasks.report.figures import Figure, figures_of, inline_svg
from tasks.report.formats import (
    accuracy_text,
    csv_text,
    json_text,
    latex_document,
    latex_text,
    markdown_text,
    matrix_latex,
    matrix_markdown,
    render,
)
from tasks.report.judged_pairs import FAILURE_WORDS, JudgedPairs, small_sample
from tasks.report.owned_folder import OwnedFolder
from tasks.report.paper_tables import PaperPiece, paper_document
from tasks.report.published import Against
from tasks.report.table import Table
from tasks.votes.release_votes import PEOPLE

#: The file that says which files of a folder are the report's own; nothing else is ever removed.
LIST_NAME = "report.json"
#: Maximum number of disputed pairs listed without a search; the page's script shows this number at a time.
SHORT = 25
#: Number of disputed pairs with a page.
DISAGREEMENTS = 20
#: Text for missing data if no pair divides the evaluators.
NO_DISAGREEMENT = "disagreement (needs a pair on which two evaluators have different points)"

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Section:
    """One section of the page, shown if its tables exist and one of them has rows.

    Parameters
    ----------
    short
        Its name in the menu.
    folded
        Tables that are initially collapsed.
    data
        Long tables, which are linked.
    missing
        Its subject, for the line on missing data, and how to get the data if that is known.
    """

    id: str
    short: str
    title: str
    text: str
    tables: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    missing: str = ""

    def has_data(self, tables: Mapping[str, Table]) -> bool:
        """Return whether there is something to show."""
        if not tables.keys() >= {*self.tables, *self.data}:
            return False
        names = (*self.tables, *self.figures, *self.folded, *self.data)
        return any(name in tables and tables[name].rows for name in names)


ORDER = Section(
    "order",
    "Order",
    "Order of the two videos",
    "Does a judge prefer what it sees first?",
    ("order-bias",),
    ("order-bias",),
    ("order-bias-by-aspect",),
    missing="order of the two videos (needs a judge that sees both in one request)",
)
REPEATS = Section(
    "repeats",
    "Repeats",
    "Repeats of a request",
    "How often does a judge change its mind, and do more repeats pay?",
    ("repeats", "majority", "variance", "repeats-pay"),
    data=("repeats-by-pair",),
    missing="repeats (ask with --repeats 3)",
)
PROBES = Section(
    "probes",
    "Probes",
    "What accuracies rest on",
    "What is left of a judge's accuracy if it is given less, or something else?",
    ("probes",),
    folded=("probe-differences",),
    missing="probes (ask with --probe blind,no-prompt)",
)
WORDINGS = Section(
    "wordings",
    "Wordings",
    "Wordings of the prompts",
    "How much of a difference can the words of a request make?",
    ("wordings", "wording-variance"),
    ("wordings", "wording-variance"),
    folded=("accuracy-by-wording",),
    missing="wordings (ask with --prompts and a folder for each)",
)
PREFERENCES = Section(
    "preferences",
    "Preferences",
    "How sure judges are",
    "Is a judge right more often where it is surer, and what is left without the order of the videos?",
    ("preferences",),
    ("calibration",),
    ("calibration",),
    ("preferences-by-pair",),
    missing="how sure judges are (ask with logprobs=true)",
)
COMPARISONS = Section(
    "comparisons",
    "Comparisons",
    "Is one better than another?",
    "Which differences are significant?",
    ("better-than",),
    (),
    ("comparisons",),
    missing="comparisons (needs two evaluators with answers to the same pairs)",
)
JURIES = Section(
    "juries",
    "Juries",
    "Are several better than one?",
    "What a jury of these evaluators would answer, from the answers that exist.",
    ("juries", "jury-members"),
    folded=("error-agreement",),
    missing="juries (needs three evaluators with answers to 90 % of the requests)",
)
POWER = Section(
    "power",
    "Power",
    "What this number of pairs can show",
    "Read this before a small difference.",
    ("power",),
    missing="what this number of pairs can show",
)
COST = Section(
    "cost",
    "Cost",
    "Requests and cost",
    "Requests, failures, tokens and dollars by evaluator.",
    ("cost",),
    missing="requests and cost",
)


@dataclass(frozen=True, kw_only=True)
class Report(ABC):
    """All tables and figures of a report, before anything is written.

    Class attributes
    ----------------
    template
        The first page's template.
    """

    gathered: JudgedPairs
    matrix: Matrix
    tables: dict[str, Table]
    against: Against | None = None

    template: ClassVar[str] = "index.html.j2"

    @property
    @abstractmethod
    def sections(self) -> tuple[Section, ...]:
        """The sections of the first page, in order."""

    @cached_property
    def figures(self) -> dict[str, Figure]:
        """The figures, drawn when they are first needed: each takes a quarter of a second."""
        names = self.gathered.names
        people = names.get(PEOPLE, "")
        drawn = figures_of(self.tables, list(names.values()), self.matrix.interval, people)
        return {figure.name: figure for figure in drawn}

    @property
    def paper(self) -> Sequence[PaperPiece]:
        """Its numbers in the form of the paper's tables and figures, where they have that form."""
        return ()

    @property
    def printed(self) -> Sequence[Table]:
        """The tables that the command prints."""
        return ()

    @property
    def damaged(self) -> str:
        """The damage in the videos, in a sentence; empty if unknown."""
        return ""

    @abstractmethod
    def is_private(self, private: bool) -> bool:
        """Return whether the pages show what may not be redistributed; `private` asks for all of it."""

    @abstractmethod
    def about(self) -> dict[str, Any]:
        """Return what only this kind of first page shows."""

    @abstractmethod
    def pair_line(self, one: DisputedPair, private: bool) -> PairLine:
        """Return a disputed pair's entry in the list."""

    @abstractmethod
    def pair_page(self, one: DisputedPair, private: bool) -> PairPage:
        """Return what a disputed pair's page shows."""


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
    disputed = disagreements(report.gathered, most)
    total = len(disputed) + 2
    report_step(1, total, "tables and figures")
    # what cannot be drawn leaves no half of a report
    figures = report.figures
    _write_tables(owned, report)
    for figure in figures.values():
        owned.write(f"figures/{figure.name}.svg", figure.svg)
        owned.write(f"figures/{figure.name}.pdf", figure.pdf)
    head = {"judged": report.gathered.title, "marked": report.is_private(private)}
    lines = [report.pair_line(one, private) for one in disputed]
    for index, one in enumerate(disputed):
        page = report.pair_page(one, private)
        data = {
            **head,
            "title": f"{page.line.aspect}: {page.line.source}",
            "pair": page,
            "before": lines[index - 1] if index else None,
            "after": lines[index + 1] if index + 1 < len(lines) else None,
        }
        owned.write(f"pairs/{page.line.slug}.html", render("pair.html.j2", data))
        report_step(index + 2, total, f"pair {index + 1} of {len(disputed)}")
    data = {**head, "title": f"Report on {report.gathered.title}", **index_data(report, lines)}
    # a short list needs no search
    owned.write("index.html", render(report.template, data, "search.js" if len(lines) > SHORT else ""))
    owned.settle()
    report_step(total, total, "done")
    return target / "index.html"


def _write_tables(owned: OwnedFolder, report: Report) -> None:
    for name, table in report.tables.items():
        owned.write(f"tables/{name}.csv", csv_text(table).encode())
        if table.long:
            continue
        owned.write(f"tables/{name}.md", markdown_text(table).encode())
        owned.write(f"tables/{name}.tex", latex_text(table).encode())
    owned.write("tables/aspects-by-evaluators.md", matrix_markdown(report.matrix).encode())
    owned.write("tables/aspects-by-evaluators.tex", matrix_latex(report.matrix).encode())
    owned.write("tables/all.json", json_text(report.tables).encode())
    title = report.gathered.title
    short = [name for name, table in report.tables.items() if not table.long]
    owned.write("tables/all.tex", latex_document(["aspects-by-evaluators", *short], title).encode())
    if not report.paper:
        return
    for piece in report.paper:
        owned.write(f"paper/{piece.name}.tex", piece.latex.encode())
    owned.write("paper/all.tex", paper_document(report.paper, title).encode())


def index_data(report: Report, lines: list[PairLine]) -> dict[str, Any]:
    """Return the data of the first page."""
    gathered = report.gathered
    failed = sum(row.failure is not None for row in gathered.rows)
    controls = {row.pair_id for row in gathered.rows if row.control}
    votes = sum((row.evaluator, row.settings) == PEOPLE for row in gathered.rows)
    figures = [
        ("Pairs judged", f"{len({row.pair_id for row in gathered.rows} - controls):,}"),
        *([("Controls judged", f"{len(controls):,}")] if controls else []),
        *([("Aspects", f"{len(gathered.aspects)}")] if gathered.aspects else []),
        ("Evaluators", f"{len(gathered.names)}"),
        *([("Answers of people", f"{votes:,}")] if votes else []),
        ("Requests", f"{len(gathered.rows) - votes:,}"),
        ("Without an answer", f"{failed:,}"),
    ]
    return {
        "figures": figures,
        "damaged": report.damaged,
        "small": small_sample(len({trial.pair.source_id for trial in gathered.trials})),
        "paper": report.paper,
        "matrix": report.matrix,
        "interval_note": INTERVAL_TEXTS[report.matrix.interval],
        "marks_note": MARKS_NOTE,
        "failures": FAILURE_WORDS[gathered.failures],
        "ties": {"half": "half a point", "wrong": "nothing", "dropped": "not at all"}[gathered.ties],
        "sections": (
            *(one for one in report.sections if one.has_data(report.tables)),
            *_against_section(report),
        ),
        "missing": _missing(report, lines),
        "people_marked": PEOPLE in gathered.names and len(gathered.names) > 1,
        "beside": report.against.beside if report.against is not None else {},
        "against": report.against,
        "tables": report.tables,
        "drawings": {name: _drawing(report, figure) for name, figure in report.figures.items()},
        "lines": lines,
        **report.about(),
    }


def _missing(report: Report, lines: Sequence[PairLine]) -> list[str]:
    """Return what the page has no section on, and how to get it."""
    missing = [one.missing for one in report.sections if not one.has_data(report.tables)]
    return missing if lines else [*missing, NO_DISAGREEMENT]


def _drawing(report: Report, figure: Figure) -> Markup:
    """Return a figure for the page; the alternative text of that of accuracies has their table's last row."""
    # made by matplotlib, which escapes its text
    if figure.name != "accuracy":
        return Markup(inline_svg(figure.svg, figure.name, f"{figure.title}; the numbers are in its table"))
    row = (*report.matrix.rows, *report.matrix.summary)[-1]
    values = (
        f"{name} {accuracy_text(shown)}"
        for name, shown in zip(report.matrix.evaluators, row.cells, strict=True)
    )
    text = (
        f"{figure.title}, per cent, as dots with intervals; chance is 50. {row.title}: {', '.join(values)}. "
        "All numbers are in the table below."
    )
    return Markup(inline_svg(figure.svg, figure.name, text, largest=1.9))


def _against_section(report: Report) -> tuple[Section, ...]:
    against = report.against
    if against is None:
        return ()
    folded = tuple(table.name for table in against.tables)
    title = f"Against {against.title}"
    return (Section("against", "Against", title, "Values here, and the published ones.", folded=folded),)
