"""Anthropic's messages."""

from __future__ import annotations

from typing import Any

from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.providers.base import Provider, Rejected, Unreadable, codes_of, error_text
from tasks.llm.providers.http import http_client
from tasks.llm.providers.lenient import added, at, count_at, joined, json_of, list_at, text_at
from tasks.llm.providers.parts import data_of, parts_of, without_none
from tasks.llm.servers import ChatServer

#: The interface requires a limit; this is sent if the request has none.
_DEFAULT_MAX_TOKENS = 8192
_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


class AnthropicMessages(Provider):
    """Sends messages through Anthropic's library.

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
                model=self.server.model, timeout=self.server.timeout_s, **arguments(request, self.server)
            )
        except anthropic.APIStatusError as problem:
            raise self._status(problem) from problem
        except anthropic.APITimeoutError as problem:
            raise self.timed_out() from problem
        except anthropic.APIConnectionError as problem:
            raise self.connection_fault(problem) from problem
        body = json_of(raw.http_response.content)
        self.raise_error_in(body)
        try:
            return read_answer(body)
        except ValueError as problem:
            shown = error_text(raw.http_response.text)
            raise Unreadable(f"the response is not a message{shown}") from problem

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _status(self, problem: Any) -> Exception:
        error = at(problem.body, "error")
        text = error_text(text_at(error, "message") or problem.body)
        return self.fault(problem.status_code, text, codes_of(error), problem.response.headers)


def arguments(request: ChatRequest, server: ChatServer) -> dict[str, Any]:
    """Return a request as the library's arguments.

    Raises
    ------
    Rejected
        If it has a video, which the interface does not accept.
    """
    system: list[dict[str, Any]] = []
    messages: list[dict[str, Any]] = []
    for message in request.messages:
        blocks = [_block(*part) for part in parts_of(message["content"])]
        if message["role"] == "system":
            system += blocks
        else:
            if message["role"] == "user":
                for end in request.shared_ends:
                    blocks[end - 1]["cache_control"] = {"type": "ephemeral"}
            messages.append({"role": message["role"], "content": blocks})
    sampling = request.sampling
    format_ = None
    # the interface cannot request JSON without a schema
    if request.answer_schema and server.structured == "schema":
        format_ = {"type": "json_schema", "schema": request.answer_schema}
    # the library has no arguments for sampling, which only some models accept
    extra = without_none({"temperature": sampling.temperature, "top_p": sampling.top_p})
    values = {
        "system": system or None,
        "messages": messages,
        "max_tokens": sampling.most_tokens or _DEFAULT_MAX_TOKENS,
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
        If it is not a message at all. A message without usable text counts as an answer, since it may be
        charged.
    """
    content, stopped = at(body, "content"), text_at(body, "stop_reason")
    if not isinstance(content, list | str) and not isinstance(at(body, "usage"), dict):
        raise ValueError("not a message")
    thoughts = [text_at(block, "thinking") for block in list_at(body, "content")]
    text, refusal = joined(content), None
    if stopped == "refusal":
        details = at(body, "stop_details")
        reason = text_at(details, "explanation") or text_at(details, "category")
        refusal = text or reason or "without a reason"
    usage = at(body, "usage")
    cached = count_at(usage, "cache_read_input_tokens") or 0
    written = count_at(usage, "cache_creation_input_tokens") or 0
    return ChatAnswer(
        text="" if refusal else text,
        reasoning="\n".join(filter(None, thoughts)),
        refusal=refusal,
        finish_reason=_FINISH.get(stopped, stopped) or None,
        model=text_at(body, "model"),
        # the interface counts cached tokens separately
        tokens_in=added(count_at(usage, "input_tokens"), cached, written),
        tokens_out=count_at(usage, "output_tokens"),
        cached_in=cached,
        written_in=written,
        reasoning_out=count_at(usage, "output_tokens_details", "thinking_tokens") or 0,
    )
