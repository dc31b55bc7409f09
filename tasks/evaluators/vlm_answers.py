"""Asking a language model as a judge, and reading its answer: a choice, or a reason why there is none."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from storage_schemas.ids import digest_value
from storage_schemas.judgement import Choice, Failure, whole_characters
from tasks.captions.fitting import NotFitting, split_thinking
from tasks.evaluators.base import NotJudged, Usage
from tasks.evaluators.vlm_models import VlmModel
from tasks.models.chat import ChatAnswer, ChatRequest, Sampling
from tasks.models.chat_client import ChatClient
from tasks.models.servers import NotAllowed, ServerDown

#: What a judge answers with.
CHOICE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"better": {"type": "string", "enum": ["first", "second"]}},
    "required": ["better"],
    "additionalProperties": False,
}

#: What servers say of a request that is too long for the model.
_TOO_LONG = re.compile(
    r"context|too long|too many (tokens|images)|maximum.{0,40}(length|tokens)", re.IGNORECASE
)
_SHOWN = 120


@cache
def prompt_text(name: str) -> str:
    """Return one of our prompts, ``tasks/evaluators/prompts/NAME.txt``."""
    return (files("tasks.evaluators") / "prompts" / f"{name}.txt").read_text(encoding="utf-8").strip()


def filled(template: str, **values: str) -> str:
    """Return a template with its placeholders replaced, once: what is put in is not looked at again."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), template)


def ask(
    client: ChatClient, model: VlmModel, system: str, user: list[dict[str, Any]], schema: Mapping[str, Any]
) -> ChatAnswer:
    """Return a model's answer that ended by itself, its thoughts apart.

    Parameters
    ----------
    user
        Parts of the user's message: texts and images.
    schema
        JSON Schema of the answer.

    Raises
    ------
    NotJudged
        If there is none.
    """
    request = ChatRequest(
        messages=({"role": "system", "content": system}, {"role": "user", "content": user}),
        answer_schema=dict(schema),
        sampling=Sampling(temperature=model.temperature, top_p=model.top_p, most_tokens=model.answer_tokens),
        extra_body=dict(model.extra_body),
    )
    try:
        answer = client.ask(request)
    except ServerDown as problem:
        raise NotJudged(Failure.SERVER_DOWN, str(problem)) from problem
    except NotAllowed as problem:
        raise NotJudged(Failure.NOT_ALLOWED, str(problem)) from problem
    usage = usage_of(answer)
    if answer.error is not None:
        too_long = _TOO_LONG.search(answer.error)
        raise NotJudged(Failure.CONTEXT_TOO_LONG if too_long else Failure.REFUSED, answer.error, usage=usage)
    kept = {"raw": answer.text, "finish_reason": answer.finish_reason or "", "usage": usage}
    if answer.finish_reason == "length":
        raise NotJudged(Failure.CUT_OFF, f"cut off after {answer.tokens_out} tokens", **kept)  # type: ignore[arg-type]
    if answer.finish_reason == "content_filter":
        raise NotJudged(Failure.REFUSED, "the server's filter held the answer back", **kept)  # type: ignore[arg-type]
    try:
        thoughts, text = split_thinking(answer.text)
    except NotFitting as problem:
        raise NotJudged(Failure.CUT_OFF, str(problem), **kept) from problem  # type: ignore[arg-type]
    if not text:
        raise NotJudged(Failure.NO_ANSWER, "the answer is empty", **kept)  # type: ignore[arg-type]
    return answer.model_copy(update={"text": text, "reasoning": answer.reasoning or thoughts})


def usage_of(answer: ChatAnswer, frames: int = 0) -> Usage:
    """Return what an answer took."""
    return Usage(
        frames=frames,
        tokens_in=answer.tokens_in or 0,
        tokens_out=answer.tokens_out or 0,
        seconds=answer.seconds,
        tries=answer.tries,
    )


def read_value(answer: ChatAnswer, key: str) -> str:
    """Return the text of the one key of a JSON answer.

    Raises
    ------
    NotJudged
        `not_understood` for anything else: prose, more than one object, another key, a key twice.
    """
    try:
        value = json.loads(answer.text, object_pairs_hook=once)
    except (ValueError, RecursionError):
        value = None
    if not (isinstance(value, dict) and set(value) == {key} and isinstance(value[key], str)):
        raise not_understood(answer, f'no JSON object {{"{key}": …}}')
    return whole_characters(value[key])


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object; raise ValueError if a key stands twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice: which of the two is meant, nobody knows")
    return found


def read_choice(answer: ChatAnswer) -> Choice:
    """Return which video an answer names.

    Raises
    ------
    NotJudged
        `not_understood` if it does not name exactly one as it was asked to; nothing is guessed.
    """
    value = read_value(answer, "better")
    if value == "first":
        return "first"
    if value == "second":
        return "second"
    raise not_understood(answer, "neither first nor second")


def not_understood(answer: ChatAnswer, why: str) -> NotJudged:
    """Return the error of an answer that does not say what was asked."""
    shown = answer.text[:_SHOWN] + ("…" if len(answer.text) > _SHOWN else "")
    return NotJudged(
        Failure.NOT_UNDERSTOOD,
        f"the answer is {why}: {shown!r}",
        raw=answer.text,
        finish_reason=answer.finish_reason or "",
        usage=usage_of(answer),
    )


def prompt_digest(*texts: str) -> str:
    """Return the checksum of a request's texts."""
    return digest_value(list(texts))
