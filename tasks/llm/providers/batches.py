"""Batches of requests: hand over, find, collect.

By the interfaces of OpenAI and servers compatible with it, of Anthropic and of Google, or as files for a job.

All calls wait for the server; its library tries transient faults again.
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import httpx2

from storage_schemas.commit import write_atomic
from storage_schemas.errors import PrerequisiteError
from storage_schemas.model import OFFLINE
from storage_schemas.offline_batches import answers_path, failure_path, requests_path
from storage_schemas.proxies import is_near
from tasks.llm.exchange import ChatAnswer, ChatRequest, kept
from tasks.llm.providers.anthropic_messages import arguments as anthropic_arguments
from tasks.llm.providers.anthropic_messages import read_answer as read_anthropic
from tasks.llm.providers.base import error_text
from tasks.llm.providers.gemini import json_body
from tasks.llm.providers.gemini import read_answer as read_gemini
from tasks.llm.providers.openai_chat import arguments as openai_arguments
from tasks.llm.providers.openai_chat import read_answer as read_openai
from tasks.llm.servers import ChatServer, need_library, why

#: Name of our name in a batch's metadata.
MARK = "slvmeval"
#: Attempts of a call, and time limit of one with its upload or download, seconds.
_ATTEMPTS, _TIMEOUT_S = 5, 900.0
#: Providers give up what they have not answered a day after it came.
_LONGEST = timedelta(hours=25)


class NoAnswer(PrerequisiteError):
    """The provider did not answer, so it may or may not have done what it was asked."""


@dataclass(frozen=True)
class Collected:
    """Answers of a batch by the id of their request; one with a fault of its own has an `error`.

    Parameters
    ----------
    ended
        Whether the provider answers nothing more; requests without an answer have expired then.
    failed
        Why the provider took none of the requests; empty if it took them.
    """

    answers: Mapping[str, ChatAnswer] = field(default_factory=dict)
    ended: bool = False
    failed: str = ""


class BatchProvider(ABC):
    """Batches at one server.

    Class attributes
    ----------------
    most, most_bytes
        Maximum requests of a batch, and bytes of them as JSON, below the provider's own limits.
    """

    most: ClassVar[int]
    most_bytes: ClassVar[int]

    def __init__(self, server: ChatServer) -> None:
        self.server = server

    @abstractmethod
    def line(self, id_: str, request: ChatRequest) -> bytes:
        """Return a request as JSON for :meth:`hand_over`."""

    @abstractmethod
    def hand_over(self, name: str, lines: Sequence[bytes]) -> str:
        """Hand over requests under a name, and return the provider's id of the batch.

        Raises
        ------
        NoAnswer
            If the provider does not answer, and may have the batch.
        PrerequisiteError
            If it refuses the batch.
        """

    @abstractmethod
    def find(self, name: str, count: int, taken: Collection[str]) -> str | None:
        """Return the id of the batch handed over under a name; None if the provider has none.

        Parameters
        ----------
        count, taken
            Number of its requests, and ids of other batches, for a provider that keeps no names.
        """

    @abstractmethod
    def collect(self, id_: str) -> Collected:
        """Return the answers of a batch so far.

        Raises
        ------
        PrerequisiteError
            If the provider does not answer, or does not know the batch.
        """

    @abstractmethod
    def _open(self, http: httpx2.Client, attempts: int, **options: Any) -> Any:
        """Return a client of the library that tries a call so often.

        Parameters
        ----------
        options
            Address, key and time limit, as the libraries of OpenAI and Anthropic call them.
        """

    @contextmanager
    def _client(self, doing: str, attempts: int = _ATTEMPTS) -> Iterator[Any]:
        """Give a client of the library; turn its errors into ours."""
        near = is_near(self.server.url)
        with httpx2.Client(trust_env=not near, follow_redirects=False, timeout=_TIMEOUT_S) as http:
            key = self.server.secret() or "none"
            try:
                yield self._open(http, attempts, base_url=self.server.base, api_key=key, timeout=_TIMEOUT_S)
            except Exception as problem:
                raise self._ours(doing, problem) from problem

    def _ours(self, doing: str, problem: Exception) -> Exception:
        """Return our error for one of the library; others as they are."""
        status = getattr(problem, "status_code", getattr(problem, "code", None))
        status = status if isinstance(status, int) else None
        broken = (httpx2.HTTPError, OSError, ValueError)
        if status is None and not isinstance(problem, broken) and not isinstance(problem.__cause__, broken):
            return problem
        text = error_text(getattr(problem, "message", None) or problem)
        said = why(problem) if status is None else f"HTTP {status}{text}"
        advice = "run the same command again later: what was handed over is collected then"
        # Google says 400 of a key
        if status in (401, 403, 404, 405) or "API key" in said:
            advice = "check the key, and that the server has a batch interface"
        known = status is not None and status < 500
        return (PrerequisiteError if known else NoAnswer)(
            f"model server {self.server.name} at {self.server.base}: {doing} failed: {said}; {advice}"
        )


class OpenAIBatches(BatchProvider):
    """Batches of chat completions: a file of requests, a batch, and files of answers and of errors."""

    most = 40_000
    most_bytes = 150_000_000
    _ENDED: ClassVar[frozenset[str]] = frozenset({"completed", "expired", "failed", "cancelled"})

    def _open(self, http: httpx2.Client, attempts: int, **options: Any) -> Any:
        from openai import OpenAI

        return OpenAI(http_client=http, max_retries=attempts - 1, **options)

    def line(self, id_: str, request: ChatRequest) -> bytes:
        """Return a request as a line of the file."""
        return _openai_line(self.server, id_, request)

    def hand_over(self, name: str, lines: Sequence[bytes]) -> str:
        """Upload the requests and make a batch of them."""
        with self._client("handing over a batch") as client:
            content = b"".join(line + b"\n" for line in lines)
            file = client.files.create(file=(f"{name}.jsonl", content), purpose="batch")
        # a second attempt would be a second batch
        with self._client("handing over a batch", attempts=1) as client:
            batch = client.batches.create(
                input_file_id=file.id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={MARK: name},
            )
            return str(batch.id)

    def find(self, name: str, count: int, taken: Collection[str]) -> str | None:
        """Return the batch whose metadata have the name."""
        with self._client("looking for a batch") as client:
            for batch in client.batches.list(limit=100):
                if (batch.metadata or {}).get(MARK) == name:
                    return str(batch.id)
                if datetime.now(UTC) - datetime.fromtimestamp(batch.created_at, UTC) > 4 * _LONGEST:
                    break
        return None

    def collect(self, id_: str) -> Collected:
        """Return the answers, which the provider gives when the batch has ended."""
        with self._client("collecting a batch") as client:
            batch = client.batches.retrieve(id_)
            ended = batch.status in self._ENDED
            if batch.status == "failed":
                problems = [one.message for one in (batch.errors and batch.errors.data) or []]
                return Collected(ended=True, failed=f"the provider refused it{error_text(problems)}")
            answers: dict[str, ChatAnswer] = {}
            for file in (batch.output_file_id, batch.error_file_id) if ended else ():
                answers |= _openai_answers(client.files.content(file).iter_lines()) if file else {}
            return Collected(answers, ended)


def _openai_line(server: ChatServer, id_: str, request: ChatRequest) -> bytes:
    """Return a request as a line of a file of requests."""
    values = openai_arguments(request, server)
    body = {"model": server.model, **values, **(values.pop("extra_body", None) or {})}
    body.pop("extra_body", None)
    line = {"custom_id": id_, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode()


def _openai_answers(lines: Iterable[str | bytes]) -> dict[str, ChatAnswer]:
    """Return the answers in lines of a file by the id of their request, without those that expired."""
    entries = (json.loads(line) for line in lines if line.strip())
    answers = ((str(entry["custom_id"]), _openai_answer(entry)) for entry in entries)
    return {id_: kept(answer) for id_, answer in answers if answer is not None}


def _openai_answer(entry: Mapping[str, Any]) -> ChatAnswer | None:
    """Return the answer in a line; None for a request that expired."""
    response, error = entry.get("response") or {}, entry.get("error") or {}
    if not entry or error.get("code") in ("batch_expired", "batch_cancelled"):
        return None
    body = response.get("body") or {}
    if response.get("status_code") == 200:
        try:
            return read_openai(body)
        except ValueError as problem:
            return ChatAnswer(error=str(problem))
    told = (body.get("error") or {}) if isinstance(body, dict) else {}
    words = error_text(told.get("message") or error.get("message") or body)
    return ChatAnswer(error=f"the server refused the request: HTTP {response.get('status_code', '?')}{words}")


class AnthropicBatches(BatchProvider):
    """Anthropic's message batches.

    They have no names. One whose id was lost, because the process was killed while it was handed over, is
    found by its age and its number of requests among those that no record names.
    """

    most = 40_000
    most_bytes = 150_000_000

    def _open(self, http: httpx2.Client, attempts: int, **options: Any) -> Any:
        from anthropic import Anthropic

        return Anthropic(http_client=http, max_retries=attempts - 1, **options)

    def line(self, id_: str, request: ChatRequest) -> bytes:
        """Return a request with its id."""
        values = anthropic_arguments(request, self.server)
        extra = values.pop("extra_body", None) or {}
        line = {"custom_id": id_, "params": {"model": self.server.model, **values, **extra}}
        return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode()

    def hand_over(self, name: str, lines: Sequence[bytes]) -> str:
        """Make a batch of the requests."""
        # a second attempt would be a second batch
        with self._client("handing over a batch", attempts=1) as client:
            return str(client.messages.batches.create(requests=[json.loads(line) for line in lines]).id)

    def find(self, name: str, count: int, taken: Collection[str]) -> str | None:
        """Return the newest batch with this number of requests that is no other."""
        with self._client("looking for a batch") as client:
            for batch in client.messages.batches.list(limit=100):
                if datetime.now(UTC) - batch.created_at > _LONGEST:
                    break
                counts = batch.request_counts
                total = sum(
                    (counts.processing, counts.succeeded, counts.errored, counts.canceled, counts.expired)
                )
                if total == count and batch.id not in taken:
                    return str(batch.id)
        return None

    def collect(self, id_: str) -> Collected:
        """Return the answers, which the provider gives when the batch has ended."""
        with self._client("collecting a batch") as client:
            batches = client.messages.batches
            if batches.retrieve(id_).processing_status != "ended":
                return Collected()
            answers = {}
            for entry in batches.results(id_):
                answer = _anthropic_answer(entry.result)
                if answer is not None:
                    answers[str(entry.custom_id)] = kept(answer)
            return Collected(answers, ended=True)


def _anthropic_answer(result: Any) -> ChatAnswer | None:
    """Return the answer in a result; None for a request that expired."""
    if result.type == "succeeded":
        try:
            return read_anthropic(result.message.model_dump(mode="json"))
        except ValueError as problem:
            return ChatAnswer(error=str(problem))
    if result.type == "errored":
        error = getattr(result.error, "error", result.error)
        words = error_text(getattr(error, "message", "") or error)
        return ChatAnswer(error=f"the server refused the request{words}")
    return None


class GeminiBatches(BatchProvider):
    """Batches of Gemini: a file of requests, a batch with our name for display, and a file of answers."""

    most = 40_000
    most_bytes = 1_000_000_000
    _ENDED: ClassVar[frozenset[str]] = frozenset(
        f"JOB_STATE_{state}"
        for state in ("SUCCEEDED", "PARTIALLY_SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED")
    )

    def _open(self, http: httpx2.Client, attempts: int, **options: Any) -> Any:
        from google import genai

        settings: Any = {
            "base_url": options["base_url"],
            "api_version": "v1beta",
            "timeout": round(options["timeout"] * 1000),
            "retry_options": {"attempts": attempts},
            "httpx_client": http,
        }
        return genai.Client(api_key=options["api_key"], vertexai=False, http_options=settings)

    def line(self, id_: str, request: ChatRequest) -> bytes:
        """Return a request as a line of the file."""
        body = json_body(request, self.server)
        return json.dumps({"key": id_, "request": body}, ensure_ascii=False, separators=(",", ":")).encode()

    def hand_over(self, name: str, lines: Sequence[bytes]) -> str:
        """Upload the requests and make a batch of them."""
        with self._client("handing over a batch") as client:
            content = io.BytesIO(b"".join(line + b"\n" for line in lines))
            file = client.files.upload(file=content, config={"mime_type": "application/jsonl"})
        # a second attempt would be a second batch
        with self._client("handing over a batch", attempts=1) as client:
            made = client.batches.create(
                model=self.server.model, src=file.name, config={"display_name": name}
            )
            return str(made.name)

    def find(self, name: str, count: int, taken: Collection[str]) -> str | None:
        """Return the batch with the name for display."""
        with self._client("looking for a batch") as client:
            for batch in client.batches.list():
                if batch.display_name == name:
                    return str(batch.name)
                if batch.create_time and datetime.now(UTC) - batch.create_time > 4 * _LONGEST:
                    break
        return None

    def collect(self, id_: str) -> Collected:
        """Return the answers, which the provider gives when the batch has ended."""
        with self._client("collecting a batch") as client:
            batch = client.batches.get(name=id_)
            state = str(getattr(batch.state, "value", batch.state))
            if state not in self._ENDED:
                return Collected()
            file = batch.dest and batch.dest.file_name
            if state == "JOB_STATE_FAILED" and not file:
                message = (batch.error and batch.error.message) or ""
                return Collected(ended=True, failed=f"the provider refused it{error_text(message)}")
            answers: dict[str, ChatAnswer] = {}
            for line in client.files.download(file=file).splitlines() if file else ():
                entry = json.loads(line) if line.strip() else {}
                if "key" in entry:
                    answers[str(entry["key"])] = kept(self._answer(entry))
            return Collected(answers, ended=True)

    def _answer(self, entry: Mapping[str, Any]) -> ChatAnswer:
        """Return the answer in a line."""
        if entry.get("response"):
            try:
                return read_gemini(entry["response"])
            except ValueError as problem:
                return ChatAnswer(error=str(problem))
        told = entry.get("error") or entry.get("status") or {}
        words = error_text((told.get("message") if isinstance(told, dict) else "") or told)
        return ChatAnswer(error=f"the server refused the request{words}")


class OfflineBatches(BatchProvider):
    """Batches as files of the store, in OpenAI's form, for a job that answers them without a server.

    Its limits are those of a file that one job reads at once.
    """

    most = 40_000
    most_bytes = 1_000_000_000

    @property
    def _folder(self) -> Path:
        if self.server.offline is None:
            raise PrerequisiteError(f"{self.server.name} has no store for its batches")
        return self.server.offline

    def _open(self, http: httpx2.Client, attempts: int, **options: Any) -> Any:
        raise NotImplementedError("there is no server")

    def line(self, id_: str, request: ChatRequest) -> bytes:
        """Return a request as a line of the file."""
        return _openai_line(self.server, id_, request)

    def hand_over(self, name: str, lines: Sequence[bytes]) -> str:
        """Write the requests."""
        path = requests_path(self._folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, b"".join(line + b"\n" for line in lines))
        return name

    def find(self, name: str, count: int, taken: Collection[str]) -> str | None:
        """Return the batch if its requests were written."""
        return name if requests_path(self._folder, name).exists() else None

    def collect(self, id_: str) -> Collected:
        """Return the answers, if a job has written them; a batch whose requests were removed has ended."""
        failure, answered = failure_path(self._folder, id_), answers_path(self._folder, id_)
        if answered.exists():
            return Collected(_openai_answers(answered.read_bytes().splitlines()), ended=True)
        if failure.exists():
            return Collected(ended=True, failed=failure.read_text(encoding="utf-8"))
        return Collected(ended=not requests_path(self._folder, id_).exists())


_PROVIDERS: dict[str, type[BatchProvider]] = {"anthropic": AnthropicBatches, "google": GeminiBatches}


def open_batches(server: ChatServer) -> BatchProvider:
    """Return the batch interface of a server; its library is imported now.

    Raises
    ------
    PrerequisiteError
        If its library is not installed, or the key's variable is not set.
    """
    need_library(server.provider)
    if server.url == OFFLINE:
        return OfflineBatches(server)
    return _PROVIDERS.get(server.provider, OpenAIBatches)(server)
