"""Tables and texts as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def escape_markdown(text: str) -> str:
    """Return a text as one line of Markdown that shows it verbatim.

    Examples
    --------
    >>> escape_markdown("a|b"), escape_markdown("x < y")
    ('a\\\\|b', 'x &lt; y')
    """
    return _escaped(" ".join(text.split()))


def escape_but_code(text: str) -> str:
    """Return a text as one line of Markdown; text between backticks is code.

    Examples
    --------
    >>> escape_but_code("see `a_b <x>` or a_b")
    'see `a_b <x>` or a\\\\_b'
    """
    pieces = re.split(r"(`[^`]+`)", " ".join(text.split()))
    return "".join(piece if index % 2 else _escaped(piece) for index, piece in enumerate(pieces))


def _escaped(text: str) -> str:
    escaped = re.sub(r"([\\`*_\[\]|~])", r"\\\1", text)
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def markdown_table(
    columns: Sequence[str], are_numbers: Sequence[bool], rows: Iterable[Sequence[object]]
) -> list[str]:
    """Return the lines of a table; columns of numbers are aligned right.

    Examples
    --------
    >>> markdown_table(["pair", "clips"], [False, True], [["a", 3]])
    ['| pair | clips |', '| --- | ---: |', '| a | 3 |']
    """
    return [
        markdown_line([escape_markdown(name) for name in columns]),
        markdown_line(["---:" if is_number else "---" for is_number in are_numbers]),
        *(markdown_line([escape_markdown(str(cell)) for cell in row]) for row in rows),
    ]


def markdown_line(cells: Sequence[str]) -> str:
    """Return a row of a table, whose cells are Markdown."""
    return f"| {' | '.join(cells)} |"
