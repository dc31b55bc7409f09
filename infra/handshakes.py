"""Limit the cost of strangers who connect to a Dask server but never finish the TLS handshake.

Dask waits for them forever. Each occupies an open file, and once the limit is reached, no other client can
connect.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Hashable

from distributed.comm.registry import backends
from distributed.comm.tcp import TLSBackend, TLSListener
from tornado.iostream import IOStream

#: Maximum number of unfinished handshakes of a process; with more the oldest ends. Ours take milliseconds,
#: and an interrupted client tries again.
MAX_UNFINISHED = 256
#: Maximum time of a handshake, in seconds.
MAX_HANDSHAKE_S = 20.0
#: Interval at which a repeated message is logged again, in seconds.
REPEAT_S = 60.0

#: Loggers that get a line for each connection that fails.
_LOGGERS = ("asyncio", "tornado.application", "distributed.comm.tcp")

_unfinished: dict[IOStream, None] = {}


class BoundedListener(TLSListener):
    """A listener with a limited number of unfinished handshakes, each of limited time."""

    async def _prepare_stream(self, stream: IOStream, address: str) -> IOStream | None:
        _unfinished[stream] = None
        if len(_unfinished) > MAX_UNFINISHED:
            oldest = next(iter(_unfinished))
            del _unfinished[oldest]
            oldest.close()
        limit = asyncio.get_running_loop().call_later(MAX_HANDSHAKE_S, stream.close)
        try:
            ready: IOStream | None = await super()._prepare_stream(  # type: ignore[no-untyped-call]
                stream, address
            )
            return ready
        finally:
            limit.cancel()
            _unfinished.pop(stream, None)


class _BoundedBackend(TLSBackend):
    _listener_class = BoundedListener


class RepeatedMessages(logging.Filter):
    """Passes a repeated warning once per interval, with the number of those omitted.

    Messages with the same format, or with the same system error, count as the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[Hashable, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a message, after adding that number to it."""
        if record.levelno < logging.WARNING:
            return True
        error = record.exc_info[1] if record.exc_info else None
        number = getattr(error, "errno", None)
        key = (record.name, type(error), number if number is not None else record.msg)
        now = time.monotonic()
        since, left_out = self._seen.get(key, (-REPEAT_S, 0))
        if now - since < REPEAT_S:
            self._seen[key] = since, left_out + 1
            return False
        self._seen[key] = now, 0
        if left_out:
            record.msg = f"{record.getMessage()} ({left_out} more like this in the last {now - since:.0f} s)"
            record.args = ()
        return True


def bound_handshakes() -> None:
    """Limit the unfinished handshakes of all Dask servers that this process starts, and their messages."""
    if not isinstance(backends.get("tls"), _BoundedBackend):
        backends["tls"] = _BoundedBackend()
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(RepeatedMessages())
