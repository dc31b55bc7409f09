"""What a worker process imports before it is given work, so that its first item does not wait for it."""

from __future__ import annotations

import importlib
import logging
import os

from infra.prefect_server import RUN_SETTINGS, log_level, set_in_environment


def prepare() -> None:
    """Set Prefect up and import what the stages need; log lines of ours go to the run that they belong to.

    In a job they stand in its log too, however quiet the build is in its own terminal.
    """
    set_in_environment(RUN_SETTINGS)
    for module in ("flows.prefect_executor", "tasks.pairs.stages"):
        importlib.import_module(module)
    from prefect.settings import get_current_settings

    level = logging.getLevelNamesMapping()[get_current_settings().logging.level]
    log_level(min(level, logging.INFO) if os.environ.get("SLURM_JOB_ID") else level)


prepare()
