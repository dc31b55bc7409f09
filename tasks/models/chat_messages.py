"""What is asked of a chat server and what it answers, as small frozen models."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from storage_schemas.model import Frozen


class Sampling(Frozen):
    """How the answer's words are drawn; None leaves it to the server."""

    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    most_tokens: int | None = None


class ChatRequest(Frozen):
    """One request.

    Parameters
    ----------
    messages
        As the interface has them: ``{"role": …, "content": …}``, content a text or a list of parts.
    answer_schema
        JSON Schema that the answer has to fit, or None for free text.
    sampling
        How the words are drawn.
    extra_body
        Fields that only some servers know, such as vLLM's ``top_k``.
    """

    messages: tuple[dict[str, Any], ...]
    answer_schema: dict[str, Any] | None = None
    sampling: Sampling = Sampling()
    extra_body: dict[str, Any] = Field(default_factory=dict)


class ChatAnswer(Frozen):
    """What came of a request: the answer, or in `error` why there is none.

    `seconds` is the time of the call that was answered, `tries` the number of calls that it took.
    """

    text: str = ""
    reasoning: str = ""
    finish_reason: str | None = None
    model: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float = 0.0
    tries: int = 1
    error: str | None = None


class _Loose(Frozen):
    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


class _Message(_Loose):
    content: str | None = None
    # vLLM's name of it is `reasoning`; before that it was `reasoning_content`
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(_Loose):
    message: _Message
    finish_reason: str | None = None


class _Usage(_Loose):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(_Loose):
    choices: tuple[_Choice, ...] = Field(min_length=1)
    model: str = ""
    usage: _Usage | None = None


def read_answer(body: bytes) -> ChatAnswer:
    """Return the answer in a response's body.

    Raises
    ------
    ValueError
        If it is no chat completion.
    """
    try:
        found = _Completion.model_validate(json.loads(body))
    except (ValidationError, ValueError, RecursionError) as problem:
        raise ValueError(f"what came is no chat completion: {body[:80]!r}") from problem
    choice, usage = found.choices[0], found.usage or _Usage()
    return ChatAnswer(
        text=choice.message.content or "",
        reasoning=choice.message.reasoning or choice.message.reasoning_content or "",
        finish_reason=choice.finish_reason,
        model=found.model,
        tokens_in=usage.prompt_tokens,
        tokens_out=usage.completion_tokens,
    )
