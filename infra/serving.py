"""Run a model server until it ends, and announce it: ``python -m infra.serving … -- COMMAND``.

The command gets ``--host`` and ``--port`` at its end and the key in ``VLLM_API_KEY``. When it answers, its
address is written into the store, where builds look for it (`infra/serving.py`).

Model servers that announce themselves: a file in the store says where each one answers.

A server that runs as a job has another address each time. `infra/serving.py` writes the file when the
server answers and removes it when the server ends; a build looks here for servers that its profile does not
name.

The command line of vLLM, the documented server of language models.
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
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from pydantic import ValidationError

from storage_schemas.commit import write_atomic
from storage_schemas.errors import PrerequisiteError, SlvmevalError
from storage_schemas.model import Frozen
from storage_schemas.provenance import utc_now


class ServerFile(Frozen):
    """Where a server answers.

    Parameters
    ----------
    url
        Its address, ending in ``/v1``.
    model
        What it calls its model.
    key
        The key that it wants; only this user may read the file.
    host, job, process
        Where it runs: the machine, the SLURM job if it is one, the id of the process that wrote this.
    since
        When it began to answer, UTC.
    """

    url: str
    model: str
    key: str
    host: str
    job: str | None = None
    process: int
    since: str


def server_path(store: Path, name: str) -> Path:
    """Return where the file of a server lies."""
    return store / "servers" / f"{name}.json"


def write_server(store: Path, name: str, server: ServerFile) -> None:
    """Announce a server; nobody else can read the file, since its key is in it."""
    path = server_path(store, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    write_atomic(path, server.model_dump_json(indent=1).encode(), 0o600)


def read_server(store: Path, name: str) -> ServerFile | None:
    """Return where a server answers, or None if none of that name has announced itself."""
    try:
        return ServerFile.model_validate(json.loads(server_path(store, name).read_bytes()))
    except (FileNotFoundError, ValidationError, ValueError):
        return None


def forget_server(store: Path, name: str) -> None:
    """Remove the file of a server, if it is this process's."""
    found = read_server(store, name)
    if found is not None and (found.process, found.host) == (os.getpid(), socket.gethostname()):
        server_path(store, name).unlink(missing_ok=True)


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


def vllm_command(
    weights: str,
    *,
    served_as: str,
    revision: str | None = None,
    program: str = "vllm",
    max_model_len: int = 32768,
    gpus: int = 1,
    more: Sequence[str] = (),
) -> list[str]:
    """Return the command that serves a Qwen3 model, without host and port.

    Parameters
    ----------
    weights
        Folder of the checkpoint, or a repository of the hub.
    served_as
        The name by which clients ask for it.
    revision
        Commit of the repository, where `weights` is one.
    max_model_len
        Longest prompt and answer together, tokens.
    gpus
        GPUs that share the model.
    more
        Further arguments, last.
    """
    return [
        program,
        "serve",
        weights,
        *("--served-model-name", served_as),
        *(("--revision", revision) if revision else ()),
        *("--dtype", "bfloat16"),
        *("--max-model-len", str(max_model_len)),
        # thoughts apart from the answer: the schema is for the answer alone
        *("--reasoning-parser", "qwen3"),
        *(("--tensor-parallel-size", str(gpus)) if gpus > 1 else ()),
        *more,
    ]
