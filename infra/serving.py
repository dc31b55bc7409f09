"""Run a model server until it ends, and announce it: ``python -m infra.serving … -- COMMAND``.

The command gets ``--host`` and ``--port`` as its last arguments, and the key in ``VLLM_API_KEY``. A server
that runs as a job has a different address each time, so its URL is written to a file in the store once it
answers, and removed when it ends. Builds look there for servers that are not in their profile.
"""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import json
import os
import secrets
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from pydantic import ValidationError

from infra.vllm import VLLM_ENVIRONMENT
from storage_schemas.commit import private_modes, write_atomic
from storage_schemas.errors import PrerequisiteError, SlvmevalError
from storage_schemas.model import Frozen
from storage_schemas.provenance import POOL_VARIABLE, utc_now


class ServerFile(Frozen):
    """Announcement of a server.

    Parameters
    ----------
    url
        Base URL, ending in ``/v1``.
    model
        Name of its model.
        key
            Required API key; only this user, or the group of the store, may read the file.
    host, job, process
        The machine, the SLURM job if any, and the id of the process that wrote the file.
    since
        Time of its first answer, UTC.
    """

    url: str
    model: str
    key: str
    host: str
    job: str | None = None
    process: int
    since: str


def server_path(store: Path, name: str) -> Path:
    """Return the path of a server's file."""
    return store / "servers" / f"{name}.json"


def write_server(store: Path, name: str, server: ServerFile) -> None:
    """Announce a server in a file that contains the key, readable only by this user or the store's group."""
    path = server_path(store, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    folder_mode, file_mode = private_modes(store)
    # a colleague's folder already has this mode
    if stat.S_IMODE(path.parent.stat().st_mode) != folder_mode:
        path.parent.chmod(folder_mode)
    write_atomic(path, server.model_dump_json(indent=1).encode(), file_mode)


def read_server(store: Path, name: str) -> ServerFile | None:
    """Read the announcement of a server; None if there is none of that name."""
    try:
        return ServerFile.model_validate(json.loads(server_path(store, name).read_bytes()))
    except (FileNotFoundError, ValidationError, ValueError):
        return None


def forget_server(store: Path, name: str) -> None:
    """Remove the file of a server if this process wrote it."""
    server = read_server(store, name)
    if server is not None and (server.process, server.host) == (os.getpid(), socket.gethostname()):
        server_path(store, name).unlink(missing_ok=True)


#: Variable for vLLM's key: on the command line, every user of the machine could read it.
KEY_VARIABLE = "VLLM_API_KEY"
#: Seconds that a server has to shut down.
_ENDING_S = 30.0


def serve(
    command: Sequence[str], *, store: Path, name: str, model: str, host: str, port: int, start_s: float
) -> int:
    """Run a server, announce it while it answers, and return its exit status.

    Parameters
    ----------
    command
        The server's command, which accepts ``--host`` and ``--port``.
    store, name, model
        Store and name of the announcement, and the model's name on the server.
    host, port
        Address to listen on; port 0 selects a free one.
    start_s
        Seconds to wait until it answers.

    Raises
    ------
    PrerequisiteError
        If the command does not exist, ends before it answers, or does not answer in time.
    """
    port = port or _free_port(host)
    key = os.environ.get(KEY_VARIABLE) or secrets.token_urlsafe(24)
    url = f"http://{host}:{port}/v1"
    full = [*command, "--host", host, "--port", str(port)]
    print(f"serving {name}: {' '.join(full)}", flush=True)
    try:
        environment = {**VLLM_ENVIRONMENT, **os.environ, KEY_VARIABLE: key}
        server = subprocess.Popen(full, env=environment, start_new_session=True)
    except OSError as problem:
        raise PrerequisiteError(
            f"{command[0]} cannot be started ({problem.strerror}): name the program with --set command=…, or "
            "load its environment in the pool's `setup`"
        ) from problem
    with ending():
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
            kill_group(server)


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _wait_until_it_answers(server: subprocess.Popen[bytes], url: str, key: str, start_s: float) -> None:
    # do not use a proxy for our own server
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(f"{url}/models", headers={"Authorization": f"Bearer {key}"})
    end = time.monotonic() + start_s
    while True:
        status = server.poll()
        if status is not None:
            raise PrerequisiteError(
                f"the server ended with status {status} before it answered; see its lines above"
            )
        try:
            with opener.open(request, timeout=10):
                return
        except urllib.error.HTTPError as problem:
            problem.close()
            # it is running, but still loading, or another kind of server
            if problem.code < 500:
                raise PrerequisiteError(
                    f"{url}/models answers HTTP {problem.code}: not an OpenAI-compatible server"
                ) from problem
        except OSError:
            pass
        if time.monotonic() > end:
            raise PrerequisiteError(f"{url} did not answer within {start_s:.0f} s (--start-seconds)")
        time.sleep(0.5)


@contextmanager
def ending() -> Iterator[None]:
    """Make SIGTERM and SIGINT raise an exception, so that child processes can be ended too."""

    def unwind(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, unwind) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and its session, that is, all processes it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_ENDING_S)
    # workers survive a crashed server and hold GPU memory
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, serve, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m infra.serving", description=__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--host", help="address to listen on; this machine's by default")
    parser.add_argument("--interface", help="network interface that provides the address")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--start-seconds", type=float, default=1800.0)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    try:
        return serve(
            options.command,
            store=options.store,
            name=options.name,
            model=options.model,
            host=options.host or _address(options.interface),
            port=options.port,
            start_s=options.start_seconds,
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
    # on Debian the host name resolves to loopback: determine the outgoing address; nothing is sent
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError as problem:
            raise PrerequisiteError(
                f"{socket.gethostname()} has no address for other machines ({problem}): set interface "
                f"in [pools.{os.environ.get(POOL_VARIABLE, '…')}]"
            ) from problem
        return str(probe.getsockname()[0])


if __name__ == "__main__":
    sys.exit(main())
