"""Exactly one Prefect server for a run on one machine: it comes and goes with the run.

Without one, every Dask worker would start a server of its own. Where `PREFECT_API_URL` is set, that
server is used and nothing is started.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from infra.guard import Guard
from infra.prefect_settings import RUN_SETTINGS, quiet_libraries, set_in_environment
from storage_schemas.errors import PrerequisiteError

START_TIMEOUT_S = 120


def prefect_environment(server: str | None = None) -> None:
    """Set Prefect's environment, but for what the user has set; call it before Prefect is imported.

    Parameters
    ----------
    server
        Address of the server's API; None for one that comes and goes with the run.
    """
    # a terminal shows progress, not what Prefect says of every task
    set_in_environment({**RUN_SETTINGS, "PREFECT_LOGGING_LEVEL": "WARNING"})
    if server is not None:
        set_in_environment({"PREFECT_API_URL": server})
    quiet_libraries()


@contextmanager
def prefect_server() -> Iterator[str]:
    """Give the address of a Prefect API: the user's, else that of a server that ends with the block.

    Raises
    ------
    PrerequisiteError
        If the embedded server does not start.
    """
    given = os.environ.get("PREFECT_API_URL")
    if given:
        yield given
        return
    prefect_environment()
    from prefect.server.api.server import SubprocessASGIServer
    from prefect.settings import PREFECT_API_URL, temporary_settings

    server = SubprocessASGIServer()
    try:
        server.start(timeout=START_TIMEOUT_S)
    except RuntimeError as problem:
        server.stop()
        raise PrerequisiteError(
            f"the embedded Prefect server did not start ({problem}): try again, set PREFECT_API_URL to a "
            "running server, or build with --direct, which needs none"
        ) from problem
    os.environ["PREFECT_API_URL"] = server.api_url
    guard = Guard(_END, str(server.server_process.pid)) if server.server_process is not None else None
    try:
        with temporary_settings({PREFECT_API_URL: server.api_url}):
            try:
                yield server.api_url
            finally:
                _drain()
    finally:
        del os.environ["PREFECT_API_URL"]
        server.stop()
        if guard is not None:
            guard.dismiss()


#: Ends the process whose id it is given.
_END = """
import os, signal, sys
try:
    os.kill(int(sys.argv[1]), signal.SIGTERM)
except ProcessLookupError:
    pass
"""


def _drain() -> None:
    """Send what is still queued, before the server that takes it is gone."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (EventsWorker, APILogWorker):
        worker.drain_all(timeout=10)
