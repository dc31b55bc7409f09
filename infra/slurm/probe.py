"""Probe nodes with short jobs that report store, Python, packages, GPUs and network of its nodes."""

from __future__ import annotations

import json
import logging
import secrets
import shlex
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.profile import Profile
from infra.slurm import commands, on_node
from infra.slurm.commands import SlurmAway
from infra.slurm.waiting import lasting_wait
from storage_schemas.errors import SlvmevalError

log = logging.getLogger(__name__)

#: Maximum run time, seconds: first imports from a shared file system can take a minute.
RUN_S = 180.0
_LOG_LINES = 12
#: Seconds until a file written by a node is visible here.
_FILE_COMES_S = 10.0
_CALL_S = 10.0
#: Seconds after which SLURM's reason for waiting is believed.
_SETTLES_S = 3.0


@dataclass(frozen=True)
class Probe:
    """One probe to run: the script of a pool's worker, and the node that is meant."""

    pool: str
    script: str
    node: str


@dataclass(frozen=True)
class Probed:
    """Result of a probe.

    Parameters
    ----------
    node
        The node that was meant.
    job
        Last known state of the job; None if it was rejected or is no longer known.
    answer
        The node's answer, see :func:`infra.slurm.on_node.answer`; None without one.
    log
        The end of the job's log, or the reason of its rejection.
    token
        The text that the node should have read.
    """

    node: str
    job: commands.Job | None
    answer: Mapping[str, Any] | None
    log: str
    token: str


def probe_script(script: str, node: str, name: str, output: Path, request: Mapping[str, Any]) -> str:
    """Return a worker's job script with the worker replaced by the probe.

    It asks for all that a worker asks for, time and memory included: what SLURM refuses a worker, it is to
    refuse the probe.

    Parameters
    ----------
    script
        Result of :func:`infra.slurm.job_script.job_script`.
    node
        The node on which to run.
    name
        The job's name.
    output
        Path of its log.
    request
        The request for the node, see :func:`infra.slurm.on_node.answer`.
    """
    lines = script.rstrip("\n").splitlines()
    end = max(index for index, line in enumerate(lines) if line.startswith("#SBATCH"))
    # sbatch uses the last of repeated options
    header = [
        f"#SBATCH --{option}"
        for option in (
            f"job-name={name}",
            f"output={output}",
            f"error={output}",
            f"nodelist={node}",
        )
    ]
    python = shlex.split(lines[-1])[0]
    source = Path(on_node.__file__).read_text(encoding="utf-8")
    worker = [
        f"export SLVMEVAL_PROBE_REQUEST={shlex.quote(json.dumps(dict(request)))}",
        f"{shlex.quote(python)} - <<'END_OF_PROBE'",
        *source.splitlines(),
        "END_OF_PROBE",
    ]
    return "\n".join([*lines[: end + 1], *header, *lines[end + 1 : -1], *worker]) + "\n"


def probe_pools(
    profile: Profile,
    probes: Sequence[Probe],
    folder: Path,
    address: str,
    *,
    distributions: Sequence[str],
    modules: Sequence[str],
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    wait_s: float,
    poll_s: float = 1.0,
) -> list[Probed]:
    """Run probes, all at once, and return their results in order; no job remains.

    Parameters
    ----------
    probes
        Where to look.
    folder
        A folder of the shared file system, in which the probe creates and removes its own folder.
    address
        This machine's address of the scheduler.
    distributions, modules, readable, writable
        What each node checks, see :func:`infra.slurm.on_node.answer`.
    wait_s
        Maximum time that jobs may wait for a node, seconds.
    poll_s
        Interval between queries of SLURM, seconds.

    Raises
    ------
    OSError
        If `folder` is not writable or `address` cannot be used.
    """
    mark = secrets.token_hex(4)
    names = [f"slvmeval-doctor-{mark}-{number}" for number in range(len(probes))]
    with (
        tempfile.TemporaryDirectory(prefix=".slvmeval-doctor-", dir=folder) as here,
        listening(address) as (
            port,
            secret,
        ),
    ):
        # nodes may run jobs under another identity on the file system
        Path(here).chmod(0o755)
        token_file = Path(here) / "token"
        token = secrets.token_hex(16)
        token_file.write_text(token, encoding="utf-8")
        logs = {name: Path(here) / f"{name}.log" for name in names}
        refused: dict[str, str] = {}
        try:
            for name, probe in zip(names, probes, strict=True):
                request = {
                    "token_file": str(token_file),
                    "readable": [str(path) for path in readable],
                    "writable": [str(path) for path in writable],
                    "distributions": list(distributions),
                    "modules": list(modules),
                    "interface": profile.pools[probe.pool].interface,
                    "driver": [address, port],
                    "secret": secret,
                }
                try:
                    commands.submit(probe_script(probe.script, probe.node, name, logs[name], request))
                except SlvmevalError as problem:
                    refused[name] = str(problem)
            seen = _until_over(set(names) - set(refused), wait_s, poll_s)
        finally:
            commands.cancel_by_name(names)
        return [
            _came_of(probe.node, seen.get(name), logs[name], token, refused.get(name, ""))
            for name, probe in zip(names, probes, strict=True)
        ]


def _until_over(waiting: set[str], wait_s: float, poll_s: float) -> dict[str, commands.Job]:
    """Return the jobs by name when they have ended, their time is up, or their wait does not end."""
    began = time.monotonic()
    end = began + wait_s
    seen: dict[str, commands.Job] = {}

    def lasts(job: commands.Job) -> bool:
        # a reason may be a passing one in the first moments
        return lasting_wait(job.reason) is not None and time.monotonic() > began + _SETTLES_S

    while waiting:
        try:
            listed = {job.name: job for job in commands.jobs(sorted(waiting))}
        except SlurmAway as problem:
            log.info("%s", problem)
        else:
            for name in list(waiting):
                job = listed.get(name)
                seen |= {name: job} if job is not None else {}
                late = job is not None and job.pending and (time.monotonic() > end or lasts(job))
                if job is None or not job.there or late:
                    waiting.discard(name)
        if time.monotonic() > end + RUN_S:
            break
        if waiting:
            time.sleep(poll_s)
    return seen


def _came_of(node: str, job: commands.Job | None, log_file: Path, token: str, refused: str) -> Probed:
    if refused or (job is not None and job.there):
        return Probed(node, job, None, refused, token)
    end = time.monotonic() + _FILE_COMES_S
    while not log_file.exists() and time.monotonic() < end:
        time.sleep(0.2)
    text = log_file.read_text(encoding="utf-8", errors="replace") if log_file.exists() else ""
    answers = [line.removeprefix(on_node.MARK) for line in text.splitlines() if line.startswith(on_node.MARK)]
    answer = json.loads(answers[-1]) if answers else None
    return Probed(node, job, answer, "\n".join(text.splitlines()[-_LOG_LINES:]), token)


@contextmanager
def listening(address: str) -> Iterator[tuple[int, str]]:
    """Answer nodes that call this address while the block runs; yield the port and the secret."""
    secret = secrets.token_hex(16)
    with socket.create_server((address, 0)) as server:
        server.settimeout(0.2)
        over = threading.Event()
        thread = threading.Thread(
            target=_serve, args=(server, secret, over.is_set), name="probe", daemon=True
        )
        thread.start()
        try:
            yield server.getsockname()[1], secret
        finally:
            over.set()
            thread.join()


def _serve(server: socket.socket, secret: str, over: Callable[[], bool]) -> None:
    while not over():
        try:
            connection, _ = server.accept()
        except TimeoutError:
            continue
        with connection:
            connection.settimeout(_CALL_S)
            try:
                _call_back(connection, secret)
            except (OSError, ValueError, KeyError, TypeError) as problem:
                # a foreign client, or one that disconnected
                log.info("a caller of the probe: %s", problem)


def _call_back(connection: socket.socket, secret: str) -> None:
    """Connect to the address that a node sends, and report the result to it."""
    with connection.makefile("rw") as lines:
        word = json.loads(lines.readline())
        if word["secret"] != secret:
            return
        try:
            socket.create_connection(tuple(word["address"]), _CALL_S).close()
        except OSError as problem:
            lines.write(f"{problem}\n")
        else:
            lines.write("reached\n")
