"""Anthropic's messages."""

from __future__ import annotations

import re
from typing import Any

from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.providers.base import Provider, Rejected, TransientFault, error_text
from tasks.llm.providers.http import http_client
from tasks.llm.providers.parts import data_of, parts_of, without_none
from tasks.llm.servers import ChatServer, quota_used_up

#: The interface requires a limit; this is sent if the request has none.
_MOST_TOKENS = 8192
#: Messages of status 400 for an account without credit, or with a limit of its own that is reached.
_QUOTA = re.compile(r"credit balance|usage limits?\b|spend(ing)? limit", re.IGNORECASE)
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


class AnthropicMessages(Provider):
    """Sends messages by Anthropic's library.

    A request's seed is not sent, because the interface has none.
    """

    def __init__(self, server: ChatServer) -> None:
        from anthropic import AsyncAnthropic

        super().__init__(server)
        self._client: Any = AsyncAnthropic(
            base_url=server.base,
            api_key=server.secret() or "none",
            max_retries=0,
            timeout=server.timeout_s,
            http_client=http_client(server),
        )

    async def send(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to a request."""
        import anthropic

        try:
            raw = await self._client.messages.with_raw_response.create(
                model=self.server.model, timeout=self.server.timeout_s, **arguments(request)
            )
        except anthropic.APIStatusError as problem:
            raise self._status(problem) from problem
        except anthropic.APITimeoutError as problem:
            raise self.timed_out() from problem
        except anthropic.APIConnectionError as problem:
            raise self.connection_fault(problem) from problem
        try:
            return read_answer(raw.http_response.json())
        except (ValueError, RecursionError) as problem:
            shown = error_text(raw.http_response.text)
            raise TransientFault(f"the response is not a message{shown}", lost=True) from problem

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _status(self, problem: Any) -> Exception:
        body = problem.body if isinstance(problem.body, dict) else {}
        error = body.get("error")
        error = error if isinstance(error, dict) else {}
        text = error_text(error.get("message") or problem.body)
        details = error.get("details")
        code = str(details.get("error_code")) if isinstance(details, dict) else ""
        spent = problem.status_code == 402 or "spend_limit" in code
        if spent or (problem.status_code in (400, 403, 429) and _QUOTA.search(text)):
            return quota_used_up(self.server, text)
        return self.status_fault(problem.status_code, text, problem.response.headers)


def arguments(request: ChatRequest) -> dict[str, Any]:
    """Return a request as the library's arguments.

    Raises
    ------
    Rejected
        If it has a video, which the interface does not take.
    """
    system: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    for message in request.messages:
        blocks = [_block(*part) for part in parts_of(message["content"])]
        if message["role"] == "system":
            system += blocks
        else:
            messages.append({"role": message["role"], "content": blocks})
    sampling = request.sampling
    format_ = request.answer_schema and {"type": "json_schema", "schema": request.answer_schema}
    # the library has no arguments for sampling, which only some models accept
    extra = without_none({"temperature": sampling.temperature, "top_p": sampling.top_p})
    values = {
        "system": system or None,
        "messages": messages,
        "max_tokens": sampling.most_tokens or _MOST_TOKENS,
        "output_config": {"format": format_} if format_ else None,
        "extra_body": {**extra, **request.extra_body} or None,
    }
    return without_none(values)


def _block(kind: str, value: str) -> dict[str, Any]:
    if kind == "text":
        return {"type": "text", "text": value}
    if kind == "video_url":
        raise Rejected("Anthropic's interface takes no videos")
    data = data_of(value)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": value}}
    return {"type": "image", "source": {"type": "base64", "media_type": data[0], "data": data[1]}}


def read_answer(body: Any) -> ChatAnswer:
    """Return the answer in a response.

    Raises
    ------
    ValueError
        If it is not a message.
    """
    try:
        blocks, usage, stopped = body["content"], body["usage"], body["stop_reason"]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        thoughts = [block["thinking"] for block in blocks if block["type"] == "thinking"]
        cached, written = (
            int(usage.get(name) or 0) for name in ("cache_read_input_tokens", "cache_creation_input_tokens")
        )
        text = "".join(texts)
        refusal = None
        if stopped == "refusal":
            details = body.get("stop_details") or {}
            refusal = text or details.get("explanation") or details.get("category") or "without a reason"
        return ChatAnswer(
            text="" if refusal else text,
            reasoning="\n".join(thoughts),
            refusal=refusal,
            finish_reason=_FINISH.get(stopped, stopped),
            model=body["model"],
            # the interface counts what the cache has apart
            tokens_in=usage["input_tokens"] + cached + written,
            tokens_out=usage["output_tokens"],
            cached_in=cached,
            written_in=written,
            reasoning_out=(usage.get("output_tokens_details") or {}).get("thinking_tokens") or 0,
        )
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"not a message: {problem!r}") from problem
