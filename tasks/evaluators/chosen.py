"""Which evaluators run, with which settings: from a command line, or from a TOML file."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pydantic import Field, ValidationError, field_validator

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")


class Chosen(Frozen):
    """One evaluator that runs.

    Parameters
    ----------
    use
        Its name in the table of evaluators.
    label
        What tables call it; its own name where it is empty.
    settings
        What its factory is given.
    concurrency
        Requests under way at once in one process; what the evaluator says by default.
    requests_per_minute, tokens_per_minute
        Most of all processes together; None for no limit.
    """

    use: str
    label: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    concurrency: int | None = Field(default=None, ge=1, le=4096)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)

    @field_validator("label")
    @classmethod
    def _plain(cls, value: str) -> str:
        if value and not _LABEL.fullmatch(value):
            raise ValueError("a label is letters, digits and '.', '_', '+', '-', at most 100")
        return value


#: Settings that say how an evaluator runs, not what it answers: they are in no key.
HOW_IT_RUNS = ("label", "concurrency", "requests_per_minute", "tokens_per_minute")


def chosen_from_text(text: str) -> Chosen:
    """Return what ``NAME`` or ``NAME?key=value&key=value`` means; values are JSON, else text.

    Raises
    ------
    UserInputError
        If it cannot be read.
    """
    name, _, query = text.partition("?")
    values: dict[str, Any] = {}
    for part in filter(None, query.split("&")):
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise UserInputError(f"evaluator {text}: write NAME?key=value&key=value")
        try:
            values[key] = json.loads(unquote(value))
        except json.JSONDecodeError:
            values[key] = unquote(value)
    return _chosen(name, values, f"evaluator {text}")


def chosen_from_file(path: Path) -> list[Chosen]:
    """Return the evaluators of a TOML file: a table each, named by its label, with `use` and settings.

    Raises
    ------
    UserInputError
        If there is no such file, or it does not fit.

    Examples
    --------
    ::

        [evaluators.clip-whole-prompt]
        use = "clipscore"
        policy = "each-truncate"
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise UserInputError(f"{path} cannot be read: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UserInputError(f"{path} is no TOML: {problem}") from problem
    tables = values.pop("evaluators", None)
    if (
        values
        or not isinstance(tables, dict)
        or not all(isinstance(table, dict) for table in tables.values())
    ):
        raise UserInputError(f"{path}: write a table [evaluators.LABEL] for each evaluator, and nothing else")
    found = []
    for label, table in tables.items():
        rest = {"label": label, **table}
        found.append(_chosen(str(rest.pop("use", label)), rest, f"{path}: evaluators.{label}"))
    return found


def check_labels(names: Iterable[str]) -> None:
    """Raise UserInputError where two evaluators would have the same name in tables."""
    for name, count in Counter(names).items():
        if count > 1:
            raise UserInputError(
                f"{count} evaluators are called {name!r}: give them labels, such as NAME?label=other"
            )


def _chosen(name: str, values: Mapping[str, Any], where: str) -> Chosen:
    how = {key: value for key, value in values.items() if key in HOW_IT_RUNS}
    settings = {key: value for key, value in values.items() if key not in HOW_IT_RUNS}
    try:
        return Chosen(use=name, settings=settings, **how)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserInputError(f"{where}: {key}: {first['msg'].removeprefix('Value error, ')}") from problem
