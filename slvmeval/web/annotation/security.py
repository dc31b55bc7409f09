"""Checks on every request (host, origin, size, rate) and security headers on every response.

The headers forbid the browser everything that the pages do not need. Each process counts requests separately.
"""

from __future__ import annotations

import ipaddress
import logging
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slvmeval.web.annotation import problems
from slvmeval.web.annotation.problems import Problem
from slvmeval.web.annotation.serve import Serving
from slvmeval.web.annotation.sessions import language_for

#: Number of counters above which full ones are dropped.
_MAX_COUNTERS = 20_000


class Limiter:
    """Token buckets that refill at a constant rate.

    Parameters
    ----------
    clock
        Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[tuple[str, str], tuple[float, float, int]] = {}

    def wait_s(self, kind: str, who: str, a_minute: int) -> float:
        """Count one request of `who`; return 0 if it is allowed, else the seconds until the next is allowed.

        Parameters
        ----------
        kind
            The kind of request; `who` has a separate bucket for each.
        who
            A worker or an address.
        a_minute
            Requests per minute, and the maximum burst; 0 for no limit.
        """
        if not a_minute:
            return 0.0
        with self._lock:
            now = self._clock()
            left = self._now(now, self._left.get((kind, who)), a_minute)
            allowed = left >= 1
            self._left[kind, who] = (left - allowed, now, a_minute)
            if len(self._left) > _MAX_COUNTERS:
                self._forget(now)
        return 0.0 if allowed else (1 - left) * 60 / a_minute

    def full(self, kind: str, who: str, a_minute: int) -> float:
        """Return the seconds until the next request is allowed, without counting one."""
        with self._lock:
            left = self._now(self._clock(), self._left.get((kind, who)), a_minute)
        return 0.0 if not a_minute or left >= 1 else (1 - left) * 60 / a_minute

    @staticmethod
    def _now(now: float, state: tuple[float, float, int] | None, a_minute: int) -> float:
        if state is None:
            return float(a_minute)
        left, then, _ = state
        return min(float(a_minute), left + (now - then) * a_minute / 60)

    def _forget(self, now: float) -> None:
        not_full = {key: one for key, one in self._left.items() if self._now(now, one, one[2]) < one[2]}
        # all of them are at their limit: drop the oldest to limit memory
        newest = sorted(not_full.items(), key=lambda item: item[1][1])[-_MAX_COUNTERS // 2 :]
        self._left = dict(newest)


log = logging.getLogger(__name__)

#: Pages have no inline scripts or styles; the empty icon is a data URI.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "media-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

PERMISSIONS_POLICY = ", ".join(
    (
        "fullscreen=(self)",
        "autoplay=(self)",
        *(
            f"{name}=()"
            for name in (
                "accelerometer",
                "browsing-topics",
                "camera",
                "display-capture",
                "geolocation",
                "gyroscope",
                "magnetometer",
                "microphone",
                "midi",
                "payment",
                "usb",
            )
        ),
    )
)

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Permissions-Policy": PERMISSIONS_POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Robots-Tag": "noindex",
}

#: Maximum size of a body; answers, comments and playback reports are far smaller.
MAX_BODY = 256 * 1024

_BROKEN_RETRY_S = 15

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class RequestGuard:
    """The outermost part of the application.

    Parameters
    ----------
    app
        The wrapped application.
    serving
        Host names and limits.
    limiter
        Counts requests by address.
    """

    def __init__(self, app: ASGIApp, serving: Serving, limiter: Limiter) -> None:
        self._app = app
        self._serving = serving
        self._limiter = limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with_headers = _Answering(send, self._serving.secure)
        connection = HTTPConnection(scope)
        try:
            self._check(scope, connection)
            await self._run(scope, _Bounded(receive, connection.headers), with_headers)
        except Problem as problem:
            if with_headers.started:
                raise
            await self._answer(connection, problem)(scope, receive, with_headers)
        except Exception:
            if with_headers.started:
                raise
            # answered here, because the outer layers do not add our headers
            log.exception("%s %s", scope["method"], scope["path"])
            await self._answer(connection, broken())(scope, receive, with_headers)

    async def _run(self, scope: Scope, body: _Bounded, send: _Answering) -> None:
        """Run the application; a body that is too large is refused, however the application reacts to it."""

        async def send_unless_refused(message: Message) -> None:
            if send.started or not body.refused:
                await send(message)

        try:
            await self._app(scope, body, send_unless_refused)
        except Exception:
            # reading the body raised an exception, which may have been replaced since
            if send.started or not body.refused:
                raise
        if body.refused and not send.started:
            raise _too_large()

    def _answer(self, connection: HTTPConnection, problem: Problem) -> Response:
        language = language_for(connection, None)
        return problems.answer(connection, problem, language=language, texts=self._serving.texts_folder)

    def _check(self, scope: Scope, connection: HTTPConnection) -> None:
        if scope["path"] == "/health":
            return
        host = _hostname(connection.headers.get("host", ""))
        if host not in self._serving.hosts:
            raise Problem(
                421,
                problems.WRONG_HOST,
                f"wrong host name {host!r}: use {self._serving.address}",
            )
        who = address_of(connection)
        wait_s = self._limiter.wait_s("address", who, self._serving.address_a_minute)
        if wait_s:
            raise too_many(wait_s)
        if scope["method"] not in _SAFE and not _from_here(connection.headers, self._serving):
            raise forged()


def address_of(connection: HTTPConnection) -> str:
    """Return the key for counting requests; for IPv6 the network, because one person has many addresses."""
    host = connection.client.host if connection.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(ipaddress.ip_network(f"{host}/64", strict=False)) if address.version == 6 else host


def too_many(wait_s: float) -> Problem:
    """Return the problem for too many requests."""
    return Problem(
        429, problems.TOO_MANY, f"too many requests: wait {wait_s:.0f} s, nothing is lost", retry_s=wait_s
    )


def broken() -> Problem:
    """Return the problem for an unexpected error."""
    return Problem(
        500,
        problems.BROKEN,
        "an error occurred on the server: try again, and tell the organiser if it persists",
        retry_s=_BROKEN_RETRY_S,
    )


def forged() -> Problem:
    """Return the problem for a request that does not come from the worker's own page."""
    return Problem(
        403,
        problems.FORGED,
        "this did not come from a page of this session: open the page again and repeat your last step",
    )


def _from_here(headers: Headers, serving: Serving) -> bool:
    """Return whether the browser reports our page as the origin; without a report the token is still needed.

    A form on a page without referrer has the origin ``null`` in all browsers: then the other header counts.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None or origin == "null":
        return True
    own = {serving.address.lower(), f"http://{headers.get('host', '').lower()}"}
    return origin.lower() in own


def _hostname(host: str) -> str:
    return (urlsplit(f"//{host}").hostname or "").lower() if _plain(host) else ""


def _plain(host: str) -> bool:
    return bool(host) and not set(host) & set("/\\@?# \t")


class _Answering:
    """Sends a response with our headers; a cache policy set by the response is kept."""

    def __init__(self, send: Send, secure: bool) -> None:
        self._send = send
        self._secure = secure
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
            if self._secure:
                headers.setdefault("Strict-Transport-Security", "max-age=31536000")
        await self._send(message)


def _too_large() -> Problem:
    return Problem(413, problems.TOO_LARGE, f"a request may have at most {MAX_BODY // 1024} kB")


class _Bounded:
    """Receives a request's body up to a maximum size."""

    def __init__(self, receive: Receive, headers: Headers) -> None:
        self._receive = receive
        self._got = 0
        self.refused = False
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 18 or int(length) > MAX_BODY:
            raise _too_large()

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._got += len(message.get("body", b""))
            if self._got > MAX_BODY:
                self.refused = True
                raise _too_large()
        return message
