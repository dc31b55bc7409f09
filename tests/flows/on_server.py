"""Build as the command does, on a Prefect server of its own, and print what that recorded.

``on_server.py OPTIONS WORKERS``
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import httpx


def main(options_file: str, workers: str) -> None:
    from flows.command_runs import run_flow
    from flows.release.flow import BUILD
    from flows.release.options import BuildOptions
    from infra.prefect_server import prefect_server
    from infra.profile import Profile

    options = BuildOptions.model_validate_json(Path(options_file).read_text())
    with prefect_server():
        before = known_runs()
        result = run_flow(BUILD, options, Profile(workers=int(workers)), quiet=True)
        print("RECORDED " + json.dumps(recorded(before) | {"strangers": strangers()}), flush=True)
    print("RESULT " + json.dumps(result.release.manifest.content_checksum), flush=True)


def known_runs() -> set[UUID]:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return {run.id for run in client.read_flow_runs()}


def recorded(before: set[UUID]) -> dict[str, object]:
    """Return what the server has of runs that it did not have before."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        runs = [run for run in client.read_flow_runs() if run.id not in before]
        ids = {run.id for run in runs}
        tasks = [task for task in client.read_task_runs() if task.flow_run_id in ids]
        return {
            "states": [str(run.state_name) for run in runs],
            "names": [run.name for run in runs],
            "tags": sorted(tag for run in runs for tag in run.tags),
            "messages": [run.state.message for run in runs if run.state is not None],
            "tasks": sorted(task.name for task in tasks),
            "task_tags": sorted(tag for task in tasks for tag in task.tags),
            "artifacts": {a.key or "": a.data for a in client.read_artifacts() if a.flow_run_id in ids},
        }


def strangers() -> dict[str, object]:
    """Return what a client without the password gets, and whether a command line shows it."""
    api, auth = os.environ["PREFECT_API_URL"], os.environ["PREFECT_API_AUTH_STRING"]
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            commands.append(path.read_bytes())
    return {
        "status": [
            httpx.post(f"{api}/flow_runs/filter", json={}, auth=given).status_code
            for given in (None, ("slvmeval", "guess"))
        ],
        "shown": any(auth.partition(":")[2].encode() in command for command in commands),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
