"""A data set as a person writes it: ``KIND:PATH?KEY=VALUE``."""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import TypeAdapter, ValidationError

from flows.options import SourceRoot
from storage_schemas.errors import UserInputError
from tasks.sources.base import SourceAdapter
from tasks.sources.registry import ADAPTERS


def source_root(text: str) -> SourceRoot:
    """Return the data set that ``KIND:PATH?KEY=VALUE&KEY=VALUE`` means; a plain path is a folder.

    What follows a ``?`` are options of the adapter, each value JSON or text. Where a folder has that literal
    name, the ``?`` belongs to it.

    Raises
    ------
    UserInputError
        For a kind or an option that does not exist, or a value that does not fit.
    """
    kind, colon, rest = text.partition(":")
    if not colon or Path(text).exists() or Path(_split_options(text)[0]).is_dir():
        kind, rest = "folder", text
    path, given = _split_options(rest)
    if kind in ADAPTERS:
        if not path:
            raise UserInputError(f"--sources {text}: give the folder after the colon, {kind}:PATH")
        return SourceRoot(kind=kind, path=path, options=_adapter_options(kind, given, text))
    near = difflib.get_close_matches(kind, ADAPTERS, n=1)
    hint = f" Did you mean {near[0]}:{rest}?" if near else ""
    raise UserInputError(
        f"--sources {text}: there is no kind of source {kind!r}.{hint} Kinds: {', '.join(ADAPTERS)}"
    )


def _split_options(text: str) -> tuple[str, str]:
    """Return path and options; the path ends at the first ``?`` before which there is a folder."""
    if Path(text).exists():
        return text, ""
    ends = [place for place, letter in enumerate(text) if letter == "?"]
    end = next((place for place in ends if Path(text[:place]).is_dir()), ends[0] if ends else len(text))
    return text[:end], text[end + 1 :]


def _adapter_options(kind: str, given: str, text: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for part in filter(None, given.split("&")):
        key, equals, value = part.partition("=")
        if not equals or not key:
            raise UserInputError(f"--sources {text}: after the ? write KEY=VALUE&KEY=VALUE")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    return typed_options(kind, options)


def typed_options(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return an adapter's options with their values as the adapter takes them, from JSON values.

    Raises
    ------
    UserInputError
        For an option that the adapter does not have, or a value that does not fit.
    """
    adapter = ADAPTERS[kind]
    common = inspect.signature(SourceAdapter).parameters
    hints = get_type_hints(adapter.__init__)
    choices = [name for name in inspect.signature(adapter).parameters if name not in common]
    typed = {}
    for key, value in options.items():
        if key not in choices:
            near = difflib.get_close_matches(key, choices, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            have = f"its options are {', '.join(choices)}" if choices else "it has no options"
            raise UserInputError(f"sources of the kind {kind} have no option {key!r}: {have}.{hint}")
        for part in (hints[key], *get_args(hints[key])):
            if is_dataclass(part) and isinstance(value, dict):
                names = [field.name for field in fields(part)]
                if strange := [name for name in value if name not in names]:
                    raise UserInputError(f"option {key}: no {strange[0]!r}, its keys are {', '.join(names)}")
        try:
            typed[key] = TypeAdapter(hints[key]).validate_python(value)
        except ValidationError as problem:
            raise UserInputError(
                f"option {key} of sources of the kind {kind}: {problem.errors()[0]['msg']} (got {value!r})"
            ) from problem
    return typed
