"""What a stranger gets from a scheduler or a worker."""

from __future__ import annotations

import asyncio
import ssl

from distributed import Security
from distributed.comm import connect


async def answers(address: str, security: Security | None = None) -> bool:
    """Return whether the simplest request gets an answer."""
    arguments = {} if security is None else security.get_connection_args("client")  # type: ignore[no-untyped-call]
    try:
        # in TLS 1.3 a client learns with the first answer that it was refused
        comm = await connect(address, timeout=5, **arguments)
        await comm.write({"op": "identity", "reply": True})
        await asyncio.wait_for(comm.read(), 5)
    except (OSError, TypeError, RuntimeError, ssl.SSLError):
        return False
    return True


def refused(address: str, security: Security | None = None) -> bool:
    """Return whether a stranger gets no answer to the simplest request."""
    return not asyncio.run(answers(address, security))
