"""The JSON object in an answer, from servers that do not follow the requested format.

An answer with exactly one object is understood, even in a code fence, after a byte order mark, with extra
keys or surrounded by words. Several objects, a truncated object and a duplicate key are errors: nothing is
guessed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

#: Whether an answer in a form other than the requested one is accepted.
AnswerForm = Literal["tolerant", "strict"]

# what could begin an object; braces in prose rarely precede a quotation mark
_OPENS = re.compile(r'\{\s*["}]')
_FENCE = re.compile(r"```[A-Za-z]*")
_BOM = "\ufeff"


class Understood(NamedTuple):
    """The JSON value of an answer, how it was found if it was not the whole text, and what followed it."""

    value: Any
    found: str = ""
    after: str = ""


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object; raise ValueError if a key appears twice."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key appears twice, which is ambiguous")
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=once)


def value_in(text: str, schema: Mapping[str, Any], form: AnswerForm = "tolerant") -> Understood:
    """Return the JSON value of an answer.

    Parameters
    ----------
    schema
        JSON Schema that was requested; other keys are dropped, and words of an `enum` may differ in case.
    form
        ``strict`` for the exact value, which must be the whole text.

    Raises
    ------
    ValueError
        If there is none, or not exactly one.

    Examples
    --------
    >>> schema = {"properties": {"better": {"enum": ["first", "second"]}}}
    >>> value_in('```json\\n{"better": "First", "why": "sharper"}\\n```', schema)[:2]
    ({'better': 'first'}, 'in a code fence, with other keys, in other letter case')
    """
    try:
        if form == "strict":
            return Understood(json.loads(text, object_pairs_hook=once))
        value, before, after = _only_value(text)
    except RecursionError as problem:
        raise ValueError("it is nested too deeply") from problem
    found = [_how(before + after)] if (before + after).strip() else []
    if isinstance(value, dict) and (fields := schema.get("properties")):
        wanted = {name: _in_case(one, fields[name]) for name, one in value.items() if name in fields}
        found += ["with other keys"] if len(wanted) < len(value) else []
        found += ["in other letter case"] if any(wanted[name] != value[name] for name in wanted) else []
        # one extra word may contradict the answer; a sentence is its reason
        words = [one for name, one in value.items() if name not in fields and len(str(one).split()) == 1]
        value, after = wanted, " ".join([after, *map(str, words)])
    return Understood(value, ", ".join(found), after)


def _only_value(text: str) -> tuple[Any, str, str]:
    """Return the value of a text, or else the only object in it, and the text before and after it."""
    try:
        return json.loads(text, object_pairs_hook=once), "", ""
    except json.JSONDecodeError:
        pass
    found, before, end = None, "", 0
    while match := _OPENS.search(text, end):
        if found is not None:
            raise ValueError("it has several JSON objects")
        before = text[: match.start()]
        found, end = _DECODER.raw_decode(text, match.start())
    if found is None:
        raise ValueError("it has no JSON object")
    return found, before, text[end:]


def _how(around: str) -> str:
    if not around.strip(_BOM).strip():
        return "behind a byte order mark"
    words = _FENCE.sub("", around.strip(_BOM)).strip()
    return "in a text" if words else "in a code fence"


def _in_case(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return the word of an `enum` that a text matches regardless of case; other values unchanged."""
    words = schema.get("enum")
    if not isinstance(value, str) or not words or value in words:
        return value
    same = [word for word in words if isinstance(word, str) and word.casefold() == value.strip().casefold()]
    return same[0] if len(same) == 1 else value


def unwrapped(text: str) -> str:
    """Return a text without a byte order mark and a surrounding code fence.

    Examples
    --------
    >>> unwrapped("```text\\nein roter Ball\\n```")
    'ein roter Ball'
    """
    bare = text.strip(_BOM).strip()
    inside = re.fullmatch(r"```[A-Za-z]*\n(.*)\n```", bare, re.DOTALL)
    return inside[1].strip() if inside and "```" not in inside[1] else bare
