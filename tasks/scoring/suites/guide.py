"""The guide of a dimension for people who rate videos: what it asks for, and its levels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Self

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from storage_schemas.regular_files import read_regular_text, why_unread
from tasks.llm.prompt_files import sections_in

_LEVEL = re.compile(r"(\d+)\s*[:：]\s*(.+)")


class Guide(Frozen):
    """One dimension in one language.

    Parameters
    ----------
    title, meaning
        Name of the dimension, and what it asks for.
    look_at, notes
        What to look at, and what does not count; one item of a list each, may be empty.
    levels
        Each level with its text, ascending.
    """

    dimension: str
    language: str
    title: str
    meaning: str
    look_at: tuple[str, ...] = ()
    levels: tuple[tuple[int, str], ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, dimension: str, title: str, language: str, text: str, where: str) -> Self:
        """Return the guide in a file of criteria; sections that it does not know are for models.

        The sections ``meaning`` and ``scale`` are required, ``title``, ``look at`` and ``notes`` are not.

        Parameters
        ----------
        title
            The title if the file has none.
        where
            What messages call the file.

        Raises
        ------
        UserInputError
            If a section is missing, or the levels are not consecutive.
        """
        sections = sections_in(text)
        levels = tuple(
            (int(match[1]), match[2].strip())
            for line in sections.get("scale", "").splitlines()
            if (match := _LEVEL.fullmatch(line.strip()))
        )
        numbers = [level for level, _ in levels]
        if len(numbers) < 2 or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise UserInputError(
                f"{where}: under '# scale' write one line for each level, ascending, such as '1: its text'"
            )
        meaning = sections.get("meaning", "")
        if not meaning:
            raise UserInputError(f"{where}: the section 'meaning' is missing or empty")
        return cls(
            dimension=dimension,
            language=language,
            title=sections.get("title") or title,
            meaning=meaning,
            look_at=_lines(sections.get("look at", "")),
            levels=levels,
            notes=_lines(sections.get("notes", "")),
        )


def _lines(text: str) -> tuple[str, ...]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    items = tuple(line[1:].strip() for line in lines if line.startswith("-"))
    return items or tuple(lines)


def own_guide(folder: Path, dimension: str, title: str, language: str) -> Guide | None:
    """Return a user's guide, ``FOLDER/LANGUAGE/DIMENSION.txt``; None if there is none.

    Raises
    ------
    UserInputError
        If it cannot be read or used.
    """
    path = folder / language / f"{dimension}.txt"
    if not path.exists():
        return None
    try:
        text = read_regular_text(path, "utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise UserInputError(f"{path} cannot be read: {why_unread(problem)}") from problem
    return Guide.read(dimension, title, language, text, str(path))
