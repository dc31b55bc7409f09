"""The embedded Prefect server of a run on one machine, and Prefect's settings.

The settings apply to all processes of a build: that of the flow and those of its workers.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra import embedded_server
from storage_schemas.errors import PrerequisiteError
from storage_schemas.locks import only_one
from storage_schemas.proxies import repair_proxies

log = logging.getLogger(__name__)

#: The name of the flow, and of its main deployment.
FLOW_NAME = "build-slvmeval"
#: The flow that evaluates a release, and its deployment.
EVALUATE_FLOW_NAME = "evaluate-slvmeval"
#: The flow that scores videos with a suite, and its deployment.
SUITE_FLOW_NAME = "suite-slvmeval"
#: The flow that publishes a release for annotation and filters it by votes, and its deployment.
ANNOTATE_FLOW_NAME = "annotate-slvmeval"
#: The flows of the core.
FLOW_NAMES = (FLOW_NAME, EVALUATE_FLOW_NAME, SUITE_FLOW_NAME, ANNOTATE_FLOW_NAME)

#: Packages whose log lines Prefect's UI shows for a run.
OUR_PACKAGES = ("storage_schemas", "tasks", "infra", "flows", "slvmeval")

#: Seconds between heartbeats of a flow; a run without one for `SILENT_S` counts as crashed.
HEARTBEAT_S = 60
SILENT_S = 900

#: Settings of a flow's process and its workers.
RUN_SETTINGS = {
    "PREFECT_LOGGING_EXTRA_LOGGERS": ",".join(OUR_PACKAGES),
    # lines written before or after a run belong to no run
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    # otherwise no worker could start while the server is unavailable
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
    # requests wait for an unavailable server: 2, 4, 8 … 256 seconds
    "PREFECT_CLIENT_MAX_RETRIES": "8",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S),
    # no telemetry
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}


def log_level(level: int) -> None:
    """Set the log level of our packages."""
    for name in OUR_PACKAGES:
        logging.getLogger(name).setLevel(level)


def quiet_libraries() -> None:
    """Show only warnings from the orchestrator's libraries, which log more once imported."""
    for name in ("distributed", "prefect.task_runners", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)


def set_in_environment(settings: dict[str, str]) -> None:
    """Set variables that the user has not set; call before importing Prefect."""
    for name, value in settings.items():
        os.environ.setdefault(name, value)


START_TIMEOUT_S = 120


def prefect_environment(server: str | None = None) -> None:
    """Set Prefect's environment variables that the user has not set; call before importing Prefect.

    Parameters
    ----------
    server
        URL of the server's API; None for the embedded server.
    """
    # the terminal shows progress instead of Prefect's messages on every task
    set_in_environment({**RUN_SETTINGS, "PREFECT_LOGGING_LEVEL": "WARNING"})
    if server is not None:
        set_in_environment({"PREFECT_API_URL": server})
    repair_proxies(os.environ.get("PREFECT_API_URL", ""))
    quiet_libraries()


@contextmanager
def prefect_server() -> Iterator[str]:
    """Yield the URL of a Prefect API: the user's, or that of an embedded server that ends with the block.

    The embedded server has a separate password, which this process and its child processes have in their
    environment: anyone who can talk to a server can see and change its runs.

    Raises
    ------
    PrerequisiteError
        If the user's server does not answer, or the embedded one does not start.
    """
    given = os.environ.get("PREFECT_API_URL")
    if given:
        require_server(given)
        yield given
        return
    prefect_environment()
    auth = f"slvmeval:{secrets.token_urlsafe(24)}"
    with _embedded_server(auth) as url, _in_environment(PREFECT_API_URL=url, PREFECT_API_AUTH_STRING=auth):
        from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

        with temporary_settings({PREFECT_API_URL: url, PREFECT_API_AUTH_STRING: auth}):
            try:
                yield url
            finally:
                _drain()


def require_server(url: str) -> None:
    """Check that the server configured in Prefect answers.

    Raises
    ------
    PrerequisiteError
        If it does not answer.
    """
    import httpx
    from prefect.client.orchestration import get_client

    try:
        with get_client(sync_client=True) as client:
            client.request("GET", "/health").json()
    except (httpx.HTTPError, RuntimeError, ValueError) as problem:
        raise PrerequisiteError(
            f"the Prefect server at {url} does not answer ({problem}): start it with `prefect server "
            "start`, or correct the address in the profile (prefect_api_url) or in PREFECT_API_URL"
        ) from problem


@contextmanager
def _in_environment(**variables: str) -> Iterator[None]:
    """Set variables while the block runs."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _embedded_server(auth: str) -> Iterator[str]:
    """Run a Prefect server without its pages as a process, and yield the URL of its API.

    `auth` is its user and password, ``USER:PASSWORD``.

    Prefect's own class for this imports the whole server into this process, which takes seconds.
    """
    port = str(loopback_port())
    # keep this project's folder off its path, where our packages could hide others
    command = [sys.executable, "-P", str(Path(embedded_server.__file__)), port]
    # other users can read a command line, but not the environment
    environment = {**os.environ, **_EMBEDDED, "PREFECT_SERVER_API_AUTH_STRING": auth}
    url = f"http://127.0.0.1:{port}/api"
    with _database_alone() as alone:
        if not alone:
            log.info("another run is using Prefect's database: this run's records are temporary")
            # the server removes it, even if this process is killed
            folder = tempfile.mkdtemp(prefix="slvmeval-prefect-")
            command.append(folder)
            environment[_DATABASE] = f"sqlite+aiosqlite:///{folder}/prefect.db"
        process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, env=environment)
        try:
            _wait_for(process, url)
            yield url
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(2 * embedded_server.CLOSE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def loopback_port() -> int:
    """Return a free port of the loopback interface.

    Raises
    ------
    PrerequisiteError
        If nothing can connect there: the interface is down.
    """
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port: int = listener.getsockname()[1]
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as problem:
        raise PrerequisiteError(
            f"nothing can connect to 127.0.0.1 on this machine ({problem.strerror or problem}): bring up the "
            "loopback interface (`ip link set lo up`), or build with --direct, which needs no server"
        ) from problem
    return port


_DATABASE = "PREFECT_SERVER_DATABASE_CONNECTION_URL"


@contextmanager
def _database_alone() -> Iterator[bool]:
    """Yield whether no other embedded server uses Prefect's database on this machine.

    SQLite lets one server write at a time. Two servers would block each other's requests, and fail if both
    create the tables.
    """
    from prefect.settings import PREFECT_HOME, get_current_settings

    home: Path = PREFECT_HOME.value()
    database = get_current_settings().server.database.connection_url
    if database is not None and database.get_secret_value() != f"sqlite+aiosqlite:///{home}/prefect.db":
        # the user has set another one
        yield True
        return
    home.mkdir(parents=True, exist_ok=True)
    with only_one(home / "slvmeval-server.lock") as is_ours:
        yield is_ours


_EMBEDDED = {
    # as Prefect itself sets for such a server
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
    # it stores no blocks: importing all their types takes a quarter of its start time
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
}


def _wait_for(process: subprocess.Popen[bytes], url: str) -> None:
    """Wait until a server answers; raise PrerequisiteError if it ends or takes too long."""
    import httpx

    until = time.monotonic() + START_TIMEOUT_S
    problem = f"no answer after {START_TIMEOUT_S} s"
    with httpx.Client() as client:
        while time.monotonic() < until:
            if process.poll() is not None:
                problem = f"it ended with code {process.returncode}"
                break
            try:
                if client.get(f"{url}/health").is_success:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
    raise PrerequisiteError(
        f"the embedded Prefect server did not start ({problem}): try again, set PREFECT_API_URL to a "
        "running server, or build with --direct, which needs none"
    )


def _drain() -> None:
    """Send queued events and logs before the server ends."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (EventsWorker, APILogWorker):
        worker.drain_all(timeout=10)
