"""Chat completions of an OpenAI-compatible server: many concurrently, or single ones from any thread."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from storage_schemas.model import Frozen
from storage_schemas.secrets import strike_out
from tasks.llm.servers import ChatServer, ServerDown, is_near, no_such_model, refused_key


class Sampling(Frozen):
    """Sampling parameters; None leaves a value to the server."""

    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    most_tokens: int | None = None


class ChatRequest(Frozen):
    """One request.

    Parameters
    ----------
    messages
        In the interface's form: ``{"role": …, "content": …}``, where content is a text or a list of parts.
    answer_schema
        JSON Schema of the answer, or None for free text.
    sampling
        Sampling parameters.
    extra_body
        Fields that only some servers support, such as vLLM's ``top_k``.
    """

    messages: tuple[dict[str, Any], ...]
    answer_schema: dict[str, Any] | None = None
    sampling: Sampling = Sampling()
    extra_body: dict[str, Any] = Field(default_factory=dict)


class ChatAnswer(Frozen):
    """The answer to a request, or the reason in `error` if there is none.

    `seconds` is the duration of the last call, `tries` the number of calls.
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
    # vLLM calls it `reasoning`, earlier versions `reasoning_content`
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
        If it is not a chat completion.
    """
    try:
        completion = _Completion.model_validate(json.loads(body))
    except (ValidationError, ValueError, RecursionError) as problem:
        shown = strike_out(body.decode("utf-8", "replace"))[:80]
        raise ValueError(f"the response is not a chat completion: {shown!r}") from problem
    choice, usage = completion.choices[0], completion.usage or _Usage()
    return ChatAnswer(
        text=strike_out(choice.message.content or ""),
        reasoning=strike_out(choice.message.reasoning or choice.message.reasoning_content or ""),
        finish_reason=choice.finish_reason and strike_out(choice.finish_reason),
        model=strike_out(completion.model),
        tokens_in=usage.prompt_tokens,
        tokens_out=usage.completion_tokens,
    )


_CONNECT_S = 10.0
#: First and longest pause between attempts, in seconds.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_TRANSIENT = frozenset({408, 409, 429})


#: Called with a request's index and its answer, in the order of arrival; returns the next request at this
#: index, if any.
OnAnswer = Callable[[int, ChatAnswer], ChatRequest | None]


def ask_all(server: ChatServer, requests: Iterable[ChatRequest], on_answer: OnAnswer) -> None:
    """Send all requests to a server, at most ``server.concurrency`` concurrently.

    Raises
    ------
    PrerequisiteError
        If the server cannot be used: it is down for longer than its patience, refuses the key or does not
        have the model. `on_answer` was called with every answer received before.
    """
    asyncio.run(ServerAsking(server, on_answer).all(requests))


class _TransientFault(Exception):
    """A fault that a new attempt may not have."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class _Refused(Exception):
    """The server rejected this request; a new attempt would be rejected too."""


class ServerAsking:
    """Sends requests to one server, within one event loop."""

    def __init__(self, server: ChatServer, on_answer: OnAnswer) -> None:
        self._server = server
        self._on_answer = on_answer
        self._client: Any = None

    async def all(self, requests: Iterable[ChatRequest]) -> None:
        """Send all requests and close the client."""
        waiting = deque(enumerate(requests))
        async with _client(self._server) as self._client:
            count = min(self._server.concurrency, len(waiting))
            workers = [asyncio.create_task(self._work(waiting)) for _ in range(count)]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)

    async def one(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to one request; the client stays open."""
        if self._client is None:
            self._client = _client(self._server)
        return await self._ask(request)

    async def close(self) -> None:
        """Close the client."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _work(self, waiting: deque[tuple[int, ChatRequest]]) -> None:
        while waiting:
            place, first = waiting.popleft()
            request: ChatRequest | None = first
            while request is not None:
                request = self._on_answer(place, await self._ask(request))

    async def _ask(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to a request; transient faults are retried within the server's patience."""
        tries, failing_since = 0, None
        while True:
            tries += 1
            started = time.monotonic()
            try:
                answer = await self._once(request)
                seconds = round(time.monotonic() - started, 3)
                return answer.model_copy(update={"tries": tries, "seconds": seconds})
            except _Refused as problem:
                return ChatAnswer(tries=tries, error=str(problem))
            except _TransientFault as problem:
                failing_since = failing_since or time.monotonic()
                pause = _pause(tries, problem.retry_after_s)
                if time.monotonic() + pause - failing_since > self._server.patience_s:
                    return await self._given_up(problem, tries, time.monotonic() - failing_since)
                await asyncio.sleep(pause)

    async def _given_up(self, problem: _TransientFault, tries: int, seconds: float) -> ChatAnswer:
        """Return the failure of one request; raise ServerDown if the server answers nothing else either."""
        error = f"{problem} ({tries} attempts in {seconds:.0f} s)"
        harmless = ChatRequest(
            messages=({"role": "user", "content": "Say yes."},), sampling=Sampling(most_tokens=1)
        )
        try:
            await self._once(harmless)
        except _Refused:
            pass
        except _TransientFault as still:
            raise ServerDown(
                f"model server {self._server.name} at {self._server.base} does not answer: {error}; {still}. "
                "Start it, or wait until it is less busy, then run the same command again: answers received "
                "so far are stored"
            ) from still
        return ChatAnswer(tries=tries, error=error)

    async def _once(self, request: ChatRequest) -> ChatAnswer:
        import openai

        try:
            async with asyncio.timeout(self._server.timeout_s):
                raw = await self._client.chat.completions.with_raw_response.create(
                    model=self._server.model,
                    **_arguments(request),
                )
        except openai.APIStatusError as problem:
            raise self._status(problem) from problem
        except (openai.APITimeoutError, TimeoutError) as problem:
            raise _TransientFault(f"no answer within {self._server.timeout_s:g} s") from problem
        except openai.APIConnectionError as problem:
            cause = problem.__cause__ or problem
            raise _TransientFault(strike_out(str(cause)) or type(cause).__name__) from problem
        try:
            return read_answer(raw.http_response.content)
        except ValueError as problem:
            # a gateway's page, or a truncated body
            raise _TransientFault(str(problem)) from problem

    def _status(self, problem: Any) -> Exception:
        """Return the error of a status: transient, of this request, or of the server as a whole."""
        status, text = problem.status_code, _error_text(problem.body)
        if status in _TRANSIENT or status >= 500:
            return _TransientFault(f"HTTP {status}{text}", _retry_after(problem.response.headers))
        if status in (401, 403):
            return refused_key(self._server)
        if status == 404:
            return no_such_model(self._server)
        return _Refused(f"the server refused the request: HTTP {status}{text}")


def _client(server: ChatServer) -> Any:
    """Return the library's client without retries: :class:`ServerAsking` retries and counts attempts."""
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    http = DefaultAsyncHttpxClient(
        # the environment's proxy does not lead to servers of the local network
        trust_env=not is_near(server.url),
        limits=_limits(server.concurrency),
    )
    return AsyncOpenAI(
        base_url=server.base,
        api_key=server.secret() or "none",
        max_retries=0,
        timeout=_timeout(server.timeout_s),
        http_client=http,
    )


def _limits(count: int) -> Any:
    import httpx2

    return httpx2.Limits(max_connections=count, max_keepalive_connections=count)


def _timeout(seconds: float) -> Any:
    import httpx2

    return httpx2.Timeout(seconds, connect=min(_CONNECT_S, seconds), pool=None)


def _arguments(request: ChatRequest) -> dict[str, Any]:
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
    if request.answer_schema is not None:
        extra["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": request.answer_schema},
        }
    values["extra_body"] = extra or None
    return {name: value for name, value in values.items() if value is not None}


def _pause(tries: int, retry_after_s: float | None) -> float:
    """Return the pause before the next attempt, in seconds: exponential with jitter, or the server's."""
    if retry_after_s is not None:
        return retry_after_s + random.uniform(0, 0.1)
    pause: float = min(_FIRST_PAUSE_S * 2.0 ** min(tries - 1, 10), _LONGEST_PAUSE_S)
    return pause * random.uniform(0.5, 1.0)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the value of ``Retry-After`` in seconds; the header is a number or a date."""
    text = headers.get("retry-after", "")
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


def _error_text(body: object) -> str:
    message = body.get("message") or body if isinstance(body, dict) else body
    # a shortened message would end in a part of a secret
    return f" ({strike_out(str(message)):.300})" if message else ""


class ChatClient:
    """Sends single requests to one server, from any thread; connections stay open in between.

    It sets no limit: `n` threads have `n` requests in flight. Connections are closed when the client is
    garbage-collected.
    """

    def __init__(self, server: ChatServer) -> None:
        self.server = server
        self._lock = threading.Lock()
        self._asking = ServerAsking(server, lambda _place, _answer: None)
        self._running: tuple[asyncio.AbstractEventLoop, threading.Thread, weakref.finalize[Any, Any]] | None
        self._running = None

    def ask(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to a request.

        Raises
        ------
        ServerDown, NotAllowed
            As :func:`ask_all`.
        """
        with self._lock:
            if self._running is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_run, args=(loop,), name="chat", daemon=True)
                # at the end of the process, the system closes connections
                end = weakref.finalize(self, _end, loop, self._asking)
                end.atexit = False
                self._running = loop, thread, end
                thread.start()
            loop = self._running[0]
        return asyncio.run_coroutine_threadsafe(self._asking.one(request), loop).result()

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            _, thread, end = running
            end()
            thread.join()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop until it is stopped, then close it."""
    try:
        loop.run_forever()
    finally:
        loop.close()


def _end(loop: asyncio.AbstractEventLoop, asking: ServerAsking) -> None:
    """Close the connections of another thread's loop, then stop it, without waiting."""

    async def close() -> None:
        try:
            await asking.close()
        finally:
            loop.stop()

    asyncio.run_coroutine_threadsafe(close(), loop)


_clients: dict[ChatServer, ChatClient] = {}
_clients_lock = threading.Lock()


def client_of(server: ChatServer) -> ChatClient:
    """Return this process's client of a server, whose connections all callers share."""
    with _clients_lock:
        return _clients.setdefault(server, ChatClient(server))
