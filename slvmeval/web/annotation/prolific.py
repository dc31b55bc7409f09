"""The token that Prolific signs for each participant of a study with a secured link.

Prolific sends it as the parameter `PARAMETER` and signs it with RS256; its public keys are at `KEYS`
(https://docs.prolific.com/api-reference/well-known-endpoints/get-study-jwks).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from slvmeval.web.annotation.problems import Problem
from tasks.annotation.desk.refusals import RefusalReason

log = logging.getLogger(__name__)

KEYS = "https://api.prolific.com/.well-known/study/jwks.json"
PARAMETER = "prolific_token"
#: Maximum length of a token; Prolific's have about a thousand characters.
MAX_TOKEN_LENGTH = 4000
#: Seconds after which keys are fetched again; Prolific requires once a day.
_KEEP_S = 24 * 3600.0
#: Seconds between requests for unknown keys, whatever tokens are sent.
_AGAIN_S = 60.0
#: Seconds between requests while there are no keys.
_AWAY_S = 5.0
_PATIENCE_S = 10.0
#: Seconds by which the clocks may differ.
_LEEWAY_S = 30
_IDS = ("PROLIFIC_PID", "STUDY_ID", "SESSION_ID")


class ProlificTokens:
    """Verify tokens with keys that are fetched on first use and cached.

    Parameters
    ----------
    url
        Where the keys are.
    audience
        Audiences that tokens may name: this server's names.
    fetch
        Returns the key set at an address.
    clock
        Returns monotonic seconds.
    """

    def __init__(
        self,
        url: str,
        audience: tuple[str, ...],
        fetch: Callable[[str], dict[str, Any]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url, self._audience = url, audience
        self._fetch, self._clock = fetch or _fetched, clock
        self._lock = threading.Lock()
        self._keys: dict[str, Any] = {}
        self._asked: float | None = None

    def ids(self, token: str) -> dict[str, str]:
        """Return the participant's, the study's and the session's ids, by the names of Prolific's parameters.

        Raises
        ------
        Problem
            If the token is forged, expired, for another server or without ids, or if there are no keys.
        """
        import jwt

        try:
            name = jwt.get_unverified_header(token).get("kid")
            claims = jwt.decode(
                token,
                self._key(name if isinstance(name, str) else ""),
                algorithms=["RS256"],
                audience=self._audience,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "aud"]},
            )
        except jwt.PyJWTError as problem:
            raise _bad(f"the token of this link is not valid ({problem})") from problem
        given = claims.get("prolific")
        ids = {
            name: value
            for name, value in (given.items() if isinstance(given, dict) else ())
            if name in _IDS and isinstance(value, str) and value
        }
        if len(ids) < len(_IDS):
            raise _bad(f"the token of this link has no {', '.join(_IDS)}: the study's link needs all three")
        return ids

    def _key(self, name: str) -> Any:
        with self._lock:
            now = self._clock()
            age = None if self._asked is None else now - self._asked
            pause = _AGAIN_S if self._keys else _AWAY_S
            if age is None or age > _KEEP_S or (name not in self._keys and age > pause):
                self._renew()
                # also if they are unavailable: waiting requests fail at once
                self._asked = self._clock()
            key = self._keys.get(name)
            if not self._keys:
                raise Problem(
                    503,
                    "keys_away",
                    f"Prolific's keys cannot be fetched from {self._url}: try again in a minute",
                    retry_s=_AGAIN_S,
                )
        if key is None:
            raise _bad("the token of this link is signed with an unknown key")
        return key

    def _renew(self) -> None:
        """Fetch the keys; if that fails, the known ones are kept."""
        import jwt

        try:
            keys = jwt.PyJWKSet.from_dict(self._fetch(self._url)).keys
        except (httpx.HTTPError, jwt.PyJWTError, ValueError) as problem:
            log.warning("Prolific's keys cannot be fetched from %s: %s", self._url, problem)
            return
        self._keys = {key.key_id: key.key for key in keys if key.key_id and key.algorithm_name == "RS256"}


def _fetched(url: str) -> dict[str, Any]:
    reply = httpx.get(url, timeout=_PATIENCE_S)
    reply.raise_for_status()
    keys = reply.json()
    if not isinstance(keys, dict):
        raise ValueError("it is not a set of keys")
    return keys


def _bad(why: str) -> Problem:
    return Problem(403, RefusalReason.BAD_LINK.value, f"{why}: open the study from Prolific again")
