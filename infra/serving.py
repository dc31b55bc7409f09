"""Run a model server until it ends, and announce it: ``python -m infra.serving … -- COMMAND``.

The command gets ``--host`` and ``--port`` at its end and the key in ``VLLM_API_KEY``. When it answers, its
address is written into the store, where builds look for it (`infra/servers.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from infra.servers import ServerFile, forget_server, write_server
from storage_schemas.errors import PrerequisiteError, SlvmevalError
from storage_schemas.provenance import utc_now

#: The variable in which vLLM takes its key: on the command line every user of the machine could read it.
KEY_VARIABLE = "VLLM_API_KEY"
#: How long a server that is told to end may take, seconds.
_ENDING_S = 30.0


def serve(
    command: Sequence[str], *, store: Path, name: str, model: str, host: str, port: int, start_s: float
) -> int:
    """Run a server, announce it while it answers, and return its exit status.

    Parameters
    ----------
    command
        The server's command, which takes ``--host`` and ``--port``.
    store, name, model
        Where it is announced, as what, and what it calls its model.
    host, port
        Where it listens; port 0 takes a free one.
    start_s
        How long it may take until it answers, in seconds.

    Raises
    ------
    PrerequisiteError
        If the command is not there, ends before it answers, or does not answer in time.
    """
    port = port or _free_port(host)
    key = os.environ.get(KEY_VARIABLE) or secrets.token_urlsafe(24)
    url = f"http://{host}:{port}/v1"
    full = [*command, "--host", host, "--port", str(port)]
    print(f"serving {name}: {' '.join(full)}", flush=True)
    try:
        server = subprocess.Popen(full, env={**os.environ, KEY_VARIABLE: key}, start_new_session=True)
    except OSError as problem:
        raise PrerequisiteError(
            f"{command[0]} cannot be started ({problem.strerror}): name the program with --command, or load "
            "its environment in the pool's `setup`"
        ) from problem
    with _Ending(server):
        try:
            _wait_until_it_answers(server, url, key, start_s)
            announced = ServerFile(
                url=url,
                model=model,
                key=key,
                host=socket.gethostname(),
                job=os.environ.get("SLURM_JOB_ID"),
                process=os.getpid(),
                since=utc_now(),
            )
            write_server(store, name, announced)
            print(f"serving {name}: answers at {url}", flush=True)
            return server.wait()
        finally:
            forget_server(store, name)
            _end(server)


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _wait_until_it_answers(server: subprocess.Popen[bytes], url: str, key: str, start_s: float) -> None:
    # an environment's proxy has no business between us and our own server
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    asked = urllib.request.Request(f"{url}/models", headers={"Authorization": f"Bearer {key}"})
    end = time.monotonic() + start_s
    while True:
        status = server.poll()
        if status is not None:
            raise PrerequisiteError(
                f"the server ended with status {status} before it answered; see its lines above"
            )
        try:
            with opener.open(asked, timeout=10):
                return
        except urllib.error.HTTPError as problem:
            # it is up, and still loading or of another kind
            if problem.code < 500:
                raise PrerequisiteError(
                    f"{url}/models answers HTTP {problem.code}: that is no such server"
                ) from problem
        except OSError:
            pass
        if time.monotonic() > end:
            raise PrerequisiteError(f"{url} did not answer within {start_s:.0f} s (--start-seconds)")
        time.sleep(0.5)


class _Ending:
    """Let SIGTERM and SIGINT unwind this process while the server runs, so that the server is ended too."""

    def __init__(self, server: subprocess.Popen[bytes]) -> None:
        self._server = server

    def __enter__(self) -> None:
        self._before = {
            number: signal.signal(number, self._unwind) for number in (signal.SIGTERM, signal.SIGINT)
        }

    def _unwind(self, number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _end(server: subprocess.Popen[bytes]) -> None:
    """End the server and the processes that it started, which are its session."""
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(_ENDING_S)
    # workers outlive a server that crashed, and hold the GPU's memory
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, serve, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m infra.serving", description=__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--host", help="address to listen on; this machine's by default")
    parser.add_argument("--interface", help="network interface whose address is taken")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--start-seconds", type=float, default=1800.0)
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args(arguments)
    try:
        return serve(
            asked.command,
            store=asked.store,
            name=asked.name,
            model=asked.model,
            host=asked.host or _address(asked.interface),
            port=asked.port,
            start_s=asked.start_seconds,
        )
    except SlvmevalError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1


def _address(interface: str | None) -> str:
    if interface:
        from distributed.utils import get_ip_interface

        return str(get_ip_interface(interface))  # type: ignore[no-untyped-call]
    address = socket.gethostbyname(socket.gethostname())
    if not ipaddress.ip_address(address).is_loopback:
        return address
    # Debian's own name of a machine leads to itself; ask which address leads out. Nothing is sent
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError as problem:
            raise PrerequisiteError(
                f"{socket.gethostname()} has no address that other machines reach ({problem}): set interface "
                "in [pools.h100]"
            ) from problem
        return str(probe.getsockname()[0])


if __name__ == "__main__":
    sys.exit(main())
