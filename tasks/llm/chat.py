"""Chats with a model server: many concurrently, or single ones from any thread."""

from __future__ import annotations

import asyncio
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from storage_schemas.judgements import Failure
from tasks.llm.exchange import TOO_LARGE, ChatAnswer, ChatRequest, Sampling, kept
from tasks.llm.model_names import answered_by
from tasks.llm.providers.base import Forbidden, Provider, Rejected, TransientFault, Unreadable
from tasks.llm.providers.http import TooLarge
from tasks.llm.providers.registry import open_provider
from tasks.llm.servers import CannotAsk, ChatServer, ServerDown, refused_key

#: First and longest pause between attempts, in seconds.
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.5, 30.0
#: Attempts without a valid response body (each may be charged) before a request is given up.
_MAX_UNREADABLE = 3
#: Sent when a request fails, to learn whether other requests fail as well.
_HARMLESS = ChatRequest(messages=({"role": "user", "content": "Say yes."},), sampling=Sampling(most_tokens=1))


#: Called with a request's index and its answer, in the order of arrival; returns the next request at this
#: index, if any.
OnAnswer = Callable[[int, ChatAnswer], ChatRequest | None]


def ask_all(server: ChatServer, requests: Iterable[ChatRequest], on_answer: OnAnswer) -> None:
    """Send all requests to a server, at most ``server.concurrency`` at a time.

    Raises
    ------
    PrerequisiteError
        If the server cannot be used: it is down for longer than its patience, refuses the key or does not
        have the model. `on_answer` was called with every answer received before.
    """
    asyncio.run(ServerAsking(server, on_answer).all(requests))


@dataclass
class _Attempts:
    """The attempts of a request so far, and how many of them may have been charged without an answer."""

    tries: int = 0
    lost: int = 0

    def counts(self) -> dict[str, Any]:
        return {"tries": self.tries, "lost": self.lost}


class ServerAsking:
    """Sends requests to one server, within one event loop."""

    def __init__(self, server: ChatServer, on_answer: OnAnswer) -> None:
        self._server = server
        self._on_answer = on_answer
        self._provider: Provider | None = None

    async def all(self, requests: Iterable[ChatRequest]) -> None:
        """Send all requests and close the client."""
        waiting = deque(enumerate(requests))
        self._provider = open_provider(self._server)
        count = min(self._server.concurrency, len(waiting))
        workers = [asyncio.create_task(self._work(waiting)) for _ in range(count)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            await self.close()

    async def one(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to one request; the client stays open."""
        if self._provider is None:
            self._provider = open_provider(self._server)
        return await self._ask(request)

    async def close(self) -> None:
        """Close the client."""
        provider, self._provider = self._provider, None
        if provider is not None:
            await provider.close()

    async def _work(self, waiting: deque[tuple[int, ChatRequest]]) -> None:
        while waiting:
            index, first = waiting.popleft()
            request: ChatRequest | None = first
            while request is not None:
                request = self._on_answer(index, await self._ask(request))

    async def _ask(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to a request; transient faults are retried within the server's patience."""
        so_far = _Attempts()
        try:
            return await self._until_answered(request, so_far)
        except CannotAsk as problem:
            problem.lost = so_far.lost
            raise

    async def _until_answered(self, request: ChatRequest, so_far: _Attempts) -> ChatAnswer:
        unreadable, failing_since = 0, None
        while True:
            so_far.tries += 1
            started = time.monotonic()
            try:
                answer = kept(await self._once(request))
                changes = {**so_far.counts(), "seconds": round(time.monotonic() - started, 3)}
                return answer.model_copy(update={**changes, "model": answer.model or self._server.model})
            except Forbidden as problem:
                await self._require_permission()
                return ChatAnswer(**so_far.counts(), error=str(problem))
            except Rejected as problem:
                return ChatAnswer(**so_far.counts(), error=str(problem))
            except TooLarge as problem:
                so_far.lost += 1
                return ChatAnswer(**so_far.counts(), finish_reason=TOO_LARGE, error=str(problem))
            except TransientFault as problem:
                so_far.lost += problem.lost
                unreadable += isinstance(problem, Unreadable)
                failing_since = failing_since or time.monotonic()
                pause = _pause(so_far.tries, problem.retry_after_s)
                late = time.monotonic() + pause - failing_since > self._server.patience_s
                if late or unreadable >= _MAX_UNREADABLE:
                    return await self._given_up(problem, so_far, time.monotonic() - failing_since)
                await asyncio.sleep(pause)

    async def _given_up(self, problem: TransientFault, so_far: _Attempts, seconds: float) -> ChatAnswer:
        """Return the failure of one request; raise ServerDown if the server answers no other one."""
        error = f"{problem} ({so_far.tries} attempts in {seconds:.0f} s)"
        try:
            await self._once(_HARMLESS)
        except (Rejected, TooLarge):
            pass
        except TransientFault as still:
            raise ServerDown(
                f"{self._server.where} does not answer: {error}; {still}. "
                "Start it, or wait until it is less busy, then run the same command again: answers received "
                "so far are stored"
            ) from still
        return ChatAnswer(**so_far.counts(), error=error, failure=Failure.SERVER_ERROR)

    async def _require_permission(self) -> None:
        """Raise NotAllowed if the server also forbids a harmless request."""
        try:
            await self._once(_HARMLESS)
        except Forbidden as problem:
            raise refused_key(self._server, f" ({problem})") from problem
        except (Rejected, TooLarge, TransientFault):
            pass

    async def _once(self, request: ChatRequest) -> ChatAnswer:
        assert self._provider is not None
        try:
            async with asyncio.timeout(self._server.timeout_s):
                answer = await self._provider.send(request)
                model = answered_by(self._server.model, answer.model)
                return answer.model_copy(update={"model": model})
        except TimeoutError as problem:
            raise self._provider.timed_out() from problem


def _pause(tries: int, retry_after_s: float | None) -> float:
    """Return the pause before the next attempt, in seconds: exponential with jitter, or the server's."""
    if retry_after_s is not None:
        return retry_after_s + random.uniform(0, 0.1)
    pause: float = min(_FIRST_PAUSE_S * 2.0 ** min(tries - 1, 10), _MAX_PAUSE_S)
    return pause * random.uniform(0.5, 1.0)


class ChatClient:
    """Sends single requests to one server, from any thread; connections stay open in between.

    It does not limit concurrency: `n` threads have `n` requests in flight. Connections are closed when the
    client is garbage-collected.
    """

    def __init__(self, server: ChatServer) -> None:
        self.server = server
        self._lock = threading.Lock()
        self._asking = ServerAsking(server, lambda _index, _answer: None)
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
    """Close the connections of another thread's loop, then stop the loop, without waiting."""

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
