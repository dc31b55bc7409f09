"""Google's Gemini."""

from __future__ import annotations

import re
from typing import Any

from storage_schemas.secrets import strike_out
from tasks.llm.exchange import ChatAnswer, ChatRequest, VideoInput
from tasks.llm.providers.base import Provider, TransientFault, Unreadable, codes_of, error_text
from tasks.llm.providers.http import http_client
from tasks.llm.providers.lenient import added, at, count_at, json_of, list_at, text_at
from tasks.llm.providers.parts import bytes_of, data_of, parts_of, without_none
from tasks.llm.servers import ChatServer, quota_used_up, refused_key

#: Finish reasons by which the provider withholds an answer.
_REFUSALS = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "LANGUAGE",
        "MODEL_ARMOR",
    }
)
_FINISH = {"STOP": "stop", "MAX_TOKENS": "length"}
_SECONDS = re.compile(r"([0-9.]+)s")


class Gemini(Provider):
    """Sends contents through Google's library to the Gemini Developer API."""

    def __init__(self, server: ChatServer) -> None:
        from google import genai

        super().__init__(server)
        self._http = http_client(server)
        options: Any = {
            "base_url": server.base,
            "api_version": "v1beta",
            "timeout": round(server.timeout_s * 1000),
            "retry_options": {"attempts": 1},
            "httpx_async_client": self._http,
        }
        self._client: Any = genai.Client(
            api_key=server.secret() or "none", vertexai=False, http_options=options
        )

    async def send(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to a request."""
        import httpx2
        from google.genai import errors

        try:
            given = arguments(request, self.server)
            # the library's own parser fails on side fields that it does not expect
            given["config"]["should_return_http_response"] = True
            response = await self._client.aio.models.generate_content(model=self.server.model, **given)
        except errors.APIError as problem:
            raise self._status(problem) from problem
        except httpx2.TimeoutException as problem:
            raise self.timed_out() from problem
        except httpx2.HTTPError as problem:
            raise self.connection_fault(problem) from problem
        content = response.sdk_http_response.body or ""
        body = json_of(content)
        self.raise_error_in(body)
        try:
            return read_answer(body)
        except ValueError as problem:
            raise Unreadable(f"{problem}{error_text(content)}") from problem

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def _status(self, problem: Any) -> Exception:
        error = at(problem.details, "error")
        text = error_text(text_at(error, "message") or problem.message)
        details = list_at(error, "details")
        if any(at(one, "reason") == "API_KEY_INVALID" for one in details):
            return refused_key(self.server, text)
        quotas = [str(at(one, "quotaId")) for detail in details for one in list_at(detail, "violations")]
        if problem.code == 429 and any("PerDay" in quota for quota in quotas):
            return quota_used_up(self.server, text)
        headers = getattr(problem.response, "headers", None) or {}
        fault = self.fault(problem.code, text, codes_of(error), headers)
        if isinstance(fault, TransientFault) and fault.retry_after_s is None:
            # the pause is in the body
            delays = (_SECONDS.fullmatch(str(at(one, "retryDelay"))) for one in details)
            fault.retry_after_s = next((float(found[1]) for found in delays if found), None)
        return fault


def arguments(request: ChatRequest, server: ChatServer) -> dict[str, Any]:
    """Return a request as the library's arguments."""
    system: list[dict[str, Any]] = []
    contents: list[dict[str, Any]] = []
    for message in request.messages:
        parts = [_part(*part, request.video) for part in parts_of(message["content"])]
        if message["role"] == "system":
            system += parts
        else:
            contents.append({"role": "model" if message["role"] == "assistant" else "user", "parts": parts})
    sampling = request.sampling
    schema = request.answer_schema if server.structured == "schema" else None
    as_json = request.answer_schema and server.structured != "none"
    config = without_none(
        {
            "system_instruction": {"parts": system} if system else None,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": sampling.seed,
            "max_output_tokens": sampling.most_tokens,
            "response_mime_type": "application/json" if as_json else None,
            "response_json_schema": schema,
            "http_options": {"extra_body": dict(request.extra_body)} if request.extra_body else None,
        }
    )
    return {"contents": contents, "config": config}


def json_body(request: ChatRequest, server: ChatServer) -> dict[str, Any]:
    """Return a request in the interface's JSON form."""
    from google.genai import types

    given = arguments(request, server)
    config = given["config"]
    system, extra = config.pop("system_instruction", None), config.pop("http_options", {})

    def as_json(model: Any, value: Any) -> Any:
        return model.model_validate(value).model_dump(mode="json", by_alias=True, exclude_none=True)

    body: dict[str, Any] = {
        "contents": [as_json(types.Content, content) for content in given["contents"]],
        "systemInstruction": as_json(types.Content, system) if system else None,
        "generationConfig": as_json(types.GenerationConfig, config),
    }
    return {**without_none(body), **extra.get("extra_body", {})}


def _part(kind: str, value: str, video: VideoInput | None) -> dict[str, Any]:
    from google.genai.types import Blob

    if kind == "text":
        return {"text": value}
    data = data_of(value)
    if data is None:
        return {"file_data": {"file_uri": value}}
    part: dict[str, Any] = {"inline_data": Blob(data=bytes_of(data[1]), mime_type=data[0])}
    if kind == "video_url" and video is not None:
        # otherwise one frame per second is read
        part["video_metadata"] = {"fps": video.fps}
    return part


def read_answer(body: Any) -> ChatAnswer:
    """Return the answer in a response's JSON value.

    Raises
    ------
    ValueError
        If it is not a model's response at all. One without a usable text is an answer, since it may be paid.
    """
    one = next(iter(list_at(body, "candidates")), None)
    blocked, usage = text_at(body, "promptFeedback", "blockReason"), at(body, "usageMetadata")
    if not (isinstance(one, dict) or blocked or isinstance(usage, dict)):
        raise ValueError("the response is not an answer")
    finish, refusal = text_at(one, "finishReason"), None
    parts = list_at(one, "content", "parts")
    text = "".join(text_at(part, "text") for part in parts if not at(part, "thought"))
    if finish in _REFUSALS:
        refusal, text = text_at(one, "finishMessage") or text or finish, ""
    elif one is None and blocked:
        message = text_at(body, "promptFeedback", "blockReasonMessage")
        finish, refusal = blocked, message or f"the prompt was blocked: {blocked}"
    reasoning = count_at(usage, "thoughtsTokenCount")
    return ChatAnswer(
        text=text,
        reasoning="".join(text_at(part, "text") for part in parts if at(part, "thought")),
        refusal=refusal,
        finish_reason=_FINISH.get(finish, strike_out(finish).lower()) or None,
        model=text_at(body, "modelVersion"),
        tokens_in=count_at(usage, "promptTokenCount"),
        # the reasoning is counted separately, and charged like the answer
        tokens_out=added(*_answer_counts(usage, reasoning, spoke=bool(text))),
        cached_in=count_at(usage, "cachedContentTokenCount") or 0,
        reasoning_out=reasoning or 0,
    )


def _answer_counts(usage: Any, reasoning: int | None, spoke: bool) -> tuple[int | None, int | None]:
    """Return the tokens of the text and of the reasoning; the interface omits counts of 0."""
    counted = count_at(usage, "candidatesTokenCount")
    if counted is None and not spoke and count_at(usage, "promptTokenCount") is not None:
        counted = 0
    return counted, reasoning
