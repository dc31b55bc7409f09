"""Workers' sessions: a signed cookie for each campaign, a token against forged requests, signed video links,
and the browser's language.
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

#: The browser drops the cookie when it is closed; a copied cookie expires after this time.
MAX_AGE_S = 14 * 24 * 3600


@dataclass(frozen=True)
class BrowserSession:
    """A worker in a campaign; only the worker's pages contain `csrf`."""

    campaign: str
    worker: str
    language: str
    csrf: str

    def owns(self, token: str) -> bool:
        """Return whether a request with this token comes from the worker's own pages."""
        return hmac.compare_digest(self.csrf.encode(), token.encode())


class Sessions:
    """Reads and writes the cookies.

    Parameters
    ----------
    key
        The installation's key.
    secure
        Whether browsers send the cookies over https only.
    """

    def __init__(self, key: bytes, secure: bool) -> None:
        self._signer = URLSafeTimedSerializer(derived_key(key, "session"), salt="worker")
        self._secure = secure

    def start(self, response: Response, campaign: str, worker: str, language: str) -> BrowserSession:
        """Create a session and set its cookie."""
        session = BrowserSession(campaign, worker, language, secrets.token_urlsafe(18))
        self.keep(response, session)
        return session

    def keep(self, response: Response, session: BrowserSession, **changes: str) -> None:
        """Set the cookie of a session, optionally with changed values."""
        value = self._signer.dumps(asdict(replace(session, **changes)))
        path = f"/c/{session.campaign}"
        response.set_cookie(COOKIE, value, path=path, secure=self._secure, httponly=True, samesite="lax")

    def of(self, connection: HTTPConnection, campaign: str) -> BrowserSession | None:
        """Return the session of a request; None if it is missing, altered or too old."""
        try:
            values = self._signer.loads(connection.cookies.get(COOKIE, ""), max_age=MAX_AGE_S)
            session = BrowserSession(**values)
        except (BadData, TypeError):
            return None
        return session if session.campaign == campaign else None


@dataclass(frozen=True)
class MediaLink:
    """Content of a video link: the assignment and the video's position, never its side."""

    worker: str
    assignment: str
    place: str


class MediaLinks:
    """Signs and reads video links; the same video of the same assignment always has the same link.

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
        signed = self._signer.dumps([link.worker, link.assignment, link.place])
        return signed if isinstance(signed, str) else signed.decode("ascii")

    def read(self, signed: str) -> MediaLink | None:
        """Return a link's content; None if it is forged or altered."""
        try:
            worker, assignment, place = self._signer.loads(signed)
            return MediaLink(worker, assignment, place)
        except (BadData, TypeError, ValueError):
            return None

    def etag(self, link: MediaLink, size: int, changed_ns: int) -> str:
        """Return an opaque ETag of a video for this link.

        It differs from link to link, so that the same file behind two links cannot be recognised.
        """
        content = f"{link.worker}\n{link.assignment}\n{link.place}\n{size}\n{changed_ns}"
        return f'"{hmac.new(self._secret, content.encode(), "sha256").hexdigest()[:32]}"'


def language_for(connection: HTTPConnection, campaign: Campaign | None) -> str:
    """Return the browser's preferred language among the campaign's; the first one by default."""
    offered: tuple[str, ...] = ("en", "ja") if campaign is None else campaign.languages
    preferred: list[tuple[float, int, str]] = []
    for index, part in enumerate(connection.headers.get("accept-language", "").split(",")[:20]):
        name, _, weight = part.strip().partition(";q=")
        try:
            quality = float(weight or 1)
        except ValueError:
            continue
        preferred.append((-quality, index, name.split("-")[0].lower()))
    return next(
        (name for quality, _, name in sorted(preferred) if name in offered and quality < 0), offered[0]
    )
