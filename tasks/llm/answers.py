"""Ask a language model once, and read the parts of its JSON answer; nothing is guessed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from storage_schemas.ids import digest_value
from storage_schemas.judgements import Failure, whole_characters
from tasks.llm.exchange import (
    MAX_REASONING,
    MAX_TEXT,
    TOO_LARGE,
    ChatAnswer,
    ChatRequest,
    Sampling,
    VideoInput,
)
from tasks.llm.json_answers import AnswerForm, Understood, value_in
from tasks.llm.preference import TOP_LOGPROBS
from tasks.llm.servers import CannotAsk, NotAllowed, QuotaUsedUp, ServerDown
from tasks.llm.usage import NotJudged, Usage
from tasks.llm.vision_models import VlmModel

_THINKING = "<think>"


_THOUGHT = "</think>"


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


# lone surrogates, and marks that change the direction of the surrounding text
_UNSEEN = re.compile("[\ud800-\udfff\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class UnusableAnswer(ValueError):
    """An answer is invalid; the message addresses the model or person that gave it."""


def split_thinking(text: str) -> tuple[str, str]:
    """Return the reasoning at the start of an answer, if the server left it there, and the rest.

    Raises
    ------
    UnusableAnswer
        If the reasoning does not end.
    """
    stripped = text.strip()
    # if the chat template opens the reasoning, the answer contains only its end
    if not stripped.startswith(_THINKING) and (stripped.startswith("{") or _THOUGHT not in stripped):
        return "", stripped
    thoughts, end, rest = stripped.removeprefix(_THINKING).partition(_THOUGHT)
    if not end:
        raise UnusableAnswer("the reasoning did not end, and nothing came after it")
    return thoughts.strip(), rest.strip()


def clean_text(text: str) -> str:
    """Return a text on one line, without control characters, lone surrogates and direction marks."""
    return " ".join(_UNSEEN.sub("", _CONTROL.sub(" ", text)).split())


def has_text(text: str) -> bool:
    """Return whether a text has any visible character."""
    return any(letter.isprintable() and not letter.isspace() for letter in text)


#: Servers' messages for a request that is too long for the model.
_TOO_LONG = re.compile(
    r"context|too long|too many (tokens|images)|maximum.{0,40}(length|tokens)", re.IGNORECASE
)


_SHOWN = 120


_CANNOT_ASK: Mapping[type[CannotAsk], Failure] = {
    ServerDown: Failure.SERVER_DOWN,
    QuotaUsedUp: Failure.QUOTA_USED_UP,
    NotAllowed: Failure.NOT_ALLOWED,
}


class Asked(Protocol):
    """Answers a request: a server's client, or a model in this process."""

    def ask(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to a request."""


def ask(
    client: Asked,
    model: VlmModel,
    system: str,
    user: list[dict[str, Any]],
    schema: Mapping[str, Any],
    video_fps: float | None = None,
    shared_ends: Sequence[int] = (),
) -> ChatAnswer:
    """Return a model's complete answer, with its reasoning split off.

    Parameters
    ----------
    user
        Parts of the user's message: texts, images and videos.
    schema
        JSON Schema of the answer.
    video_fps
        Frames per second of the message's videos; None if it has none.
    shared_ends
        As in :class:`~tasks.llm.exchange.ChatRequest`.

    Raises
    ------
    NotJudged
        If there is none.
    """
    try:
        answer = client.ask(make_request(model, system, user, schema, video_fps, shared_ends))
    except CannotAsk as problem:
        failure = next(failure for kind, failure in _CANNOT_ASK.items() if isinstance(problem, kind))
        raise NotJudged(failure, str(problem), usage=Usage(lost=problem.lost)) from problem
    return complete(answer, model.answers)


def make_request(
    model: VlmModel,
    system: str,
    user: list[dict[str, Any]],
    schema: Mapping[str, Any],
    video_fps: float | None = None,
    shared_ends: Sequence[int] = (),
) -> ChatRequest:
    """Return a request to a model, as :func:`ask` sends it; an empty system message is left out."""
    instructions = ({"role": "system", "content": system},) if system else ()
    return ChatRequest(
        messages=(*instructions, {"role": "user", "content": user}),
        shared_ends=tuple(shared_ends),
        answer_schema=dict(schema),
        sampling=Sampling(temperature=model.temperature, top_p=model.top_p, most_tokens=model.answer_tokens),
        video=None if video_fps is None else VideoInput(fps=video_fps, most_pixels=model.video_pixels),
        top_logprobs=TOP_LOGPROBS if model.logprobs else None,
        extra_body=dict(model.extra_body),
    )


def complete(answer: ChatAnswer, form: AnswerForm = "tolerant") -> ChatAnswer:
    """Return an answer without its reasoning; unless strict, an answer inside the reasoning counts, too.

    Raises
    ------
    NotJudged
        If it is an error, a refusal, empty or cut off.
    """
    usage = usage_of(answer)
    if answer.others:
        texts = (answer.text or answer.refusal or answer.error or "", *answer.others)
        message = f"{len(texts)} different answers came with the id of this request"
        raise NotJudged(Failure.NOT_UNDERSTOOD, message, "\n\n".join(texts), usage=usage)
    if answer.error is not None and answer.finish_reason == TOO_LARGE:
        raise NotJudged(Failure.CUT_OFF, answer.error, "", TOO_LARGE, usage)
    if answer.error is not None:
        too_long = answer.failure is Failure.REFUSED and _TOO_LONG.search(answer.error)
        raise NotJudged(Failure.CONTEXT_TOO_LONG if too_long else answer.failure, answer.error, usage=usage)

    def failed(failure: Failure, message: str) -> NotJudged:
        return NotJudged(failure, message, answer.text, answer.finish_reason or "", usage)

    if answer.refusal is not None:
        message = f"the model refused: {clean_text(answer.refusal)[:_SHOWN]}"
        raise NotJudged(Failure.MODEL_REFUSED, message, answer.refusal, answer.finish_reason or "", usage)
    if answer.finish_reason == "length":
        raise failed(Failure.CUT_OFF, f"cut off after {answer.tokens_out} tokens")
    if answer.finish_reason == TOO_LARGE:
        raise failed(
            Failure.CUT_OFF,
            f"cut off: of an answer {MAX_TEXT:,} characters are kept, of its reasoning {MAX_REASONING:,}",
        )
    try:
        thoughts, text = split_thinking(answer.text)
    except UnusableAnswer as problem:
        raise failed(Failure.CUT_OFF, str(problem)) from problem
    if not text and answer.reasoning:
        with suppress(ValueError):
            value_in(answer.reasoning, {}, form)
            if form == "tolerant":
                return answer.model_copy(
                    update={"text": answer.reasoning.strip(), "found": "in the reasoning"}
                )
        raise failed(Failure.NO_ANSWER, f"the answer is empty, {took_for_reasoning(answer)}")
    if not text:
        raise failed(Failure.NO_ANSWER, "the answer is empty")
    return answer.model_copy(update={"text": text, "reasoning": answer.reasoning or thoughts})


def took_for_reasoning(answer: ChatAnswer) -> str:
    """Return why an answer that consists only of reasoning is empty, and what to do."""
    return (
        f"but its reasoning_content has {len(answer.reasoning):,} characters: the server's reasoning parser "
        "took the answer, too. Start the server with the --reasoning-parser of this model (vLLM, SGLang), or "
        "with --reasoning-format none (llama.cpp)"
    )


def usage_of(answer: ChatAnswer, frames: int = 0) -> Usage:
    """Return the cost of an answer; tokens that its server did not count are estimated from the text."""
    counted = answer.tokens_in or 0
    came = answer.error is None
    unknown_out = came and answer.tokens_out is None
    return Usage(
        frames=frames,
        # an attempt lost earlier had the same request
        tokens_in=counted * (1 + answer.lost),
        tokens_out=answer.tokens_out or 0,
        seconds=answer.seconds,
        tries=answer.tries,
        cached_in=answer.cached_in,
        written_in=answer.written_in,
        reasoning_out=answer.reasoning_out,
        lost=0 if counted else answer.lost,
        uncounted=int(unknown_out or (came and answer.tokens_in is None)),
        estimated_out=text_tokens(answer.text + answer.reasoning) if unknown_out else 0,
    )


#: Mean number of characters per token of English text.
_LETTERS_A_TOKEN = 4.6


def text_tokens(text: str) -> int:
    """Return the approximate number of tokens of a text for any model."""
    return math.ceil(len(text) / _LETTERS_A_TOKEN)


def discounted(answer: ChatAnswer | Usage) -> dict[str, int]:
    """Return an answer's token counts that differ in price or kind, for its details, without zeros."""
    counts = {
        "cached": answer.cached_in,
        "written": answer.written_in,
        "reasoning": answer.reasoning_out,
    }
    return {name: count for name, count in counts.items() if count}


def understood(answer: ChatAnswer, schema: Mapping[str, Any], form: AnswerForm = "tolerant") -> Understood:
    """Return the JSON object of an answer, with exactly the keys that its schema requires.

    Raises
    ------
    NotJudged
        `not_understood` for anything else: prose, several objects, a missing or duplicate key.
    """
    keys = list(schema["properties"])
    try:
        read = value_in(answer.text, schema, form)
    except ValueError:
        read = Understood(None)
    if not isinstance(read.value, dict) or set(read.value) != set(keys):
        wanted = ", ".join(f'"{key}": …' for key in keys)
        raise not_understood(answer, f"not a JSON object {{{wanted}}}")
    return read._replace(found=", ".join(filter(None, (answer.found, read.found))))


def not_understood(answer: ChatAnswer, why: str) -> NotJudged:
    """Return the error for an answer that cannot be interpreted."""
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


def objects(required: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object with exactly these keys."""
    return {
        "type": "object",
        "properties": dict(required),
        "required": list(required),
        "additionalProperties": False,
    }


def text_in(value: Any, key: str) -> str:
    """Return a text from an answer.

    Raises
    ------
    NotJudged
        `not_understood` if it is missing, not a text, or empty.
    """
    text = value.get(key) if isinstance(value, dict) else None
    if not isinstance(text, str) or not text.strip():
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"the answer has no text {key!r}")
    return whole_characters(text.strip())


def texts_in(value: Any, key: str) -> list[str]:
    """Return a list of texts from an answer, without empty ones.

    Raises
    ------
    NotJudged
        `not_understood` if it is missing or has anything else.
    """
    texts = value.get(key) if isinstance(value, dict) else None
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"the answer has no list of texts {key!r}")
    return [whole_characters(text.strip()) for text in texts if text.strip()]


def score_in(value: Any, low: int, high: int) -> int:
    """Return the whole number ``score`` of an answer.

    Raises
    ------
    NotJudged
        `not_understood` if it is missing, not a whole number, or outside the scale.
    """
    score = value.get("score") if isinstance(value, dict) else None
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"the answer has no number 'score' but {score!r:.60}")
    if not low <= score <= high:
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"a score of {score} is outside the scale {low} to {high}")
    if score != int(score):
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"a score of {score} is not a whole number")
    return int(score)
