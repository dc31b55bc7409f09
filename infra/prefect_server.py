"""The Prefect server of a run on one machine, which comes and goes with the run, and Prefect's settings.

The settings hold in all processes of a build: the flow's own, and those of its workers.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from infra.exit_guard import ExitGuard
from storage_schemas.errors import PrerequisiteError

#: The name of the flow, and of its main deployment.
FLOW_NAME = "build-slvmeval"
#: The flow that lets evaluators judge a release, and its deployment.
EVALUATE_FLOW_NAME = "evaluate-slvmeval"
#: The flow that scores videos with a suite, and its deployment.
SUITE_FLOW_NAME = "suite-slvmeval"
#: The flow that puts a release before people and filters it by their votes, and its deployment.
ANNOTATE_FLOW_NAME = "annotate-slvmeval"
#: The flow that makes a suite's prompts from videos, and its deployment.
PROMPTS_FLOW_NAME = "prompts-slvmeval"
#: All flows of ours.
FLOW_NAMES = (FLOW_NAME, EVALUATE_FLOW_NAME, SUITE_FLOW_NAME, ANNOTATE_FLOW_NAME, PROMPTS_FLOW_NAME)

#: Whose log lines are shown with a run in Prefect's UI.
OUR_PACKAGES = ("storage_schemas", "tasks", "infra", "flows", "slvmeval")

#: A flow says so often that it lives, in seconds; a run that is silent for `SILENT_S` counts as crashed.
HEARTBEAT_S = 60
SILENT_S = 900

#: For the process of a flow and for those of its workers.
RUN_SETTINGS = {
    "PREFECT_LOGGING_EXTRA_LOGGERS": ",".join(OUR_PACKAGES),
    # lines that are written before or after a run belong to none
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    # a worker that starts while the server is away would not start
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
    # a request waits for a server that is away: 2, 4, 8 … 256 seconds
    "PREFECT_CLIENT_MAX_RETRIES": "8",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S),
    # calls nobody outside
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}


def log_level(level: int) -> None:
    """Let lines of our packages from this level on reach whoever listens."""
    for name in OUR_PACKAGES:
        logging.getLogger(name).setLevel(level)


def quiet_libraries() -> None:
    """Let only warnings of the orchestrator's libraries through; importing them sets them to tell more."""
    for name in ("distributed", "prefect.task_runners", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)


def set_in_environment(settings: dict[str, str]) -> None:
    """Set what the user has not set; call it before Prefect is imported."""
    for name, value in settings.items():
        os.environ.setdefault(name, value)


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
    guard = ExitGuard(_END, str(server.server_process.pid)) if server.server_process is not None else None
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
