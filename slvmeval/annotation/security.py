"""What every request passes: is it meant for us, does it come from our pages, is it one too many.

And what every answer carries: headers that forbid a browser everything that the pages do not need.
"""

from __future__ import annotations

import ipaddress
import logging
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slvmeval.annotation import problems
from slvmeval.annotation.languages import language_for
from slvmeval.annotation.limits import Limiter
from slvmeval.annotation.problems import Problem
from slvmeval.annotation.settings import Serving

log = logging.getLogger(__name__)

#: No page has a script or a style of its own; the empty icon is a data address.
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

#: An answer, its comment and the intervals that were played are far smaller.
MOST_BODY = 256 * 1024

_BROKEN_RETRY_S = 15

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Guard:
    """The outermost part of the application.

    Parameters
    ----------
    app
        What lies behind it.
    serving
        Our names and limits.
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
            await self._app(scope, _Bounded(receive, connection.headers), with_headers)
        except Problem as problem:
            if with_headers.started:
                raise
            await self._answer(connection, problem)(scope, receive, with_headers)
        except Exception:
            if with_headers.started:
                raise
            # answered here and not further out, where our headers are unknown
            log.exception("%s %s", scope["method"], scope["path"])
            await self._answer(connection, broken())(scope, receive, with_headers)

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
                f"this server is not {host or 'nameless'}: use {self._serving.address}",
            )
        who = address_of(connection)
        wait_s = self._limiter.wait_s("address", who, self._serving.address_a_minute)
        if wait_s:
            raise too_many(wait_s)
        if scope["method"] not in _SAFE and not _from_here(connection.headers, self._serving):
            raise forged()


def address_of(connection: HTTPConnection) -> str:
    """Return by what requests of one place are counted: in IPv6 the network, as one person has very many."""
    host = connection.client.host if connection.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(ipaddress.ip_network(f"{host}/64", strict=False)) if address.version == 6 else host


def too_many(wait_s: float) -> Problem:
    """Return the problem of one request too many."""
    return Problem(
        429, problems.TOO_MANY, f"too many requests: wait {wait_s:.0f} s, nothing is lost", retry_s=wait_s
    )


def broken() -> Problem:
    """Return the problem of what nobody foresaw."""
    return Problem(
        500,
        problems.BROKEN,
        "something is wrong on the server: try again, and tell the organiser if it stays so",
        retry_s=_BROKEN_RETRY_S,
    )


def forged() -> Problem:
    """Return the problem of a request that does not come from the worker's own page."""
    return Problem(
        403,
        problems.FORGED,
        "this did not come from a page of this session: open the page again and repeat what you did",
    )


def _from_here(headers: Headers, serving: Serving) -> bool:
    """Return whether a browser says that a page of ours sends this; who says nothing still needs the token.

    A form on a page without referrer has the origin ``null``, in all browsers: then the other header counts.
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
    """Sends an answer with our headers; one that says itself how it may be kept is left so."""

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


class _Bounded:
    """Receives a request's body, up to a size."""

    def __init__(self, receive: Receive, headers: Headers) -> None:
        self._receive = receive
        self._got = 0
        said = headers.get("content-length", "0")
        self._check(int(said) if said.isdecimal() and len(said) < 19 else MOST_BODY + 1)

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._got += len(message.get("body", b""))
            self._check(self._got)
        return message

    @staticmethod
    def _check(size: int) -> None:
        if size > MOST_BODY:
            raise Problem(413, problems.TOO_LARGE, f"a request may have {MOST_BODY // 1024} kB")
