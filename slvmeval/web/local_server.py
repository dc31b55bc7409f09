"""A server for one person on this machine: on loopback, at a secret address, until it is stopped."""

from __future__ import annotations

import hmac
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from slvmeval.web.annotation.serve import Serving
from storage_schemas.errors import PrerequisiteError
from tasks.page_frame import page_templates

#: Reachable from this machine only.
HOST = "127.0.0.1"


def new_secret() -> str:
    """Return a secret prefix for all addresses of one start, so that no other user can read or write."""
    return secrets.token_urlsafe(24)


def let_in(given: str, secret: str) -> None:
    """Answer 404 unless the secret of an address is the right one."""
    if not hmac.compare_digest(given.encode(), secret.encode()):
        raise HTTPException(404, "open the address that the command printed")


class LocalPages:
    """Pages from the templates and assets of a package.

    Parameters
    ----------
    package
        Its name; it contains the folders ``assets`` and ``templates``, with a template ``problem``.
    """

    def __init__(self, package: str) -> None:
        self._package = package
        self._templates = page_templates(package)

    def page(self, name: str, status: int = 200, **data: Any) -> Response:
        """Return a rendered template."""
        return HTMLResponse(self._templates.get_template(f"{name}.html.j2").render(data), status)

    def asset(self, name: str) -> bytes:
        """Return a file of the assets."""
        return files(self._package).joinpath("assets", name).read_bytes()

    def on_http(self, request: Request, problem: Exception) -> Response:
        """Respond to an error with a page that says what is wrong."""
        assert isinstance(problem, HTTPException)
        return self.page("problem", problem.status_code, message=str(problem.detail))


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
        # it is stopped by Ctrl-C
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[self.socket])


@contextmanager
def prepare_server(make_app: Callable[[Serving], FastAPI], secret: str, port: int) -> Iterator[LocalServer]:
    """Bind a port; 0 picks a free one.

    Parameters
    ----------
    make_app
        Creates the application; only the host and port of its argument are used: requests under other names
        are rejected.

    Raises
    ------
    PrerequisiteError
        If the port is taken.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((HOST, port))
            # a browser that connects early has to wait
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
