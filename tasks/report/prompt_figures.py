"""Figures of prompt suites: lengths, words as a cloud, and means by theme (LoCoT2V-Bench, appendix B.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from matplotlib.figure import Figure as Canvas
from matplotlib.textpath import TextPath

from tasks.report.figures import LINE, PALETTE, Figure, one_figure
from tasks.report.table import Table


def length_figures(tables: Mapping[str, Table]) -> list[Figure]:
    """Return the figures of the tables that have rows: lengths, words as a cloud, and means by theme."""
    drawn = {"prompt-lengths": _bars, "prompt-words": _cloud, "prompt-complexity-by-theme": _themes}
    return [one_figure(tables[name], draw) for name, draw in drawn.items() if tables[name].rows]


def _bars(table: Table) -> Canvas:
    names = list(dict.fromkeys(str(row["suite"]) for row in table.rows))
    canvas = Canvas(figsize=(6.0, 0.6 + 1.5 * len(names)), layout="constrained")
    panels = canvas.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    for index, (name, axes) in enumerate(zip(names, panels, strict=True)):
        rows = [row for row in table.rows if row["suite"] == name]
        starts, heights = [row["least"] for row in rows], [row["prompts"] for row in rows]
        width = 0.94 * (rows[0]["below"] - rows[0]["least"])
        axes.bar(starts, heights, width, align="edge", color=PALETTE[index % len(PALETTE)])
        axes.set_title(name, loc="left")
        axes.set_ylabel("prompts")
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.grid(axis="y", color=LINE, linewidth=0.6)
        axes.set_axisbelow(True)
    panels[-1].set_xlabel("words")
    return canvas


#: Size of the cloud's letters in points, and its width, in points.
_SMALLEST, _LARGEST, _WIDTH = 7.0, 26.0, 430.0


def _cloud(table: Table) -> Canvas:
    """Words in the alphabet's order, in lines; their area grows with their number."""
    most = max(row["count"] for row in table.rows)
    words = sorted((str(row["word"]), _SMALLEST + (_LARGEST - _SMALLEST) * math.sqrt(row["count"] / most))
                   for row in table.rows)  # fmt: skip
    lines: list[list[tuple[str, float, float]]] = [[]]
    for word, size in words:
        width = float(TextPath((0, 0), word, size=size).get_extents().width) + 0.6 * _SMALLEST
        if lines[-1] and sum(one[2] for one in lines[-1]) + width > _WIDTH:
            lines.append([])
        lines[-1].append((word, size, width))
    heights = [1.25 * max(size for _, size, _ in line) for line in lines]
    canvas = Canvas(figsize=((_WIDTH + 20) / 72, (sum(heights) + 16) / 72))
    axes = canvas.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH + 20), ylim=(0, sum(heights) + 16))
    axes.set_axis_off()
    down = sum(heights) + 8
    for number, (line, height) in enumerate(zip(lines, heights, strict=True)):
        down -= height
        across = 10 + (_WIDTH - sum(width for *_, width in line)) / 2
        for index, (word, size, width) in enumerate(line):
            color = PALETTE[(number + index) % len(PALETTE)]
            axes.text(across, down + 0.25 * height, word, fontsize=size, color=color)
            across += width
    return canvas


def _themes(table: Table) -> Canvas:
    """Mean words and complexity of each theme, each as a share of the greatest."""
    keys = (("words", "mean words"), ("complexity", "mean complexity"))
    names = [f"{row['theme']} ({row['suite']})" for row in table.rows]
    canvas = Canvas(figsize=(6.0, 0.9 + 0.34 * len(names)), layout="constrained")
    axes = canvas.add_subplot()
    for offset, (key, label) in enumerate(keys):
        values = [row[key] for row in table.rows]
        most = max((value for value in values if value), default=0)
        if most:
            positions = [
                index + (offset - 0.5) * 0.38 for index, value in enumerate(values) if value is not None
            ]
            shares = [value / most for value in values if value is not None]
            axes.barh(positions, shares, 0.36, color=PALETTE[offset], label=label)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("share of the greatest")
    canvas.legend(loc="outside upper left", ncols=2, fontsize=8.0)
    return canvas
