"""The organiser's login: one secret, a signed session, a token in every form, and a limit on attempts.

It is independent of workers' sessions: a different cookie, key and path. A middleware puts the login in front
of every organiser page.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Depends, HTTPException, Request
from itsdangerous import BadData, URLSafeSerializer
from starlette.responses import RedirectResponse, Response

from slvmeval.web.annotation.security import Limiter
from tasks.annotation.installation import derived_key

COOKIE = "slvmeval_organiser"
#: A session ends after a working day.
SESSION_HOURS = 12
#: Wrong secrets that one address may send per minute, or at once.
ATTEMPTS_A_MINUTE = 5
_MAX_NAME_LENGTH = 80


Role = Literal["organiser", "checker"]
#: Pages of a checker, below the mount point.
_CHECKER = re.compile(r"/(login|logout|assets/.*|(c/[^/]+/(checks|videos)(/.*)?)?)")


@dataclass(frozen=True)
class OrganiserSession:
    """Who is logged in.

    Parameters
    ----------
    name
        The person's name, recorded with decisions.
    csrf
        Token in every form of this session.
    role
        An organiser sees all pages, a checker only those on which ratings are checked.
    """

    name: str
    csrf: str
    role: Role = "organiser"

    def owns(self, token: str) -> bool:
        """Return whether a form belongs to this session."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.csrf.encode())


class Login:
    """The secret, the sessions, and the failed attempts.

    Parameters
    ----------
    secret
        The organisers' secret; changing it ends all sessions.
    key
        Key of the installation.
    root
        Path of the pages; the cookie is sent only to them.
    secure
        Whether browsers send the cookie over https only.
    clock
        Gives the time, UTC.
    limiter
        Counts wrong secrets by address.
    checker_secret
        The secret of checkers; empty for none. Changing it ends all sessions too.
    """

    def __init__(
        self,
        secret: str,
        key: bytes,
        root: str,
        secure: bool,
        clock: Callable[[], datetime],
        limiter: Limiter,
        checker_secret: str = "",
    ) -> None:
        self._secrets: dict[Role, bytes] = {"organiser": secret.encode(), "checker": checker_secret.encode()}
        secrets_of_all = b"\0".join(self._secrets.values())
        self._key = hmac.digest(derived_key(key, "organiser session"), secrets_of_all, hashlib.sha256)
        self._signer = URLSafeSerializer(self._key, salt="organiser")
        self._root = root
        self._secure = secure
        self._clock = clock
        self._limiter = limiter
        self._ended: dict[str, datetime] = {}

    def wait_s(self, request: Request) -> float:
        """Return the seconds that this address must wait before the next attempt; 0 for none."""
        return self._limiter.full("organiser", _address(request), ATTEMPTS_A_MINUTE)

    def role(self, request: Request, secret: str) -> Role | None:
        """Return whose secret this is; a wrong one is counted. Call `wait_s` first."""
        given = secret.strip().encode("utf-8", "replace")
        for role, known in self._secrets.items():
            if known and hmac.compare_digest(given, known):
                return role
        self._limiter.wait_s("organiser", _address(request), ATTEMPTS_A_MINUTE)
        return None

    def begin(self, response: Response, name: str, role: Role = "organiser") -> None:
        """Set the cookie of a new session."""
        until = self._clock() + timedelta(hours=SESSION_HOURS)
        values = {
            "id": secrets.token_urlsafe(18),
            "name": clean_name(name),
            "until": until.timestamp(),
            "role": role,
        }
        response.set_cookie(
            COOKIE,
            str(self._signer.dumps(values)),
            path=self._root,
            secure=self._secure,
            httponly=True,
            # so that links to organiser pages in mails work; forms have a token as well
            samesite="lax",
        )

    def session(self, request: Request) -> OrganiserSession | None:
        """Return the session of a request; None if it is missing, altered or ended."""
        values = self._read(request)
        if values is None:
            return None
        token = hmac.new(self._key, f"csrf {values['id']}".encode(), hashlib.sha256).hexdigest()
        return OrganiserSession(values["name"], token, values["role"])

    def end(self, request: Request, response: Response) -> None:
        """End the session, also for copies of its cookie, but only in this process."""
        values = self._read(request)
        if values is not None:
            now = self._clock()
            self._ended = {key: until for key, until in self._ended.items() if until > now}
            self._ended[values["id"]] = now + timedelta(hours=SESSION_HOURS)
        response.delete_cookie(COOKIE, path=self._root)

    def _read(self, request: Request) -> dict[str, Any] | None:
        try:
            values: dict[str, Any] = self._signer.loads(request.cookies.get(COOKIE, ""))
        except BadData:
            return None
        left = values["until"] - self._clock().timestamp()
        # more than a full session left: the clock was set back by an unknown amount
        if not 0 < left <= SESSION_HOURS * 3600 or values["id"] in self._ended:
            return None
        return values


def local_path(path: str, root: str) -> str:
    """Return the page to show after the login, always below `root`."""
    # browsers read \ as / and drop control characters; our addresses have neither
    fits = re.fullmatch(r"/[A-Za-z0-9/_.-]*(\?[A-Za-z0-9=&_.-]*)?", path)
    return path if fits and path.startswith(f"{root}/") and ".." not in path else f"{root}/"


def clean_name(name: str) -> str:
    """Return a normalised name: one line of at most 80 printable characters."""
    printable = "".join(letter for letter in " ".join(name.split()) if letter.isprintable())
    return printable[:_MAX_NAME_LENGTH].strip()


def _address(request: Request) -> str:
    """Return the key for counting attempts; for IPv6 the network, because one person has many addresses."""
    host = request.client.host if request.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return host if address.version == 4 else str(ipaddress.ip_network(f"{address}/64", strict=False))


Forms = dict[str, str]
Next = Callable[[Request], Awaitable[Response]]


def guarding(login: Login, root: str) -> Callable[[Request, Next], Awaitable[Response]]:
    """Return a middleware that allows only the login page and its style sheet without a session.

    New pages are therefore behind the login by default.
    """

    async def guard(request: Request, call_next: Next) -> Response:
        path = _below(request)
        request.state.session = login.session(request)
        if request.state.session is None and path != "/login" and not path.startswith("/assets/"):
            address = path + (f"?{request.url.query}" if request.url.query else "")
            # form data does not survive the login: open the form's page again
            page = address if request.method == "GET" else path.rpartition("/")[0] or "/"
            return RedirectResponse(f"{root}/login?next_page={quote(root + page)}", 303)
        session = request.state.session
        if session is not None and session.role == "checker" and not _CHECKER.fullmatch(path):
            return RedirectResponse(f"{root}/", 303)
        answer = await call_next(request)
        # the browser then reports the origin of forms to us, and nothing to other sites
        answer.headers["Referrer-Policy"] = "same-origin"
        return answer

    return guard


async def form(request: Request) -> Forms:
    """Return the text fields of a form."""
    fields = await request.form(max_files=0)
    return {name: value for name, value in fields.items() if isinstance(value, str)}


async def own_form(request: Request) -> Forms:
    """Return the fields of a form of this session.

    Raises
    ------
    HTTPException
        403 if it lacks this session's token.
    """
    fields = await form(request)
    if not session_of(request).owns(fields.get("csrf", "")):
        raise HTTPException(403, "this form belongs to another session: reload the page and send it again")
    return fields


def session_of(request: Request) -> OrganiserSession:
    """Return the logged-in person; the guard ensures that there is one."""
    session: OrganiserSession = request.state.session
    return session


#: The fields of a form of this session.
OwnForm = Annotated[Forms, Depends(own_form)]


def _below(request: Request) -> str:
    """Return the path of a request below the mount point."""
    return str(request.scope["path"]).removeprefix(str(request.scope.get("root_path", ""))) or "/"
