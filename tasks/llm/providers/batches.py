"""Batches of requests: submit, find, collect.

They use the interfaces of OpenAI (and compatible servers), Anthropic and Google, or files for a job.

All calls wait for the server; its library tries transient faults again.
"""

from __future__ import annotations

import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import httpx2

from storage_schemas.commit import write_atomic
from storage_schemas.errors import PrerequisiteError
from storage_schemas.judgements import Failure
from storage_schemas.model import OFFLINE
from storage_schemas.offline_batches import answers_path, failure_path, requests_path
from storage_schemas.secrets import strike_out
from tasks.llm.exchange import ChatAnswer, ChatRequest, kept
from tasks.llm.model_names import answered_by
from tasks.llm.providers.anthropic_messages import arguments as anthropic_arguments
from tasks.llm.providers.anthropic_messages import read_answer as read_anthropic
from tasks.llm.providers.base import codes_of, error_text, failure_of, status_of
from tasks.llm.providers.gemini import json_body
from tasks.llm.providers.gemini import read_answer as read_gemini
from tasks.llm.providers.lenient import at, json_of, text_at
from tasks.llm.providers.openai_chat import arguments as openai_arguments
from tasks.llm.providers.openai_chat import read_answer as read_openai
from tasks.llm.servers import ChatServer, client_options, need_library, why

#: Metadata key of our name for a batch.
MARK = "slvmeval"
#: Attempts of a call, and the time limit of each with its upload or download, in seconds.
_ATTEMPTS, _TIMEOUT_S = 5, 900.0
#: How far the clocks of this machine and of a provider may differ.
_CLOCKS = timedelta(minutes=10)
_FORBIDDEN = "the server refused the request: HTTP 403"
#: Characters of an invalid line that are reported.
_SHOWN = 80


class NoAnswer(PrerequisiteError):
    """The provider did not answer, so it may or may not have carried out the request."""


@dataclass(frozen=True)
class Attempt:
    """A batch that was submitted, or was about to be, as stored on disk.

    Parameters
    ----------
    name, keys, at
        Its name, the ids of its requests, and when it was submitted.
    count
        Number of its requests; some of their ids may be settled and gone.
    """

    name: str
    keys: frozenset[str]
    count: int
    at: datetime

    @property
    def earliest(self) -> datetime:
        """Time before which its batch was not made; its answers can be collected for weeks after."""
        return self.at - _CLOCKS if self.at.timestamp() > 0 else self.at


#: Of :meth:`BatchProvider.find`: a batch that still runs may be the one, which its answers will show.
PERHAPS = ""


@dataclass(frozen=True)
class Collected:
    """Answers of a batch by the id of their request; one with a fault of its own has an `error`.

    Parameters
    ----------
    ended
        Whether no more answers will come; requests without an answer have then expired.
    failed
        Why the provider accepted none of the requests; empty if it accepted them.
    state
        The provider's word for how far it is.
    bad
        Lines that answer no request, each with its number.
    """

    answers: Mapping[str, ChatAnswer] = field(default_factory=dict)
    ended: bool = False
    failed: str = ""
    state: str = ""
    bad: tuple[str, ...] = ()


def _read_lines(
    lines: Iterable[str | bytes], id_name: str, read: Callable[[Any], ChatAnswer | None]
) -> tuple[list[tuple[str, ChatAnswer]], tuple[str, ...]]:
    """Return the answers in lines that have the id of their request, and the lines without one.

    Parameters
    ----------
    read
        Returns the answer in a line's JSON object; None for a request that expired.
    """
    answers, bad = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        entry = json_of(line)
        if id_ := text_at(entry, id_name):
            answer = read(entry)
            if answer is not None:
                answers.append((id_, answer))
        else:
            text = line if isinstance(line, str) else line.decode("utf-8", "replace")
            bad.append(f"line {number}, {strike_out(text)[:_SHOWN]!r}")
    return answers, tuple(bad)


def _refused(status: int | None, error: Any, whole: Any) -> ChatAnswer:
    """Return the answer of a request that failed, with the kind of its failure."""
    status = status or status_of(error)
    words = error_text(text_at(error, "message") or error or whole)
    if status is None:
        # nothing indicates that the request is at fault
        return ChatAnswer(error=f"the server failed{words}", failure=Failure.SERVER_ERROR)
    failure = failure_of(status, words, codes_of(error))
    reason = "refused" if failure is Failure.REFUSED else "did not answer"
    return ChatAnswer(error=f"the server {reason} the request: HTTP {status}{words}", failure=failure)


def sorted_forbidden(answers: Mapping[str, ChatAnswer]) -> Mapping[str, ChatAnswer]:
    """Return the answers of a batch; if all are 403, the server refuses more than single requests."""
    refused = [(answer.error or "").startswith(_FORBIDDEN) for answer in answers.values()]
    if len(refused) < 2 or not all(refused):
        return answers
    return {
        id_: answer.model_copy(update={"failure": Failure.NOT_ALLOWED}) for id_, answer in answers.items()
    }


def _read(read: Callable[[Any], ChatAnswer], body: Any) -> ChatAnswer:
    """Return the answer in a request's body; if it is invalid, the next run sends the request again."""
    try:
        return read(body)
    except ValueError as problem:
        shown = strike_out(repr(body))[:_SHOWN]
        return ChatAnswer(error=f"{problem}: {shown}", failure=Failure.SERVER_ERROR, lost=1)


class BatchProvider(ABC):
    """Batches at one server.

    Class attributes
    ----------------
    most, most_bytes
        Maximum requests of a batch, and bytes of them as JSON, as large as the provider's limits allow.
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
        """Submit requests under a name, and return the provider's id of the batch.

        Raises
        ------
        NoAnswer
            If the provider does not answer, and may have the batch.
        PrerequisiteError
            If it refuses the batch.
        """

    @abstractmethod
    def find(self, attempt: Attempt, taken: Collection[str]) -> str | None:
        """Return the id of a submitted batch; None if the provider does not have it.

        Parameters
        ----------
        taken
            Ids of other batches, for a provider that keeps no names; that may return :data:`PERHAPS`.
        """

    @abstractmethod
    def collect(self, id_: str) -> Collected:
        """Return the answers of a batch so far.

        Raises
        ------
        PrerequisiteError
            If the provider does not answer, or does not know the batch.
        """

    def _by_id(self, answers: Iterable[tuple[str, ChatAnswer]]) -> dict[str, ChatAnswer]:
        """Return answers by the id of their request.

        If an id came twice with different texts, neither is preferred.
        """
        held: dict[str, ChatAnswer] = {}
        for id_, answer in answers:
            one = kept(answer.model_copy(update={"model": answered_by(self.server.model, answer.model)}))
            first = held.setdefault(id_, one)
            if _told(one) not in (_told(first), *first.others):
                held[id_] = first.model_copy(update={"others": (*first.others, _told(one))})
        return held


class ServerBatches(BatchProvider):
    """Batches at one server, through its library."""

    @abstractmethod
    def _open(self, http: httpx2.Client, attempts: int, **options: Any) -> Any:
        """Return a client of the library with this number of attempts per call.

        Parameters
        ----------
        options
            Address, key and time limit, as the libraries of OpenAI and Anthropic call them.
        """

    @contextmanager
    def _client(self, doing: str, attempts: int = _ATTEMPTS) -> Iterator[Any]:
        """Yield a client of the library; convert its errors to ours."""
        with httpx2.Client(**client_options(self.server), timeout=_TIMEOUT_S) as http:
            key = self.server.secret() or "none"
            try:
                yield self._open(http, attempts, base_url=self.server.base, api_key=key, timeout=_TIMEOUT_S)
            except Exception as problem:
                raise self._ours(doing, problem) from problem

    def _ours(self, doing: str, problem: Exception) -> Exception:
        """Return our error for one of the library's; others unchanged."""
        status = getattr(problem, "status_code", getattr(problem, "code", None))
        status = status if isinstance(status, int) else None
        broken = (httpx2.HTTPError, OSError, ValueError)
        if status is None and not isinstance(problem, broken) and not isinstance(problem.__cause__, broken):
            return problem
        text = error_text(getattr(problem, "message", None) or problem)
        reason = why(problem) if status is None else f"HTTP {status}{text}"
        advice = "run the same command again later: what was handed over is collected then"
        # Google answers 400 for an invalid key
        if status in (401, 403, 404, 405) or "API key" in reason:
            advice = "check the key, and that the server has a batch interface"
        # a gateway's 408 says nothing about the server behind it
        known = status is not None and status < 500 and status != 408
        return (PrerequisiteError if known else NoAnswer)(
            f"{self.server.where}: {doing} failed: {reason}; {advice}"
        )


def _told(answer: ChatAnswer) -> str:
    return answer.text or answer.refusal or answer.error or ""


class OpenAIBatches(ServerBatches):
    """Batches of chat completions: a file of requests, a batch, and files of answers and of errors."""

    most = 50_000
    most_bytes = 190_000_000
    _ENDED: ClassVar[frozenset[str]] = frozenset({"completed", "expired", "failed", "cancelled"})

    def _open(self, http: httpx2.Client, attempts: int, **options: Any) -> Any:
        from openai import OpenAI

        return OpenAI(http_client=http, max_retries=attempts - 1, **options)

    def line(self, id_: str, request: ChatRequest) -> bytes:
        """Return a request as a line of the file."""
        return _openai_line(self.server, id_, request)

    def hand_over(self, name: str, lines: Sequence[bytes]) -> str:
        """Upload the requests and create a batch."""
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

    def find(self, attempt: Attempt, taken: Collection[str]) -> str | None:
        """Return the batch whose metadata have the name."""
        with self._client("looking for a batch") as client:
            for batch in client.batches.list(limit=100):
                if (batch.metadata or {}).get(MARK) == attempt.name:
                    return str(batch.id)
                if datetime.fromtimestamp(batch.created_at, UTC) < attempt.earliest:
                    break
        return None

    def collect(self, id_: str) -> Collected:
        """Return the answers, which the provider returns once the batch has ended."""
        with self._client("collecting a batch") as client:
            batch = client.batches.retrieve(id_)
            ended = batch.status in self._ENDED
            if batch.status == "failed":
                problems = [one.message for one in (batch.errors and batch.errors.data) or []]
                return Collected(ended=True, failed=f"the provider refused it{error_text(problems)}")
            answers: list[tuple[str, ChatAnswer]] = []
            bad: tuple[str, ...] = ()
            for file in filter(None, (batch.output_file_id, batch.error_file_id) if ended else ()):
                found, odd = _openai_answers(client.files.content(file).iter_lines())
                answers += found
                bad += odd
            return Collected(self._by_id(answers), ended, state=str(batch.status), bad=bad)


def _openai_line(server: ChatServer, id_: str, request: ChatRequest) -> bytes:
    """Return a request as a line of a file of requests."""
    values = openai_arguments(request, server)
    body = {"model": server.model, **values, **(values.pop("extra_body", None) or {})}
    body.pop("extra_body", None)
    line = {"custom_id": id_, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode()


def _openai_answers(lines: Iterable[str | bytes]) -> tuple[list[tuple[str, ChatAnswer]], tuple[str, ...]]:
    """Return the answers in lines of a file with the id of their request, and the bad lines."""
    return _read_lines(lines, "custom_id", _openai_answer)


def _openai_answer(entry: Any) -> ChatAnswer | None:
    """Return the answer in a line; None for a request that expired."""
    body, status, error = (
        at(entry, "response", "body"),
        at(entry, "response", "status_code"),
        at(entry, "error"),
    )
    if text_at(error, "code") in ("batch_expired", "batch_cancelled"):
        return None
    problem = at(body, "error") or error
    if problem or (status is not None and status != 200):
        return _refused(status if isinstance(status, int) and status != 200 else None, problem, body)
    return _read(read_openai, body)


class AnthropicBatches(ServerBatches):
    """Anthropic's message batches.

    They have no names. A batch whose id was lost, because the process was killed during submission, is found
    by its age, its number of requests and, once it has ended, their ids.
    """

    most = 100_000
    most_bytes = 250_000_000

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

    def find(self, attempt: Attempt, taken: Collection[str]) -> str | None:
        """Return the batch whose answers have these ids; only ended batches can be distinguished."""
        perhaps = False
        with self._client("looking for a batch") as client:
            for batch in client.messages.batches.list(limit=100):
                if batch.created_at < attempt.earliest:
                    break
                counts = batch.request_counts
                total = sum(
                    (counts.processing, counts.succeeded, counts.errored, counts.canceled, counts.expired)
                )
                if total != attempt.count or batch.id in taken:
                    continue
                if batch.processing_status != "ended":
                    perhaps = True
                elif self._has_one_of(client, batch, attempt.keys):
                    return str(batch.id)
        return PERHAPS if perhaps else None

    def _has_one_of(self, client: Any, batch: Any, keys: Collection[str]) -> bool:
        """Return whether an ended batch has the answers to these requests: to all of them, or to none."""
        with self._results(client, batch) as lines:
            return any(text_at(json_of(line), "custom_id") in keys for line in lines)

    @contextmanager
    def _results(self, client: Any, batch: Any) -> Iterator[Iterator[str]]:
        """Yield the lines of a batch's results; the library's own reader stops at an invalid line."""
        if not batch.results_url:
            yield iter(())
            return
        with client.messages.batches.with_streaming_response.results(batch.id) as response:
            yield response.iter_lines()

    def collect(self, id_: str) -> Collected:
        """Return the answers, which the provider returns once the batch has ended."""
        with self._client("collecting a batch") as client:
            batch = client.messages.batches.retrieve(id_)
            if batch.processing_status != "ended":
                return Collected(state=str(batch.processing_status))
            with self._results(client, batch) as lines:
                answers, bad = _read_lines(lines, "custom_id", _anthropic_answer)
            return Collected(self._by_id(answers), ended=True, state="ended", bad=bad)


def _anthropic_answer(entry: Any) -> ChatAnswer | None:
    """Return the answer in a line; None for a request that expired."""
    result = at(entry, "result")
    kind = text_at(result, "type")
    if kind in ("expired", "canceled"):
        return None
    if kind == "succeeded":
        return _read(read_anthropic, at(result, "message"))
    error = at(result, "error")
    return _refused(None, at(error, "error") or error, result)


class GeminiBatches(ServerBatches):
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
        """Upload the requests and create a batch."""
        with self._client("handing over a batch") as client:
            content = io.BytesIO(b"".join(line + b"\n" for line in lines))
            file = client.files.upload(file=content, config={"mime_type": "application/jsonl"})
        # a second attempt would be a second batch
        with self._client("handing over a batch", attempts=1) as client:
            made = client.batches.create(
                model=self.server.model, src=file.name, config={"display_name": name}
            )
            return str(made.name)

    def find(self, attempt: Attempt, taken: Collection[str]) -> str | None:
        """Return the batch with the name for display."""
        with self._client("looking for a batch") as client:
            for batch in client.batches.list():
                if batch.display_name == attempt.name:
                    return str(batch.name)
                if batch.create_time and batch.create_time < attempt.earliest:
                    break
        return None

    def collect(self, id_: str) -> Collected:
        """Return the answers, which the provider returns once the batch has ended."""
        with self._client("collecting a batch") as client:
            batch = client.batches.get(name=id_)
            state = str(getattr(batch.state, "value", batch.state))
            if state not in self._ENDED:
                return Collected(state=state)
            file = batch.dest and batch.dest.file_name
            if state == "JOB_STATE_FAILED" and not file:
                message = (batch.error and batch.error.message) or ""
                return Collected(ended=True, failed=f"the provider refused it{error_text(message)}")
            lines = client.files.download(file=file).splitlines() if file else ()
            answers, bad = _read_lines(lines, "key", _google_answer)
            return Collected(self._by_id(answers), ended=True, state=state, bad=bad)


def _google_answer(entry: Any) -> ChatAnswer:
    """Return the answer in a line."""
    if at(entry, "response"):
        return _read(read_gemini, at(entry, "response"))
    return _refused(None, at(entry, "error") or at(entry, "status"), entry)


class OfflineBatches(BatchProvider):
    """Batches as files of the store, in OpenAI's format, for a job that answers them without a server.

    Its limits are those of a file that one job reads at once.
    """

    most = 40_000
    most_bytes = 1_000_000_000

    @property
    def _folder(self) -> Path:
        if self.server.offline is None:
            raise PrerequisiteError(f"{self.server.name} has no store for its batches")
        return self.server.offline

    def line(self, id_: str, request: ChatRequest) -> bytes:
        """Return a request as a line of the file."""
        return _openai_line(self.server, id_, request)

    def hand_over(self, name: str, lines: Sequence[bytes]) -> str:
        """Write the requests."""
        path = requests_path(self._folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, b"".join(line + b"\n" for line in lines))
        return name

    def find(self, attempt: Attempt, taken: Collection[str]) -> str | None:
        """Return the batch if its requests were written."""
        return attempt.name if requests_path(self._folder, attempt.name).exists() else None

    def collect(self, id_: str) -> Collected:
        """Return the answers, if a job has written them; a batch whose requests were removed has ended."""
        failure, answered = failure_path(self._folder, id_), answers_path(self._folder, id_)
        if answered.exists():
            answers, bad = _openai_answers(answered.read_bytes().splitlines())
            return Collected(self._by_id(answers), ended=True, bad=bad)
        if failure.exists():
            return Collected(ended=True, failed=failure.read_text(encoding="utf-8"))
        waits = requests_path(self._folder, id_).exists()
        return Collected(ended=not waits, state="waits for a job" if waits else "")


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
