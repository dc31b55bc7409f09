"""The prompt file that Video-Bench's authors publish, in each of its forms.

A JSON list of objects with ``prompt`` (or ``prompt_en``) and ``dimension``: one name, or a list of names. Or,
for prompts of one's own, a JSON object of prompts by number.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from storage_schemas.errors import UserInputError
from tasks.suites.base import SuitePrompt
from tasks.suites.video_bench.dimensions import PUBLISHED_NAMES, SCORED_BESIDES


def read_published(path: Path) -> Sequence[SuitePrompt] | None:
    """Return the prompts of a published file; None where the file has another form.

    Published prompts have no ids: they are numbered within their dimension, such as ``color-007``, in the
    file's order. A prompt with one dimension is also scored in those that use its videos besides
    (``SCORED_BESIDES``); with a list of dimensions, in those.

    Raises
    ------
    UserInputError
        If the form is theirs but an entry does not fit.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if isinstance(value, dict) and value and all(str(key).isdigit() for key in value):
        return [_own(path, number, text) for number, text in value.items()]
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return None
    if not ({"prompt", "prompt_en"} & set(value[0]) and "dimension" in value[0]):
        return None
    counts: Counter[str] = Counter()
    return [_published(f"{path}: entry {number}", entry, counts) for number, entry in enumerate(value, 1)]


def _own(path: Path, number: str, text: Any) -> SuitePrompt:
    if not isinstance(text, str) or not text.strip():
        raise UserInputError(f"{path}: prompt {number} is no text")
    return SuitePrompt(prompt_id=number, text=text.strip())


def _published(where: str, entry: Any, counts: Counter[str]) -> SuitePrompt:
    if not isinstance(entry, Mapping):
        raise UserInputError(f"{where} is no object with prompt and dimension")
    text = entry.get("prompt", entry.get("prompt_en"))
    if not isinstance(text, str) or not text.strip():
        raise UserInputError(f"{where} has no prompt")
    said = entry.get("dimension")
    names = [said] if isinstance(said, str) else said
    if not isinstance(names, list) or not names:
        raise UserInputError(f"{where} has no dimension: give one name, or a list of them")
    for name in names:
        if name not in PUBLISHED_NAMES:
            known = ", ".join(PUBLISHED_NAMES)
            raise UserInputError(f"{where}: there is no dimension {name!r}; there are {known}")
    dimensions = [PUBLISHED_NAMES[name] for name in names]
    if isinstance(said, str):
        dimensions += SCORED_BESIDES.get(dimensions[0], ())
    theme = str(names[0])
    counts[theme] += 1
    return SuitePrompt(
        prompt_id=f"{theme.replace(' ', '-')}-{counts[theme]:03d}",
        text=text.strip(),
        dimensions=tuple(dict.fromkeys(dimensions)),
        theme=theme,
    )
