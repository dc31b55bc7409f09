"""What the builds of a store are doing or did: read from the files that their progress writes."""

from __future__ import annotations

from typing import Any

from storage_schemas.errors import UserInputError
from storage_schemas.store import Store


def run_states(store: Store) -> list[dict[str, Any]]:
    """Return the state of every build of a store that is known: the running ones first, each newest first.

    A build that says it is running but whose process on this machine is gone has ``died``.
    """
    from infra.progress import read_runs

    return sorted(read_runs(store.cache), key=lambda run: run["status"] != "running")


def refuse_while_running(store: Store, what: str) -> None:
    """Refuse to touch a store in which a build is running.

    Raises
    ------
    UserInputError
        With the build's machine and process id, and what to do if that process is no more.
    """
    for run in run_states(store):
        if run["status"] == "running":
            raise UserInputError(
                f"a build is running in {store.root} (process {run['pid']} on {run['host']}): {what} would "
                "take away what it needs; wait for it (slvmeval status --watch) or stop it; if that process "
                f"is no more, remove {run['file']}"
            )
