"""Refused requests: a page for people, JSON for the page's script."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, JSONResponse, Response

from tasks.annotation.desk.refusals import DeskRefusal, RefusalReason

if TYPE_CHECKING:
    from pathlib import Path

    from tasks.annotation.campaign import Campaign

#: Reasons of the web layer, in addition to the desk's; the pages have texts for each.
NO_SESSION = "no_session"
FORGED = "forged"
TOO_MANY = "too_many"
TOO_LARGE = "too_large"
NOT_FOUND = "not_found"
MEDIA_LINK = "media_link"
MEDIA_GONE = "media_gone"
PREVIEW = "preview"
NO_PLATFORM = "no_platform"
WRONG_HOST = "wrong_host"
AWAY = "away"
BROKEN = "broken"

_STATUS = {
    RefusalReason.UNKNOWN_CAMPAIGN: 404,
    RefusalReason.UNKNOWN_WORKER: 401,
    RefusalReason.BAD_LINK: 403,
    RefusalReason.LINK_USED: 403,
    RefusalReason.NO_CONSENT: 403,
    RefusalReason.EXCLUDED: 403,
    RefusalReason.FULL: 403,
    RefusalReason.CHECK_FIRST: 403,
    RefusalReason.SCREENED_OUT: 403,
    RefusalReason.UNKNOWN_ASSIGNMENT: 404,
    RefusalReason.EXPIRED: 410,
    RefusalReason.BAD_VALUE: 422,
}

#: Where a worker continues, relative to the campaign's address.
_NEXT_PAGE = {
    RefusalReason.NO_CONSENT: "consent",
    RefusalReason.UNKNOWN_WORKER: "enter",
    RefusalReason.CHECK_FIRST: "question",
    RefusalReason.SCREENED_OUT: "done",
    RefusalReason.FULL: "done",
    RefusalReason.DONE: "done",
    RefusalReason.LIMIT: "done",
    RefusalReason.NO_TASKS: "task",
    RefusalReason.NOTHING_DONE: "task",
    RefusalReason.UNKNOWN_ASSIGNMENT: "task",
    RefusalReason.EXPIRED: "task",
    RefusalReason.OTHER_ANSWER: "task",
    RefusalReason.NO_PREFERENCE: "task",
}


class Problem(Exception):
    """A request refused with a reason.

    Parameters
    ----------
    status
        The HTTP status.
    reason
        A reason of this module or of the desk.
    message
        What is wrong and what to do, in English, for programs; people see the page's text for the reason.
    next_page
        Where the worker continues, or None.
    retry_s
        Seconds after which a retry may work.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        next_page: str | None = None,
        retry_s: float | None = None,
    ) -> None:
        super().__init__(reason, message)
        self.status = status
        self.reason = reason
        self.message = message
        self.next_page = next_page
        self.retry_s = retry_s


def of_desk(refused: DeskRefusal, campaign: str) -> Problem:
    """Translate a refusal of the desk to HTTP."""
    below = _NEXT_PAGE.get(refused.reason)
    return Problem(
        _STATUS.get(refused.reason, 409),
        refused.reason.value,
        refused.message,
        None if below is None else f"/c/{campaign}/{below}",
    )


def no_session(campaign: str) -> Problem:
    """Return the problem for a request without a session."""
    return Problem(
        401,
        NO_SESSION,
        "your session has ended, or cookies are off: open the link that you were given again",
        f"/c/{campaign}/enter",
    )


def wants_page(connection: HTTPConnection) -> bool:
    """Return whether a person reads the response: browsers ask for HTML when they open a page."""
    return "text/html" in connection.headers.get("accept", "")


def answer(
    connection: HTTPConnection,
    problem: Problem,
    *,
    language: str = "en",
    campaign: Campaign | None = None,
    csrf: str = "",
    texts: Path | None = None,
    owed: Mapping[str, Any] | None = None,
) -> Response:
    """Return a problem as a page or as ``{"reason", "message", "next_page"}``; `owed` as of `Site.earned`."""
    headers = {} if problem.retry_s is None else {"Retry-After": str(max(1, math.ceil(problem.retry_s)))}
    if wants_page(connection):
        from slvmeval.web.annotation.pages.render import render

        page = render(
            "refused",
            language,
            folder=texts,
            campaign=campaign,
            csrf=csrf,
            reason=problem.reason,
            message=problem.message,
            next_page=problem.next_page,
            **(owed or {}),
        )
        return HTMLResponse(page, problem.status, headers)
    body = {"reason": problem.reason, "message": problem.message, "next_page": problem.next_page}
    return JSONResponse(body, problem.status, headers)
