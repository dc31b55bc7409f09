"""Pages as a browser would read them."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

VOID = frozenset({"meta", "link", "img", "br", "input", "path", "use"})
Attributes = dict[str, str | None]


class Elements(HTMLParser):
    """Collect a page's elements, and the texts of those with an id; check that all elements close."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, Attributes]] = []
        self.texts: dict[str, str] = {}
        self._open: list[tuple[str, str]] = []
        self.feed(page.read_text(encoding="utf-8"))
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.found.append((tag, given))
        if tag not in VOID:
            self._open.append((tag, given.get("id") or ""))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop()[0] == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self._open:
            id_ = self._open[-1][1]
            self.texts[id_] = self.texts.get(id_, "") + data
