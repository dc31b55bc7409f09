"""The prompts that videos were generated from: a user's file, or one in a suite's published form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storage_schemas.errors import Reason, UserInputError
from storage_schemas.source import content_category_mistake
from tasks.scoring.suites.base import Suite, SuitePrompt
from tasks.scoring.user_files import MALFORMED, UnusedLine, read_rows

#: A prompt names a dimension that the suite does not have.
UNKNOWN_DIMENSION = "unknown_dimension"
_KEYS = ("prompt_id", "text", "dimensions", "theme", "category", "kind", "details")


@dataclass(frozen=True)
class Prompts:
    """The prompts of a file by id, and the rows that were left out."""

    by_id: Mapping[str, SuitePrompt]
    left_out: tuple[UnusedLine, ...] = ()


@dataclass
class _Reading:
    prompts: dict[str, SuitePrompt] = field(default_factory=dict)
    left_out: list[UnusedLine] = field(default_factory=list)

    def add(self, where: str, prompt: SuitePrompt) -> None:
        if prompt.prompt_id in self.prompts:
            self.left_out.append(
                UnusedLine(where, Reason.DUPLICATE_ID.value, f"prompt {prompt.prompt_id} appears twice")
            )
        self.prompts.setdefault(prompt.prompt_id, prompt)


def load_prompts(path: Path, suite: Suite | None) -> Prompts:
    """Read prompts from CSV, JSON Lines, or a form that the suite's authors publish.

    A row has ``prompt_id`` and ``text``, and may have ``dimensions`` (in CSV separated by spaces, ``;`` or
    ``|``), ``theme``, ``category``, ``kind`` and ``details`` (an object; in CSV as JSON). Invalid rows are
    left out.
    Without a suite the file has our own form, and dimensions are not checked.

    Raises
    ------
    UserInputError
        If the file cannot be read, lacks a column, or has no prompt.
    """
    published = None if suite is None else suite.read_prompts(path)
    reading = _Reading()
    if published is not None:
        for number, prompt in enumerate(published, 1):
            reading.add(f"prompt {number}", prompt)
    else:
        for where, row in read_rows(path, ("prompt_id", "text")):
            try:
                reading.add(where, _prompt(row))
            except ValueError as problem:
                reading.left_out.append(UnusedLine(where, MALFORMED, str(problem)))
    if not reading.prompts:
        wrong = f": {reading.left_out[0].where}: {reading.left_out[0].message}" if reading.left_out else ""
        raise UserInputError(f"{path} has no prompts{wrong}; write prompt_id and text, one prompt per line")
    if suite is None:
        return Prompts(reading.prompts, tuple(reading.left_out))
    names = set(suite.prompt_dimensions)
    for prompt in reading.prompts.values():
        strange = [name for name in prompt.dimensions if name not in names]
        if strange:
            message = f"{suite.name} has no dimension {', '.join(strange)}; it has {', '.join(sorted(names))}"
            reading.left_out.append(UnusedLine(f"prompt {prompt.prompt_id}", UNKNOWN_DIMENSION, message))
    return Prompts(reading.prompts, tuple(reading.left_out))


def _prompt(row: Mapping[str, Any]) -> SuitePrompt:
    """Return the prompt of a row; raise ValueError if it is invalid."""
    strange = [key for key in row if key not in _KEYS]
    if strange:
        raise ValueError(f"a prompt has no {', '.join(map(str, strange))}: it has {', '.join(_KEYS)}")
    id_, text = row.get("prompt_id"), row.get("text")
    if not isinstance(id_, str | int) or isinstance(id_, bool) or not str(id_).strip():
        raise ValueError("prompt_id is empty or no text")
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"prompt {id_}: the text is empty or missing")
    dimensions = row.get("dimensions") or ()
    if isinstance(dimensions, str):
        dimensions = dimensions.replace(";", " ").replace("|", " ").split()
    if not isinstance(dimensions, list | tuple) or not all(isinstance(one, str) for one in dimensions):
        raise ValueError(f"prompt {id_}: dimensions are a list of names")
    details = row.get("details") or {}
    if isinstance(details, str):
        try:
            details = json.loads(details)
        except (ValueError, RecursionError) as problem:
            raise ValueError(f"prompt {id_}: details are not JSON: {problem}") from problem
    if not isinstance(details, dict):
        raise ValueError(f"prompt {id_}: details are an object")
    return SuitePrompt(
        prompt_id=str(id_).strip(),
        text=text,
        dimensions=tuple(dict.fromkeys(dimensions)),
        theme=str(row.get("theme") or ""),
        category=str(row.get("category") or ""),
        kind=str(row.get("kind") or ""),
        details=details,
    )


def load_categories(path: Path) -> dict[str, str]:
    """Read the category of each theme from CSV or JSON Lines with ``theme`` and ``category``.

    Raises
    ------
    UserInputError
        If the file cannot be read, lacks a column or a value, or gives a theme two categories.
    """
    categories: dict[str, str] = {}
    for where, row in read_rows(path, ("theme", "category")):
        theme, category = (str(row.get(key) or "").strip() for key in ("theme", "category"))
        if not theme or not category:
            raise UserInputError(f"{path}, {where}: give both a theme and a category")
        if mistake := content_category_mistake(category):
            raise UserInputError(
                f"{path}, {where}: the category {category[:80]!a} {mistake}: write a short plain name"
            )
        if categories.setdefault(theme, category) != category:
            raise UserInputError(
                f"{path}, {where}: the theme {theme!r} is in {categories[theme]!r} already: name it once"
            )
    if not categories:
        raise UserInputError(f"{path} has no rows: write theme and category, one theme a line")
    return categories


def with_categories(
    prompts: Mapping[str, SuitePrompt], categories: Mapping[str, str]
) -> dict[str, SuitePrompt]:
    """Return prompts with the categories of their themes; a prompt's own category stays."""
    return {
        id_: prompt
        if prompt.category
        else prompt.model_copy(update={"category": categories.get(prompt.theme, "")})
        for id_, prompt in prompts.items()
    }
