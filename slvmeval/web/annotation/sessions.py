"""Who a request is from: a signed cookie for each campaign, and a token against forged requests.

Which language a browser wants.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import asdict, dataclass, replace

from itsdangerous import BadData, URLSafeSerializer, URLSafeTimedSerializer
from starlette.requests import HTTPConnection
from starlette.responses import Response

from tasks.annotation.campaign import Campaign
from tasks.annotation.installation import derived_key

COOKIE = "slvmeval_worker"
CSRF_HEADER = "X-CSRF"

#: A browser forgets the cookie when it is closed; one that was copied is worth nothing after so long.
MOST_AGE_S = 14 * 24 * 3600


@dataclass(frozen=True)
class BrowserSession:
    """A worker who has entered a campaign; `csrf` is known to the worker's pages only."""

    campaign: str
    worker: str
    language: str
    csrf: str

    def owns(self, token: str) -> bool:
        """Return whether a request that carries this token comes from the worker's own pages."""
        return hmac.compare_digest(self.csrf.encode(), token.encode())


class Sessions:
    """Reads and writes the cookies.

    Parameters
    ----------
    key
        The installation's key.
    secure
        Whether browsers send the cookies by https only.
    """

    def __init__(self, key: bytes, secure: bool) -> None:
        self._signer = URLSafeTimedSerializer(derived_key(key, "session"), salt="worker")
        self._secure = secure

    def start(self, response: Response, campaign: str, worker: str, language: str) -> BrowserSession:
        """Make a session and put its cookie into an answer."""
        session = BrowserSession(campaign, worker, language, secrets.token_urlsafe(18))
        self.keep(response, session)
        return session

    def keep(self, response: Response, session: BrowserSession, **changes: str) -> None:
        """Put the cookie of a session, with other values if there are any, into an answer."""
        value = self._signer.dumps(asdict(replace(session, **changes)))
        path = f"/c/{session.campaign}"
        response.set_cookie(COOKIE, value, path=path, secure=self._secure, httponly=True, samesite="lax")

    def of(self, connection: HTTPConnection, campaign: str) -> BrowserSession | None:
        """Return the session of a request; None where there is none, or it was changed or is too old."""
        try:
            said = self._signer.loads(connection.cookies.get(COOKIE, ""), max_age=MOST_AGE_S)
            session = BrowserSession(**said)
        except (BadData, TypeError):
            return None
        return session if session.campaign == campaign else None


@dataclass(frozen=True)
class MediaLink:
    """What a link to a video says: whose assignment it belongs to, and the place, never the side."""

    worker: str
    assignment: str
    place: str


class MediaLinks:
    """Signs and reads links to videos; the same video of the same assignment always has the same link.

    Parameters
    ----------
    key
        The installation's key.
    """

    def __init__(self, key: bytes) -> None:
        self._secret = derived_key(key, "media links")
        self._signer = URLSafeSerializer(self._secret, salt="media")

    def sign(self, link: MediaLink) -> str:
        """Return the last part of the link's address."""
        said = self._signer.dumps([link.worker, link.assignment, link.place])
        return said if isinstance(said, str) else said.decode("ascii")

    def read(self, signed: str) -> MediaLink | None:
        """Return what a link says; None where it is not ours, or was changed."""
        try:
            worker, assignment, place = self._signer.loads(signed)
            return MediaLink(worker, assignment, place)
        except (BadData, TypeError, ValueError):
            return None

    def etag(self, link: MediaLink, size: int, changed_ns: int) -> str:
        """Return the tag of a video's content as this link shows it: nothing can be read from it.

        It differs from link to link, so that the same file behind two links cannot be told.
        """
        said = f"{link.worker}\n{link.assignment}\n{link.place}\n{size}\n{changed_ns}"
        return f'"{hmac.new(self._secret, said.encode(), "sha256").hexdigest()[:32]}"'


def language_for(connection: HTTPConnection, campaign: Campaign | None) -> str:
    """Return the campaign's language that the browser likes best; its first where it names none."""
    offered: tuple[str, ...] = ("en", "ja") if campaign is None else campaign.languages
    liked: list[tuple[float, int, str]] = []
    for place, part in enumerate(connection.headers.get("accept-language", "").split(",")[:20]):
        name, _, weight = part.strip().partition(";q=")
        try:
            worth = float(weight or 1)
        except ValueError:
            continue
        liked.append((-worth, place, name.split("-")[0].lower()))
    return next((name for worth, _, name in sorted(liked) if name in offered and worth < 0), offered[0])
