"""Problems of a user's value, in plain words: the validator's own messages are about types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from storage_schemas.errors import did_you_mean

if TYPE_CHECKING:
    from pydantic import ValidationError

#: Sentences by the prefix of the error's type; braces are filled from its context.
_SENTENCES = {
    "missing": "is missing",
    "extra_forbidden": "unknown key",
    "int_": "must be a whole number",
    "float_": "must be a number",
    "decimal_": "must be a number",
    "fraction_": "must be a number, or a fraction such as 30000/1001",
    "finite_number": "must be a finite number",
    "bool_": "must be true or false",
    "string_type": "must be text",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "too_short": "must have at least {min_length} items, not {actual_length}",
    "too_long": "must have at most {max_length} items, not {actual_length}",
    **dict.fromkeys(("list_", "tuple_", "set_", "frozen_set_", "iterable_"), "must be a list"),
    **dict.fromkeys(("dict_", "mapping_", "model_", "dataclass_"), "must be a table of names and values"),
    "path_": "must be a path",
    "datetime_": "must be a date and a time such as 2026-01-31T12:00:00Z",
    "date_": "must be a date such as 2026-01-31",
}
#: The longest first, so that the most specific one is found.
_BEGINNINGS = sorted(_SENTENCES, key=len, reverse=True)
_PLACE_IN_JSON = re.compile(r" at line (\d+) column (\d+)$")
#: Longest value that a message repeats, in characters.
_MAX_SHOWN = 60


def value_problem(error: Mapping[str, Any], keys: Iterable[str] = ()) -> str:
    """Return what is wrong with a value, without its name and the value itself.

    Parameters
    ----------
    keys
        The names that exist, in case the name is unknown.
    """
    kind = error["type"]
    context = {
        name: f"{value:g}" if isinstance(value, float) else value
        for name, value in error.get("ctx", {}).items()
    }
    if kind in ("value_error", "assertion_error"):
        return re.sub(r"^(Value error|Assertion failed), ", "", error["msg"])
    if kind == "json_invalid":
        match = _PLACE_IN_JSON.search(error["msg"])
        return "is not valid JSON" + (f" in line {match[1]}, column {match[2]}" if match else "")
    if kind == "is_instance_of":
        return "must be a table of names and values" if context["class"] == "Mapping" else "must be a list"
    if context.get("min_length") == 1:
        return "must not be empty"
    beginning = next((one for one in _BEGINNINGS if kind.startswith(one)), None)
    if beginning is None:
        return re.sub(r"^\w+ should ", "must ", error["msg"])
    hint = did_you_mean(str(error["loc"][-1]), keys) if kind == "extra_forbidden" else ""
    return _SENTENCES[beginning].format_map(context) + (f".{hint}" if hint else "")


def problem_text(problem: Exception) -> str:
    """Return an error's message; for a validation error, the first problem in plain words."""
    from pydantic import ValidationError

    return first_error(problem) if isinstance(problem, ValidationError) else str(problem)


def first_error(problem: ValidationError, keys: Iterable[str] = ()) -> str:
    """Return the first problem of a validation as ``field: what is wrong``; see :func:`value_problem`."""
    error = problem.errors(include_url=False)[0]
    field = ".".join(str(part) for part in error["loc"] if part != "[key]")
    message, value = value_problem(error, keys), error["input"]
    if message.startswith("must be ") and isinstance(value, str | int | float | None):
        message += f", not {value!r:.{_MAX_SHOWN}}"
    return f"{field}: {message}" if field else message
