"""Start the page on this machine, and end with the process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from slvmeval.annotation.settings import Serving
from slvmeval.prompt_review.app import Desk, create_app
from storage_schemas.errors import PrerequisiteError

#: Nobody but this machine reaches it.
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Ready:
    """A page that can start: where it will be, and its socket."""

    desk: Desk
    serving: Serving
    socket: socket.socket

    @property
    def address(self) -> str:
        """What a person opens."""
        return f"{self.serving.address}/{self.desk.secret}/"


@contextmanager
def prepare(desk: Desk, port: int) -> Iterator[Ready]:
    """Take a port; 0 takes a free one.

    Raises
    ------
    UserInputError
        If there is no draft.
    PrerequisiteError
        If the port is taken.
    """
    desk.project.need()
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((HOST, port))
            # a browser that is quicker than we are waits
            opened.listen(64)
        except OSError as problem:
            raise PrerequisiteError(
                f"cannot listen on {HOST}:{port} ({problem.strerror}): choose another --port, "
                "or 0 for a free one"
            ) from problem
        serving = Serving(
            store="", database="", media="", campaigns=(), host=HOST, port=opened.getsockname()[1]
        )
        yield Ready(desk, serving, opened)


def run(ready: Ready) -> None:
    """Answer until the process is told to end."""
    import uvicorn

    config = uvicorn.Config(
        create_app(ready.desk, ready.serving),
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=5,
    )
    uvicorn.Server(config).run(sockets=[ready.socket])
