"""Figures as SVG and PDF, each drawn from a table; the same table always gives the same bytes.

`inline_svg` embeds a figure's SVG in a page: it adopts the page's colours and fonts, and its ids stay unique.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator, PercentFormatter

from tasks.report.accuracy import DEFAULT_INTERVAL, MEAN, POOLED, IntervalKind
from tasks.report.table import Table, aspect_title
from tasks.statistics.psychometric import accuracy_at
from tasks.statistics.wordings import PARTS

#: Text, secondary text and lines; the page replaces these colours, so that they suit a dark page.
INK, QUIET, LINE = "#1c2027", "#59616e", "#dcdedb"
#: Colours of evaluators (after Okabe and Ito: distinguishable by colour-blind readers), each with a marker.
PALETTE = ("#1f5fae", "#c2540a", "#1b7f5c", "#a3397c", "#8a6d00", "#4a5568", "#2a8fb5", "#8c2f2f")
_MARKERS = "os^Dv<>pPX"
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "slvmeval",
    "pdf.fonttype": 42,
    "font.family": "sans-serif",
    # matplotlib's bundled font: the same glyphs, and so the same bytes, on every machine
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.edgecolor": LINE,
    "axes.labelcolor": QUIET,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    # labels are shown literally, never as formulas
    "text.parse_math": False,
}
_PANEL = (2.55, 1.95)
_COLUMNS = 3
#: With more curves their intervals are not drawn, because they would hide each other. The table has them.
_MAX_BANDS = 4
#: With more evaluators the figure of accuracies has a panel per aspect, and this number of panels in a row.
_MAX_DODGED, _SIDE_BY_SIDE = 4, 5
#: Inches of a row of that figure, and of a character of an evaluator's name.
_ROW, _CHARACTER = 0.15, 0.064
#: Longer names of evaluators are shortened there.
_MAX_NAME_LENGTH = 34

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Figure:
    """One figure: name of its files, title, the table it is drawn from, and the files' content."""

    name: str
    title: str
    table: str
    svg: bytes
    pdf: bytes


def figures_of(
    tables: Mapping[str, Table],
    evaluators: Sequence[str],
    interval: IntervalKind = DEFAULT_INTERVAL,
    people: str = "",
) -> list[Figure]:
    """Return the figures of those tables that exist and have rows.

    Parameters
    ----------
    interval
        The interval of the figure of accuracies.
    people
        The name of people among the evaluators, if they voted: that figure has them as a mark.
    """
    drawn: dict[str, Callable[[Table, Sequence[str]], Canvas]] = {
        "accuracy": partial(_accuracies, interval=interval, people=people),
        "content-categories": _categories,
        "source-durations": _durations,
        "accuracy-by-duration": _duration,
        "signal-detection": _detection,
        "order-bias": _order,
        "calibration": _calibration,
        "filter-accuracies": _filter,
        "severity-clips": _clips,
        "severity-strength": _strength,
        "psychometric-points": _psychometric,
        "length": _length,
        "specificity": _specificity,
        "wordings": _wordings,
        "wording-variance": _wording_variance,
        "protocols": _protocols,
    }
    figures = []
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        # a name with glyphs that the font lacks: the SVG has it as text, the PDF shows boxes
        warnings.filterwarnings("ignore", message="Glyph")
        for name, draw in drawn.items():
            table = tables.get(name)
            if table is not None and name == "signal-detection":
                both = (row for row in table.rows if not {"hits", "alarms"} - row.keys())
                table = replace(table, rows=tuple(both))
            if table is not None and name == "accuracy":
                table = replace(table, rows=tuple(row for row in table.rows if _is_dot(row)))
            if table is not None and table.rows:
                canvas = draw(table, evaluators)
                figures.append(Figure(name, table.title, name, _saved(canvas, "svg"), _saved(canvas, "pdf")))
    return figures


def _specificity(table: Table, evaluators: Sequence[str]) -> Canvas:
    """Draw AUCs, dimensions by aspects, a panel for each rank of strength; claims have a frame."""
    names = list(dict.fromkeys(row["evaluator"] for row in table.rows))
    aspects = list(dict.fromkeys(row["aspect"] for row in table.rows))
    used = {
        aspect: list(dict.fromkeys(r["strength"] for r in table.rows if r["aspect"] == aspect))
        for aspect in aspects
    }
    # the strongest of all aspects share a panel, then the next ones
    most = max(map(len, used.values()))
    cells = {(row["evaluator"], row["aspect"], row["strength"]): row for row in table.rows}
    width = 1.2 + _CHARACTER * min(max(map(len, names)), _MAX_NAME_LENGTH) + 0.42 * len(aspects) * most
    canvas = Canvas(figsize=(width, 1.5 + 0.2 * len(names)), layout="constrained")
    panels = canvas.subplots(1, most, sharey=True, squeeze=False)[0]
    image = None
    for below, axes in enumerate(panels):
        values = np.full((len(names), len(aspects)), np.nan)
        for x, aspect in enumerate(aspects):
            strength = used[aspect][-1 - below] if below < len(used[aspect]) else None
            for y, name in enumerate(names):
                row = cells.get((name, aspect, strength))
                if row is None:
                    continue
                values[y, x] = row["auc"]
                clear = row["low"] is not None and not row["low"] <= 0.5 <= row["high"]
                axes.text(
                    x,
                    y,
                    f"{row['auc']:.2f}".removeprefix("0") + "*" * clear,
                    ha="center",
                    va="center",
                    fontsize=6,
                )
                if row["claims"] == "yes":
                    axes.add_patch(
                        Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor=INK, linewidth=1.2)
                    )
        image = axes.imshow(values, vmin=0, vmax=1, cmap="RdYlBu", aspect="auto", alpha=0.75)
        axes.set_xticks(range(len(aspects)), map(aspect_title, aspects), rotation=50, ha="right")
        axes.set_yticks(
            range(len(names)),
            [_shortened(name) for name in names],
        )
        axes.tick_params(length=0)
        if most > 1:
            axes.set_title("strongest damage" if not below else "weaker" + "·" * (below - 1))
    assert image is not None
    canvas.colorbar(image, ax=list(panels), shrink=0.8, label="AUC; framed: claimed; *: not chance")
    return canvas


#: Widths of the lines of wordings, and their names.
_WORDING_LINES = ((2.6, "all wordings"), (0.8, "another, 95 %"))


def _wordings(table: Table, evaluators: Sequence[str]) -> Canvas:
    """Accuracies over wordings: their mean and ends, and where that of another would lie."""
    cells = {(row["aspect"], row["evaluator"]): row for row in table.rows}
    aspects = list(dict.fromkeys(aspect for aspect, _ in cells))
    judges = list(dict.fromkeys(name for _, name in cells))
    names = [*evaluators, *(name for name in judges if name not in evaluators)]
    canvas, blocks = _rows_by_aspect(aspects, judges)
    for index, (aspect, (axes, first)) in enumerate(blocks.items()):
        for number, name in enumerate(judges):
            one = cells.get((aspect, name))
            if one is None:
                continue
            style, row = _style(names, name), first + number
            for ends, (width, _) in zip(("least most", "low high"), _WORDING_LINES, strict=True):
                low, high = (one[end] for end in ends.split())
                if low is not None:
                    axes.plot([low, high], [row, row], color=style["color"], linewidth=width, clip_on=False)
            dot = f"mean-{index}-{number}"
            axes.plot([one["mean"]], [row], linestyle="none", clip_on=False, gid=dot, **style)
    lines = [({"color": QUIET, "linewidth": width}, label) for width, label in _WORDING_LINES]
    _name_rows(canvas, judges, names, lines)
    return canvas


def _wording_variance(table: Table, _evaluators: Sequence[str]) -> Canvas:
    """What share of the variance of answers each part has, a bar for each evaluator and aspect."""
    shares_by_bar: dict[tuple[str, str], dict[str, float]] = {}
    for row in table.rows:
        shares_by_bar.setdefault((row["evaluator"], row["aspect"]), {})[row["part"]] = row["share"] or 0.0
    several = len({name for name, _ in shares_by_bar}) > 1
    labels = [
        f"{_shortened(name)}, {aspect_title(aspect)}" if several else aspect_title(aspect)
        for name, aspect in shares_by_bar
    ]
    canvas, axes = _bars(labels)
    parts = [part for part in PARTS if any(part in shares for shares in shares_by_bar.values())]
    _stack(axes, [[shares.get(part, 0.0) for shares in shares_by_bar.values()] for part in parts], parts)
    axes.set_xlabel("share of the variance of answers, %")
    return canvas


def _protocols(table: Table, _evaluators: Sequence[str]) -> Canvas:
    """People by protocol: what they preferred, with its interval, and how they rated the damage."""
    rows, tall = table.rows, 0.44
    height = tall * len(rows) + 0.68
    # as wide as a phone
    canvas = Canvas(figsize=(4.4, height))
    share = tall * len(rows) / height
    left, right = (canvas.add_axes((x, 0.42 / height, 0.43, share)) for x in (0.02, 0.53))
    for axes in (left, right):
        _share_axis(axes, len(rows), chance=False)
        axes.grid(visible=False)
        axes.set_ylim(len(rows) - 0.3, -0.7)
        axes.set_yticks([])
    left.set_xlabel("preferred the untouched video, %", fontsize=8.0)
    right.set_xlabel("rated, %", fontsize=8.0)
    _stack(right, [[row[rating] for row in rows] for rating in "abc"], "ABC", 0.26)
    for index, row in enumerate(rows):
        left.text(-0.02, index - 0.32, row["protocol"], fontsize=8.0)
        left.plot([0.5, 0.5], [index - 0.2, index + 0.2], **_CHANCE)
        if row["right_low"] is not None:
            left.plot([row["right_low"], row["right_high"]], [index] * 2, color=PALETTE[0], linewidth=1.4)
        left.plot([row["right"]], [index], color=PALETTE[0], marker="o", markersize=4, clip_on=False)
    return canvas


def _bars(labels: Sequence[str]) -> tuple[Canvas, Axes]:
    """Return a canvas for a bar of shares by label."""
    height = 0.22 * len(labels) + 0.95
    left = 0.1 + _CHARACTER * max(map(len, labels))
    width = left + 2.75
    canvas = Canvas(figsize=(width, height))
    axes = canvas.add_axes((left / width, 0.42 / height, 2.6 / width, 0.22 * len(labels) / height))
    _share_axis(axes, len(labels), chance=False)
    axes.set_yticks(range(len(labels)), labels)
    return canvas, axes


def _stack(axes: Axes, parts: Sequence[Sequence[float]], names: Sequence[str], tall: float = 0.7) -> None:
    """Draw bars of shares, one part after the other, with a legend above."""
    starts = np.zeros(len(parts[0]))
    for index, (shares, name) in enumerate(zip(parts, names, strict=True)):
        axes.barh(range(len(shares)), shares, left=starts, height=tall, color=PALETTE[index], label=name)
        starts += np.asarray(shares)
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=3, fontsize=8.0, borderaxespad=0.2,
        handlelength=1.0, columnspacing=1.2,
    )  # fmt: skip


def one_figure(table: Table, draw: Callable[[Table], Canvas]) -> Figure:
    """Return a figure drawn from a table, with the table's name."""
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        canvas = draw(table)
        return Figure(table.name, table.title, table.name, _saved(canvas, "svg"), _saved(canvas, "pdf"))


def _saved(canvas: Canvas, form: str) -> bytes:
    out = io.BytesIO()
    dates = {"Date": None} if form == "svg" else {"CreationDate": None}
    canvas.savefig(out, format=form, metadata=dates, transparent=True)
    return out.getvalue()


def _style(evaluators: Sequence[str], name: str) -> dict[str, Any]:
    index = evaluators.index(name)
    return {
        "color": PALETTE[index % len(PALETTE)],
        "marker": _MARKERS[index % len(_MARKERS)],
        "markersize": 4,
    }


def _panels(table: Table, evaluators: Sequence[str]) -> tuple[Canvas, list[tuple[Axes, list[Any]]]]:
    """Yield a canvas with one panel per aspect and a shared legend above."""
    rows_by_aspect: dict[str, list[Any]] = {}
    for row in table.rows:
        rows_by_aspect.setdefault(row["aspect"], []).append(row)
    columns = min(_COLUMNS, len(rows_by_aspect))
    lines = -(-len(rows_by_aspect) // columns)
    shown = [name for name in evaluators if any(row["evaluator"] == name for row in table.rows)]
    keys = -(-len(shown) // max(columns, 2))
    top = 0.22 * keys + 0.15
    width, height = max(_PANEL[0] * columns, 5.0), _PANEL[1] * lines + top
    canvas = Canvas(figsize=(width, height))
    grid = canvas.add_gridspec(
        lines, columns, left=0.5 / width, right=1 - 0.1 / width, bottom=0.5 / height,
        top=1 - (top + 0.25) / height, wspace=0.22, hspace=0.55,
    )  # fmt: skip
    handles = [Line2D([], [], linewidth=1.2, **_style(evaluators, name)) for name in shown]
    canvas.legend(handles, shown, loc="upper left", ncols=max(columns, 2), fontsize=8.0, borderaxespad=0.2)
    panels = []
    for index, (aspect, rows) in enumerate(rows_by_aspect.items()):
        axes = canvas.add_subplot(grid[index // columns, index % columns])
        axes.set_title(aspect_title(aspect), loc="left")
        _accuracy_axis(axes, named=index % columns == 0)
        panels.append((axes, rows))
    return canvas, panels


def _is_dot(row: Mapping[str, Any]) -> bool:
    return row["aspect"] not in (POOLED, MEAN) and row["accuracy"] is not None


def _accuracies(table: Table, evaluators: Sequence[str], interval: IntervalKind, people: str) -> Canvas:
    """Accuracies with intervals: a block of rows by aspect, or with many evaluators a panel by aspect."""
    cells = {(row["aspect"], row["evaluator"]): row for row in table.rows}
    aspects = list(dict.fromkeys(aspect for aspect, _ in cells))
    shown = [name for name in evaluators if any((aspect, name) in cells for aspect in aspects)]
    # people alone are an evaluator like any other
    judges = [name for name in shown if name != people] or shown
    canvas, blocks = _rows_by_aspect(aspects, judges)
    for index, (aspect, (axes, first)) in enumerate(blocks.items()):
        for number, name in enumerate(judges):
            row = first + number
            style = _style(evaluators, name)
            one = cells.get((aspect, name))
            if one is not None:
                low, high = one[f"{interval}_low"], one[f"{interval}_high"]
                if low is not None:
                    axes.plot([low, high], [row, row], color=style["color"], linewidth=1.4, clip_on=False)
                dot = f"dot-{index}-{number}"
                axes.plot([one["accuracy"]], [row], linestyle="none", clip_on=False, gid=dot, **style)
        mark = None if people in judges else cells.get((aspect, people))
        if mark is not None:
            ends = [first - 0.5, first + len(judges) - 0.5]
            bar = f"people-{index}"
            axes.plot([mark["accuracy"]] * 2, ends, color=INK, linewidth=1.8, clip_on=False, gid=bar)
    more = [(_CHANCE, "chance")]
    if people not in judges and any((aspect, people) in cells for aspect in aspects):
        more.append((_PEOPLE, "people"))
    _name_rows(canvas, judges, evaluators, more)
    return canvas


#: What marks look like in a legend.
_CHANCE: dict[str, Any] = {"color": QUIET, "linewidth": 0.9, "dashes": (2, 3)}
_PEOPLE: dict[str, Any] = {
    "color": INK,
    "linewidth": 0,
    "marker": "|",
    "markersize": 9,
    "markeredgewidth": 1.8,
}


def _name_rows(
    canvas: Canvas,
    judges: Sequence[str],
    evaluators: Sequence[str],
    more: Sequence[tuple[Mapping[str, Any], str]],
) -> None:
    """Add the legend of a figure of rows by aspect; where evaluators have panels they are named there."""
    few = judges if len(judges) <= _MAX_DODGED else ()
    keys = [Line2D([], [], linewidth=1.4, **_style(evaluators, name)) for name in few]
    keys += [Line2D([], [], **look) for look, _ in more]
    labels = [*map(_shortened, few), *(label for _, label in more)]
    columns = _key_columns(labels)
    canvas.legend(keys, labels, loc="upper left", ncols=columns, fontsize=8.0, borderaxespad=0.2)


def _key_columns(labels: Sequence[str]) -> int:
    return 2 if max(map(len, labels)) <= 22 else 1


def _shortened(name: str) -> str:
    most = _MAX_NAME_LENGTH
    return name if len(name) <= most else f"{name[: most - 13]}…{name[-12:]}"


def _rows_by_aspect(
    aspects: Sequence[str], judges: Sequence[str]
) -> tuple[Canvas, dict[str, tuple[Axes, int]]]:
    """A row by aspect and evaluator: in one panel for few evaluators, else in a panel by aspect."""
    return (_blocks if len(judges) <= _MAX_DODGED else _aspect_panels)(aspects, judges)


def _blocks(aspects: Sequence[str], judges: Sequence[str]) -> tuple[Canvas, dict[str, tuple[Axes, int]]]:
    """One panel, with a block of rows by aspect; each has the place of its first row."""
    step = len(judges) + 1
    top = 0.17 * -(-(len(judges) + 2) // _key_columns(judges)) + 0.15
    height = _ROW * step * len(aspects) + top + 0.4
    # as wide as a phone
    left = 0.1 + _CHARACTER * max(len(aspect_title(aspect)) for aspect in aspects)
    width = left + 2.75
    canvas = Canvas(figsize=(width, height))
    axes = canvas.add_axes((left / width, 0.4 / height, 2.6 / width, 1 - (top + 0.4) / height))
    firsts = {aspect: index * step for index, aspect in enumerate(aspects)}
    middles = [first + (len(judges) - 1) / 2 for first in firsts.values()]
    _share_axis(axes, step * len(aspects) - 1)
    axes.set_yticks(middles, [aspect_title(aspect) for aspect in aspects])
    for first in list(firsts.values())[1:]:
        axes.axhline(first - 1, color=LINE, linewidth=0.6)
    return canvas, {aspect: (axes, first) for aspect, first in firsts.items()}


def _aspect_panels(
    aspects: Sequence[str], judges: Sequence[str]
) -> tuple[Canvas, dict[str, tuple[Axes, int]]]:
    """A panel by aspect, with a row by evaluator, named at the left."""
    names = [_shortened(name) for name in judges]
    columns = min(_SIDE_BY_SIDE, len(aspects))
    lines = -(-len(aspects) // columns)
    panel, left, top = 1.6, 0.1 + _CHARACTER * max(map(len, names)), 0.5
    tall = _ROW * len(judges) + 0.7
    width, height = left + panel * max(columns, 2), top + tall * lines - 0.3
    canvas = Canvas(figsize=(width, height))
    blocks = {}
    for index, aspect in enumerate(aspects):
        line, column = divmod(index, columns)
        bottom = height - top - line * tall - _ROW * len(judges)
        axes = canvas.add_axes(
            ((left + panel * column) / width, bottom / height, (panel - 0.2) / width,
             _ROW * len(judges) / height)
        )  # fmt: skip
        _share_axis(axes, len(judges))
        axes.set_title(aspect_title(aspect), loc="left", fontsize=8.5, pad=3)
        axes.set_yticks(range(len(judges)), [] if column else names)
        blocks[aspect] = (axes, 0)
    return canvas, blocks


def _share_axis(axes: Axes, rows: int, chance: bool = True) -> None:
    """Shares from left to right, rows from the top."""
    if chance:
        axes.axvline(0.5, **_CHANCE)
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=""))
    axes.set_xlabel("accuracy, %", fontsize=8.0)
    axes.set_ylim(rows - 0.4, -0.6)
    axes.tick_params(length=0)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.grid(axis="x", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)


def _accuracy_axis(axes: Axes, named: bool) -> None:
    axes.set_ylim(-0.02, 1.02)
    axes.yaxis.set_major_locator(FixedLocator([0, 0.25, 0.5, 0.75, 1]))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=""))
    axes.axhline(0.5, color=QUIET, linewidth=0.7, dashes=(2, 3))
    axes.grid(axis="y", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    if named:
        axes.set_ylabel("accuracy, %")


def _curves(axes: Axes, rows: Rows, evaluators: Sequence[str], x: str) -> None:
    for name in evaluators:
        points = sorted((row for row in rows if row["evaluator"] == name), key=lambda row: row[x])
        if points:
            positions = [row[x] for row in points]
            style = _style(evaluators, name)
            if len(evaluators) <= _MAX_BANDS:
                lows, highs = ([row[end] for row in points] for end in ("low", "high"))
                axes.fill_between(positions, lows, highs, color=style["color"], alpha=0.08, linewidth=0)
            axes.plot(positions, [row["accuracy"] for row in points], linewidth=1.2, clip_on=False, **style)


def _duration(table: Table, evaluators: Sequence[str]) -> Canvas:
    canvas, panels = _panels(table, evaluators)
    for axes, rows in panels:
        _curves(axes, [{**row, "mean_min": row["mean_s"] / 60} for row in rows], evaluators, "mean_min")
        axes.set_xlabel("mean duration, minutes")
        axes.locator_params(axis="x", nbins=5)
    return canvas


def _clips(table: Table, evaluators: Sequence[str]) -> Canvas:
    canvas, panels = _panels(table, evaluators)
    for axes, rows in panels:
        _curves(axes, rows, evaluators, "level")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(sorted({row["level"] for row in rows})))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("degraded clips")
    return canvas


def _strength(table: Table, evaluators: Sequence[str]) -> Canvas:
    canvas, panels = _panels(table, evaluators)
    for axes, rows in panels:
        _curves(axes, rows, evaluators, "level")
        names = {row["level"]: row["strength"] for row in rows}
        axes.set_xticks(sorted(names), [names[index] for index in sorted(names)])
        axes.margins(x=0.15)
    return canvas


def _psychometric(table: Table, evaluators: Sequence[str]) -> Canvas:
    canvas, panels = _panels(table, evaluators)
    for axes, rows in panels:
        levels = sorted({row["level"] for row in rows})
        span = np.geomspace(levels[0], levels[-1], 60)
        for name in evaluators:
            points = [row for row in rows if row["evaluator"] == name]
            style = _style(evaluators, name)
            for row in points:
                axes.plot([row["level"]] * 2, [row["low"], row["high"]], color=style["color"], linewidth=0.6)
                axes.plot([row["level"]], [row["accuracy"]], linestyle="none", clip_on=False, **style)
            if points:
                first = points[0]
                curve = accuracy_at(span, first["threshold"], first["width"], first["lapse"])
                axes.plot(span, curve, linewidth=1.2, color=style["color"])
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(levels[:: max(1, len(levels) // 5)]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2g}"))
        axes.set_xlabel("strength" if rows[0]["axis"] == "strength" else "degraded clips")
    return canvas


#: Lines of the positions of damage in an excerpt.
_POSITIONS = {"own": "-", "early": ":", "middle": "-.", "late": "--"}


def _length(table: Table, evaluators: Sequence[str]) -> Canvas:
    """Accuracy by the length around the same damage; dotted where it is early, dashed where it is late."""
    canvas, panels = _panels(table, evaluators)
    for axes, rows in panels:
        for name in evaluators:
            style = _style(evaluators, name)
            for position, line in _POSITIONS.items():
                points = [row for row in rows if (row["evaluator"], row["position"]) == (name, position)]
                shares = [row["share"] for row in points]
                axes.plot(
                    shares, [row["accuracy"] for row in points], linewidth=1.2, **{**style, "linestyle": line}
                )
                if position == "own":
                    low, high = [row["low"] for row in points], [row["high"] for row in points]
                    axes.vlines(shares, low, high, colors=style["color"], linewidth=0.6)
        levels = sorted({row["share"] for row in rows})
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(levels))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
        axes.set_xlabel("length, % of the film")
    return canvas


def _order(table: Table, evaluators: Sequence[str]) -> Canvas:
    rows = [row for row in table.rows if row["first_rate"] is not None]
    height = 0.3 * len(rows) + 0.75
    canvas = Canvas(figsize=(6.2, height))
    longest = max((len(row["evaluator"]) for row in rows), default=0)
    left = min(0.45, 0.03 + 0.0125 * longest)
    axes = canvas.add_axes((left, 0.5 / height, 0.97 - left, 1 - 0.6 / height))
    for index, row in enumerate(rows):
        style = _style(evaluators, row["evaluator"])
        axes.plot([row["first_low"], row["first_high"]], [index, index], color=style["color"], linewidth=1.6)
        axes.plot([row["first_rate"]], [index], linestyle="none", **{**style, "markersize": 6})
    axes.axvline(0.5, color=QUIET, linewidth=0.7, dashes=(2, 3))
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=""))
    axes.set_xlabel("rate of “first”, %; 50 means no bias")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [row["evaluator"] for row in rows])
    axes.tick_params(length=0)
    axes.tick_params(axis="y", labelcolor=INK)
    axes.grid(axis="x", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines["left"].set_visible(False)
    return canvas


def _detection(table: Table, evaluators: Sequence[str]) -> Canvas:
    """Hits against false alarms: damage is seen at the top in the middle, edits are noticed at the right."""
    canvas, panels = _panels(table, evaluators)
    for axes, rows in panels:
        axes.plot([0, 1], [0, 1], color=QUIET, linewidth=0.7, dashes=(2, 3))
        axes.axvline(0.5, color=QUIET, linewidth=0.7, dashes=(2, 3))
        for row in rows:
            style = _style(evaluators, row["evaluator"])
            for x, y in (
                ((row["alarms_low"], row["alarms_high"]), (row["hits"], row["hits"])),
                ((row["alarms"], row["alarms"]), (row["hits_low"], row["hits_high"])),
            ):
                axes.plot(x, y, color=style["color"], linewidth=0.8, alpha=0.6)
            axes.plot([row["alarms"]], [row["hits"]], linestyle="none", clip_on=False, **style)
        axes.set_xlim(-0.02, 1.02)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=""))
        axes.set_xlabel("false alarms, %")
    for axes, _ in panels:
        if axes.get_ylabel():
            axes.set_ylabel("hits, %")
    return canvas


def _calibration(table: Table, evaluators: Sequence[str]) -> Canvas:
    shown = [name for name in evaluators if any(row["evaluator"] == name for row in table.rows)]
    top = 0.22 * -(-len(shown) // 2) + 0.15
    canvas = Canvas(figsize=(5.0, 3.6 + top))
    axes = canvas.add_axes((0.14, 0.45 / (3.6 + top), 0.82, 3.05 / (3.6 + top)))
    handles = [Line2D([], [], linewidth=1.2, **_style(evaluators, name)) for name in shown]
    canvas.legend(handles, shown, loc="upper left", ncols=2, fontsize=8.0, borderaxespad=0.2)
    _accuracy_axis(axes, named=False)
    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=0.7, dashes=(2, 3))
    rows = [{**row, "accuracy": row["observed"]} for row in table.rows]
    _curves(axes, rows, evaluators, "predicted")
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=""))
    axes.set_xlabel("probability of “first”, %")
    axes.set_ylabel("the first is better, %")
    return canvas


def _filter(table: Table, evaluators: Sequence[str]) -> Canvas:
    canvas, panels = _panels(table, evaluators)
    for axes, rows in panels:
        axes.plot([0, 1], [0, 1], color=QUIET, linewidth=0.7, dashes=(2, 3))
        if rows[0]["r"] is not None:
            axes.text(
                0.96, 0.04, f"r = {rows[0]['r']:.2f}".replace("-", "−"), ha="right", transform=axes.transAxes
            )
        for row in rows:
            style = _style(evaluators, row["evaluator"])
            axes.plot([row["unfiltered"]], [row["filtered"]], linestyle="none", clip_on=False, **style)
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=""))
        axes.set_xlabel("all pairs, %")
        axes.set_ylabel("kept pairs, %")
    return canvas


def _categories(table: Table, _evaluators: Sequence[str]) -> Canvas:
    height = 0.22 * len(table.rows) + 0.7
    canvas = Canvas(figsize=(6.2, height))
    axes = canvas.add_axes((0.36, 0.45 / height, 0.62, 1 - 0.5 / height))
    positions = range(len(table.rows))
    axes.barh(positions, [row["sources"] for row in table.rows], height=0.7, color=PALETTE[0])
    axes.set_yticks(positions, [row["category"] for row in table.rows])
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelcolor=INK)
    axes.set_xlabel("sources")
    _count_axis(axes, "x")
    return canvas


def _durations(table: Table, _evaluators: Sequence[str]) -> Canvas:
    canvas = Canvas(figsize=(6.2, 2.2))
    axes = canvas.add_axes((0.09, 0.2, 0.89, 0.75))
    for row in table.rows:
        width = row["to_s"] - row["from_s"]
        axes.bar(row["from_s"], row["sources"], width=width, align="edge", color=PALETTE[0])
    axes.set_xlabel("duration, s")
    axes.set_ylabel("sources")
    _count_axis(axes, "y")
    return canvas


def _count_axis(axes: Axes, along: Literal["x", "y"]) -> None:
    (axes.xaxis if along == "x" else axes.yaxis).set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.grid(axis=along, color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)


_COLOURS = {
    INK: "var(--text)",
    QUIET: "var(--muted)",
    LINE: "var(--line)",
    **{colour: f"var(--e{index})" for index, colour in enumerate(PALETTE)},
}


def inline_svg(svg: bytes, name: str, label: str, largest: float = 1.5) -> str:
    """Return the figure as an HTML element.

    Parameters
    ----------
    svg
        A file written by matplotlib, which escapes its text.
    name
        A name unique on the page.
    label
        Text alternative for screen readers.
    largest
        How many pixels a point has where there is room.
    """
    text = svg.decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"\bid=\"([^\"]+)\"", rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r"(xlink:href|href)=\"#([^\"]+)\"", rf'\1="#{name}-\2"', text)
    # only in styles: a label may contain these characters
    text = re.sub(r'style="([^"]*)"', lambda match: f'style="{_themed(match[1])}"', text)
    size = re.search(r'viewBox="0 0 ([\d.]+)', text)
    # text of 12 px if there is room; on a phone it shrinks, but stays readable
    width = float(size[1]) if size else 400.0
    limits = f"max-width: {largest * width:.0f}px; min-width: {1.15 * width:.0f}px"
    quoted = label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    opened = f'<svg role="img" aria-label="{quoted}" class="figure" style="{limits}"'
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    return text.replace("<svg", opened, 1)


def _themed(style: str) -> str:
    for colour, variable in _COLOURS.items():
        style = style.replace(colour, variable)
    return re.sub(r"font-family: [^;]*;? ?", "", style)
