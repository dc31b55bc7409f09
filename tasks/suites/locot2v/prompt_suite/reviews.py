"""What a person said of a draft: one record, a line of a file."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from storage_schemas.ids import digest_text
from storage_schemas.judgement import whole_characters
from storage_schemas.model import Frozen

Verdict = Literal["accepted", "left_out"]
#: How each line begins.
_BEGINNING = b'{"prompt_id":'


def _moment(at: str) -> str:
    """Return a time that can be read; raise ValueError for another one."""
    if datetime.fromisoformat(at).tzinfo is None:
        raise ValueError("a time has its zone")
    return at


class Review(Frozen):
    """What a person said of a draft.

    Parameters
    ----------
    draft
        Which one: its digest.
    text
        The text as the person wants it; empty where the prompt is left out.
    by, note
        Who it was, as far as they say, and what else they say.
    at
        When, ISO 8601 with UTC.
    """

    prompt_id: str
    draft: str
    verdict: Verdict
    text: str = ""
    by: str = ""
    note: str = ""
    at: Annotated[str, AfterValidator(_moment)] = Field(
        default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds")
    )

    @cached_property
    def id(self) -> str:
        """What tells this record from another one."""
        return digest_text(self.model_dump_json())

    @property
    def seconds(self) -> float:
        """When, in seconds since the epoch."""
        return datetime.fromisoformat(self.at).timestamp()

    def says_as(self, other: Review) -> bool:
        """Return whether both say the same, at whatever time."""
        return self.model_dump(exclude={"at"}) == other.model_dump(exclude={"at"})


def is_torn(line: bytes) -> bool:
    """Return whether a line is the beginning of one of ours, without its end."""
    plain = line.replace(b" ", b"")
    return (plain.startswith(_BEGINNING) or _BEGINNING.startswith(plain)) and not plain.endswith(b"}")


def said_meanwhile(prompt_id: str, before: Review | None) -> str:
    """Say that somebody else was quicker."""
    if before is None:
        return f"{prompt_id}: what was said of it has been taken away meanwhile: look at it again"
    what = "accepted a text of it" if before.verdict == "accepted" else "left it out"
    who = before.by or "somebody"
    return f"{prompt_id}: {who} has {what} meanwhile ({before.at}): save again to replace that"


def one_line(text: str) -> str:
    """Return what a person wrote as one line."""
    return " ".join(whole_characters(text).split())
