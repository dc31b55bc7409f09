"""Logging in and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Request
from starlette.responses import RedirectResponse, Response

from slvmeval.annotation.organiser.guard import Forms, form, own_form
from slvmeval.annotation.organiser.login import Login, clean_name, local_path
from slvmeval.annotation.organiser.pages import ROOT, page


def add_login(app: FastAPI, login: Login) -> None:
    """Add the pages for logging in and out."""

    def asked(request: Request, go_on: str, name: str = "", problem: str = "", status: int = 200) -> Response:
        there = local_path(go_on, ROOT)
        return page(
            request, "login", "Organiser", status=status, go_on=there, typed_name=name, problem=problem
        )

    @app.get("/login")
    def login_page(request: Request, go_on: str = "") -> Response:
        if request.state.session is not None:
            return RedirectResponse(local_path(go_on, ROOT), 303)
        return asked(request, go_on)

    @app.post("/login")
    async def log_in(request: Request, fields: Annotated[Forms, Depends(form)]) -> Response:
        # nothing is awaited here, so that tries of one address are counted one after the other
        go_on, name = fields.get("go_on", ""), clean_name(fields.get("name", ""))
        wait_s = login.wait_s(request)
        if wait_s:
            told = f"Too many wrong secrets: try again in {int(wait_s) + 1} seconds."
            answer = asked(request, go_on, name, told, 429)
            answer.headers["Retry-After"] = str(int(wait_s) + 1)
            return answer
        if not login.is_right(request, fields.get("secret", "")):
            return asked(request, go_on, name, "This is not the secret.", 403)
        if not name:
            return asked(request, go_on, name, "Say who you are: decisions carry a name.", 422)
        welcome = RedirectResponse(local_path(go_on, ROOT), 303)
        login.begin(welcome, name)
        return welcome

    @app.post("/logout")
    async def log_out(request: Request, fields: Annotated[Forms, Depends(own_form)]) -> Response:
        gone = RedirectResponse(f"{ROOT}/login", 303)
        login.end(request, gone)
        return gone
