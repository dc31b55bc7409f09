"""The wording of prompts, extracted from the user's own copy of a paper's text.

``printed.toml`` has the marks that locate each: names of sections and of placeholders. A text is identified
by its checksum, so that a report can state whether the words sent are the printed ones.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path

from pydantic import Field

from storage_schemas.commit import write_atomic
from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_text
from storage_schemas.model import Frozen
from storage_schemas.regular_files import read_regular_text, why_unread
from tasks.llm.prompt_files import STEPS, own_prompts, prompt_catalogue, prompts_digest

#: Prefix of the label of prompts that are a paper's own words.
AS_PRINTED = "as printed"

_FENCE = re.compile(r"^\s*```\w*\s*$", re.MULTILINE)
#: A line broken by the page width continues after an arrow.
_CONTINUED = re.compile(r"[ \t]*\n[ \t]*[→↳↪][ \t]*")
_UNSURE = re.compile(r"[\s\"'`´‘’“”]+")


class PrintedPrompt(Frozen):
    """Where a paper prints a prompt.

    Parameters
    ----------
    section
        Beginning of the line after which it stands; empty for the whole text.
    begin, keep_begin
        What stands before it, and whether that is a part of it.
    ends
        What stands after it: the first of these that is found; without any, the end of the text.
    fenced
        Whether it is all that stands in code fences.
    row
        The middle cell of the table's row whose last cell it is.
    placeholders
        Ours for the paper's.
    append
        What follows it.
    digest
        Checksum of the text, see :func:`bare_digest`; empty if we have not seen it, or not whole.
    """

    section: str = ""
    begin: str = ""
    keep_begin: bool = False
    ends: tuple[str, ...] = ()
    fenced: bool = False
    row: str = ""
    placeholders: Mapping[str, str] = Field(default_factory=dict)
    append: str = ""
    digest: str = ""

    def find(self, text: str) -> str | None:
        """Return the prompt in a paper's text; None if it is not there."""
        if self.row:
            cells = re.search(rf"[|&\t][ \t]*{self.row}[ \t]*[|&\t][ \t]*([^|&\t\n]+)", text)
            return None if cells is None else cells[1].strip().removesuffix("\\\\").strip() or None
        for start in self._starts(text):
            found = self._from(text[start:])
            if found:
                for theirs, ours in self.placeholders.items():
                    found = found.replace(theirs, ours)
                return found + self.append
        return None

    def _starts(self, text: str) -> list[int]:
        """Return where the section begins, the last place first: earlier ones are mentions."""
        if not self.section:
            return [0]
        heading = re.compile(rf"^[#*\s\d.A-Z]*?{re.escape(self.section)}", re.MULTILINE)
        return [match.end() for match in heading.finditer(text)][::-1]

    def _from(self, text: str) -> str:
        start = text.find(self.begin) if self.begin else 0
        if start < 0:
            return ""
        body = text[start if self.keep_begin else start + len(self.begin) :]
        stops = [index for end in self.ends if (index := body.find(end)) >= 0]
        if self.ends and not stops:
            return ""
        body = body[: min(stops)] if stops else body
        if self.fenced:
            fences = list(_FENCE.finditer(body))
            if not fences:
                return ""
            # the fence that ends the text may be missing
            last = fences[-1].start() if len(fences) > 1 and self.ends else len(body)
            body = _FENCE.sub("", body[fences[0].end() : last])
            body = re.sub(r"\n{3,}", "\n\n", _CONTINUED.sub(" ", body))
        return body.strip()


class _Paper(Frozen):
    title: str
    drop: tuple[str, ...] = ()
    prompts: Mapping[str, PrintedPrompt]


@cache
def _papers() -> Mapping[str, _Paper]:
    text = resources.files(__package__).joinpath("printed.toml").read_text(encoding="utf-8")
    return {name: _Paper.model_validate(values) for name, values in tomllib.loads(text).items()}


def bare_digest(text: str) -> str:
    """Return the checksum of a text, ignoring spaces and quotes, which differ between copies of a paper."""
    return digest_text(_UNSURE.sub("", text))


def known_digests() -> dict[str, str]:
    """Return the checksums of the printed prompts that we have seen, by ``AREA/NAME``."""
    return {
        key: printed.digest
        for paper in _papers().values()
        for key, printed in paper.prompts.items()
        if printed.digest
    }


def is_as_printed(texts: Mapping[str, str], areas: Collection[str]) -> bool:
    """Return whether the changed prompts of some areas are exactly those that a paper prints, word for word.

    A printed text that we have not seen in full matches anything.
    """
    printed = {
        key: one
        for paper in _papers().values()
        for key, one in paper.prompts.items()
        # the paper prints the steps of only one dimension
        if key.partition("/")[0] in areas and not key.startswith(STEPS)
    }
    digests = {key: one.digest for key, one in printed.items() if one.digest}
    needed = {key for key, one in printed.items() if one.digest or one.row}
    if not digests or not needed <= set(texts) <= set(printed):
        return False
    return all(bare_digest(texts[key]) == digest for key, digest in digests.items())


def prompts_label(own: str | Path | None, areas: Collection[str]) -> str:
    """Return whose prompts of some areas are sent, in words.

    Examples
    --------
    >>> prompts_label(None, ["judges"])
    'built-in'
    >>> prompts_label(None, [])
    ''
    """
    digest = prompts_digest(own, areas)
    if own and digest:
        texts = {key: text for key, text in own_prompts(own).items() if key.partition("/")[0] in areas}
        whose = AS_PRINTED if is_as_printed(texts, areas) else Path(own).resolve().name
        return f"{whose}, {digest}"
    return "built-in" if areas else ""


@dataclass(frozen=True)
class Taken:
    """What was found in a paper's text.

    Parameters
    ----------
    paper
        The paper's title.
    texts
        The prompts by ``AREA/NAME``.
    missing
        Those that are not where they should be.
    mistakes
        By prompt, what keeps a text from replacing the built-in one, such as a missing placeholder.
    strange
        Those whose words are not those that we know of the paper.
    """

    paper: str
    texts: Mapping[str, str]
    missing: tuple[str, ...] = ()
    mistakes: Mapping[str, str] = field(default_factory=dict)
    strange: tuple[str, ...] = ()


def take_prompts(path: Path) -> Taken:
    """Return the prompts that a paper's text prints.

    Parameters
    ----------
    path
        The text of one of the papers, or VideoScore's model card: plain text or Markdown.

    Raises
    ------
    UserInputError
        If it cannot be read, or is none of these.
    """
    try:
        text = read_regular_text(path)
    except (OSError, UnicodeDecodeError) as problem:
        raise UserInputError(f"{path}: it cannot be read: {why_unread(problem)}") from problem
    # one that cites another names itself first
    starts = [(text.find(paper.title), paper) for paper in _papers().values() if paper.title in text]
    for _, paper in sorted(starts, key=lambda one: one[0]):
        taken = _taken(paper, text)
        if taken.texts or taken.mistakes:
            return taken
    titles = ", ".join(paper.title for paper in _papers().values())
    raise UserInputError(
        f"{path} has no prompt where {titles} print theirs: give a paper's whole text, with its appendices, "
        "or the model's card"
    )


def _taken(paper: _Paper, text: str) -> Taken:
    for mark in paper.drop:
        text = text.replace(mark, "")
    found = {key: printed.find(text) for key, printed in paper.prompts.items()}
    texts = {key: one for key, one in found.items() if one is not None}
    catalogue = prompt_catalogue()
    wrong = {key: catalogue[key].mistakes(one) for key, one in texts.items() if key in catalogue}
    mistakes = {key: "; ".join(some) for key, some in wrong.items() if some}
    digests = known_digests()
    strange = [key for key, one in texts.items() if digests.get(key, "") not in ("", bare_digest(one))]
    return Taken(
        paper=paper.title,
        texts={key: one for key, one in texts.items() if key not in mistakes},
        missing=tuple(key for key, one in found.items() if one is None),
        mistakes=mistakes,
        strange=tuple(strange),
    )


def write_prompts(folder: Path, texts: Mapping[str, str]) -> tuple[int, int]:
    """Write prompts into a folder; return how many were written, and how many existed and stay."""
    written = stayed = 0
    for key, text in texts.items():
        path = folder / f"{key}.txt"
        if path.exists():
            stayed += 1
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, f"{text}\n".encode())
        written += 1
    return written, stayed
