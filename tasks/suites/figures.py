"""Figures of a suite's tables: agreement with people as bars, correlations as a grid."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure as Canvas

from tasks.publish.report.figures import INK, LINE, PALETTE, QUIET, Figure, one_figure
from tasks.publish.report.table import Column, Table

#: How a correlation is written, as in the tables.
NUMBER = Column("value", "value", "number")


def alignment_figure(table: Table) -> Figure:
    """Return Spearman's ρ and α by dimension, from the table of agreement."""
    return one_figure(table, _alignment)


def correlation_figure(table: Table) -> Figure:
    """Return Spearman's ρ of every two names, from a table of correlations."""
    return one_figure(table, _grid)


def _alignment(table: Table) -> Canvas:
    keys = (("spearman", "Spearman ρ"), ("people_alpha", "α people"), ("machine_alpha", "α with machine"))
    count = len(table.rows)
    canvas = Canvas(figsize=(6.0, 0.9 + 0.42 * count), layout="constrained")
    axes = canvas.add_subplot()
    for offset, (key, label) in enumerate(keys):
        points = [
            (row[key], place + (offset - 1) * 0.2)
            for place, row in enumerate(table.rows)
            if row.get(key) is not None
        ]
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            "osD"[offset],
            color=PALETTE[offset],
            markersize=5,
            label=label,
        )
    axes.set_yticks(range(count), [str(row["dimension"]) for row in table.rows])
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_xlim(-1.02, 1.02)
    axes.axvline(0, color=QUIET, linewidth=0.7, dashes=(2, 3))
    axes.grid(axis="x", color=LINE, linewidth=0.6)
    canvas.legend(loc="outside upper left", ncols=3, fontsize=8.0)
    return canvas


def _grid(table: Table) -> Canvas:
    rows = list(dict.fromkeys(str(row["first"]) for row in table.rows))
    columns = list(dict.fromkeys(str(row["second"]) for row in table.rows))
    values = np.full((len(rows), len(columns)), np.nan)
    for row in table.rows:
        if row["spearman"] is not None:
            values[rows.index(str(row["first"])), columns.index(str(row["second"]))] = row["spearman"]
    canvas = Canvas(figsize=(2.2 + 0.45 * len(columns), 1.6 + 0.34 * len(rows)), layout="constrained")
    axes = canvas.add_subplot()
    shown = axes.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=60, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), rows)
    for (down, across), value in np.ndenumerate(values):
        if np.isfinite(value):
            ink = "white" if abs(value) > 0.6 else INK
            axes.text(across, down, NUMBER.text(value), ha="center", va="center", fontsize=6.5, color=ink)
    canvas.colorbar(shown, ax=axes, label="Spearman ρ", shrink=0.8)
    return canvas
