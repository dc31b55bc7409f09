"""What stands before every organiser's page: the login, and the token of a form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import quote

from fastapi import HTTPException, Request
from starlette.responses import RedirectResponse, Response

from slvmeval.annotation.organiser.login import Login, Session

Forms = dict[str, str]
Next = Callable[[Request], Awaitable[Response]]


def guarding(login: Login, root: str) -> Callable[[Request, Next], Awaitable[Response]]:
    """Return a middleware: without a session there is only the login page and its style sheet.

    So a page that is added later is behind the login without anybody having to think of it.
    """

    async def guard(request: Request, go_on: Next) -> Response:
        path = _below(request)
        request.state.session = login.session(request)
        if request.state.session is None and path != "/login" and not path.startswith("/assets/"):
            asked = path + (f"?{request.url.query}" if request.url.query else "")
            # what a form sent is not kept over the login: the page that it was on is opened again
            page = asked if request.method == "GET" else path.rpartition("/")[0] or "/"
            return RedirectResponse(f"{root}/login?go_on={quote(root + page)}", 303)
        answer = await go_on(request)
        # the browser then says where a form comes from, and tells other sites nothing
        answer.headers["Referrer-Policy"] = "same-origin"
        return answer

    return guard


async def form(request: Request) -> Forms:
    """Return the text fields of a form."""
    fields = await request.form(max_files=0)
    return {name: value for name, value in fields.items() if isinstance(value, str)}


async def own_form(request: Request) -> Forms:
    """Return the fields of a form that this session was given.

    Raises
    ------
    HTTPException
        403 if it carries no token of this session.
    """
    fields = await form(request)
    if not session_of(request).owns(fields.get("csrf", "")):
        raise HTTPException(403, "this form is not of your session: load the page anew and send it again")
    return fields


def session_of(request: Request) -> Session:
    """Return who is logged in; the guard saw to it that somebody is."""
    session: Session = request.state.session
    return session


def _below(request: Request) -> str:
    """Return the path of a request below the place where these pages are mounted."""
    return str(request.scope["path"]).removeprefix(str(request.scope.get("root_path", ""))) or "/"
