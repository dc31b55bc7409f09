"""Real Prefect servers and workers in processes of their own, ended by their ids."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import psutil
from filelock import FileLock
from pydantic import BaseModel

from tests.own_environment import own_environment

ROOT = Path(__file__).resolve().parents[2]
PREFECT = str(Path(sys.executable).parent / "prefect")
SLVMEVAL = [sys.executable, "-m", "slvmeval"]
#: A server is there within seconds, but on a machine that runs much else at the time it may take minutes.
START_S = 300


def free_port() -> int:
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        return int(result.getsockname()[1])


def wait_for(condition: Callable[[], Any], seconds: float, what: str, every_s: float = 0.05) -> Any:
    """Wait until a condition holds, and return what it gave."""
    until = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < until, f"no {what} after {seconds} s"
        time.sleep(every_s)
    return value


def prefect_home(folder: Path) -> str:
    """Return the folder of Prefect's data, made with a new server's database where it is missing.

    A server that has to make its tables works on them for ten seconds, so they are made once and copied.
    """
    template = ROOT / "build" / "tests" / f"prefect-{version('prefect')}.db"
    template.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(template.with_suffix(".lock"), timeout=START_S):
        if not template.exists():
            with tempfile.TemporaryDirectory(dir=template.parent) as made:
                command = [PREFECT, "server", "database", "upgrade", "--yes"]
                environment = {**os.environ, "PREFECT_HOME": made}
                subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
                (Path(made) / "prefect.db").replace(template)
    home = folder / "prefect"
    if not home.exists():
        home.mkdir(parents=True)
        shutil.copyfile(template, home / "prefect.db")
    return str(home)


class Processes:
    """Starts commands with one environment, each in a process group, and ends those that are left."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PREFECT_HOME": prefect_home(folder),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            # each question is work of the server
            "PREFECT_WORKER_QUERY_SECONDS": "2",
            "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
            "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "false",
            **settings,
        }
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, log: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("ab") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self.environment,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def run(self, *command: str, fails: bool | None = False, timeout: float = 300) -> str:
        """Run a command to its end and return what it printed; it has to succeed, or as `fails` says."""
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=timeout,
            check=False,
        )
        assert fails in (None, done.returncode != 0), f"{command}: {done.stdout}{done.stderr}"
        return done.stdout + (done.stderr if fails else "")

    def end(self, process: subprocess.Popen[bytes], how: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to a process and all that it started, and wait for it."""
        if process.poll() is None:
            # a worker gives each flow run a session of its own
            started = psutil.Process(process.pid).children(recursive=True)
            os.killpg(process.pid, how)
            for other in started:
                with contextlib.suppress(psutil.NoSuchProcess):
                    other.send_signal(how)
        process.wait(60)

    def close(self) -> None:
        for process in reversed(self.started):
            self.end(process)


class PrefectServer:
    """A Prefect server; its database outlives it."""

    def __init__(self, folder: Path, auth: str = "", **settings: str) -> None:
        self.port = free_port()
        self.api = f"http://127.0.0.1:{self.port}/api"
        if auth:
            settings["PREFECT_API_AUTH_STRING"] = auth
        self.processes = Processes(folder, PREFECT_API_URL=self.api, **settings)
        # one client for all requests: each loads the machine's certificates
        self._client = httpx.Client(auth=httpx.BasicAuth(*auth.split(":", 1)) if auth else None)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = self.processes.start(
            "server.log", PREFECT, "server", "start", "--host", "127.0.0.1", "--port", str(self.port)
        )
        wait_for(self.answers, START_S, "server", 0.2)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the server with a signal; it can be started again on its database."""
        assert self._process is not None
        self.processes.end(self._process, how)

    def answers(self) -> bool:
        try:
            return self._client.get(f"{self.api}/health", timeout=2).is_success
        except httpx.HTTPError:
            return False

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the server's answer, to a POST where there is a body."""
        return self._answer("GET" if body is None else "POST", path, body).json()

    def delete(self, path: str) -> None:
        """Have the server delete something."""
        self._answer("DELETE", path)

    def _answer(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        """Return the server's answer; a busy one is asked again."""
        for pause_s in (1, 2, 4, 8, 0):
            answer = self._client.request(method, f"{self.api}{path}", json=body, timeout=120)
            if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE:
                break
            time.sleep(pause_s)
        return answer.raise_for_status()

    def runs(self, *states: str) -> list[dict[str, Any]]:
        """Return the flow runs, or those in some states, newest first."""
        wanted = {"flow_runs": {"state": {"type": {"any_": list(states)}}}} if states else {}
        result: list[dict[str, Any]] = self.ask(
            "/flow_runs/filter", {"sort": "EXPECTED_START_TIME_DESC", **wanted}
        )
        return result

    def artifacts(self, run_id: str) -> dict[str, Any]:
        """Return the data of a run's artifacts by key."""
        asked = {"artifacts": {"flow_run_id": {"any_": [run_id]}}}
        return {result["key"]: result["data"] for result in self.ask("/artifacts/filter", asked)}

    def end_of(self, run_id: str, seconds: float) -> dict[str, Any]:
        """Wait for the state in which a run ends."""
        over = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
        result: dict[str, Any] = wait_for(
            lambda: (state := self.ask(f"/flow_runs/{run_id}")["state"])["type"] in over and state,
            seconds,
            "end of the run",
            0.5,
        )
        return result

    def logs(self, run_id: str) -> list[str]:
        asked = {"logs": {"flow_run_id": {"any_": [run_id]}}, "sort": "TIMESTAMP_ASC"}
        return [line["message"] for line in self.ask("/logs/filter", asked)]

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start a worker, which gives each of its flow runs a process group of its own."""
        return self.processes.start("worker.log", PREFECT, "worker", "start", "--pool", "slvmeval")

    @contextlib.contextmanager
    def workers(self) -> Iterator[None]:
        """End the workers that were started in it."""
        before = len(self.processes.started)
        try:
            yield
        finally:
            for process in self.processes.started[before:]:
                self.processes.end(process)

    def slvmeval(self, *words: str, fails: bool | None = False) -> str:
        return self.processes.run(*SLVMEVAL, *words, fails=fails)

    def slvmeval_here(self, *words: str, fails: bool | None = False) -> str:
        """Run a command in this process, for to start another takes longer; as :meth:`slvmeval` else."""
        from slvmeval.cli.main import main

        output, problems = StringIO(), StringIO()
        with (
            # what Prefect is told by variables is not for the tests that follow
            own_environment(),
            contextlib.chdir(self.processes.folder),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(problems),
        ):
            code = main(words)
        assert fails in (None, code != 0), f"{words}: {output.getvalue()}{problems.getvalue()}"
        return output.getvalue() + (problems.getvalue() if fails else "")

    def start_run(self, deployment: str, **parameters: object) -> str:
        """Create a run of a deployment, ``FLOW/NAME``, for a worker to take, and return its id."""
        id_ = self.ask(f"/deployments/name/{deployment}")["id"]
        body = {"parameters": parameters, "state": {"type": "SCHEDULED"}}
        result: str = self.ask(f"/deployments/{id_}/create_flow_run", body)["id"]
        return result

    def __enter__(self) -> PrefectServer:
        try:
            self.start()
        except AssertionError:
            self.processes.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self.processes.close()


def start_on_server(options: BaseModel, folder: Path, workers: int = 2) -> subprocess.Popen[str]:
    """Start a build as `on_server.py` does."""
    (folder / "options.json").write_text(options.model_dump_json())
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_HOME": prefect_home(folder)}
    environment.pop("PREFECT_API_URL", None)
    program = str(ROOT / "tests/flows/on_server.py")
    command = [sys.executable, program, str(folder / "options.json"), str(workers)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def recorded_and_result(process: subprocess.Popen[str]) -> tuple[dict[str, Any], Any]:
    """Wait for the end of what was started, and return what it printed."""
    output, _ = process.communicate(timeout=400)
    lines = dict(
        line.split(" ", 1) for line in output.splitlines() if line.startswith(("RECORDED", "RESULT"))
    )
    return json.loads(lines["RECORDED"]), json.loads(lines["RESULT"])
