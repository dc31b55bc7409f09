"""Settings of Prefect for the processes of a build: the flow's own, and those of its workers."""

from __future__ import annotations

import logging
import os

#: The name of the flow, and of its main deployment.
FLOW_NAME = "build-slvmeval"
#: The flow that lets evaluators judge a release, and its deployment.
EVALUATE_FLOW_NAME = "evaluate-slvmeval"
#: The flow that scores videos with a suite, and its deployment.
SUITE_FLOW_NAME = "suite-slvmeval"
#: The flow that puts a release before people and filters it by their votes, and its deployment.
ANNOTATE_FLOW_NAME = "annotate-slvmeval"
#: The flow that makes a suite's prompts from videos, and its deployment.
PROMPTS_FLOW_NAME = "prompts-slvmeval"
#: All flows of ours.
FLOW_NAMES = (FLOW_NAME, EVALUATE_FLOW_NAME, SUITE_FLOW_NAME, ANNOTATE_FLOW_NAME, PROMPTS_FLOW_NAME)

#: Whose log lines are shown with a run in Prefect's UI.
OUR_PACKAGES = ("storage_schemas", "tasks", "infra", "flows", "slvmeval")

#: A flow says so often that it lives, in seconds; a run that is silent for `SILENT_S` counts as crashed.
HEARTBEAT_S = 60
SILENT_S = 900

#: For the process of a flow and for those of its workers.
RUN_SETTINGS = {
    "PREFECT_LOGGING_EXTRA_LOGGERS": ",".join(OUR_PACKAGES),
    # lines that are written before or after a run belong to none
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    # a worker that starts while the server is away would not start
    "PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED": "false",
    # a request waits for a server that is away: 2, 4, 8 … 256 seconds
    "PREFECT_CLIENT_MAX_RETRIES": "8",
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S),
    # calls nobody outside
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}


def log_level(level: int) -> None:
    """Let lines of our packages from this level on reach whoever listens."""
    for name in OUR_PACKAGES:
        logging.getLogger(name).setLevel(level)


def quiet_libraries() -> None:
    """Let only warnings of the orchestrator's libraries through; importing them sets them to tell more."""
    for name in ("distributed", "prefect.task_runners", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)


def set_in_environment(settings: dict[str, str]) -> None:
    """Set what the user has not set; call it before Prefect is imported."""
    for name, value in settings.items():
        os.environ.setdefault(name, value)
