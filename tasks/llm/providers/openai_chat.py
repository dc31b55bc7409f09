"""OpenAI's chat completions, which compatible servers such as vLLM also support."""

from __future__ import annotations

import math
from typing import Any

from storage_schemas.secrets import strike_out
from tasks.llm.exchange import ChatAnswer, ChatRequest, VideoInput
from tasks.llm.providers.base import Provider, Unreadable, codes_of, error_text
from tasks.llm.providers.http import http_client
from tasks.llm.providers.lenient import at, count_at, joined, json_of, list_at, text_at
from tasks.llm.servers import ChatServer


def read_answer(body: Any) -> ChatAnswer:
    """Return the answer in a response's JSON value.

    Raises
    ------
    ValueError
        If it is not a chat completion at all. One without a usable text is an answer, since it may be paid.
    """
    choice = next(iter(list_at(body, "choices")), None)
    if not isinstance(at(choice, "message"), dict) and not isinstance(at(body, "usage"), dict):
        raise ValueError("the response is not a chat completion")
    content = at(choice, "message", "content")
    finish = text_at(choice, "finish_reason")
    refusal = text_at(choice, "message", "refusal") or None
    if refusal is None and finish == "content_filter":
        refusal = "the server's filter held the answer back"
    # vLLM calls it `reasoning`, earlier versions `reasoning_content`
    reasoning = text_at(choice, "message", "reasoning") or text_at(choice, "message", "reasoning_content")
    parts = list_at(choice, "message", "content")
    thoughts = [joined(at(part, "thinking")) for part in parts if at(part, "type") == "thinking"]
    return ChatAnswer(
        text=joined(content),
        reasoning=reasoning or "".join(thoughts),
        refusal=refusal,
        finish_reason=finish or None,
        model=text_at(body, "model"),
        tokens_in=count_at(body, "usage", "prompt_tokens"),
        tokens_out=count_at(body, "usage", "completion_tokens"),
        cached_in=count_at(body, "usage", "prompt_tokens_details", "cached_tokens") or 0,
        reasoning_out=count_at(body, "usage", "completion_tokens_details", "reasoning_tokens") or 0,
        logprobs=tuple(map(_token, list_at(choice, "logprobs", "content"))),
    )


def _token(given: Any) -> tuple[str, dict[str, float]]:
    """Return a token, and the log probabilities of its alternatives."""
    chances = {}
    # the token itself may be less probable than the top alternatives
    for one in (*list_at(given, "top_logprobs"), given):
        logprob = at(one, "logprob")
        if isinstance(logprob, int | float) and not math.isnan(logprob):
            chances[text_at(one, "token")] = float(logprob)
    return text_at(given, "token"), chances


class OpenAIChat(Provider):
    """Sends chat completions through OpenAI's library."""

    def __init__(self, server: ChatServer) -> None:
        from openai import AsyncOpenAI

        super().__init__(server)
        self._client = AsyncOpenAI(
            base_url=server.base,
            api_key=server.secret() or "none",
            max_retries=0,
            timeout=server.timeout_s,
            http_client=http_client(server),
        )

    async def send(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to a request."""
        import openai

        try:
            # by its untyped attribute: the arguments are a dictionary
            create: Any = self._client.chat.completions.with_raw_response.create
            raw = await create(model=self.server.model, **arguments(request, self.server))
        except openai.APIStatusError as problem:
            raise self._status(problem) from problem
        except openai.APITimeoutError as problem:
            raise self.timed_out() from problem
        except openai.APIConnectionError as problem:
            raise self.connection_fault(problem) from problem
        body = json_of(raw.http_response.content)
        if not at(body, "choices"):
            self.raise_error_in(body)
        try:
            return read_answer(body)
        except ValueError as problem:
            # a gateway's page, or a truncated body
            shown = strike_out(raw.http_response.text)[:80]
            raise Unreadable(f"{problem}: {shown!r}") from problem

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _status(self, problem: Any) -> Exception:
        text = error_text(text_at(problem.body, "message") or problem.body)
        return self.fault(problem.status_code, text, codes_of(problem.body), problem.response.headers)


def arguments(request: ChatRequest, server: ChatServer) -> dict[str, Any]:
    """Return a request as the library's arguments, with the fields that the server accepts."""
    sampling = request.sampling
    values: dict[str, Any] = {
        "messages": list(request.messages),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
        "logprobs": request.top_logprobs and True,
        "top_logprobs": request.top_logprobs,
    }
    # in the extra body it is sent unchanged; the library would traverse the whole schema
    extra = dict(request.extra_body)
    if sampling.most_tokens is not None:
        extra[server.token_limit] = sampling.most_tokens
    if request.video is not None:
        extra |= _vllm_video(request.video)
    if request.answer_schema is not None and server.structured != "none":
        extra["response_format"] = (
            {"type": "json_object"} if server.structured == "json" else _by_schema(request.answer_schema)
        )
    values["extra_body"] = extra or None
    return {name: value for name, value in values.items() if value is not None}


def _by_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


def _vllm_video(video: VideoInput) -> dict[str, Any]:
    """Return the fields that make vLLM keep every frame of a video at its time.

    Before March 2026 vLLM failed with Qwen3-VL on such a video. Version 0.33 refuses the fields unless the
    server has ``--trust-request-mm-kwargs``.
    """
    fields: dict[str, Any] = {"media_io_kwargs": {"video": {"fps": video.fps, "num_frames": -1}}}
    if video.most_pixels is not None:
        fields["mm_processor_kwargs"] = {"videos_kwargs": {"max_pixels": video.most_pixels}}
    return fields
