r"""The report's numbers in the form of the paper's tables and figures, as LaTeX to paste into a paper.

Each is a float with a caption and a label (``tab:slvmeval-2``), made of booktabs rules only. Where a release
cannot fill a table, its file gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tasks.report.accuracy import Matrix, MatrixCell, marked_cells
from tasks.report.figures import Figure
from tasks.report.formats import LATEX_PACKAGES, latex
from tasks.report.judged_release import JudgedRelease
from tasks.report.published import PAPER, read_published
from tasks.report.systems import System, ordered_aspects, systems_of
from tasks.report.table import ALL, NONE, Table, aspect_title
from tasks.statistics.intervals import paper_half_width, printed_per_cent
from tasks.votes.release_votes import PEOPLE

_CATEGORIES = {"quality": "Video Quality", "consistency": "Video-Text Consistency"}
#: Aspects of the paper's table 3, in its order; it differs from the other tables.
_RETENTION_ORDER = (
    "aesthetics",
    "technical_quality",
    "appearance_style",
    "background_consistency",
    "temporal_flow",
    "comprehensiveness",
    "object_integrity",
    "spatial_relationship",
    "dynamics_degree",
    "color",
    ALL,
)
_MARKS = {"best": "\\textbf{{{}}}", "second": "\\underline{{{}}}", "": "{}"}
#: Values of one row by aspect, as LaTeX.
_Cells = Mapping[str, str]


@dataclass(frozen=True)
class PaperPiece:
    """One table or figure of the paper.

    Parameters
    ----------
    name
        Name of its file, such as ``table-2``.
    title
        What it shows, for a list.
    latex
        Content of the file.
    empty
        Why there is nothing to show.
    """

    name: str
    title: str
    latex: str
    empty: str = ""


def paper_pieces(
    gathered: JudgedRelease, matrix: Matrix, tables: Mapping[str, Table], figures: Mapping[str, Figure]
) -> list[PaperPiece]:
    """Return the paper's tables 1, 2, 3, 5, 7 and 8 and figures 3, 4, 8 and 9 for a release.

    Parameters
    ----------
    tables, figures
        Those of the report, by name.
    """
    release = latex(f"{gathered.release.name}, version {gathered.release.version}")
    systems = systems_of(gathered)
    main = [system for system in systems if not system.policy]
    policies = [system for system in systems if system.policy]
    correlations = tables["duration-correlation"]
    note = (
        "Accuracy (\\%) $\\pm$ 95\\,\\% interval; bold: best, underlined: second of a column. A coin has 50."
    )
    return [
        _release_table(tables["release"], release, gathered.people is not None),
        _by_aspect(
            PaperForm("table-2", "Accuracy of evaluators", f"{note} Release {release}."),
            gathered,
            main,
            _accuracies(gathered, matrix, main),
        ),
        _retention_table(tables["retention"], release),
        _by_aspect(
            PaperForm(
                "table-5",
                "CLIPScore's prompt policies",
                "Accuracy (\\%) $\\pm$ 95\\,\\% interval of CLIPScore with other policies for long prompts. "
                f"Release {release}.",
                "No CLIPScore with another prompt policy than its default answered: "
                "'clipscore?policy=ignore-max&label=clipscore-ignore-max' is one.",
            ),
            gathered,
            policies,
            _accuracies(gathered, matrix, []),
        ),
        _by_aspect(
            PaperForm(
                "table-7",
                "Duration and accuracy, ρ",
                f"Spearman's $\\rho$ of mean duration and accuracy over bins of 100\\,s. Release {release}.",
                correlations.empty,
            ),
            gathered,
            main if correlations.rows else [],
            _correlations(gathered, correlations, "rho_bins"),
        ),
        _by_aspect(
            PaperForm(
                "table-8",
                "Duration and accuracy, p",
                f"Two-sided $p$ of the $\\rho$ of table~\\ref{{tab:slvmeval-7}}. Release {release}.",
                correlations.empty,
            ),
            gathered,
            main if correlations.rows else [],
            _correlations(gathered, correlations, "p_bins"),
        ),
        _figure(
            "figure-3",
            "Accuracy by duration",
            figures.get("accuracy-by-duration"),
            "Accuracy by duration of the video, in up to four bins with equal numbers of pairs. "
            f"Release {release}.",
            tables["accuracy-by-duration"].empty,
        ),
        _figure(
            "figure-4",
            "Accuracy with and without the human filter",
            figures.get("filter-accuracies"),
            "Accuracy on all rated pairs and on those that people kept; $r$ is Pearson's, over evaluators. "
            f"Release {release}.",
            tables["filter-accuracies"].empty,
        ),
        _figure(
            "figure-8",
            "Content categories",
            figures.get("content-categories"),
            f"Sources by content category. Release {release}.",
            tables["content-categories"].empty,
        ),
        _figure(
            "figure-9",
            "Duration of the sources",
            figures.get("source-durations"),
            f"Sources by duration. Release {release}.",
            tables["source-durations"].empty,
        ),
    ]


@dataclass(frozen=True)
class PaperForm:
    """Name, title and caption (LaTeX) of a piece, and why it is empty if it has no rows."""

    name: str
    title: str
    caption: str
    empty: str = "No evaluator answered on these pairs."


def _accuracies(
    gathered: JudgedRelease, matrix: Matrix, compared: Sequence[System]
) -> Callable[[System], _Cells]:
    """Return what gives a system's accuracies; the best and second best of `compared` are marked."""
    columns = {name: index for index, name in enumerate(matrix.evaluators)}
    shown = [columns[name] for system in compared if (name := gathered.names[system.who]) in columns]
    marks: dict[tuple[str, int], str] = {}
    for row in matrix.rows:
        marked = marked_cells([row.cells[index].cell for index in shown], matrix.interval, clearly=False)
        marks |= {(row.aspect, index): cell.mark for index, cell in zip(shown, marked, strict=True)}

    def cells(system: System) -> _Cells:
        index = columns.get(gathered.names[system.who])
        if index is None:
            return {}
        return {
            row.aspect: accuracy_latex(row.cells[index], marks.get((row.aspect, index), ""))
            for row in matrix.rows
        }

    return cells


def accuracy_latex(shown: MatrixCell, mark: str = "") -> str:
    """Return a cell as in the paper's table 2: accuracy ± half the paper's interval, in per cent.

    Where all answers agree the paper's interval has no width and says nothing: it is left out.
    """
    if shown.accuracy is None or shown.cell is None:
        return latex(NONE)
    accuracy = _MARKS[mark].format(printed_per_cent(shown.accuracy))
    half = paper_half_width(shown.accuracy, shown.cell.n)
    return f"{accuracy}$\\pm${printed_per_cent(half)}" if half else accuracy


def _correlations(gathered: JudgedRelease, table: Table, key: str) -> Callable[[System], _Cells]:
    by_cell = {(row["evaluator"], row["aspect"]): row[key] for row in table.rows}

    def cells(system: System) -> _Cells:
        name = gathered.names[system.who]
        return {
            aspect: latex(NONE) if value is None else latex(f"{value:.4f}".replace("-", "−"))
            for (evaluator, aspect), value in by_cell.items()
            if evaluator == name and aspect != ALL
        }

    return cells


def _by_aspect(
    form: PaperForm,
    gathered: JudgedRelease,
    systems: Sequence[System],
    cells: Callable[[System], _Cells],
) -> PaperPiece:
    """Return a table of evaluators by aspects, with the paper's groups of both."""
    aspects = ordered_aspects(gathered.aspects)
    rows = [(system, values) for system in systems if (values := cells(system))]
    if not rows or not aspects:
        return _nothing(form)
    width = len(aspects) + 1
    lines = [*_category_lines(gathered, aspects), *_heading_lines(aspects)]
    for (group, people), group_rows in groupby(rows, lambda row: (row[0].group, row[0].who == PEOPLE)):
        lines.append("\\midrule")
        if group and not people:
            lines.append(f"\\multicolumn{{{width}}}{{@{{}}l}}{{\\textit{{{latex(group)}}}}} \\\\")
        for system, values in group_rows:
            lines.append(_line([latex(system.shown), *(values.get(name, latex(NONE)) for name in aspects)]))
    return PaperPiece(form.name, form.title, _float(form, f"@{{}}l*{{{len(aspects)}}}{{c}}@{{}}", lines))


def _category_lines(gathered: JudgedRelease, aspects: Sequence[str]) -> list[str]:
    """Return the row that groups aspects by category, with its rules."""
    category = {record.aspect: record.category for record in gathered.release.pairs()}
    cells, rules, column = [""], [], 2
    for name, members in groupby(aspects, lambda aspect: category.get(aspect, "")):
        count = len(list(members))
        title = _CATEGORIES.get(name, aspect_title(name) if name else "")
        cells.append(f"\\multicolumn{{{count}}}{{c}}{{{latex(title)}}}")
        rules.append(f"\\cmidrule(lr){{{column}-{column + count - 1}}}")
        column += count
    return [_line(cells), " ".join(rules)]


def _heading_lines(aspects: Sequence[str]) -> list[str]:
    """Return the aspects' names in two lines, so that ten columns fit on a page."""
    halves = [_halves(aspect) for aspect in aspects]
    return [_line(["", *(latex(half[index]) for half in halves)]) for index in (0, 1)]


def _halves(aspect: str) -> tuple[str, str]:
    if aspect == "comprehensiveness":
        return "Comprehen-", "siveness"
    first, _, second = aspect.replace("_", " ").title().partition(" ")
    return (first, second) if second else ("", first)


def _release_table(table: Table, release: str, people: bool) -> PaperPiece:
    """Return the release's numbers below those of the other sets of the paper's table.

    Parameters
    ----------
    people
        Whether people annotated the release.
    """
    form = PaperForm(
        "table-1",
        "The release",
        f"The videos of release {release}, below the sets of the paper's table. Durations in seconds, "
        "prompts in characters.",
    )
    columns = table.shown
    (row,) = table.rows
    sets: dict[str, dict[str, str]] = {}
    for value in read_published(PAPER).values:
        if value.gives == "other_sets":
            sets.setdefault(value.row, {})[value.column] = value.text
    lines = [_line(["Set", "Human annotation", *(latex(column.title) for column in columns)]), "\\midrule"]
    for name, texts in sets.items():
        cells = (latex(texts.get(column.key, "--")) for column in columns)
        lines.append(_line([latex(name), texts["human_annotation"], *cells]))
    ours = (latex(column.text(row[column.key])) for column in columns)
    lines += ["\\midrule", _line([release, "yes" if people else "no", *ours])]
    return PaperPiece(form.name, form.title, _float(form, f"@{{}}ll*{{{len(columns)}}}{{r}}@{{}}", lines))


def _retention_table(table: Table, release: str) -> PaperPiece:
    form = PaperForm(
        "table-3",
        "Pairs kept by the human filter",
        f"Pairs kept by the human filter of release {release}.",
        table.empty,
    )
    if not table.rows:
        return _nothing(form)
    undecided = any(row["undecided"] for row in table.rows)
    column = {one.key: one for one in table.columns}
    titles = {
        "initial": "Initial",
        **{key: _sentence(one.title) for key, one in column.items() if key.startswith("excluded")},
        **({"undecided": "Undecided"} if undecided else {}),
        "final": "Final",
        "rate": "Retention rate (\\%)",
    }
    lines = [_line(["Aspect", *titles.values()]), "\\midrule"]
    for row in sorted(table.rows, key=lambda row: _retention_order(row["aspect"])):
        total = row["aspect"] == ALL
        name = "Total" if total else row["aspect"].replace("_", " ").title()
        lines += ["\\midrule"] if total else []
        # digits without separators, as printed
        values = [column[key].text(row[key]).replace(",", "") for key in titles]
        lines.append(_line([latex(name), *map(latex, values)]))
    return PaperPiece(form.name, form.title, _float(form, f"@{{}}l*{{{len(titles)}}}{{r}}@{{}}", lines))


def _sentence(text: str) -> str:
    return latex(text[:1].upper() + text[1:])


def _retention_order(aspect: str) -> tuple[int, str]:
    # the total is last, after aspects that the paper lacks
    if aspect in _RETENTION_ORDER:
        return _RETENTION_ORDER.index(aspect), ""
    return len(_RETENTION_ORDER) - 2, aspect


def _figure(name: str, title: str, figure: Figure | None, caption: str, empty: str) -> PaperPiece:
    form = PaperForm(name, title, caption, empty)
    if figure is None:
        return _nothing(form)
    lines = [
        f"% needs \\usepackage{{graphicx}} and figures/{figure.name}.pdf",
        "\\begin{figure*}[t]",
        "\\centering",
        f"\\includegraphics[width=\\linewidth]{{{figure.name}}}",
        *_caption(form),
        "\\end{figure*}",
    ]
    return PaperPiece(name, title, "\n".join([*lines, ""]))


def _float(form: PaperForm, columns: str, lines: Iterable[str]) -> str:
    made = [
        f"% needs {LATEX_PACKAGES[0]}",
        "\\begin{table*}[t]",
        "\\centering",
        *_caption(form),
        "\\footnotesize",
        "\\setlength{\\tabcolsep}{3pt}",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        *lines,
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{table*}",
    ]
    return "\n".join([*made, ""])


def _caption(form: PaperForm) -> list[str]:
    kind, _, number = form.name.partition("-")
    label = f"{'tab' if kind == 'table' else 'fig'}:slvmeval-{number}"
    return [f"\\caption{{{form.caption}}}", f"\\label{{{label}}}"]


def _nothing(form: PaperForm) -> PaperPiece:
    return PaperPiece(form.name, form.title, f"% {form.name}\n\\emph{{{latex(form.empty)}}}\n", form.empty)


def _line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def paper_document(pieces: Sequence[PaperPiece], title: str) -> str:
    """Return a LaTeX document that includes all pieces, for viewing."""
    lines = [
        "\\documentclass[10pt]{article}",
        "\\usepackage[a4paper,landscape,margin=15mm]{geometry}",
        "\\usepackage[T1]{fontenc}",
        "\\usepackage{graphicx}",
        LATEX_PACKAGES[0],
        "\\graphicspath{{../figures/}}",
        "\\begin{document}",
        f"\\section*{{{latex(title)}}}",
        *(f"\\input{{{piece.name}}}" for piece in pieces),
        "\\end{document}",
    ]
    return "\n".join([*lines, ""])
