"""What the last build of a store is doing or did: read from the file that its progress writes."""

from __future__ import annotations

import json
import os
from typing import Any

from storage_schemas.errors import UserInputError
from storage_schemas.store import Store

#: The progress of the last build of a store, below the store's cache.
STATE_NAME = "run.json"


def run_state(store: Store) -> dict[str, Any] | None:
    """Return the state of the store's last build, or None where none is known.

    A build that says it is running but whose process is gone has ``died``.
    """
    try:
        state: dict[str, Any] = json.loads((store.cache / STATE_NAME).read_text(encoding="utf-8"))
        if state["status"] == "running" and not _alive(int(state["pid"])):
            state["status"] = "died"
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        # a cache: a damaged one says no more than a missing one
        return None
    return state


def refuse_while_running(store: Store, what: str) -> None:
    """Refuse to touch a store in which a build of this machine is running.

    Raises
    ------
    UserInputError
        With the build's process id.
    """
    state = run_state(store)
    if state is not None and state["status"] == "running":
        raise UserInputError(
            f"a build is running in {store.root} (process {state['pid']}): {what} would take away what it "
            "needs; wait for it (slvmeval status --watch) or stop it"
        )


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
