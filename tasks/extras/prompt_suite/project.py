"""The folder of a prompt suite in the making: drafts, and people's reviews of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from storage_schemas.commit import storage_errors, sync_path, write_atomic
from storage_schemas.errors import StoreError, UserInputError
from storage_schemas.ids import digest_text
from storage_schemas.judgements import whole_characters
from storage_schemas.locks import alone
from storage_schemas.model import Frozen
from storage_schemas.regular_files import check_regular, read_regular
from tasks.extras.prompt_suite.drafts import Version
from tasks.extras.prompt_suite.videos import SourceVideo
from tasks.scoring.suites.base import SuitePrompt

Verdict = Literal["accepted", "left_out"]
#: Start of each line.
_BEGINNING = b'{"prompt_id":'


def _moment(at: str) -> str:
    """Return a valid time; raise ValueError for any other text."""
    if datetime.fromisoformat(at).tzinfo is None:
        raise ValueError("a time needs its time zone")
    return at


class Review(Frozen):
    """A person's verdict on a draft.

    Parameters
    ----------
    draft
        Digest of the draft.
    text
        The corrected text; empty if the prompt is left out.
    by, note
        Optional name of the reviewer, and a note.
    at
        Time of the review, ISO 8601 with UTC.
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
        """Identifies the review."""
        return digest_text(self.model_dump_json())

    @property
    def seconds(self) -> float:
        """Time of the review in seconds since the epoch."""
        return datetime.fromisoformat(self.at).timestamp()

    def says_as(self, other: Review) -> bool:
        """Return whether both are equal except for their times."""
        return self.model_dump(exclude={"at"}) == other.model_dump(exclude={"at"})


def is_torn(line: bytes) -> bool:
    """Return whether a line is a truncated record."""
    plain = line.replace(b" ", b"")
    return (plain.startswith(_BEGINNING) or _BEGINNING.startswith(plain)) and not plain.endswith(b"}")


def said_meanwhile(prompt_id: str, before: Review | None) -> str:
    """Return the message for a review that another one preceded."""
    if before is None:
        return f"{prompt_id}: its review has been removed meanwhile: look at it again"
    what = "accepted a text of it" if before.verdict == "accepted" else "left it out"
    who = before.by or "another reviewer"
    return f"{prompt_id}: {who} has {what} meanwhile ({before.at}): save again to replace that"


def one_line(text: str) -> str:
    """Return a person's text as one line."""
    return " ".join(whole_characters(text).split())


#: Maximum length of a person's text in characters, many times that of a prompt.
MAX_TEXT = 50_000


class Draft(Frozen):
    """A prompt that models wrote about a video.

    Parameters
    ----------
    versions
        All versions of the text with their faults; the last one is the draft's text.
    """

    video: SourceVideo
    versions: tuple[Version, ...] = Field(min_length=1)

    @property
    def prompt_id(self) -> str:
        """Id of the prompt."""
        return self.video.prompt_id

    @property
    def text(self) -> str:
        """The text for review."""
        return self.versions[-1].text

    @cached_property
    def digest(self) -> str:
        """Checksum of the text and the video, which distinguishes drafts of a prompt."""
        return digest_text(f"{self.video.digest} {self.text}")


class Project:
    """The folder of one prompt suite.

    Parameters
    ----------
    folder
        Its path; it need not exist before the first write.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prompts_path = folder / "prompts.jsonl"
        self.edit_folder = folder / "edit"
        self._reviews = folder / "reviews.jsonl"

    def prepare(self) -> None:
        """Make the folder if it does not exist.

        Raises
        ------
        UserInputError
            If it cannot be made or written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = self.folder / ".reviews.lock"
            if lock.exists():
                check_regular(lock)
            with lock.open("a"):
                pass
        except OSError as problem:
            path = problem.filename or self.folder
            raise UserInputError(f"{path} cannot be written ({problem.strerror})") from problem

    def need(self) -> None:
        """Raise UserInputError if there are no drafts."""
        if not self.draft_ids():
            raise UserInputError(
                f"{self.folder} has no drafts: "
                f"`slvmeval suite prompts make VIDEOS --out {quote(str(self.folder))}` makes them"
            )

    def draft_ids(self) -> list[str]:
        """Return the ids of all drafts, in order."""
        return sorted(path.stem for path in (self.folder / "drafts").glob("[!.]*.json"))

    def draft(self, prompt_id: str) -> Draft | None:
        """Return a draft, or None.

        Raises
        ------
        StoreError
            If its file is damaged.
        """
        if prompt_id not in self.draft_ids():
            return None
        path = self.folder / "drafts" / f"{prompt_id}.json"
        try:
            return Draft.model_validate_json(read_regular(path))
        except (OSError, ValidationError) as problem:
            why = f" ({problem.strerror})" if isinstance(problem, OSError) else ""
            raise StoreError(
                f"{path} is not a valid draft{why}: remove it, and `suite prompts make` recreates it "
                "at no cost"
            ) from problem

    def drafts(self) -> list[Draft]:
        """Return all drafts, in order."""
        return [draft for id_ in self.draft_ids() if (draft := self.draft(id_)) is not None]

    def keep_draft(self, draft: Draft) -> None:
        """Write a draft, replacing an earlier one."""
        text = draft.model_dump_json(indent=1) + "\n"
        write_atomic(self.folder / "drafts" / f"{draft.prompt_id}.json", text.encode())

    def keep_conversation(self, prompt_id: str, details: Mapping[str, Any]) -> None:
        """Write a conversation."""
        # a model's text may have lone surrogates, which files cannot store
        text = whole_characters(json.dumps(details, indent=1, ensure_ascii=False)) + "\n"
        write_atomic(self.folder / "conversations" / f"{prompt_id}.json", text.encode())

    def keep_prompts(self, prompts: Sequence[SuitePrompt]) -> None:
        """Write the prompts that are ready, replacing earlier ones."""
        lines = [prompt.model_dump(mode="json") for prompt in prompts]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        write_atomic(self.prompts_path, text.encode())

    def reviews(self) -> list[Review]:
        """Return all reviews, oldest first; lines truncated by a kill are skipped.

        Raises
        ------
        StoreError
            If a complete line is not a review.
        """
        if not self._reviews.exists():
            return []
        try:
            whole, _, _ = read_regular(self._reviews).rpartition(b"\n")
        except OSError as problem:
            raise StoreError(
                f"{self._reviews} cannot be read ({problem.strerror}): restore it from a copy, or remove it "
                "if nothing has been reviewed"
            ) from problem
        reviews = []
        for number, line in enumerate(whole.split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                reviews.append(Review.model_validate_json(line))
            except ValidationError as problem:
                if is_torn(line):
                    # its writer was killed; the next one started a new line
                    continue
                raise StoreError(
                    f"{self._reviews}, line {number}, is not a valid review: correct or remove it"
                ) from problem
        return reviews

    def current(self) -> dict[tuple[str, str], Review]:
        """Return the newest review of each draft, by prompt id and digest."""
        return {(one.prompt_id, one.draft): one for one in self.reviews()}

    def approved(self, draft: Draft) -> Review | None:
        """Return the newest review of exactly this draft, or None."""
        return self.current().get((draft.prompt_id, draft.digest))

    def review(
        self,
        prompt_id: str,
        draft: str,
        verdict: str,
        text: str,
        by: str = "",
        note: str = "",
        seen: str | None = None,
        saved_at: float | None = None,
    ) -> Review:
        """Add a review of a draft; an equal one is not added again.

        Parameters
        ----------
        draft
            Digest of the draft that the person saw.
        seen
            Id of the review that the person saw with it, empty for none; None if unknown.
        saved_at
            For a review from a file, when that was saved, in seconds since the epoch. A review that was
            imported before is not added again.

        Raises
        ------
        UserInputError
            If the prompt does not exist, its draft has changed, another person has reviewed it meanwhile, or
            the text is empty or far too long.
        """
        current = self.draft(prompt_id)
        if current is None:
            raise UserInputError(f"there is no draft {prompt_id[:100]!r} in {self.folder}")
        if current.digest != draft:
            raise UserInputError(f"{prompt_id}: its draft has changed meanwhile: look at the new one")
        if verdict not in ("accepted", "left_out"):
            raise UserInputError(f"{prompt_id}: the verdict is {verdict[:50]!r}: write accepted or left_out")
        plain = whole_characters(text).replace("\r\n", "\n").strip()
        clean = "\n".join(line.rstrip() for line in plain.split("\n"))
        if verdict == "accepted" and not clean:
            raise UserInputError(f"{prompt_id}: the text is empty: write it, or leave the prompt out")
        if len(clean) > MAX_TEXT or len(by) > MAX_TEXT or len(note) > MAX_TEXT:
            raise UserInputError(f"{prompt_id}: the text has more than {MAX_TEXT} characters")
        made = Review(
            prompt_id=prompt_id,
            draft=draft,
            verdict=verdict,
            text=clean if verdict == "accepted" else "",
            by=one_line(by),
            note=one_line(note),
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        with storage_errors(self.folder), alone(self.folder / ".reviews.lock"):
            earlier = [one for one in self.reviews() if (one.prompt_id, one.draft) == (prompt_id, draft)]
            before = earlier[-1] if earlier else None
            if before is not None and before.says_as(made):
                return before
            newer = before is not None and saved_at is not None and before.seconds > saved_at
            if newer and (same := next((one for one in earlier if one.says_as(made)), None)):
                return same
            if newer or seen not in (None, "" if before is None else before.id):
                raise UserInputError(said_meanwhile(prompt_id, before))
            self._append(made)
        return made

    def _append(self, made: Review) -> None:
        new = not self._reviews.exists()
        with self._reviews.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                # a line truncated by a kill stays a separate line
                file.write(b"\n" if file.read(1) != b"\n" else b"")
            file.write(made.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_path(self.folder)
