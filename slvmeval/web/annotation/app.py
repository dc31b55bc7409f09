"""The workers' application: its routes and error responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from anyio.to_thread import run_sync
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from slvmeval.web.annotation import entry, files, problems, task
from slvmeval.web.annotation.files import assets_router
from slvmeval.web.annotation.organiser.app import organiser_app
from slvmeval.web.annotation.organiser.pages import ROOT as ORGANISER
from slvmeval.web.annotation.problems import Problem, answer, of_desk, wants_page
from slvmeval.web.annotation.prolific import ProlificTokens
from slvmeval.web.annotation.security import Limiter, RequestGuard
from slvmeval.web.annotation.serve import Serving, checker_secret, organiser_secret
from slvmeval.web.annotation.sessions import MediaLinks, Sessions, language_for
from slvmeval.web.annotation.site import Site, not_found, site_of
from storage_schemas.errors import UserInputError
from storage_schemas.secrets import strike_out_of_logs
from storage_schemas.store import Store
from storage_schemas.value_problems import value_problem
from tasks.annotation.desk.database import Clock, utc
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.refusals import DeskRefusal, RefusalReason
from tasks.annotation.installation import installation_key

log = logging.getLogger(__name__)

#: Seconds after which clients retry while the database is unavailable.
_AWAY_RETRY_S = 15
#: Seconds to wait for other threads, and for another writing process: people are waiting for the answer.
PATIENCE_S = 4.0
#: Seconds between two estimates of the workers, if there are new votes.
WEIGH_EVERY_S = 60.0


def from_environment() -> FastAPI:
    """Return the application with the settings passed on by the starting process."""
    strike_out_of_logs()
    return create_app(Serving.from_environment())


def create_app(serving: Serving, clock: Clock = utc) -> FastAPI:
    """Return the application; it closes its database on shutdown.

    Parameters
    ----------
    serving
        Its settings.
    clock
        Returns the time, for leases and votes.

    Raises
    ------
    PrerequisiteError, StoreError
        If the database is unavailable, or has another version or key.
    """
    key = installation_key(serving.root)
    desk = Desk.open(serving.database, key, clock, PATIENCE_S)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        weighing = asyncio.create_task(_weigh(desk, serving.campaigns))
        try:
            yield
        finally:
            weighing.cancel()
            desk.close()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False, lifespan=life)
    limiter = Limiter()
    tokens = ProlificTokens(serving.prolific_keys, serving.audience)
    app.state.site = Site(serving, desk, Sessions(key, serving.secure), MediaLinks(key), limiter, tokens)
    for router in (entry.router, task.router, files.router, assets_router()):
        app.include_router(router)
    app.add_api_route("/health", health)
    app.add_api_route(ORGANISER, lambda: RedirectResponse(f"{ORGANISER}/", 303), response_model=None)
    pages = organiser_app(
        desk,
        Store.open(serving.root),
        key,
        organiser_secret(key),
        checker_secret=checker_secret(key),
        media=Path(serving.media),
        campaigns=serving.campaigns,
        secure=serving.secure,
        limiter=limiter,
        clock=clock,
    )
    app.mount(ORGANISER, _apart(pages))
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(DeskRefusal, _on_refused)
    app.add_exception_handler(UserInputError, _on_value)
    app.add_exception_handler(RequestValidationError, _on_unfit)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(SQLAlchemyError, _on_database)
    app.add_middleware(RequestGuard, serving=serving, limiter=limiter)
    return app


async def _weigh(desk: Desk, campaigns: Sequence[str]) -> None:
    """Re-estimate workers at intervals; pairs may then need more or fewer votes than before."""
    while True:
        await asyncio.sleep(WEIGH_EVERY_S)
        for name in campaigns:
            try:
                await run_sync(desk.votes.weigh, name)
            except SQLAlchemyError as problem:
                log.warning(
                    "votes of campaign %s will be weighed later, the database is unavailable: %s",
                    name,
                    problem,
                )


def _apart(pages: ASGIApp) -> ASGIApp:
    """Return a sub-application that keeps its own request state and leaves ours unchanged."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await pages(dict(scope), receive, send)

    return serve


def health(request: Request) -> JSONResponse:
    """Report whether answers can be stored, for monitoring."""
    try:
        site_of(request).desk.database.check_writing()
    except SQLAlchemyError as problem:
        log.warning("nothing can be stored: %s", problem)
        return JSONResponse({"status": "away"}, 503)
    return JSONResponse({"status": "ok"})


def problem_response(request: Request, problem: Problem) -> Response:
    """Return a problem in the worker's language, on the campaign's page if the campaign is known."""
    site = site_of(request)
    name = str(request.path_params.get("campaign", ""))
    campaign = session = None
    owed: dict[str, Any] = {}
    if name in site.serving.campaigns:
        session = site.sessions.of(request, name)
        # the page also works without the campaign's settings
        with suppress(Problem, SQLAlchemyError):
            campaign = site.campaign(name)
            if session is not None and wants_page(request):
                owed = site.earned(session)
    return answer(
        request,
        problem,
        language=language_for(request, campaign) if session is None else session.language,
        campaign=campaign,
        csrf="" if session is None else session.csrf,
        texts=site.serving.texts_folder,
        owed=owed,
    )


def _on_problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    return problem_response(request, problem)


def _on_refused(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, DeskRefusal)
    return problem_response(request, of_desk(problem, str(request.path_params.get("campaign", ""))))


def _on_value(request: Request, problem: Exception) -> Response:
    """Answer a value that the desk rejects, such as an empty identity."""
    return problem_response(request, Problem(422, RefusalReason.BAD_VALUE.value, str(problem)))


def _on_unfit(request: Request, problem: Exception) -> Response:
    """Answer a body that our pages never send."""
    assert isinstance(problem, RequestValidationError)
    first = problem.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return problem_response(
        request, Problem(422, RefusalReason.BAD_VALUE.value, f"{where}: {value_problem(first)}")
    )


def _on_http(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, HTTPException)
    if problem.status_code == 404:
        return problem_response(request, not_found())
    if problem.status_code == 400:
        unread = f"the body cannot be read: {problem.__cause__ or problem.detail}"
        return problem_response(request, Problem(422, RefusalReason.BAD_VALUE.value, unread))
    refusal = Problem(
        problem.status_code, problems.NOT_FOUND, f"this request is not supported: {problem.detail}"
    )
    response = problem_response(request, refusal)
    response.headers.update(problem.headers or {})
    return response


def _on_database(request: Request, problem: Exception) -> Response:
    log.error("the database does not answer: %s", problem)
    message = "the server cannot store answers now: wait a minute and try again; all stored answers are safe"
    return problem_response(request, Problem(503, problems.AWAY, message, retry_s=_AWAY_RETRY_S))
