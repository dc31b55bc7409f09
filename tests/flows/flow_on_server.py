"""Run the flow on a server of its own and print what Prefect recorded: ``flow_on_server.py OPTIONS``."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import httpx


def main(options_file: str) -> None:
    from flows.build.flow import BUILD
    from flows.build.options import BuildOptions
    from flows.command_runs import run_flow
    from infra.prefect_server import prefect_server
    from infra.profile import Profile

    options = BuildOptions.model_validate_json(Path(options_file).read_text())
    with prefect_server():
        result = run_flow(BUILD, options, Profile(workers=2), quiet=True)
        print("RECORDED " + json.dumps(recorded() | {"strangers": strangers()}), flush=True)
    print("CHECKSUM " + result.release.manifest.content_checksum, flush=True)


def recorded() -> dict[str, object]:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs()
        return {
            "states": [str(run.state_name) for run in runs],
            "names": [run.name for run in runs],
            "tags": sorted(tag for run in runs for tag in run.tags),
            "messages": [run.state.message for run in runs if run.state is not None],
            "tasks": sorted(run.name for run in client.read_task_runs()),
            "task_tags": sorted(tag for run in client.read_task_runs() for tag in run.tags),
            "artifacts": sorted({artifact.key or "" for artifact in client.read_artifacts()}),
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
    main(sys.argv[1])
