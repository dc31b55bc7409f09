"""Probe nodes: have short jobs do the checks of workers there and tell what they find."""

from __future__ import annotations

import json
import logging
import secrets
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from infra.profile import Profile
from infra.slurm import worker_checks
from infra.slurm.node_calls import MARK, NodeAnswer, call_nodes, node_call
from infra.slurm.run_folder import RunFile, versions
from infra.tls import Credentials, credential_files
from storage_schemas.commit import write_atomic

log = logging.getLogger(__name__)

#: Maximum run time, seconds: first imports from a shared file system can take a minute.
RUN_S = 180.0
_CALL_S = 10.0


def probe_nodes(
    profile: Profile,
    probes: Sequence[tuple[str, str]],
    store: Path,
    folder: Path,
    address: str,
    *,
    modules: Sequence[str],
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    wait_s: float,
    poll_s: float = 1.0,
) -> list[NodeAnswer]:
    """Have the node of each probe do :func:`infra.slurm.worker_checks.report`; all at once; no job remains.

    Parameters
    ----------
    probes
        Pools and nodes.
    store, folder
        The store, and its folder or the nearest above that exists; the probe creates a folder as that of a
        run in it, and removes it.
    address
        This machine's address of the scheduler.
    modules, readable, writable
        What a build imports, reads and writes on each node.
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
    with (
        tempfile.TemporaryDirectory(prefix=".slvmeval-doctor-", dir=folder) as name,
        listening(address) as (port, secret),
    ):
        here = Path(name)
        # two files that only this user can read, as a run's certificate and key
        Credentials("", "").write(here)
        # nodes may run jobs under another identity on the file system, which is to be found
        here.chmod(0o755)
        scheduler = secrets.token_hex(16)
        run_file = here / "run.json"
        write_atomic(run_file, RunFile(scheduler=scheduler, versions=versions()).model_dump_json().encode())
        files = credential_files(here)
        calls = []
        for number, (pool, node) in enumerate(probes):
            request = {
                "pool": pool,
                "profile": profile.place,
                "gpus": profile.pools[pool].gpus,
                "store": str(folder),
                "run_file": str(run_file),
                "scheduler": scheduler,
                "credentials": [files.certificate, files.key],
                "readable": [str(path) for path in readable],
                "writable": [str(path) for path in writable],
                "versions": versions(),
                "modules": list(modules),
                "interface": profile.pools[pool].interface,
                "driver": [address, port],
                "secret": secret,
            }
            calls.append(
                node_call(
                    profile,
                    pool,
                    ["-"],
                    program(request),
                    store=store,
                    name=f"doctor-{mark}-{number}",
                    log=here / f"{number}.log",
                    node=node,
                    needs_temporary_folder=False,
                )
            )
        return call_nodes(profile, calls, wait_s=wait_s, run_s=RUN_S, poll_s=poll_s)


def program(request: dict[str, object]) -> str:
    """Return a program for a Python without our packages that does the checks and prints what it found."""
    source = Path(worker_checks.__file__).read_text(encoding="utf-8")
    return f"{source}\n\nprint({MARK!r} + json.dumps(report({request!r})), flush=True)\n"


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
