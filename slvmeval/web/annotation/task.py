"""A worker's task: the page, and the requests of its script. The desk decides what is allowed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from slvmeval.web.annotation.sessions import BrowserSession, MediaLink
from slvmeval.web.annotation.site import Site, site_of
from tasks.annotation.campaign import money
from tasks.annotation.desk.assignment import Assignment
from tasks.annotation.desk.rating_assignment import RatingAssignment
from tasks.annotation.desk.refusals import DeskRefusal, RefusalReason
from tasks.annotation.pair_task import MAX_COMMENT_LENGTH, Place

router = APIRouter(prefix="/c/{campaign}/task")

Seconds = Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Played(_Body):
    """Playback report of one video: the seconds played, and the speed."""

    place: Place
    # JSON has lists only
    intervals: Annotated[
        list[Annotated[list[Seconds], Field(min_length=2, max_length=2)]], Field(max_length=500)
    ]
    speed: Annotated[float, Field(gt=0, le=16, allow_inf_nan=False)]


class Preferred(_Body):
    """The preference."""

    place: Place


class Confirmed(_Body):
    """A watched segment."""

    number: Annotated[int, Field(ge=0, le=100_000)]


class Rated(_Body):
    """The last answer of a task: the rating of the damage, or a video's level."""

    rating: Literal["A", "B", "C"] | Annotated[int, Field(ge=0, le=1000)]
    comment: Annotated[str, Field(max_length=MAX_COMMENT_LENGTH)] = ""


@router.get("")
def task_page(request: Request, campaign: str) -> Response:
    """Show the worker's open task, or the next."""
    site = site_of(request)
    session = site.session(request, campaign)
    try:
        assignment = site.desk.queue.next(campaign, session.worker)
    except DeskRefusal as refused:
        target = _instead(site, session, refused.reason)
        if target is None:
            raise
        return RedirectResponse(target, 303)
    settings = site.campaign(campaign)
    watch_s = assignment.task.watch_s(settings.look_first)
    pay = money(settings.pay_for(watch_s), settings.currency) if settings.pay_per_hour else ""
    data = {"view": assignment.view(), "urls": urls(site, assignment), "pay": pay}
    if isinstance(assignment, RatingAssignment):
        guide = settings.guide(assignment.task.dimension, session.language)
        return site.page(request, "rating", session, guide=guide, **data)
    return site.page(request, "task", session, **data)


def _instead(site: Site, session: BrowserSession, reason: RefusalReason) -> str | None:
    """Return the next page of a worker without a task: the code, if payment is due."""
    if reason is RefusalReason.NO_CONSENT:
        return f"/c/{session.campaign}/consent"
    if reason is RefusalReason.CHECK_FIRST:
        return f"/c/{session.campaign}/question"
    ended = reason in (
        RefusalReason.DONE,
        RefusalReason.LIMIT,
        RefusalReason.NO_TASKS,
        RefusalReason.SCREENED_OUT,
    )
    return f"/c/{session.campaign}/done" if ended and site.earned(session)["owed"] else None


def urls(site: Site, assignment: Assignment) -> dict[str, str]:
    """Return the addresses used by a task's page."""
    own = f"/c/{assignment.campaign}/task"
    named = {name: f"{own}/{assignment.id}/{name}" for name in assignment.steps}
    if assignment.training:
        named |= {"rate": f"{own}/{assignment.id}/train", "trained": f"{own}/{assignment.id}/trained"}
    return {"task": own, **named, **{place: media_url(site, assignment, place) for place in assignment.seen}}


def media_url(site: Site, assignment: Assignment, place: Place) -> str:
    """Return the address of a video, constant for an assignment so that browsers can cache it."""
    signed = site.links.sign(MediaLink(assignment.worker, assignment.id, place))
    return f"/c/{assignment.campaign}/media/{signed}"


def news(assignment: Assignment) -> dict[str, Any]:
    """Return the view without the prompt, which the page already has and which may be very long."""
    return {name: value for name, value in assignment.view().items() if name != "prompt"}


@router.post("/{assignment}/play")
def play(request: Request, campaign: str, assignment: str, body: Played) -> dict[str, Any]:
    """Store a playback report."""
    site = site_of(request)
    worker = site.own(request, campaign).worker
    played = [(first, last) for first, last in body.intervals]
    return news(site.desk.viewing.play(campaign, worker, assignment, body.place, played, body.speed))


@router.post("/{assignment}/prefer")
def prefer(request: Request, campaign: str, assignment: str, body: Preferred) -> dict[str, Any]:
    """Store the preference; the response reveals what was changed."""
    site = site_of(request)
    worker = site.own(request, campaign).worker
    return news(site.desk.answers.prefer(campaign, worker, assignment, body.place))


@router.post("/{assignment}/confirm")
def confirm(request: Request, campaign: str, assignment: str, body: Confirmed) -> dict[str, Any]:
    """Store that a segment was watched."""
    site = site_of(request)
    worker = site.own(request, campaign).worker
    return news(site.desk.answers.confirm(campaign, worker, assignment, body.number))


@router.post("/{assignment}/rate")
def rate(request: Request, campaign: str, assignment: str, body: Rated) -> dict[str, Any]:
    """Store the last answer of a task. The response is sent only once it is on disk."""
    site = site_of(request)
    worker = site.own(request, campaign).worker
    answer = site.desk.answers.rate(campaign, worker, assignment, body.rating, body.comment)
    return {"next": f"/c/{campaign}/task", "vote": answer.vote_id}


@router.post("/{assignment}/train")
def train(request: Request, campaign: str, assignment: str, body: Rated) -> dict[str, Any]:
    """Store the answer to a training task, which is not a vote; the page then explains it."""
    site = site_of(request)
    worker = site.own(request, campaign).worker
    site.desk.answers.train(campaign, worker, assignment, body.rating)
    return {"next": f"/c/{campaign}/task"}


@router.post("/{assignment}/trained")
def trained(
    request: Request,
    campaign: str,
    assignment: str,
    csrf: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """End a training task whose explanation was read, and show the next task."""
    site = site_of(request)
    session = site.own(request, campaign, csrf)
    try:
        site.desk.answers.finish_training(campaign, session.worker, assignment)
    except DeskRefusal as refused:
        # ended in another tab
        if refused.reason is not RefusalReason.UNKNOWN_ASSIGNMENT:
            raise
    return RedirectResponse(f"/c/{campaign}/task", 303)
