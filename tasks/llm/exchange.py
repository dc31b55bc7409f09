"""A request to a language model and its answer, in the form that all providers share."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from storage_schemas.judgements import Failure
from storage_schemas.model import Frozen
from storage_schemas.secrets import strike_out

#: Maximum length of an answer's stored text and reasoning, in characters; the rest is cut. The
#: reasoning of the longest answers that judges ask for (32,768 tokens) has about 150,000.
MAX_TEXT, MAX_REASONING = 64 << 10, 256 << 10
#: Maximum size of a response body, in bytes; the rest is not read.
MAX_BODY_BYTES = 4 << 20
#: The finish reason of an answer that exceeds it.
TOO_LARGE = "too_large"


class Sampling(Frozen):
    """Sampling parameters; None leaves a value to the server."""

    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    most_tokens: int | None = None


class VideoInput(Frozen):
    """How a server reads the videos of a request.

    Parameters
    ----------
    fps
        Frames per second of their frames.
    most_pixels
        Maximum total pixels of a video's frames, above which the server reduces them; None for the
        server's own.
    """

    fps: float = Field(gt=0)
    most_pixels: int | None = None


class ChatRequest(Frozen):
    """One request.

    Parameters
    ----------
    messages
        In the interface's form: ``{"role": …, "content": …}``, where content is a text or a list of parts.
        A part ``video_url`` is a ``data:`` address: an MP4, or for vLLM ``video/jpeg``, whose data are the
        frames as JPEG, each in base64, with commas between them.
    shared_ends
        Numbers of parts of the user's message after which other requests differ: the parts before may be kept
        in a provider's cache.
    answer_schema
        JSON Schema of the answer, or None for free text.
    sampling
        Sampling parameters.
    video
        How its videos are read; None for a request without a video.
    top_logprobs
        Number of tokens whose log probabilities are returned at each position; None for none.
    extra_body
        Fields that only some servers support, such as vLLM's ``top_k``.
    """

    messages: tuple[dict[str, Any], ...]
    shared_ends: tuple[int, ...] = ()
    answer_schema: dict[str, Any] | None = None
    sampling: Sampling = Sampling()
    video: VideoInput | None = None
    top_logprobs: int | None = None
    extra_body: dict[str, Any] = Field(default_factory=dict)


class ChatAnswer(Frozen):
    """The answer to a request, or the reason in `error` if there is none.

    Parameters
    ----------
    text, reasoning
        The answer, and the reasoning that the server separated from it.
    refusal
        Why the model refuses to answer, in its own words or its provider's; None if it does not.
    finish_reason
        ``stop``, ``length``, :data:`TOO_LARGE`, or another word of the provider.
    model
        The model that answered, and the requested one if they differ.
    others
        Further texts that came with the id of this request in a batch, and differ from `text`.
    tokens_in, tokens_out
        All tokens of the request and of the answer, as the server counts them; None if it does not say.
    cached_in, written_in
        Of `tokens_in`, those read from and written to the provider's cache, which have prices of their own.
    reasoning_out
        Of `tokens_out`, those of the reasoning.
    seconds
        Duration of the last call.
    tries
        Number of calls.
    lost
        Number of calls given up while the server may have been working on them, so they may be charged.
    error, failure
        Why there is no answer: a message, and its kind.
    found
        Where the answer was, if it was not the response's text.
    logprobs
        Each token, including those of the reasoning, with the log probabilities of its alternatives; only if
        requested. They are not stored.
    """

    text: str = ""
    reasoning: str = ""
    refusal: str | None = None
    finish_reason: str | None = None
    model: str = ""
    others: tuple[str, ...] = ()
    tokens_in: int | None = None
    tokens_out: int | None = None
    cached_in: int = 0
    written_in: int = 0
    reasoning_out: int = 0
    seconds: float = 0.0
    tries: int = 1
    lost: int = 0
    error: str | None = None
    failure: Failure = Failure.REFUSED
    found: str = ""
    logprobs: tuple[tuple[str, dict[str, float]], ...] = ()


def kept(answer: ChatAnswer) -> ChatAnswer:
    """Return an answer without secrets, cut to the maximum length, with no partial count above its total."""
    reasoning, text = strike_out(answer.reasoning), strike_out(answer.text)
    cached = min(answer.cached_in, answer.tokens_in or 0)
    changes: dict[str, Any] = {
        "text": text[:MAX_TEXT],
        "reasoning": reasoning[:MAX_REASONING],
        "refusal": answer.refusal and strike_out(answer.refusal)[:MAX_TEXT],
        "finish_reason": answer.finish_reason and strike_out(answer.finish_reason)[:100],
        "model": strike_out(answer.model)[:200],
        "cached_in": cached,
        "written_in": min(answer.written_in, (answer.tokens_in or 0) - cached),
        "reasoning_out": min(answer.reasoning_out, answer.tokens_out or 0),
    }
    if len(text) > MAX_TEXT or len(reasoning) > MAX_REASONING:
        changes["finish_reason"] = TOO_LARGE
    return answer.model_copy(update=changes)
