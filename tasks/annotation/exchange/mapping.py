"""The columns and values of a platform's answers, defined in a TOML file.

::

    [file]
    encoding = "cp932"
    timezone = "Asia/Tokyo"

    [columns]
    task = "課題ID"
    worker = "作業者ID"
    preferred = "どちらがよいか"
    rating = "劣化"

    [values.preferred]
    "1" = "left"
    "2" = "right"

    [values.rating]
    "はっきり" = "A"

    [constants]
    platform = "our-platform"
"""

from __future__ import annotations

import tomllib
import unicodedata
from collections.abc import Collection
from pathlib import Path
from typing import Literal, get_args
from zoneinfo import ZoneInfo

from pydantic import Field, ValidationError, field_validator, model_validator

from storage_schemas.errors import UserInputError, did_you_mean
from storage_schemas.model import Frozen
from storage_schemas.regular_files import read_regular_text
from storage_schemas.value_problems import value_problem

Encoding = Literal["utf-8", "utf-8-sig", "cp932"]
Form = Literal["csv", "tsv", "jsonl"]
#: Fields of a row. A row needs `worker`, `preferred`, `rating`, and `task`, or `pair` and `first`.
AnswerField = Literal[
    "task",
    "pair",
    "first",
    "worker",
    "preferred",
    "rating",
    "comment",
    "platform",
    "language",
    "preference_s",
    "total_s",
    "watched_s",
    "opened_at",
    "at",
]
FIELDS: tuple[AnswerField, ...] = get_args(AnswerField)
#: Fields that have only these values.
CHOICES: dict[str, tuple[str, ...]] = {
    "preferred": ("left", "right", "high", "low"),
    "first": ("high", "low"),
    "rating": ("A", "B", "C"),
}
#: Platform of votes from a file that does not name one.
DEFAULT_PLATFORM = "file"


class FileForm(Frozen):
    """The format of the answers' file.

    Parameters
    ----------
    form
        The kind of file; by default determined by the extension of its name.
    encoding
        The encoding; a byte order mark at the beginning of UTF-8 is always skipped.
    timezone
        Time zone of times without one, such as ``Asia/Tokyo``.
    """

    form: Form | None = None
    encoding: Encoding = "utf-8"
    timezone: str = "UTC"

    @field_validator("timezone")
    @classmethod
    def _known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (OSError, ValueError, KeyError) as problem:
            raise ValueError(f"unknown time zone {value!r}: use a name such as Asia/Tokyo") from problem
        return value


class AnswerMapping(Frozen):
    """How to read answers.

    Parameters
    ----------
    file
        The format of the file.
    columns
        The column of each field; a field that is not listed is read from the column of the same name, if
        there is one.
    values
        For each field, the meaning of the platform's values. Width and case of letters do not matter.
    constants
        Fields without a column that have the same value in all rows.
    """

    file: FileForm = FileForm()
    columns: dict[AnswerField, str] = Field(default_factory=dict)
    values: dict[AnswerField, dict[str, str]] = Field(default_factory=dict)
    constants: dict[AnswerField, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits(self) -> AnswerMapping:
        for field, meanings in self.values.items():
            for given, meaning in meanings.items():
                if field in CHOICES and meaning not in CHOICES[field]:
                    raise ValueError(
                        f"values.{field}: {given!r} cannot mean {meaning!r}: choose "
                        f"{', '.join(CHOICES[field])}"
                    )
        for field, value in self.constants.items():
            if field in ("worker", "task", "pair", "rating", "preferred"):
                raise ValueError(f"constants.{field}: this field differs from row to row")
            if field in CHOICES and value not in CHOICES[field]:
                raise ValueError(f"constants.{field}: {value!r} is not one of {', '.join(CHOICES[field])}")
        both = sorted(set(self.columns) & set(self.constants))
        if both:
            raise ValueError(f"{both[0]} is both a column and a constant: choose one")
        return self

    def field_columns(self, columns: Collection[str], file: str) -> dict[AnswerField, str]:
        """Return the column of each field in a file.

        Raises
        ------
        UserInputError
            If a column is missing that the mapping names or that every row needs.
        """
        have = ", ".join(map(repr, columns)) or "none"
        hint = f"its columns are {have}; if they look wrong, set another encoding in [file]"
        for field, name in self.columns.items():
            if name not in columns:
                near = did_you_mean(name, columns)
                raise UserInputError(f"{file} has no column {name!r} ({field}): {hint}.{near}")
        column_of = {field: name for field in FIELDS if (name := self.columns.get(field, field)) in columns}
        for field in ("worker", "preferred", "rating"):
            if field not in column_of:
                raise UserInputError(
                    f"{file} has no column for the {field}: name its column in [columns]; {hint}"
                )
        has_first = "first" in column_of or "first" in self.constants
        if "task" not in column_of and not ("pair" in column_of and has_first):
            raise UserInputError(
                f"{file} does not identify the answered pair: name the column `task` of the exported table, "
                f"or `pair` and `first` (the side that was shown left) in [columns]; {hint}"
            )
        return column_of

    def meaning(self, field: AnswerField, text: str) -> str | None:
        """Return the meaning of a cell; None if it is unknown. Free text is returned unchanged."""
        meanings = self.values.get(field, {})
        if text in meanings:
            return meanings[text]
        spelled = {_plain(given): value for given, value in meanings.items()}
        if _plain(text) in spelled:
            return spelled[_plain(text)]
        if field not in CHOICES:
            return text
        return {_plain(choice): choice for choice in CHOICES[field]}.get(_plain(text))


def load_mapping(path: Path | None) -> AnswerMapping:
    """Return the mapping in a TOML file; without one, a mapping for our own columns and values.

    Raises
    ------
    UserInputError
        If the file cannot be read, or a key or value is invalid.
    """
    if path is None:
        return AnswerMapping()
    try:
        values = tomllib.loads(read_regular_text(path))
    except OSError as problem:
        raise UserInputError(f"mapping {path}: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UserInputError(f"mapping {path} is not valid TOML in UTF-8: {problem}") from problem
    try:
        return AnswerMapping.model_validate(values)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "[key]")
        message = value_problem(first)
        raise UserInputError(f"mapping {path}: {where}{': ' if where else ''}{message}") from problem


def _plain(text: str) -> str:
    """Return a text for comparison, without differences of width and case."""
    return unicodedata.normalize("NFKC", text).strip().casefold()
