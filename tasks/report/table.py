"""The table model shared by all outputs: named columns, raw values, and their formatting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tasks.statistics.intervals import printed_per_cent

#: ``aspect``: a name displayed in words; ``percent``, ``points``: shares, displayed as per cent; ``clock``:
#: seconds, displayed as :func:`clock` does.
Kind = Literal[
    "text", "aspect", "count", "percent", "points", "number", "tenths", "correlation", "p", "money", "clock"
]
#: Displayed for a missing value.
NONE = "–"
#: All aspects together, in a table by aspect.
ALL = "all"


@dataclass(frozen=True)
class Column:
    """One column; columns that are not `shown` are in the CSV only."""

    key: str
    title: str
    kind: Kind = "text"
    shown: bool = True

    def text(self, value: Any) -> str:
        """Return a value formatted for display."""
        if value is None or value == "":
            return NONE
        match self.kind:
            case "percent":
                return printed_per_cent(value)
            case "points":
                text = printed_per_cent(abs(value))
                sign = "" if not float(text) else "+" if value > 0 else "−"
                return sign + text
            case "number":
                return f"{value:.2f}".replace("-", "−")
            case "correlation":
                return f"{value:.4f}".replace("-", "−")
            case "tenths":
                return f"{value:,.1f}".replace("-", "−")
            case "p":
                return "< 0.001" if value < 0.001 else f"{value:.3f}"
            case "money":
                return f"{value:,.2f}"
            case "clock":
                return clock(value)
            case "count":
                return f"{value:,.1f}" if value != int(value) else f"{int(value):,}"
            case "aspect":
                return aspect_title(value)
            case "text":
                return str(value)

    @property
    def is_number(self) -> bool:
        """Whether its values are right-aligned."""
        return self.kind not in ("text", "aspect")


@dataclass(frozen=True)
class Table:
    """Rows of raw values by column.

    Parameters
    ----------
    name
        Name of its files.
    note
        How to interpret it.
    empty
        Why it has no rows; displayed instead.
    long
        Whether it has a row for each pair: a file of data, on no page and in no document.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...]
    note: str = ""
    empty: str = ""
    long: bool = False

    @property
    def shown(self) -> tuple[Column, ...]:
        """The displayed columns."""
        return tuple(column for column in self.columns if column.shown)

    def cells(self) -> list[list[str]]:
        """Return the rows formatted for display."""
        return [[column.text(row.get(column.key)) for column in self.shown] for row in self.rows]


def interval_columns(title: str, kind: Kind = "percent", prefix: str = "") -> tuple[Column, Column]:
    """Return the columns of an interval's bounds."""
    return (
        Column(f"{prefix}low", f"{title} from", kind),
        Column(f"{prefix}high", "to", kind),
    )


def aspect_title(aspect: str) -> str:
    """Return an aspect's display name."""
    return "All aspects" if aspect == ALL else aspect.replace("_", " ").capitalize()


def clock(seconds: float) -> str:
    """Return seconds as 1:02:03 or 2:03."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


#: Columns of most tables.
ASPECT, EVALUATOR = Column("aspect", "aspect", "aspect"), Column("evaluator", "evaluator")
PAIR = Column("pair_id", "pair")
