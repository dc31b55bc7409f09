"""Single questions to an OpenAI-compatible server, from any thread."""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import Any

from tasks.models.chat import Asking
from tasks.models.chat_messages import ChatAnswer, ChatRequest
from tasks.models.servers import ChatServer


class ChatClient:
    """Asks one server single questions, from any thread; its connections stay open between them.

    It bounds nothing: whoever calls from `n` threads has `n` requests in flight. One that nobody holds any
    more closes its connections too.
    """

    def __init__(self, server: ChatServer) -> None:
        self.server = server
        self._lock = threading.Lock()
        self._asking = Asking(server, lambda _place, _answer: None)
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
                # as long as the process lives: at its end the system closes what is open
                end = weakref.finalize(self, _end, loop, self._asking)
                end.atexit = False
                self._running = loop, thread, end
                thread.start()
            loop = self._running[0]
        return asyncio.run_coroutine_threadsafe(self._asking.one(request), loop).result()

    def close(self) -> None:
        """Close the connections; a later question opens new ones."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            _, thread, end = running
            end()
            thread.join()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, and close it."""
    try:
        loop.run_forever()
    finally:
        loop.close()


def _end(loop: asyncio.AbstractEventLoop, asking: Asking) -> None:
    """Close the connections of a loop of another thread, then stop it; wait for neither."""

    async def close() -> None:
        try:
            await asking.close()
        finally:
            loop.stop()

    asyncio.run_coroutine_threadsafe(close(), loop)


_clients: dict[ChatServer, ChatClient] = {}
_clients_lock = threading.Lock()


def client_of(server: ChatServer) -> ChatClient:
    """Return this process's client of a server: all who ask it share its connections."""
    with _clients_lock:
        return _clients.setdefault(server, ChatClient(server))
