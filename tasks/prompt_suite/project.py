"""The folder in which a prompt suite comes to be: drafts, and what people said of them."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from storage_schemas.commit import storage_errors, sync_path, write_atomic
from storage_schemas.errors import StoreError, UserInputError
from storage_schemas.ids import digest_text
from storage_schemas.judgements import whole_characters
from storage_schemas.model import Frozen
from tasks.prompt_suite.drafts import Version
from tasks.prompt_suite.videos import SourceVideo
from tasks.scoring.suites.base import SuitePrompt

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


#: Longest text that a person may give, in characters: many times what a prompt has.
MOST_TEXT = 50_000


class Draft(Frozen):
    """What models made of a video.

    Parameters
    ----------
    versions
        All texts on the way with what was found wrong with them; the last one counts.
    """

    video: SourceVideo
    versions: tuple[Version, ...] = Field(min_length=1)

    @property
    def prompt_id(self) -> str:
        """What the prompt is called."""
        return self.video.prompt_id

    @property
    def text(self) -> str:
        """The text that a person is to look at."""
        return self.versions[-1].text

    @cached_property
    def digest(self) -> str:
        """What tells this draft from another one of the same prompt: its text and its video."""
        return digest_text(f"{self.video.digest} {self.text}")


class Project:
    """One such folder.

    Parameters
    ----------
    folder
        Its path; it need not be there before something is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prompts_path = folder / "prompts.jsonl"
        self.edit_folder = folder / "edit"
        self._reviews = folder / "reviews.jsonl"

    def prepare(self) -> None:
        """Make the folder, if there is none.

        Raises
        ------
        UserInputError
            If that is not possible, or nothing can be written there.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / ".reviews.lock").open("a"):
                pass
        except OSError as problem:
            raise UserInputError(f"{self.folder} cannot be written ({problem.strerror})") from problem

    def need(self) -> None:
        """Raise UserInputError if there is no draft at all."""
        if not self.draft_ids():
            raise UserInputError(
                f"{self.folder} has no drafts: `slvmeval suite prompts make VIDEOS --out {self.folder}` "
                "makes them"
            )

    def draft_ids(self) -> list[str]:
        """Return the prompts of which there is a draft, in order."""
        return sorted(path.stem for path in (self.folder / "drafts").glob("[!.]*.json"))

    def draft(self, prompt_id: str) -> Draft | None:
        """Return a draft; None where there is none.

        Raises
        ------
        StoreError
            If its file is not whole.
        """
        if prompt_id not in self.draft_ids():
            return None
        path = self.folder / "drafts" / f"{prompt_id}.json"
        try:
            return Draft.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as problem:
            raise StoreError(
                f"{path} is no draft of ours: take it away, `suite prompts make` writes it anew, at no cost"
            ) from problem

    def drafts(self) -> list[Draft]:
        """Return all drafts, in order."""
        return [found for id_ in self.draft_ids() if (found := self.draft(id_)) is not None]

    def keep_draft(self, draft: Draft) -> None:
        """Write a draft in the place of an earlier one."""
        text = draft.model_dump_json(indent=1) + "\n"
        write_atomic(self.folder / "drafts" / f"{draft.prompt_id}.json", text.encode())

    def keep_conversation(self, prompt_id: str, details: Mapping[str, Any]) -> None:
        """Write what was asked and answered."""
        # a model's words may hold halves of characters, which no file can
        text = whole_characters(json.dumps(details, indent=1, ensure_ascii=False)) + "\n"
        write_atomic(self.folder / "conversations" / f"{prompt_id}.json", text.encode())

    def keep_prompts(self, prompts: Sequence[SuitePrompt]) -> None:
        """Write the prompts that are ready, in place of those before."""
        lines = [prompt.model_dump(mode="json") for prompt in prompts]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        write_atomic(self.prompts_path, text.encode())

    def reviews(self) -> list[Review]:
        """Return what people said, the oldest first; what a kill left of a line is passed over.

        Raises
        ------
        StoreError
            If a whole line is none of ours.
        """
        if not self._reviews.exists():
            return []
        whole, _, _ = self._reviews.read_bytes().rpartition(b"\n")
        found = []
        for number, line in enumerate(whole.split(b"\n"), 1):
            if not line.strip():
                continue
            try:
                found.append(Review.model_validate_json(line))
            except ValidationError as problem:
                if is_torn(line):
                    # its writer was killed; the next one began a new line
                    continue
                raise StoreError(
                    f"{self._reviews}, line {number}, is no record of ours: mend or remove it"
                ) from problem
        return found

    def current(self) -> dict[tuple[str, str], Review]:
        """Return the newest review of each draft, by its prompt and its digest."""
        return {(one.prompt_id, one.draft): one for one in self.reviews()}

    def approved(self, draft: Draft) -> Review | None:
        """Return the newest review of this very draft; None where nobody looked at it yet."""
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
        """Add what a person says of a draft; said twice, it is there once.

        Parameters
        ----------
        draft
            The draft that the person saw.
        seen
            The id of the review that the person saw with it, empty for none; None where that is not known.
        saved_at
            When the person said it, in seconds since the epoch, where it lay in a file since. What was taken
            over from it before is not taken over again.

        Raises
        ------
        UserInputError
            If there is no such prompt, its draft is another one by now, somebody else has said something of
            it meanwhile, or the text is empty or far too long.
        """
        found = self.draft(prompt_id)
        if found is None:
            raise UserInputError(f"there is no draft {prompt_id[:100]!r} in {self.folder}")
        if found.digest != draft:
            raise UserInputError(f"{prompt_id}: its draft is another one by now: look at the new one")
        if verdict not in ("accepted", "left_out"):
            raise UserInputError(f"{prompt_id}: the verdict is {verdict[:50]!r}: write accepted or left_out")
        plain = whole_characters(text).replace("\r\n", "\n").strip()
        said = "\n".join(line.rstrip() for line in plain.split("\n"))
        if verdict == "accepted" and not said:
            raise UserInputError(f"{prompt_id}: the text is empty: write it, or leave the prompt out")
        if len(said) > MOST_TEXT or len(by) > MOST_TEXT or len(note) > MOST_TEXT:
            raise UserInputError(f"{prompt_id}: the text has more than {MOST_TEXT} characters")
        kept = said if verdict == "accepted" else ""
        made = Review(
            prompt_id=prompt_id, draft=draft, verdict=verdict, text=kept, by=one_line(by), note=one_line(note)
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        with storage_errors(self.folder), self._alone():
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
                # what a kill left of a line stays a line of its own
                file.write(b"\n" if file.read(1) != b"\n" else b"")
            file.write(made.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_path(self.folder)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (self.folder / ".reviews.lock").open("a") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield
