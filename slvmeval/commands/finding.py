"""What a check of ``slvmeval doctor`` found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "FAIL"


@dataclass(frozen=True)
class Finding:
    """What one check found; where it is bad, the message says what to do."""

    what: str
    verdict: Verdict
    message: str
