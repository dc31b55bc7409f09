"""The HTTP client that all providers' libraries share: it reads responses only up to a limit."""

from __future__ import annotations

from typing import Any

import httpx2

from tasks.llm.exchange import MAX_BODY_BYTES
from tasks.llm.servers import ChatServer, client_options

_CONNECT_S = 10.0


class TooLarge(Exception):
    """The response to a request exceeds the size limit."""

    def __init__(self) -> None:
        size = MAX_BODY_BYTES >> 20
        super().__init__(f"the response is larger than {size} MiB, so it was not read to its end")


def http_client(server: ChatServer) -> httpx2.AsyncClient:
    """Return a client for a server, with the server's time limit for requests."""
    return _Client(
        **client_options(server),
        timeout=httpx2.Timeout(server.timeout_s, connect=min(_CONNECT_S, server.timeout_s), pool=None),
        limits=httpx2.Limits(
            max_connections=server.concurrency, max_keepalive_connections=server.concurrency
        ),
    )


class _Client(httpx2.AsyncClient):
    """A client that reads responses no further than the limit."""

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send a request; return its response with its decoded body, unless it is streamed."""
        response = await super().send(request, stream=True, **options)
        if stream:
            return response
        body = bytearray()
        try:
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MAX_BODY_BYTES:
                    raise TooLarge
        finally:
            await response.aclose()
        headers = response.headers.copy()
        for name in ("content-encoding", "content-length", "transfer-encoding"):
            headers.pop(name, None)
        return httpx2.Response(
            response.status_code,
            headers=headers,
            content=bytes(body),
            request=response.request,
            extensions=response.extensions,
        )


def caused_by(problem: BaseException | None, kind: type[BaseException]) -> bool:
    """Return whether an error is of a kind, or was caused by one."""
    while problem is not None:
        if isinstance(problem, kind):
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def broke_after_sending(problem: BaseException) -> bool:
    """Return whether a connection failed while waiting for or reading the answer, not before."""
    return caused_by(problem, httpx2.ReadError) or caused_by(problem, httpx2.RemoteProtocolError)
