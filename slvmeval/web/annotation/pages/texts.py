"""The texts of the pages: one TOML file per language, which a campaign can override partly or completely."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from storage_schemas.errors import UserInputError
from storage_schemas.first_of_many import first_names
from storage_schemas.regular_files import read_regular_text, why_unread

Words = Mapping[str, Any]

#: The texts every aspect needs.
ASPECT_KEYS = ("name", "question", "instruction", "changed", "clear", "failed")


@dataclass(frozen=True)
class Texts:
    """All texts of a page in one language.

    Parameters
    ----------
    language
        ``en``, ``ja``, or one of the organiser's.
    words
        The file's tables by name: ``page``, ``consent``, ``task``, ``script``, …; values are text or tables.
    aspect
        The texts of one aspect (`ASPECT_KEYS`), or empty.
    """

    language: str
    words: Words
    aspect: Words

    def refused(self, reason: str) -> Words:
        """Return title and text for a reason; reasons without texts share a default."""
        refusals: Words = self.words["refused"]
        texts: Words = refusals.get(reason, refusals["other"])
        return texts


def texts(language: str, aspect: str | None = None, folder: Path | None = None) -> Texts:
    """Return the texts of a language.

    Parameters
    ----------
    language
        ``en``, ``ja``, or one that `folder` has.
    aspect
        The aspect of the page, or None.
    folder
        Folder with a campaign's own texts. ``en.toml`` and ``ja.toml`` contain only what differs from ours;
        the file of another language contains all texts.

    Raises
    ------
    UserInputError
        If the language is unknown, a file of `folder` is invalid, or an aspect has no texts.
    """
    words = _words(language, folder)
    if aspect is None:
        return Texts(language, words, MappingProxyType({}))
    aspect_texts = words["aspects"].get(aspect)
    missing = [key for key in ASPECT_KEYS if key not in (aspect_texts or {})]
    if missing:
        where = folder / f"{language}.toml" if folder else f"{language}.toml in your own folder of texts"
        raise UserInputError(
            f"aspect {aspect} has no texts in {language}: write {', '.join(missing)} "
            f"under [aspects.{aspect}] in {where}"
        )
    return Texts(language, words, MappingProxyType(aspect_texts))


def instructed(words: Words) -> dict[str, str]:
    """Return the instructions in a language, for the aspects that have them."""
    return {name: text for name, one in words["aspects"].items() if (text := one.get("instruction"))}


def check_texts(
    languages: Iterable[str], aspects: Iterable[str], folder: Path | None = None, asks: int = 0
) -> None:
    """Raise `UserInputError` unless every aspect has its texts in every language.

    Parameters
    ----------
    asks
        Number of aspects that need instructions for the question before the first task.
    """
    wanted = tuple(aspects)
    for language in languages:
        words = texts(language, None, folder).words
        if len(instructed(words)) < asks:
            raise UserInputError(
                f"comprehension needs {asks} aspects with instructions, but in {language} only "
                f"{len(instructed(words))} have texts: add some, or leave comprehension out"
            )
        for aspect in wanted:
            texts(language, aspect, folder)


@lru_cache(maxsize=16)
def _words(language: str, folder: Path | None) -> Words:
    if folder is not None and not folder.is_dir():
        raise UserInputError(f"the folder of texts {folder} does not exist")
    theirs = folder / f"{language}.toml" if folder is not None else None
    ours = files(__package__).joinpath("texts", f"{language}.toml")
    new = not ours.is_file()
    if new and (theirs is None or not theirs.exists()):
        raise UserInputError(
            f"the pages have no texts in {language!r}: ours are en and ja; write {language}.toml with all "
            "texts of en.toml into a folder, and name it with --texts"
        )
    if new:
        ours = files(__package__).joinpath("texts", "en.toml")
    words = tomllib.loads(ours.read_text(encoding="utf-8"))
    if new:
        words["aspects"] = {}
    if theirs is not None and theirs.exists():
        try:
            overrides = tomllib.loads(read_regular_text(theirs))
        except OSError as problem:
            raise UserInputError(f"{theirs} cannot be read: {why_unread(problem)}") from problem
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
            raise UserInputError(f"{theirs} is not valid TOML: {problem}") from problem
        missing = sorted(_missing(words, overrides)) if new else []
        if missing:
            shown = first_names(missing, 5)
            raise UserInputError(f"{theirs} lacks texts: {shown}; a new language needs all of en.toml")
        words = _over(words, overrides, f"{theirs}: ", ())
    return MappingProxyType(words)


def _missing(ours: Words, theirs: Words, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield those of our texts that another language's file lacks; it needs only the aspects shown."""
    for key, value in ours.items():
        name = (*path, key)
        if isinstance(value, dict) and name[0] != "aspects":
            inner = theirs.get(key, {})
            yield from _missing(value, inner if isinstance(inner, dict) else {}, name)
        elif key not in theirs and name[0] != "aspects":
            yield ".".join(name)


def _placeholders(text: str) -> set[str]:
    return set(re.findall(r"\{\w+\}", text))


def _over(ours: dict[str, Any], theirs: dict[str, Any], where: str, path: tuple[str, ...]) -> dict[str, Any]:
    """Overlay a campaign's texts on ours; only aspects and reasons may be new."""
    merged = dict(ours)
    for key, value in theirs.items():
        name = ".".join((*path, key))
        new_allowed = path in (("aspects",), ("refused",))
        if key not in ours and not new_allowed and path[:1] != ("aspects",):
            names = ", ".join(sorted(ours))
            raise UserInputError(f"{where}there is no text {name}; choose from {names}")
        old = ours.get(key, {} if new_allowed else "")
        if isinstance(old, dict) != isinstance(value, dict) or not isinstance(value, str | dict):
            kind = "a table" if isinstance(old, dict) else "text"
            raise UserInputError(f"{where}{name} must be {kind}")
        if isinstance(value, str) and key in ours and _placeholders(value) != _placeholders(ours[key]):
            wanted = ", ".join(sorted(_placeholders(ours[key]))) or "(none)"
            raise UserInputError(f"{where}{name} must have exactly the placeholders {wanted}")
        merged[key] = _over(old, value, where, (*path, key)) if isinstance(value, dict) else value
    return merged
