"""Model servers that announce themselves: a file in the store says where each one answers.

A server that runs as a job has another address each time. `infra/serving.py` writes the file when the server
answers and removes it when the server ends; a build looks here for servers that its profile does not name.
"""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

from pydantic import ValidationError

from storage_schemas.commit import write_atomic
from storage_schemas.model import Frozen


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
