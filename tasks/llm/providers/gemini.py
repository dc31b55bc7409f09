"""Google's Gemini."""

from __future__ import annotations

import re
from typing import Any

from storage_schemas.secrets import strike_out
from tasks.llm.exchange import ChatAnswer, ChatRequest, VideoInput
from tasks.llm.providers.base import Provider, TransientFault, error_text
from tasks.llm.providers.http import http_client
from tasks.llm.providers.parts import bytes_of, data_of, parts_of, without_none
from tasks.llm.servers import ChatServer, quota_used_up, refused_key

#: Finish reasons that say that the provider holds an answer back.
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
    """Sends contents by Google's library to the Gemini Developer API."""

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
            response = await self._client.aio.models.generate_content(
                model=self.server.model, **arguments(request)
            )
        except errors.APIError as problem:
            raise self._status(problem) from problem
        except httpx2.TimeoutException as problem:
            raise self.timed_out() from problem
        except httpx2.HTTPError as problem:
            raise self.connection_fault(problem) from problem
        except (ValueError, RecursionError) as problem:
            # a body that is not JSON, or of another form
            raise TransientFault(
                f"the response is not an answer{error_text(problem)}", lost=True
            ) from problem
        return read_answer(response, self.server.model)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def _status(self, problem: Any) -> Exception:
        error = problem.details.get("error") if isinstance(problem.details, dict) else None
        error = error if isinstance(error, dict) else {}
        text = error_text(error.get("message") or problem.message)
        details = [one for one in error.get("details") or [] if isinstance(one, dict)]
        if any(one.get("reason") == "API_KEY_INVALID" for one in details):
            return refused_key(self.server)
        quotas = [
            one for detail in details for one in detail.get("violations") or [] if isinstance(one, dict)
        ]
        if problem.code == 429 and any("PerDay" in str(one.get("quotaId")) for one in quotas):
            return quota_used_up(self.server, text)
        fault = self.status_fault(problem.code, text, getattr(problem.response, "headers", None) or {})
        if isinstance(fault, TransientFault) and fault.retry_after_s is None:
            # the pause is in the body
            delays = (_SECONDS.fullmatch(str(one.get("retryDelay"))) for one in details)
            fault.retry_after_s = next((float(found[1]) for found in delays if found), None)
        return fault


def arguments(request: ChatRequest) -> dict[str, Any]:
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
    config = without_none(
        {
            "system_instruction": {"parts": system} if system else None,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": sampling.seed,
            "max_output_tokens": sampling.most_tokens,
            "response_mime_type": "application/json" if request.answer_schema else None,
            "response_json_schema": request.answer_schema,
            "http_options": {"extra_body": dict(request.extra_body)} if request.extra_body else None,
        }
    )
    return {"contents": contents, "config": config}


def json_body(request: ChatRequest) -> dict[str, Any]:
    """Return a request as the interface takes it in JSON."""
    from google.genai import types

    given = arguments(request)
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


def read_answer(response: Any, model: str) -> ChatAnswer:
    """Return the answer in a response of the library."""
    usage, candidates = response.usage_metadata, response.candidates or []
    blocked = response.prompt_feedback and response.prompt_feedback.block_reason
    refusal, text, thoughts, finish = None, "", "", ""
    if candidates:
        one = candidates[0]
        finish = str(getattr(one.finish_reason, "value", one.finish_reason) or "")
        parts = (one.content and one.content.parts) or []
        text = "".join(part.text for part in parts if part.text and not part.thought)
        thoughts = "".join(part.text for part in parts if part.text and part.thought)
        if finish in _REFUSALS:
            refusal, text = one.finish_message or text or finish, ""
    elif blocked:
        finish = str(getattr(blocked, "value", blocked))
        refusal = response.prompt_feedback.block_reason_message or f"the prompt was blocked: {finish}"
    else:
        raise TransientFault("the response has no candidates", lost=True)
    reasoning = (usage and usage.thoughts_token_count) or 0
    return ChatAnswer(
        text=text,
        reasoning=thoughts,
        refusal=refusal,
        finish_reason=_FINISH.get(finish, strike_out(finish).lower()),
        model=response.model_version or model,
        tokens_in=(usage and usage.prompt_token_count) or 0,
        # the reasoning is counted apart, and paid like the answer
        tokens_out=((usage and usage.candidates_token_count) or 0) + reasoning,
        cached_in=(usage and usage.cached_content_token_count) or 0,
        reasoning_out=reasoning,
    )
