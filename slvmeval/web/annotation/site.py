"""State shared by all parts of the application, and the identification of a request's worker."""

from __future__ import annotations

import gzip
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, Response

from slvmeval.web.annotation import problems
from slvmeval.web.annotation.pages.render import PageName, render
from slvmeval.web.annotation.problems import Problem
from slvmeval.web.annotation.prolific import ProlificTokens
from slvmeval.web.annotation.security import Limiter, forged, too_many
from slvmeval.web.annotation.serve import Serving
from slvmeval.web.annotation.sessions import CSRF_HEADER, BrowserSession, MediaLinks, Sessions
from storage_schemas.errors import UserInputError
from tasks.annotation.campaign import Campaign, money
from tasks.annotation.desk.refusals import DeskRefusal, RefusalReason

if TYPE_CHECKING:
    from tasks.annotation.desk.desk import Desk


#: Seconds for which a campaign's settings are cached.
_SETTINGS_S = 2.0


@dataclass(frozen=True)
class Site:
    """One application: its settings, its desk, its signers, rate limiter and a platform's keys."""

    serving: Serving
    desk: Desk
    sessions: Sessions
    links: MediaLinks
    limiter: Limiter
    prolific: ProlificTokens
    _known: dict[str, tuple[float, Campaign]] = field(default_factory=dict)

    def campaign(self, name: str) -> Campaign:
        """Return an open campaign; other names are treated as unknown.

        Newly published settings take effect after at most `_SETTINGS_S`.
        """
        read_at, cached = self._known.get(name, (0.0, None))
        now = time.monotonic()
        if cached is not None and now - read_at < _SETTINGS_S:
            return cached
        try:
            if name in self.serving.campaigns:
                opened = self.desk.campaigns.get(name)
                self._known[name] = (now, opened)
                return opened
        except UserInputError:
            # it existed when the server started, but has been removed since
            pass
        raise problems.of_desk(
            DeskRefusal(
                RefusalReason.UNKNOWN_CAMPAIGN,
                "this study is not open here: check the link, or ask the person who gave it to you",
            ),
            name,
        )

    def session(self, connection: HTTPConnection, campaign: str) -> BrowserSession:
        """Return the worker of a request, and count the request."""
        self.campaign(campaign)
        session = self.sessions.of(connection, campaign)
        if session is None:
            raise problems.no_session(campaign)
        wait_s = self.limiter.wait_s("worker", session.worker, self.serving.worker_a_minute)
        if wait_s:
            raise too_many(wait_s)
        return session

    def own(self, connection: HTTPConnection, campaign: str, token: str | None = None) -> BrowserSession:
        """Return the worker of a request that comes from the worker's own pages.

        `token` is a form's hidden field; without it the header counts.
        """
        session = self.session(connection, campaign)
        sent = connection.headers.get(CSRF_HEADER, "") if token is None else token
        if not session.owns(sent):
            raise forged()
        return session

    def earned(self, session: BrowserSession) -> dict[str, Any]:
        """Return the tasks answered, other payments, their sum in words, and whether anything is owed."""
        done = self.desk.workers.done(session.campaign, session.worker)
        settings = self.campaign(session.campaign)
        paid = settings.pay_per_task or settings.pay_per_hour
        return {
            "answered": done.tasks,
            "extras": done.extras,
            "sum": money(done.pay, settings.currency) if paid else "",
            "owed": bool(done.tasks or done.extras),
        }

    def page(
        self, connection: HTTPConnection, name: PageName, session: BrowserSession, **data: Any
    ) -> Response:
        """Return a page of a worker's session, compressed if the browser accepts it: prompts are long.

        The compressed length leaks nothing, because no page echoes parts of a request.
        """
        text = render(
            name,
            session.language,
            folder=self.serving.texts_folder,
            campaign=self.campaign(session.campaign),
            csrf=session.csrf,
            **self.earned(session),
            **data,
        )
        if "gzip" not in connection.headers.get("accept-encoding", "").lower():
            return HTMLResponse(text)
        headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
        return HTMLResponse(gzip.compress(text.encode(), 5, mtime=0), headers=headers)


def site_of(connection: HTTPConnection) -> Site:
    """Return the site of a request."""
    site = connection.app.state.site
    if not isinstance(site, Site):
        raise TypeError(f"the application has no site: {site!r}")
    return site


def not_found() -> Problem:
    """Return the problem for an unknown address."""
    return Problem(404, problems.NOT_FOUND, "there is no such page: open the link that you were given")
