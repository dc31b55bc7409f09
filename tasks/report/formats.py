"""Tables as CSV, Markdown, LaTeX and HTML; texts from evaluators and people are escaped."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from storage_schemas.markdown import escape_markdown, markdown_line, markdown_table
from tasks.page_frame import SCRIPT, STYLE, frame_asset, page_templates
from tasks.report.accuracy import INTERVAL_TEXTS, Matrix, MatrixCell
from tasks.report.table import NONE, Table, clock
from tasks.statistics.intervals import Interval, printed_per_cent

#: Spreadsheets interpret a cell that begins with these as a formula.
_FORMULA = re.compile(r"^[=+\-@\t\r]")
_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "–": "--",
    "“": "``",
    "”": "''",
    "−": "$-$",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "≤": r"$\le$",
    "α": r"$\alpha$",
    "ρ": r"$\rho$",
    "χ": r"$\chi$",
    "²": r"$^2$",
}
#: Packages needed by a document that includes the tables.
LATEX_PACKAGES = (r"\usepackage{booktabs}", r"\usepackage{longtable}")


def csv_text(table: Table) -> str:
    """Return all columns of a table with their raw values; shares are between 0 and 1."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.key for column in table.columns])
    for row in table.rows:
        writer.writerow([_raw(row.get(column.key)) for column in table.columns])
    return out.getvalue()


def _raw(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(round(value, 10))
    text = str(value)
    return "'" + text if isinstance(value, str) and _FORMULA.match(text) else text


def json_text(tables: Mapping[str, Table]) -> str:
    """Return all columns of tables with their raw values, by the tables' names."""
    named = {name: [_json_row(table, row) for row in table.rows] for name, table in tables.items()}
    return json.dumps(named, ensure_ascii=False, indent=1) + "\n"


def _json_row(table: Table, row: Mapping[str, Any]) -> dict[str, Any]:
    values = {column.key: row.get(column.key) for column in table.columns}
    return {key: round(value, 10) if isinstance(value, float) else value for key, value in values.items()}


def markdown_text(table: Table) -> str:
    """Return a table as Markdown, for a README."""
    lines = [f"**{escape_markdown(table.title)}**", ""]
    if not table.rows:
        return "\n".join([*lines, escape_markdown(table.empty), ""])
    titles = [column.title for column in table.shown]
    lines += markdown_table(titles, [column.is_number for column in table.shown], table.cells())
    return "\n".join([*lines, "", escape_markdown(table.note), ""])


def latex_text(table: Table) -> str:
    """Return a table as a LaTeX `longtable` with booktabs rules."""
    head = f"% {' '.join(table.title.split())}\n% needs {' '.join(LATEX_PACKAGES)}\n"
    if not table.rows:
        return f"{head}\\emph{{{latex(table.empty)}}}\n"
    columns = "".join("r" if column.is_number else "l" for column in table.shown)
    titles = " & ".join(latex(column.title) for column in table.shown)
    lines = [f"\\begin{{longtable}}{{@{{}}{columns}@{{}}}}", "\\toprule", f"{titles} \\\\", "\\midrule"]
    lines += ["\\endhead", "\\bottomrule", "\\endfoot"]
    lines += [" & ".join(map(latex, row)) + r" \\" for row in table.cells()]
    return head + "\n".join([*lines, "\\end{longtable}", ""])


def latex(text: str) -> str:
    """Escape a text for LaTeX; characters that pdfLaTeX lacks become question marks."""
    made = []
    for sign in " ".join(text.split()):
        if sign in _LATEX:
            made.append(_LATEX[sign])
        elif " " <= sign <= "~" or (ord(sign) < 0x180 and _is_accented(sign)):
            made.append(sign)
        else:
            made.append("?")
    return "".join(made)


def _is_accented(sign: str) -> bool:
    parts = unicodedata.decomposition(sign)
    return (bool(parts) and not parts.startswith("<")) or sign in "ßæøåÆØÅœŒłŁ"


def matrix_markdown(matrix: Matrix) -> str:
    """Return the accuracy matrix as Markdown, for a README."""
    lines = ["**Accuracy, per cent**", ""]
    lines.append(markdown_line(["aspect", *(escape_markdown(name) for name in matrix.evaluators)]))
    lines.append(markdown_line(["---", *(["---:"] * len(matrix.evaluators))]))
    for row in (*matrix.rows, *matrix.summary):
        cells = []
        for shown in row.cells:
            marked = {"best": "**{}**", "second": "_{}_", "": "{}"}[shown.mark].format(accuracy_text(shown))
            cells.append("<br>".join(text for text in (marked, *(text(shown) for text in _BELOW)) if text))
        lines.append(markdown_line([escape_markdown(row.title), *cells]))
    return "\n".join(
        [*lines, "", f"**Best**, _second_. {INTERVAL_TEXTS[matrix.interval]}; n; failures, bounds.", ""]
    )


def matrix_latex(matrix: Matrix) -> str:
    """Return the accuracy matrix as a `tabular`, a line for each aspect: accuracies, intervals, failures."""
    names = " & ".join(["aspect", "pairs", *(latex(name) for name in matrix.evaluators)])
    lines = [
        "% Accuracy in per cent; bold: best, underlined: second.",
        f"% {INTERVAL_TEXTS[matrix.interval]}",
        f"% needs {LATEX_PACKAGES[0]}",
        f"\\begin{{tabular}}{{@{{}}lr*{{{len(matrix.evaluators)}}}{{r}}@{{}}}}",
        "\\toprule",
        f"{names} \\\\",
    ]
    for rows in (matrix.rows, matrix.summary):
        lines += ["\\midrule"] if rows else []
        for row in rows:
            cells = [_latex_cell(cell) for cell in row.cells]
            lines.append(" & ".join([latex(row.title), str(row.pairs), *cells]) + r" \\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def _latex_cell(shown: MatrixCell) -> str:
    marks = {"best": "\\textbf{{{}}}", "second": "\\underline{{{}}}", "": "{}"}
    accuracy = marks[shown.mark].format(latex(accuracy_text(shown)))
    failed = f"{shown.cell.failed} failed" if shown.cell is not None and shown.cell.failed else ""
    beside = ", ".join(text for text in (interval_text(shown), failed) if text)
    return accuracy + (f" {{\\scriptsize ({latex(beside)})}}" if beside else "")


def latex_document(names: list[str], title: str) -> str:
    """Return a LaTeX document that includes all tables, for viewing."""
    lines = [
        "\\documentclass[10pt]{article}",
        "\\usepackage[a4paper,landscape,margin=15mm]{geometry}",
        "\\usepackage[T1]{fontenc}",
        *LATEX_PACKAGES,
        "\\begin{document}",
        f"\\section*{{{latex(title)}}}",
        "\\footnotesize",
        *(f"\\noindent\\input{{{name}}}\\par\\bigskip" for name in names),
        "\\end{document}",
    ]
    return "\n".join([*lines, ""])


def accuracy_text(shown: MatrixCell) -> str:
    """Return a cell's accuracy in per cent."""
    return NONE if shown.accuracy is None else printed_per_cent(shown.accuracy)


def interval_text(shown: MatrixCell) -> str:
    """Return a cell's interval, or an empty text."""
    if shown.interval is None:
        return ""
    return _range(shown.interval)


def counts_text(shown: MatrixCell) -> str:
    """Return a cell's n and failures, or an empty text if nothing was asked."""
    if shown.cell is None:
        return ""
    never = f", {shown.cell.not_asked} not asked" if shown.cell.not_asked else ""
    return f"n {shown.cell.n}, {shown.cell.failed} failed{never}"


def bounds_text(shown: MatrixCell) -> str:
    """Return the accuracies if all failures of a cell were wrong and right; empty without failures."""
    bounds = None if shown.cell is None else shown.cell.bounds
    return "" if bounds is None else f"bounds {_range(bounds)}"


def _range(interval: Interval) -> str:
    return f"{printed_per_cent(interval.low)}–{printed_per_cent(interval.high)}"


#: What stands below an accuracy.
_BELOW = (interval_text, counts_text, bounds_text)


@cache
def _environment() -> jinja2.Environment:
    environment = page_templates("tasks.report")
    environment.globals |= {
        "accuracy_text": accuracy_text,
        "interval_text": interval_text,
        "bounds_text": bounds_text,
        "counts_text": counts_text,
        "clock": clock,
    }
    return environment


def render(template: str, data: Mapping[str, Any], script: str = "") -> bytes:
    """Render a page.

    Parameters
    ----------
    template
        Name of the template.
    data
        The template's variables.
    script
        Name of the only script that the page may run besides the frame's; scripts in the data never run.
    """
    scripts = [frame_asset(SCRIPT), *([_asset(script)] if script else [])]
    allowed = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'" for code in scripts
    )
    page = (
        _environment()
        .get_template(template)
        .render(
            # our own files, without data
            css=Markup(frame_asset(STYLE) + _asset("report.css")),
            frame_script=Markup(scripts[0]),
            script=Markup("".join(scripts[1:])),
            allowed=Markup(allowed),
            **data,
        )
    )
    return page.encode("utf-8", "replace")


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
