"""Workers: the list, the review page with its decision, and taking a worker's data out."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, FastAPI, Request
from starlette.responses import RedirectResponse, Response

from slvmeval.annotation.organiser.guard import Forms, own_form, session_of
from slvmeval.annotation.organiser.pages import ROOT, page, short
from slvmeval.annotation.organiser.views import Views
from storage_schemas.vote import Standing
from tasks.annotation.campaign import Campaign

MOST_NOTE = 2000
SHOWN = ("listed", "flagged", "excluded", "cleared")
OwnForm = Annotated[Forms, Depends(own_form)]


def add_worker_pages(app: FastAPI) -> None:
    """Add the pages about workers."""
    views: Views = app.state.views

    @app.get("/c/{name}/workers")
    def workers(request: Request, name: str, show: str = "", first: int = 0) -> Response:
        campaign = views.campaign(name)
        data = views.workers(campaign, show if show in SHOWN else "", first)
        return page(request, "workers", f"Workers of {name}", campaign=campaign, here="Workers", **data)

    @app.get("/c/{name}/workers/{worker}")
    def review(request: Request, name: str, worker: str, order: str = "", said: str = "") -> Response:
        return _review(request, views, views.campaign(name), worker, order=order, said=said)

    @app.post("/c/{name}/workers/{worker}/decide")
    def decide(request: Request, name: str, worker: str, fields: OwnForm) -> Response:
        campaign = views.campaign(name)
        # also says that the campaign knows the worker
        views.worker(campaign, worker)
        note, standing = fields.get("note", "").strip(), fields.get("standing", "")
        problem = ""
        if standing not in (Standing.EXCLUDED, Standing.CLEARED):
            problem = "Choose whether to exclude or to clear the worker."
        elif not note:
            problem = "Write a note: it says later, also to the worker, why this was decided."
        elif len(note) > MOST_NOTE:
            problem = f"The note has {len(note)} letters; at most {MOST_NOTE} are kept."
        if problem:
            return _review(
                request, views, campaign, worker, problem=problem, note=note, standing=standing, status=422
            )
        views.decide(campaign, worker, Standing(standing), note, session_of(request).name)
        return RedirectResponse(f"{ROOT}/c/{name}/workers/{worker}?said={standing}", 303)

    @app.get("/c/{name}/workers/{worker}/erase")
    def ask_to_erase(request: Request, name: str, worker: str) -> Response:
        return _ask_to_erase(request, views, views.campaign(name), worker)

    @app.post("/c/{name}/workers/{worker}/erase")
    def erase(request: Request, name: str, worker: str, fields: OwnForm) -> Response:
        campaign = views.campaign(name)
        if fields.get("typed", "").strip() != short(worker):
            problem = f"To erase, type {short(worker)}; nothing was taken out."
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
    said: str = "",
    problem: str = "",
    note: str = "",
    standing: str = "",
    status: int = 200,
) -> Response:
    return page(
        request,
        "worker",
        f"Worker {short(worker)}",
        campaign=campaign,
        here="Workers",
        status=status,
        view=views.worker(campaign, worker, order),
        said=said,
        problem=problem,
        note=note,
        standing=standing,
        most_note=MOST_NOTE,
    )


def _ask_to_erase(
    request: Request, views: Views, campaign: Campaign, worker: str, *, problem: str = "", status: int = 200
) -> Response:
    view = views.worker(campaign, worker)
    title = f"Erase worker {short(worker)}"
    return page(
        request, "erase", title, campaign=campaign, here="Workers", view=view, problem=problem, status=status
    )
