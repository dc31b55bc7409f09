"""OpenAI's chat completions, which compatible servers such as vLLM speak too."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from storage_schemas.model import Frozen
from storage_schemas.secrets import strike_out
from tasks.llm.exchange import ChatAnswer, ChatRequest, VideoInput
from tasks.llm.providers.base import Provider, TransientFault, error_text
from tasks.llm.providers.http import http_client
from tasks.llm.servers import ChatServer, quota_used_up

#: Codes of errors that say that a quota is used up, not that requests come too fast.
_QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})


class _Loose(Frozen):
    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


class _Message(_Loose):
    content: str | None = None
    # vLLM calls it `reasoning`, earlier versions `reasoning_content`
    reasoning: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None


class _Choice(_Loose):
    message: _Message
    finish_reason: str | None = None


class _Details(_Loose):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(_Loose):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Completion(_Loose):
    choices: tuple[_Choice, ...] = Field(min_length=1)
    model: str = ""
    usage: _Usage | None = None


def read_answer(body: bytes) -> ChatAnswer:
    """Return the answer in a response's body.

    Raises
    ------
    ValueError
        If it is not a chat completion.
    """
    try:
        completion = _Completion.model_validate(json.loads(body))
    except (ValidationError, ValueError, RecursionError) as problem:
        shown = strike_out(body.decode("utf-8", "replace"))[:80]
        raise ValueError(f"the response is not a chat completion: {shown!r}") from problem
    choice, usage = completion.choices[0], completion.usage or _Usage()
    refusal = choice.message.refusal or None
    if refusal is None and choice.finish_reason == "content_filter":
        refusal = "the server's filter held the answer back"
    return ChatAnswer(
        text=choice.message.content or "",
        reasoning=choice.message.reasoning or choice.message.reasoning_content or "",
        refusal=refusal,
        finish_reason=choice.finish_reason,
        model=completion.model,
        tokens_in=usage.prompt_tokens,
        tokens_out=usage.completion_tokens,
        cached_in=(usage.prompt_tokens_details or _Details()).cached_tokens or 0,
        reasoning_out=(usage.completion_tokens_details or _Details()).reasoning_tokens or 0,
    )


class OpenAIChat(Provider):
    """Sends chat completions by OpenAI's library."""

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
            raw = await create(model=self.server.model, **arguments(request))
        except openai.APIStatusError as problem:
            raise self._status(problem) from problem
        except openai.APITimeoutError as problem:
            raise self.timed_out() from problem
        except openai.APIConnectionError as problem:
            raise self.connection_fault(problem) from problem
        try:
            return read_answer(raw.http_response.content)
        except ValueError as problem:
            # a gateway's page, or a truncated body
            raise TransientFault(str(problem), lost=True) from problem

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _status(self, problem: Any) -> Exception:
        body = problem.body if isinstance(problem.body, dict) else {}
        text = error_text(body.get("message") or problem.body)
        if {str(body.get("code")), str(body.get("type"))} & _QUOTA:
            return quota_used_up(self.server, text)
        return self.status_fault(problem.status_code, text, problem.response.headers)


def arguments(request: ChatRequest) -> dict[str, Any]:
    """Return a request as the library's arguments."""
    sampling = request.sampling
    values: dict[str, Any] = {
        "messages": list(request.messages),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": sampling.seed,
        "max_completion_tokens": sampling.most_tokens,
    }
    # in the extra body it is sent unchanged; the library would traverse the whole schema
    extra = dict(request.extra_body)
    if request.video is not None:
        extra |= _vllm_video(request.video)
    if request.answer_schema is not None:
        extra["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": request.answer_schema},
        }
    values["extra_body"] = extra or None
    return {name: value for name, value in values.items() if value is not None}


def _vllm_video(video: VideoInput) -> dict[str, Any]:
    """Return the fields by which vLLM keeps every frame of a video at its time.

    Before March 2026 vLLM failed with Qwen3-VL on such a video. Version 0.33 refuses the fields unless the
    server has ``--trust-request-mm-kwargs``.
    """
    fields: dict[str, Any] = {"media_io_kwargs": {"video": {"fps": video.fps, "num_frames": -1}}}
    if video.most_pixels is not None:
        fields["mm_processor_kwargs"] = {"videos_kwargs": {"max_pixels": video.most_pixels}}
    return fields
