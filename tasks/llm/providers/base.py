"""The interface of providers, and how their errors are sorted."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from storage_schemas.secrets import strike_out
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.providers.http import TooLarge, broke_after_sending, caused_by
from tasks.llm.servers import ChatServer, no_such_model, refused_key

_TRANSIENT = frozenset({408, 409, 429})
#: A gateway had no answer in time; the server behind it may go on and be paid.
_GATEWAY_TIMED_OUT = frozenset({504, 524})


class TransientFault(Exception):
    """A fault that a new attempt may not have.

    Parameters
    ----------
    reason
        What happened.
    retry_after_s
        The pause that the server asks for.
    lost
        Whether the server may have worked on the request, and be paid for it.
    """

    def __init__(self, reason: str, retry_after_s: float | None = None, lost: bool = False) -> None:
        super().__init__(reason)
        self.retry_after_s, self.lost = retry_after_s, lost


class Rejected(Exception):
    """The server rejected this request; a new attempt would be rejected too."""


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
        """Return the answer to a request; a refusal of the model is one.

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

    def status_fault(self, status: int, text: str, headers: Mapping[str, str]) -> Exception:
        """Return the error of a status: transient, of this request, or of the server as a whole."""
        if status in _TRANSIENT or status >= 500:
            lost = status in _GATEWAY_TIMED_OUT
            return TransientFault(f"HTTP {status}{text}", retry_after(headers), lost)
        if status in (401, 403):
            return refused_key(self.server)
        if status == 404:
            return no_such_model(self.server)
        return Rejected(f"the server refused the request: HTTP {status}{text}")


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
    """Return a server's message for the end of ours: in brackets, without secrets, shortened; or nothing."""
    # a shortened message would end in a part of a secret
    return f" ({strike_out(str(message)):.300})" if message else ""
