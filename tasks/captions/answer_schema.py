"""Validate a model's answer: the JSON Schema, and the checks a schema cannot express."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import ValidationError

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.value_problems import value_problem
from tasks.llm.answers import UnusableAnswer, clean_text
from tasks.llm.json_answers import AnswerForm, value_in

#: Maximum characters of a wrong key's name in a reason.
_MAX_KEY_LENGTH = 80


@cache
def analysis_schema(most_items: int, most_letters: int) -> dict[str, Any]:
    """Return the JSON Schema of an analysis: exactly the known keys, with bounded lists and texts."""
    schema = CaptionAnalysis.model_json_schema()
    parts = schema.get("$defs", {})

    def strict(part: Mapping[str, Any]) -> dict[str, Any]:
        if "$ref" in part:
            return strict(parts[str(part["$ref"]).rsplit("/", 1)[1]])
        if part["type"] == "array":
            return {"type": "array", "items": strict(part["items"]), "maxItems": most_items}
        if part["type"] == "object":
            fields = {name: strict(field) for name, field in part["properties"].items()}
            return {
                "type": "object",
                "properties": fields,
                "required": list(fields),
                "additionalProperties": False,
            }
        return {"type": "string", "minLength": 1, "maxLength": most_letters}

    return strict(schema)


def read_analysis(
    text: str, most_items: int, most_letters: int, form: AnswerForm = "tolerant"
) -> CaptionAnalysis:
    """Parse an answer into an analysis.

    Control characters, duplicate entries and, unless strict, other keys are removed; nothing else is changed,
    completed or guessed.

    Raises
    ------
    UnusableAnswer
        If the answer is not a valid analysis, with the first reason.
    """
    try:
        values = value_in(text, analysis_schema(most_items, most_letters), form).value
    except ValueError as problem:
        raise UnusableAnswer(f"it is not one JSON object and nothing else ({problem})") from problem
    if not isinstance(values, dict):
        raise UnusableAnswer(f"it is a JSON {type(values).__name__} and not an object")
    missing = [name for name in CaptionAnalysis.model_fields if name not in values]
    if missing:
        raise UnusableAnswer(f"keys are missing: {', '.join(missing)}")
    try:
        analysis = CaptionAnalysis.model_validate(values)
    except ValidationError as problem:
        first = problem.errors()[0]
        # an unknown key is the answer's own text
        where = clean_text(".".join(map(str, first["loc"])))[:_MAX_KEY_LENGTH]
        raise UnusableAnswer(f"{where}: {value_problem(first)}") from problem
    return _cleaned(analysis, most_items, most_letters)


def _cleaned(analysis: CaptionAnalysis, most_items: int, most_letters: int) -> CaptionAnalysis:
    fields: dict[str, list[Any]] = {}
    for name, items in analysis.model_dump().items():
        if len(items) > most_items:
            raise UnusableAnswer(f"{name} has {len(items)} entries, more than {most_items}")
        cleaned = [_clean_item(name, item, most_letters) for item in items]
        fields[name] = list({json.dumps(item): item for item in cleaned}.values())
    return CaptionAnalysis.model_validate(fields)


def _clean_item(name: str, item: Any, most_letters: int) -> Any:
    if isinstance(item, dict):
        return {key: _clean_item(f"{name}.{key}", text, most_letters) for key, text in item.items()}
    text = clean_text(item)
    if not text:
        raise UnusableAnswer(f"{name} has an empty entry")
    if len(text) > most_letters:
        raise UnusableAnswer(f"{name} has an entry of {len(text)} characters, more than {most_letters}")
    return text
