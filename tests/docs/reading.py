"""Documents as the tests read them: blocks of code, headings, links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: what stands behind the fence, its text, and its line."""

    language: str
    text: str
    path: Path
    line: int


def blocks(path: Path, language: str) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    return [
        Block(result[1].strip(), result[2], path, text.count("\n", 0, result.start()) + 1)
        for result in FENCE.finditer(text)
        if result[1].strip() == language
    ]


def prose(path: Path) -> str:
    """Return a document without its fenced blocks."""
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def count_words(path: Path, *, tables: bool = True) -> int:
    """Count the words of a document: prose, headings and cells of tables, with or without the tables.

    A word is what stands between blanks and bars and has a letter or a digit, so a link's text and address
    are one word. Code blocks and comments do not count.
    """
    text = re.sub(r"<!--.*?-->", "", prose(path), flags=re.DOTALL)
    if not tables:
        text = re.sub(r"^\|.*$", "", text, flags=re.MULTILINE)
    return len(re.findall(r"[^\s|]*\w[^\s|]*", text))


def anchors(path: Path) -> set[str]:
    """Return the anchors that a web page gives to a document's headings."""
    result = set()
    for heading in re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.strip().lower())
        result.add(plain.replace(" ", "-"))
    return result
