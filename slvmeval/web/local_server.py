"""A server for one person on this machine: on loopback, under a secret address, until it is stopped."""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.exceptions import HTTPException

from slvmeval.web.annotation.serve import Serving
from storage_schemas.errors import PrerequisiteError

#: Reachable from this machine only.
HOST = "127.0.0.1"


def new_secret() -> str:
    """Return a secret that begins all addresses of one start, so that nobody else can read or write."""
    return secrets.token_urlsafe(24)


def let_in(given: str, secret: str) -> None:
    """Answer 404 unless the secret of an address is the right one."""
    if not hmac.compare_digest(given.encode(), secret.encode()):
        raise HTTPException(404, "open the address that the command printed")


@dataclass(frozen=True)
class LocalServer:
    """A server ready to start: its application and socket."""

    app: FastAPI
    address: str
    socket: socket.socket

    def run(self) -> None:
        """Serve until the process is terminated."""
        import uvicorn

        config = uvicorn.Config(
            self.app,
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_level="warning",
            timeout_graceful_shutdown=5,
        )
        # it is told to end by Ctrl-C
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[self.socket])


@contextmanager
def prepare_server(make_app: Callable[[Serving], FastAPI], secret: str, port: int) -> Iterator[LocalServer]:
    """Bind a port; 0 picks a free one.

    Parameters
    ----------
    make_app
        Makes the application; of what it is given only host and port are used: requests under other names are
        rejected.

    Raises
    ------
    PrerequisiteError
        If the port is taken.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((HOST, port))
            # a browser that connects early waits
            opened.listen(64)
        except OSError as problem:
            raise PrerequisiteError(
                f"cannot listen on {HOST}:{port} ({problem.strerror}): choose another --port, "
                "or 0 for a free one"
            ) from problem
        serving = Serving(
            store="", database="", media="", campaigns=(), host=HOST, port=opened.getsockname()[1]
        )
        yield LocalServer(make_app(serving), f"{serving.address}/{secret}/", opened)
