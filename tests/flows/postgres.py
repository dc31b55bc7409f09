"""A real PostgreSQL in a folder of its own, run by a user who is not root: it refuses to be."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.flows.prefect_servers import free_port


def postgres_programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, which Debian has off the path; None if there is none."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    result = shutil.which("initdb")
    if result:
        folders.append(Path(result).resolve().parent)
    needed = ("initdb", "postgres", "createdb", "pg_isready")
    return next((folder for folder in folders if all((folder / name).exists() for name in needed)), None)


def _not_root() -> dict[str, Any]:
    """Return arguments of Popen that make a process somebody else's than root's."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise AssertionError("there is no user postgres and no user nobody")


@contextmanager
def running_postgres(
    programs: Path, user: str, password: str, database: str, fsync: bool = False
) -> Iterator[int]:
    """Give the port of a server on loopback that has a user and an empty database.

    Without `fsync` it is quicker, and keeps what it has through everything but a loss of power.
    """
    somebody = _not_root()
    folder = Path(tempfile.mkdtemp(prefix="slvmeval-postgres-"))
    secret = folder / "password"
    secret.write_text(password)
    if somebody:
        for path in (folder, secret):
            os.chown(path, somebody["user"], somebody["group"])
    data, port = folder / "data", free_port()
    server = None
    try:
        initdb = [str(programs / "initdb"), "-D", str(data), "-U", user, "--auth=scram-sha-256"]
        run = {**somebody, "cwd": folder, "check": True, "stdout": subprocess.DEVNULL}
        subprocess.run([*initdb, f"--pwfile={secret}", "--no-sync"], **run)
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": str(folder)}
        settings["fsync"] = "on" if fsync else "off"
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        with (folder / "log").open("w") as log:
            command = [str(programs / "postgres"), "-D", str(data), "-p", str(port), *options]
            server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **somebody)
        where = ["-h", "127.0.0.1", "-p", str(port), "-U", user]
        knock = [str(programs / "pg_isready"), *where, "-t", "60"]
        while subprocess.run(knock, check=False, stdout=subprocess.DEVNULL).returncode:
            assert server.poll() is None, (folder / "log").read_text()
        environment = {**os.environ, "PGPASSWORD": password}
        subprocess.run([str(programs / "createdb"), *where, database], check=True, env=environment)
        yield port
    finally:
        if server is not None:
            server.terminate()
            server.wait(60)
        shutil.rmtree(folder)
