"""The texts of the pages: one TOML file per language, which a campaign can override partly or completely."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from storage_schemas.errors import UserInputError

Words = Mapping[str, Any]

#: The texts every aspect needs.
ASPECT_KEYS = ("name", "question", "instruction", "changed", "clear", "failed")


@dataclass(frozen=True)
class Texts:
    """All texts of a page in one language.

    Parameters
    ----------
    language
        ``en`` or ``ja``.
    words
        The file's tables by name: ``page``, ``consent``, ``task``, ``script``, …; values are text or tables.
    aspect
        The texts of one aspect (`ASPECT_KEYS`), or empty.
    """

    language: str
    words: Words
    aspect: Words

    def refused(self, reason: str) -> Words:
        """Return title and text for a reason, with a default for reasons without their own."""
        known: Words = self.words["refused"]
        found: Words = known.get(reason, known["other"])
        return found


def texts(language: str, aspect: str | None = None, folder: Path | None = None) -> Texts:
    """Return the texts of a language.

    Parameters
    ----------
    language
        ``en`` or ``ja``.
    aspect
        The aspect of the page, or None.
    folder
        Folder with a campaign's own ``en.toml`` and ``ja.toml``, which hold only what differs from ours.

    Raises
    ------
    UserInputError
        If the language is unknown, a file of `folder` is invalid, or an aspect has no texts.
    """
    words = _words(language, folder)
    if aspect is None:
        return Texts(language, words, MappingProxyType({}))
    found = words["aspects"].get(aspect)
    missing = [key for key in ASPECT_KEYS if key not in (found or {})]
    if missing:
        where = folder / f"{language}.toml" if folder else f"{language}.toml in a folder of texts of your own"
        raise UserInputError(
            f"aspect {aspect}: no words in {language} for its workers; write {', '.join(missing)} "
            f"under [aspects.{aspect}] in {where}"
        )
    return Texts(language, words, MappingProxyType(found))


def check_texts(languages: Iterable[str], aspects: Iterable[str], folder: Path | None = None) -> None:
    """Raise `UserInputError` unless every aspect has its texts in every language."""
    wanted = tuple(aspects)
    for language in languages:
        texts(language, None, folder)
        for aspect in wanted:
            texts(language, aspect, folder)


@lru_cache(maxsize=16)
def _words(language: str, folder: Path | None) -> Words:
    ours = files(__package__).joinpath("texts", f"{language}.toml")
    if not ours.is_file():
        raise UserInputError(f"there are no pages in the language {language!r}; there are en and ja")
    if folder is not None and not folder.is_dir():
        raise UserInputError(f"there is no folder {folder} with texts of your own")
    words = tomllib.loads(ours.read_text(encoding="utf-8"))
    theirs = folder / f"{language}.toml" if folder is not None else None
    if theirs is not None and theirs.exists():
        try:
            said = tomllib.loads(theirs.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
            raise UserInputError(f"{theirs} is no TOML: {problem}") from problem
        words = _over(words, said, f"{theirs}: ", ())
    return MappingProxyType(words)


def _places(text: str) -> set[str]:
    return set(re.findall(r"\{\w+\}", text))


def _over(ours: dict[str, Any], theirs: dict[str, Any], where: str, path: tuple[str, ...]) -> dict[str, Any]:
    """Merge a campaign's texts over ours; only aspects and reasons may be new."""
    merged = dict(ours)
    for key, value in theirs.items():
        name = ".".join((*path, key))
        fresh = path in (("aspects",), ("refused",))
        if key not in ours and not fresh and path[:1] != ("aspects",):
            raise UserInputError(f"{where}{name} is no text of ours; there are {', '.join(sorted(ours))}")
        old = ours.get(key, {} if fresh else "")
        if isinstance(old, dict) != isinstance(value, dict) or not isinstance(value, str | dict):
            kind = "a table" if isinstance(old, dict) else "text"
            raise UserInputError(f"{where}{name} has to be {kind}")
        if isinstance(value, str) and key in ours and _places(value) != _places(ours[key]):
            wanted = ", ".join(sorted(_places(ours[key]))) or "none"
            raise UserInputError(f"{where}{name} has to have the places of ours ({wanted}), no others")
        merged[key] = _over(old, value, where, (*path, key)) if isinstance(value, dict) else value
    return merged
