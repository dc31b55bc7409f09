"""The interface of providers, and how their errors are sorted."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from storage_schemas.judgements import Failure
from storage_schemas.secrets import strike_out
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.providers.http import TooLarge, broke_after_sending, caused_by
from tasks.llm.providers.lenient import at, text_at
from tasks.llm.servers import ChatServer, no_such_model, quota_used_up, refused_key

_TRANSIENT = frozenset({408, 409, 425, 429})
#: A gateway timed out; the server behind it may continue and charge for the answer.
_GATEWAY_TIMED_OUT = frozenset({504, 524})
#: Error codes for an exhausted quota, as opposed to requests that come too fast.
_QUOTA_CODES = frozenset(
    {
        "insufficient_quota",
        "exceeded_current_quota_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_error",
    }
)
#: Messages under other statuses for an account without credit, or one that has reached its own limit.
_QUOTA = re.compile(
    r"credit balance|usage limits?\b|spend(ing)?.limit|insufficient.(balance|credit|fund|quota)",
    re.IGNORECASE,
)
#: The status of an error that has none of its own: under status 200, or in a batch.
_STATUS_OF: Mapping[str, int] = {
    "invalid_request_error": 400,
    "invalid_argument": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "unauthenticated": 401,
    "billing_error": 402,
    "insufficient_quota": 402,
    "permission_error": 403,
    "permission_denied": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "not_found": 404,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "resource_exhausted": 429,
    "api_error": 500,
    "server_error": 500,
    "internal": 500,
    "unavailable": 503,
    "timeout_error": 504,
    "deadline_exceeded": 504,
    "overloaded_error": 529,
    # google.rpc.Code, which Gemini's batches use
    "3": 400,
    "4": 504,
    "5": 404,
    "7": 403,
    "8": 429,
    "13": 500,
    "14": 503,
    "16": 401,
}


class TransientFault(Exception):
    """A fault that may not recur in a new attempt.

    Parameters
    ----------
    reason
        What happened.
    retry_after_s
        The pause that the server asks for.
    lost
        Whether the server may have worked on the request, and charge for it.
    """

    def __init__(self, reason: str, retry_after_s: float | None = None, lost: bool = False) -> None:
        super().__init__(reason)
        self.retry_after_s, self.lost = retry_after_s, lost


class Unreadable(TransientFault):
    """The body of a successful response is a gateway's page, or truncated; it may have been charged."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, lost=True)


class Rejected(Exception):
    """The server rejected this request; a new attempt would be rejected too."""


class Forbidden(Rejected):
    """The server forbids (403) this request, or every request with this key."""


class Provider(ABC):
    """Sends single requests to one server, within one event loop, without retries.

    Parameters
    ----------
    server
        The server and its model.
    """

    def __init__(self, server: ChatServer) -> None:
        self.server = server

    @abstractmethod
    async def send(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to a request; a model's refusal counts as an answer.

        Raises
        ------
        TransientFault, Rejected, TooLarge
            If there is no answer.
        NotAllowed
            If the server rejects all requests: the key, the model, or a quota that is used up.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close the connections."""

    def timed_out(self) -> TransientFault:
        """Return the fault of a request that took too long."""
        return TransientFault(f"no answer within {self.server.timeout_s:g} s", lost=True)

    def connection_fault(self, problem: BaseException) -> Exception:
        """Return the fault of a request whose connection failed, or whose answer is too large."""
        if caused_by(problem, TooLarge):
            return TooLarge()
        cause = problem.__cause__ or problem
        words = strike_out(str(cause)) or type(cause).__name__
        return TransientFault(words, lost=broke_after_sending(problem))

    def fault(
        self, status: int, text: str, codes: Collection[str] = (), headers: Mapping[str, str] | None = None
    ) -> Exception:
        """Return the error of a status: transient, of this request, or of the server as a whole.

        Parameters
        ----------
        text, codes
            The server's message by :func:`error_text`, and the codes of the error.
        """
        failure = failure_of(status, text, codes)
        if failure is Failure.QUOTA_USED_UP:
            return quota_used_up(self.server, text)
        if failure is Failure.SERVER_ERROR:
            lost = status in _GATEWAY_TIMED_OUT
            return TransientFault(f"HTTP {status}{text}", retry_after(headers or {}), lost)
        if failure is Failure.NOT_ALLOWED:
            known = status == 404
            return no_such_model(self.server, said=text) if known else refused_key(self.server, text)
        kind = Forbidden if status == 403 else Rejected
        return kind(f"the server refused the request: HTTP {status}{text}")

    def raise_error_in(self, body: Any) -> None:
        """Raise the fault of a body that is an error under the status of a success."""
        error = at(body, "error")
        if not error:
            return
        status = status_of(error)
        text = error_text(text_at(error, "message") or error)
        if status is None:
            raise Unreadable(f"the response is an error{text}")
        raise self.fault(status, text, codes_of(error))


def failure_of(status: int, text: str = "", codes: Collection[str] = ()) -> Failure:
    """Return the kind of an error; one rule for all providers, and for their batches."""
    if status == 402 or _QUOTA_CODES & set(codes) or (status in (400, 403, 429) and _QUOTA.search(text)):
        return Failure.QUOTA_USED_UP
    if status in _TRANSIENT or status >= 500:
        return Failure.SERVER_ERROR
    return Failure.NOT_ALLOWED if status in (401, 404) else Failure.REFUSED


def codes_of(error: Any) -> frozenset[str]:
    """Return the codes in an error, under any of the providers' names for them."""
    found = [at(error, name) for name in ("code", "type", "status")]
    found.append(at(error, "details", "error_code"))
    return frozenset(str(one).lower() for one in found if isinstance(one, int | str))


def status_of(error: Any) -> int | None:
    """Return the HTTP status of an error that came without one; None if unknown."""
    codes = codes_of(error)
    number = next((int(code) for code in codes if code.isdecimal() and 400 <= int(code) < 600), None)
    return number or next((_STATUS_OF[code] for code in sorted(codes) if code in _STATUS_OF), None)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the value of ``Retry-After`` in seconds; the header is a number or a date."""
    text = headers.get("retry-after", "")
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


def error_text(message: object) -> str:
    """Return a server's message to append to ours: in brackets, without secrets, shortened; or nothing."""
    # a shortened message could end with part of a secret
    return f" ({strike_out(str(message)):.300})" if message else ""
