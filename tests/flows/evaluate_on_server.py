"""Run the flow on a server of its own and print what Prefect recorded: ``evaluate_on_server.py OPTIONS``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.flows.flow_on_server import recorded


def main(options_file: str) -> None:
    from flows.command_runs import run_flow
    from flows.score.evaluate_run import EVALUATE
    from flows.score.options import EvaluateOptions
    from infra.prefect_server import prefect_server
    from infra.profile import Profile

    options = EvaluateOptions.model_validate_json(Path(options_file).read_text())
    with prefect_server():
        result = run_flow(EVALUATE, options, Profile(workers=2), quiet=True)
        print("RECORDED " + json.dumps(recorded()), flush=True)
    print("RESULT " + json.dumps(result.summary()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
