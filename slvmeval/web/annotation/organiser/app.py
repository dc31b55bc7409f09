"""The organiser's pages, a separate application mounted next to the workers' pages.

They cover logging in and out, progress, the list of workers, reviewing and erasing a worker, and the record.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from slvmeval.web.annotation.organiser.login import (
    Forms,
    Login,
    OwnForm,
    clean_name,
    form,
    guarding,
    local_path,
    session_of,
)
from slvmeval.web.annotation.organiser.pages import ASSETS, ROOT, page, send_video, short
from slvmeval.web.annotation.organiser.rating_pages import add_rating_pages
from slvmeval.web.annotation.organiser.views import Views
from slvmeval.web.annotation.security import Limiter
from storage_schemas.errors import UserInputError
from storage_schemas.store import Store
from storage_schemas.votes import SideWord, Standing
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.database import Clock, utc
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.organiser import MAX_NOTE_LENGTH

FILTERS = ("listed", "flagged", "excluded", "cleared")


def add_worker_pages(app: FastAPI, media: Path | None) -> None:
    """Add the pages about workers; `media` is the folder of the pairs' videos, None if there are none."""
    views: Views = app.state.views

    @app.get("/c/{name}/workers")
    def workers(request: Request, name: str, show: str = "", first: int = 0) -> Response:
        campaign = views.campaign(name)
        data = views.workers(campaign, show if show in FILTERS else "", first)
        kind = "raters" if campaign.kind == "ratings" else "workers"
        return page(request, kind, f"Workers of {name}", campaign=campaign, here="Workers", **data)

    @app.get("/c/{name}/workers/{worker}")
    def review(request: Request, name: str, worker: str, order: str = "", recorded: str = "") -> Response:
        return _review(request, views, views.campaign(name), worker, order=order, recorded=recorded)

    @app.get("/c/{name}/pairs/{pair_id}")
    def pair(request: Request, name: str, pair_id: str) -> Response:
        campaign = views.campaign(name)
        task = views.pair(campaign, pair_id)
        return page(request, "pair", f"Pair of {name}", campaign=campaign, here="Workers", pair=task)

    @app.get("/c/{name}/pairs/{pair_id}/{side}")
    def pair_video(name: str, pair_id: str, side: SideWord) -> Response:
        return send_video(media, views.pair(views.campaign(name), pair_id).file_of(side), "publish")

    @app.post("/c/{name}/workers/{worker}/decide")
    def decide(request: Request, name: str, worker: str, fields: OwnForm) -> Response:
        campaign = views.campaign(name)
        # also checks that the worker is in the campaign
        views.worker(campaign, worker)
        note, standing = fields.get("note", "").strip(), fields.get("standing", "")
        problem = ""
        if standing not in (Standing.EXCLUDED, Standing.CLEARED):
            problem = "Choose whether to exclude or to clear the worker."
        elif not note:
            problem = "Write a note that explains the decision; the worker may ask for it."
        elif len(note) > MAX_NOTE_LENGTH:
            problem = f"The note has {len(note)} characters; the maximum is {MAX_NOTE_LENGTH}."
        status = 422
        if not problem:
            try:
                by, after = session_of(request).name, fields.get("after")
                views.decide(campaign, worker, Standing(standing), note, by, after)
            except UserInputError as refused:
                problem, status = f"Nothing was recorded: {refused}.", 409
        if problem:
            return _review(
                request, views, campaign, worker, problem=problem, note=note, standing=standing, status=status
            )
        return RedirectResponse(f"{ROOT}/c/{name}/workers/{worker}?recorded={standing}", 303)

    @app.get("/c/{name}/workers/{worker}/erase")
    def ask_to_erase(request: Request, name: str, worker: str) -> Response:
        return _ask_to_erase(request, views, views.campaign(name), worker)

    @app.post("/c/{name}/workers/{worker}/erase")
    def erase(request: Request, name: str, worker: str, fields: OwnForm) -> Response:
        campaign = views.campaign(name)
        if fields.get("typed", "").strip() != short(worker):
            problem = f"To erase, type {short(worker)}; nothing was erased."
            return _ask_to_erase(request, views, campaign, worker, problem=problem, status=422)
        gone = views.erase(campaign, worker, session_of(request).name)
        return page(request, "erased", "Erased", campaign=campaign, here="Workers", gone=gone)


def _review(
    request: Request,
    views: Views,
    campaign: Campaign,
    worker: str,
    *,
    order: str = "",
    recorded: str = "",
    problem: str = "",
    note: str = "",
    standing: str = "",
    status: int = 200,
) -> Response:
    view = views.worker(campaign, worker, order)
    return page(
        request,
        "rater" if campaign.kind == "ratings" else "worker",
        f"Worker {short(worker)}",
        campaign=campaign,
        here="Workers",
        status=status,
        view=view,
        pairs=views.shown_pairs(campaign, view),
        recorded=recorded,
        problem=problem,
        note=note,
        standing=standing,
        longest_note=MAX_NOTE_LENGTH,
    )


def _ask_to_erase(
    request: Request, views: Views, campaign: Campaign, worker: str, *, problem: str = "", status: int = 200
) -> Response:
    view = views.worker(campaign, worker)
    title = f"Erase worker {short(worker)}"
    return page(
        request, "erase", title, campaign=campaign, here="Workers", view=view, problem=problem, status=status
    )


def add_login(app: FastAPI, login: Login) -> None:
    """Add the pages for logging in and out."""

    def login_form(
        request: Request, next_page: str, name: str = "", problem: str = "", status: int = 200
    ) -> Response:
        target = local_path(next_page, ROOT)
        return page(
            request, "login", "Organiser", status=status, next_page=target, typed_name=name, problem=problem
        )

    @app.get("/login")
    def login_page(request: Request, next_page: str = "") -> Response:
        if request.state.session is not None:
            return RedirectResponse(local_path(next_page, ROOT), 303)
        return login_form(request, next_page)

    @app.post("/login")
    async def log_in(request: Request, fields: Annotated[Forms, Depends(form)]) -> Response:
        # no await here, so that attempts from one address are counted one after the other
        next_page, name = fields.get("next_page", ""), clean_name(fields.get("name", ""))
        wait_s = login.wait_s(request)
        if wait_s:
            problem = f"Too many wrong secrets: try again in {int(wait_s) + 1} seconds."
            answer = login_form(request, next_page, name, problem, 429)
            answer.headers["Retry-After"] = str(int(wait_s) + 1)
            return answer
        role = login.role(request, fields.get("secret", ""))
        if role is None:
            return login_form(request, next_page, name, "This is not the secret.", 403)
        if not name:
            return login_form(
                request, next_page, name, "Enter your name: decisions are recorded with it.", 422
            )
        welcome = RedirectResponse(local_path(next_page, ROOT), 303)
        login.begin(welcome, name, role)
        return welcome

    @app.post("/logout")
    async def log_out(request: Request, fields: OwnForm) -> Response:
        gone = RedirectResponse(f"{ROOT}/login", 303)
        login.end(request, gone)
        return gone


log = logging.getLogger(__name__)


def organiser_app(
    desk: Desk,
    store: Store,
    key: bytes,
    secret: str,
    *,
    campaigns: Sequence[str] = (),
    checker_secret: str = "",
    media: Path | None = None,
    secure: bool = False,
    limiter: Limiter | None = None,
    clock: Clock = utc,
    zone: tzinfo | None = None,
) -> FastAPI:
    """Return the organiser's pages, to be mounted at `ROOT` behind the server's request checks.

    Parameters
    ----------
    store
        The store with collected votes: erasing a worker removes them there too.
    secret
        The organisers' password.
    campaigns
        Campaigns to show; all by default.
    checker_secret
        The password of checkers, who only check ratings; empty for none.
    media
        Folder of the videos; None if there are none.
    secure
        Whether the session's cookie is sent only over https.
    limiter
        Counts wrong secrets by address; a new one by default.
    zone
        Time zone of the pages; this machine's by default.
    """
    login = Login(secret, key, ROOT, secure, clock, limiter or Limiter(), checker_secret)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.views = Views(desk, store, clock, zone, tuple(campaigns))
    app.middleware("http")(guarding(login, ROOT))
    app.mount("/assets", StaticFiles(directory=ASSETS), name="assets")
    add_login(app, login)
    _add_pages(app)
    add_worker_pages(app, media)
    add_rating_pages(app, media, key, clock)
    app.add_exception_handler(UserInputError, _wrong)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _unfit)
    app.add_exception_handler(SQLAlchemyError, _away)
    app.add_exception_handler(Exception, _broken)
    return app


def _add_pages(app: FastAPI) -> None:
    views: Views = app.state.views

    @app.get("/")
    def campaigns(request: Request) -> Response:
        checks = session_of(request).role == "checker"
        listed = [one for one in views.campaigns() if not checks or one.kind == "ratings"]
        if len(listed) == 1:
            return RedirectResponse(f"{ROOT}/c/{listed[0].name}{'/checks' if checks else ''}", 303)
        return page(request, "campaigns", "Campaigns", campaigns=listed)

    @app.get("/c/{name}")
    def dashboard(request: Request, name: str) -> Response:
        campaign = views.campaign(name)
        data = views.progress(campaign)
        return page(request, "dashboard", f"Progress of {name}", campaign=campaign, here="Progress", **data)

    @app.get("/c/{name}/record")
    def record(request: Request, name: str) -> Response:
        campaign = views.campaign(name)
        data = views.record(campaign)
        return page(request, "record", f"Record of {name}", campaign=campaign, here="Record", **data)


def _wrong(request: Request, problem: Exception) -> Response:
    return page(request, "problem", "Page not found", problem=str(problem), status=404)


def _refused(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    title = "Page not found" if problem.status_code == 404 else "Request not accepted"
    return page(request, "problem", title, problem=str(problem.detail), status=problem.status_code)


def _unfit(request: Request, problem: Exception) -> Response:
    message = "The address or the form has a value that our pages never send."
    return page(request, "problem", "Request not accepted", problem=message, status=422)


def _away(request: Request, problem: Exception) -> Response:
    log.error("the database does not answer: %s", problem)
    message = "The database does not answer. Wait a minute and reload the page; nothing was changed."
    return page(request, "problem", "Temporarily unavailable", problem=message, status=503)


def _broken(request: Request, problem: Exception) -> Response:
    """Answer an unexpected error; the traceback goes to the log."""
    message = "An error occurred on the server; see its log."
    return page(request, "problem", "Something went wrong", problem=message, status=500)
