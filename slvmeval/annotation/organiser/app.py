"""The organiser's pages, an application of its own that is mounted beside the workers' pages."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import tzinfo

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from slvmeval.annotation.limits import Limiter
from slvmeval.annotation.organiser.guard import guarding
from slvmeval.annotation.organiser.login import Login
from slvmeval.annotation.organiser.login_pages import add_login
from slvmeval.annotation.organiser.pages import ASSETS, ROOT, page
from slvmeval.annotation.organiser.views import Views
from slvmeval.annotation.organiser.worker_pages import add_worker_pages
from storage_schemas.errors import UserInputError
from storage_schemas.store import Store
from tasks.annotation.desk import Desk
from tasks.annotation.desk_types import Clock, utc

log = logging.getLogger(__name__)


def organiser_app(
    desk: Desk,
    store: Store,
    key: bytes,
    secret: str,
    *,
    campaigns: Sequence[str] = (),
    secure: bool = False,
    limiter: Limiter | None = None,
    clock: Clock = utc,
    zone: tzinfo | None = None,
) -> FastAPI:
    """Return the organiser's pages; mount them at `ROOT`, behind what every request of the server passes.

    Parameters
    ----------
    store
        Where collected votes lie: erasing a worker takes them out there too.
    secret
        What organisers log in with.
    campaigns
        Campaigns that are shown; all where none are named.
    secure
        Whether the session's cookie is sent by https only.
    limiter
        Counts wrong secrets by address; one of its own by default.
    zone
        Zone of the times that are shown; this machine's by default.
    """
    login = Login(secret, key, ROOT, secure, clock, limiter or Limiter())
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.state.views = Views(desk, store, clock, zone, tuple(campaigns))
    app.middleware("http")(guarding(login, ROOT))
    app.mount("/assets", StaticFiles(directory=ASSETS), name="assets")
    add_login(app, login)
    _add_pages(app)
    add_worker_pages(app)
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
        found = views.campaigns()
        if len(found) == 1:
            return RedirectResponse(f"{ROOT}/c/{found[0].name}", 303)
        return page(request, "campaigns", "Campaigns", campaigns=found)

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
    return page(request, "problem", "There is no such page", problem=str(problem), status=404)


def _refused(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    title = "There is no such page" if problem.status_code == 404 else "This cannot be done"
    return page(request, "problem", title, problem=str(problem.detail), status=problem.status_code)


def _unfit(request: Request, problem: Exception) -> Response:
    said = "The address or the form has a value that no page of ours sends."
    return page(request, "problem", "This cannot be done", problem=said, status=422)


def _away(request: Request, problem: Exception) -> Response:
    log.error("the database does not answer: %s", problem)
    said = "The database does not answer now. Wait a minute and load the page anew; nothing was changed."
    return page(request, "problem", "Not now", problem=said, status=503)


def _broken(request: Request, problem: Exception) -> Response:
    """Answer what nobody foresaw; the traceback goes to the log."""
    said = "Something is wrong on the server; its log says what."
    return page(request, "problem", "This did not work", problem=said, status=500)
