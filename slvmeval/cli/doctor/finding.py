"""Findings of the checks of ``slvmeval doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from infra.profile import Profile


class CheckVerdict(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARN = "warn"
    #: It could not be checked.
    UNSEEN = "?"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Finding:
    """A check's result; for a problem, the message says what to do."""

    what: str
    verdict: CheckVerdict
    message: str


def one_line(text: str) -> str:
    """Join lines into one."""
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())


def store_path(site: Profile) -> Path:
    """Return the store's folder as builds use it."""
    return Path(site.store).expanduser().resolve()


def existing(folder: Path) -> Path:
    """Return a folder, or its nearest existing parent."""
    return next(path for path in (folder, *folder.parents) if path.exists())
