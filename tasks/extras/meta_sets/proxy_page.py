"""The proxy study as a page: the two rankings of evaluators as a scatter (SLVMEval, figure 7), with ρ."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from tasks.extras.meta_sets.proxy_result import ProxyResult
from tasks.report.figures import LINE, PALETTE, QUIET, Figure, inline_svg, one_figure
from tasks.report.formats import latex_text, markdown_text, render
from tasks.report.table import NONE, Column, Table, interval_columns

#: Stem of all file names.
NAME = "proxy-study"
_CORRELATION = Column("rho", "ρ", "correlation")
_P = Column("p", "p", "p")


def proxy_files(result: ProxyResult) -> dict[str, bytes]:
    """Return the page, its table and its figure by file name."""
    table = proxy_table(result)
    files = {
        f"{NAME}.md": markdown_text(table).encode(),
        f"{NAME}.tex": latex_text(table).encode(),
    }
    figure = proxy_figure(result, table) if _ranked(table) else None
    if figure is not None:
        files |= {f"{NAME}.svg": figure.svg, f"{NAME}.pdf": figure.pdf}
    return files | {f"{NAME}.html": _page(result, table, figure)}


def proxy_table(result: ProxyResult) -> Table:
    """Return ranks and accuracies of the evaluators in both settings."""
    columns = [Column("evaluator", "evaluator")]
    for name in ("generated", "degraded"):
        columns += [
            Column(f"{name}_rank", f"rank, {name}", "tenths"),
            Column(f"{name}_accuracy", "accuracy", "percent"),
            *interval_columns("95 %", prefix=f"{name}_"),
            Column(f"{name}_pairs", "pairs", "count"),
            Column(f"{name}_failed", "failed", "count"),
        ]
    rows = tuple(result.table())
    return Table(
        NAME,
        f"Rankings of evaluators on {result.title}",
        tuple(columns),
        rows,
        "Generated: real against generated videos; the gold answer is people's score. Degraded: real against "
        "degraded videos. Rank 1 is the highest accuracy. Intervals are clustered by source.",
        "" if rows else "No evaluator answered.",
    )


def correlation_text(result: ProxyResult) -> str:
    """Return Spearman's ρ with p and the number of evaluators, or why there is none."""
    rho = result.correlation
    if rho.coefficient is None:
        return (
            f"Spearman's ρ is not defined over n = {rho.n} evaluators: it needs two whose accuracies differ"
        )
    p = "p is not defined" if rho.p is None else f"p = {rho.p:.3g}"
    return f"Spearman's ρ of the two rankings: {rho.coefficient:.3f} ({p}, n = {rho.n} evaluators)"


def proxy_figure(result: ProxyResult, table: Table) -> Figure:
    """Return the scatter of the two rankings; the best evaluator is at the top right."""

    def draw(table: Table) -> Canvas:
        rows = _ranked(table)
        last = max(max(row["generated_rank"], row["degraded_rank"]) for row in rows)
        canvas = Canvas(figsize=(5.2, 4.4), layout="constrained")
        axes = canvas.add_subplot()
        axes.plot([1, last], [1, last], color=QUIET, linewidth=0.7, dashes=(2, 3))
        taken: dict[tuple[float, float], int] = {}
        for row in rows:
            ranks = row["degraded_rank"], row["generated_rank"]
            axes.plot(*ranks, "o", color=PALETTE[0], markersize=6, clip_on=False)
            # evaluators of equal ranks have one point, and their names below each other
            line = taken[ranks] = taken.get(ranks, -1) + 1
            # on the side towards the middle, so that names stay inside the drawing
            left = ranks[0] < (1 + last) / 2
            axes.annotate(
                row["evaluator"],
                ranks,
                xytext=(-7 if left else 7, -3 - 10 * line),
                textcoords="offset points",
                ha="right" if left else "left",
                fontsize=8.0,
            )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_xlim(last + 0.4, 0.6)
        axes.set_ylim(last + 0.4, 0.6)
        axes.set_xlabel("rank on real against degraded videos")
        axes.set_ylabel("rank on real against generated videos")
        axes.set_title(correlation_text(result), loc="left")
        axes.grid(color=LINE, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(length=0)
        return canvas

    return one_figure(table, draw)


def _ranked(table: Table) -> list[Any]:
    return [row for row in table.rows if None not in (row["generated_rank"], row["degraded_rank"])]


def _page(result: ProxyResult, table: Table, figure: Figure | None) -> bytes:
    correlation = result.correlation
    drawing = ""
    if figure is not None:
        drawing = Markup(inline_svg(figure.svg, NAME, f"{figure.title}; the numbers are in the table below"))
    facts = [
        (
            "Spearman's ρ",
            NONE if correlation.coefficient is None else _CORRELATION.text(correlation.coefficient),
        ),
        ("p, two-sided", NONE if correlation.p is None else _P.text(correlation.p)),
        ("Evaluators", f"{correlation.n}"),
    ]
    data = {
        "title": "Proxy study",
        "study": result.title,
        "facts": facts,
        "correlation": correlation_text(result),
        "table": table,
        "drawing": drawing,
    }
    return render("proxy.html.j2", data)
