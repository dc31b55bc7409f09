"""A worker's task: the page, and what its script sends. What may be is the desk's to say."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from slvmeval.web.annotation.entry import answered
from slvmeval.web.annotation.sessions import BrowserSession, MediaLink
from slvmeval.web.annotation.site import Site, site_of
from tasks.annotation.desk.assignments import Assignment
from tasks.annotation.desk.refusals import DeskRefusal, RefusalReason
from tasks.annotation.pair_task import LONGEST_COMMENT, PLACES, Place

router = APIRouter(prefix="/c/{campaign}/task")

Seconds = Annotated[float, Field(ge=0, le=1e7, allow_inf_nan=False)]


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Played(_Said):
    """What the page played at a place: seconds of that video, and how fast."""

    place: Place
    # JSON has lists only
    intervals: Annotated[
        list[Annotated[list[Seconds], Field(min_length=2, max_length=2)]], Field(max_length=500)
    ]
    speed: Annotated[float, Field(gt=0, le=16, allow_inf_nan=False)]


class Preferred(_Said):
    """Which video is better."""

    place: Place


class Confirmed(_Said):
    """Which stretch was seen."""

    number: Annotated[int, Field(ge=0, le=100_000)]


class Rated(_Said):
    """How visible the damage is."""

    rating: Literal["A", "B", "C"]
    comment: Annotated[str, Field(max_length=LONGEST_COMMENT)] = ""


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
    return site.page(request, "task", session, view=assignment.view(), urls=urls(site, assignment))


def _instead(site: Site, session: BrowserSession, reason: RefusalReason) -> str | None:
    """Return where a worker without a task goes: there is a code for whoever has answered something."""
    if reason is RefusalReason.NO_CONSENT:
        return f"/c/{session.campaign}/consent"
    ended = reason in (RefusalReason.DONE, RefusalReason.LIMIT, RefusalReason.NO_TASKS)
    return f"/c/{session.campaign}/done" if ended and answered(site, session) else None


def urls(site: Site, assignment: Assignment) -> dict[str, str]:
    """Return the addresses that a task's page uses."""
    own = f"/c/{assignment.campaign}/task"
    named = {name: f"{own}/{assignment.id}/{name}" for name in ("play", "prefer", "confirm", "rate")}
    return {"task": own, **named, **{place: media_url(site, assignment, place) for place in PLACES}}


def media_url(site: Site, assignment: Assignment, place: Place) -> str:
    """Return the address of a video; the same for the same assignment, so that a browser may keep it."""
    signed = site.links.sign(MediaLink(assignment.worker, assignment.id, place))
    return f"/c/{assignment.campaign}/media/{signed}"


def news(assignment: Assignment) -> dict[str, Any]:
    """Return the view without the prompt, which the page has, and which can be longer than all the rest."""
    return {name: value for name, value in assignment.view().items() if name != "prompt"}


@router.post("/{assignment}/play")
def play(request: Request, campaign: str, assignment: str, said: Played) -> dict[str, Any]:
    """Take the report of what was played."""
    site = site_of(request)
    worker = site.own(request, campaign).worker
    played = [(first, last) for first, last in said.intervals]
    return news(site.desk.viewing.play(campaign, worker, assignment, said.place, played, said.speed))


@router.post("/{assignment}/prefer")
def prefer(request: Request, campaign: str, assignment: str, said: Preferred) -> dict[str, Any]:
    """Take which video is better; what was done to which is in the answer."""
    site = site_of(request)
    worker = site.own(request, campaign).worker
    return news(site.desk.answers.prefer(campaign, worker, assignment, said.place))


@router.post("/{assignment}/confirm")
def confirm(request: Request, campaign: str, assignment: str, said: Confirmed) -> dict[str, Any]:
    """Take that a stretch was seen."""
    site = site_of(request)
    worker = site.own(request, campaign).worker
    return news(site.desk.answers.confirm(campaign, worker, assignment, said.number))


@router.post("/{assignment}/rate")
def rate(request: Request, campaign: str, assignment: str, said: Rated) -> dict[str, Any]:
    """Take the rating. It is answered when the vote is on the disk, and not before."""
    site = site_of(request)
    worker = site.own(request, campaign).worker
    vote = site.desk.answers.rate(campaign, worker, assignment, said.rating, said.comment)
    return {"next": f"/c/{campaign}/task", "vote": vote.vote_id}
