"""Which pages were written from a store, and where: galleries, reports, leaderboards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from storage_schemas.commit import write_atomic
from storage_schemas.errors import SetAside
from storage_schemas.ids import digest_text
from storage_schemas.model import Frozen
from storage_schemas.provenance import utc_now
from storage_schemas.store import Store

PageKind = Literal["gallery", "report", "leaderboard", "comparison"]


class WrittenPage(Frozen):
    """A page: its path, what it shows, and when it was written (UTC)."""

    kind: PageKind
    path: str
    about: str
    at: str

    @property
    def id(self) -> str:
        """A name of the page that can be part of an address."""
        return digest_text(self.path)[:20]


def remember_page(store: Store, kind: PageKind, page: Path, about: str) -> None:
    """Record in the store's cache that a page was written; skipped if the store cannot be written."""
    written = WrittenPage(kind=kind, path=str(page.resolve()), about=about, at=utc_now())
    try:
        write_atomic(_folder(store) / f"{written.id}.json", written.model_dump_json(indent=1).encode())
    except SetAside:
        return


def written_pages(store: Store) -> list[WrittenPage]:
    """Return the pages that still exist, newest first."""
    pages = []
    for path in _folder(store).glob("*.json"):
        try:
            page = WrittenPage.model_validate(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, ValidationError):
            # a record of another version of this program, or one that was just replaced
            continue
        if page.id == path.stem and Path(page.path).is_file():
            pages.append(page)
    return sorted(pages, key=lambda page: page.at, reverse=True)


def _folder(store: Store) -> Path:
    return store.cache / "pages"
