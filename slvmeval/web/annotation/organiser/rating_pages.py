"""Pages on which a second person watches a rated video, and confirms its ratings or sends them back.

Checkers, who have a separate secret, see only these.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from fastapi import FastAPI, Request
from itsdangerous import BadData, URLSafeSerializer
from starlette.responses import RedirectResponse, Response

from slvmeval.web.annotation.organiser.login import OwnForm, session_of
from slvmeval.web.annotation.organiser.pages import ROOT, page, send_video
from slvmeval.web.annotation.organiser.rating_state import to_check
from slvmeval.web.annotation.organiser.views import Views, paged
from storage_schemas.errors import UserInputError
from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.ratings import MAX_CHECK_NOTE_LENGTH, Verdict
from tasks.annotation.installation import derived_key

#: Share of a video that must be played before its ratings are shown; the same as in check.js.
MIN_SEEN = 0.9
#: Maximum playback speed of browsers' players.
MAX_SPEED = 2.0
SHOWN = ("open", "done", "all")


def add_rating_pages(app: FastAPI, media: Path | None, key: bytes, clock: Callable[[], datetime]) -> None:
    """Add the pages.

    Parameters
    ----------
    media
        Folder of the videos; None if the server has none.
    key
        Key of the installation.
    clock
        Gives the time, UTC.
    """
    views: Views = app.state.views
    signer = URLSafeSerializer(derived_key(key, "rating checks"), salt="seen")

    def signed(request: Request, what: str, task: str, *more: float) -> str:
        return str(signer.dumps([what, session_of(request).csrf, task, *more]))

    def read(request: Request, what: str, task: str, token: str) -> list[float] | None:
        """Return the content of a token of this session and task; None if it is not valid."""
        try:
            kind, owner, of_task, *more = signer.loads(token)
        except (BadData, TypeError, ValueError):
            return None
        return more if (kind, owner, of_task) == (what, session_of(request).csrf, task) else None

    def check_view(
        request: Request, campaign: Campaign, task: str, status: int = 200, **data: str
    ) -> Response:
        rated = views.rated(campaign, task)
        return page(
            request,
            "check",
            "Check",
            campaign=campaign,
            here="Checks",
            status=status,
            rated=rated,
            guide=campaign.guide(rated.task.dimension, campaign.languages[0]),
            started=signed(request, "started", task, clock().timestamp()),
            longest_note=MAX_CHECK_NOTE_LENGTH,
            **{"done": "", "problem": "", "note": "", "seen": "", **data},
        )

    def of_ratings(name: str) -> Campaign:
        campaign = views.campaign(name)
        if campaign.kind != "ratings":
            raise UserInputError(f"campaign {name} compares pairs: it has no ratings to check")
        return campaign

    @app.get("/c/{name}/checks")
    def checks(request: Request, name: str, show: str = "open", first: int = 0) -> Response:
        campaign = of_ratings(name)
        rated = views.rated_tasks(campaign)
        show = show if show in SHOWN else "open"
        return page(
            request,
            "checks",
            f"Checks of {name}",
            campaign=campaign,
            here="Checks",
            counts={kind: len(to_check(rated, kind)) for kind in SHOWN},
            show=show,
            **paged(to_check(rated, show), first),
        )

    @app.get("/c/{name}/checks/{task}")
    def check_page(request: Request, name: str, task: str, done: str = "", seen: str = "") -> Response:
        valid = read(request, "seen", task, seen) is not None
        return check_view(request, of_ratings(name), task, done=done, seen=seen if valid else "")

    @app.post("/c/{name}/checks/{task}/seen")
    def seen_page(request: Request, name: str, task: str, fields: OwnForm) -> Response:
        campaign = of_ratings(name)
        started = read(request, "started", task, fields.get("started", ""))
        least = MIN_SEEN * views.rated(campaign, task).task.seconds / MAX_SPEED
        if not started or clock().timestamp() - started[0] < least:
            return check_view(
                request, campaign, task, problem="Play the video to its end, then try again.", status=422
            )
        return RedirectResponse(f"{ROOT}/c/{name}/checks/{task}?seen={signed(request, 'seen', task)}", 303)

    @app.post("/c/{name}/checks/{task}")
    def check(request: Request, name: str, task: str, fields: OwnForm) -> Response:
        campaign = of_ratings(name)
        verdict = fields.get("verdict", "")
        # each rating as it was shown: "ID LEVEL"
        seen = [one.partition(" ") for one in fields.get("ratings", "").split(",") if one]
        note, shown = fields.get("note", ""), fields.get("seen", "")
        if read(request, "seen", task, shown) is None:
            return check_view(
                request, campaign, task, problem="Play the video first: nothing was recorded.", status=422
            )
        try:
            known = {one.given.vote_id for one in views.rated(campaign, task).ratings}
            if verdict not in list(Verdict) or not seen or any(not level.isdecimal() for _, _, level in seen):
                raise UserInputError("choose what to do with a rating on this page")
            if not {rating for rating, _, _ in seen} <= known:
                raise UserInputError("this rating has changed in the meantime: look again")
            views.check(
                campaign,
                [(rating, int(level)) for rating, _, level in seen],
                Verdict(verdict),
                note,
                session_of(request).name,
            )
        except UserInputError as problem:
            return check_view(
                request, campaign, task, problem=str(problem), note=note, seen=shown, status=422
            )
        here = f"{ROOT}/c/{name}/checks"
        if views.rated(campaign, task).unchecked:
            return RedirectResponse(f"{here}/{task}?done={verdict}&seen={shown}", 303)
        waiting = to_check(views.rated_tasks(campaign), "open")
        following = f"/{waiting[0].task.id}?done={verdict}" if waiting else ""
        return RedirectResponse(f"{here}{following}", 303)

    @app.get("/c/{name}/videos/{task}")
    def video(name: str, task: str) -> Response:
        shown = views.rated(of_ratings(name), task).task
        return send_video(media, shown.file, "publish-ratings")
