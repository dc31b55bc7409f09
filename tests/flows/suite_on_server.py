"""Run the flow on a server of its own and print what Prefect recorded: ``suite_on_server.py OPTIONS``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.flows.flow_on_server import recorded


def tables() -> dict[str, Any]:
    """Return the data of all artifacts by key."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return {artifact.key or "": artifact.data for artifact in client.read_artifacts()}


def main(options_file: str) -> None:
    from flows.command_runs import run_flow
    from flows.score.options import SuiteOptions
    from flows.score.suite_run import SUITE
    from infra.prefect_server import prefect_server
    from infra.profile import Profile

    options = SuiteOptions.model_validate_json(Path(options_file).read_text())
    with prefect_server():
        result = run_flow(SUITE, options, Profile(workers=2), quiet=True)
        print("RECORDED " + json.dumps(recorded() | {"tables": tables()}), flush=True)
    print("RESULT " + json.dumps(result.summary()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
