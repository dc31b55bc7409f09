"""Imports of a worker process before it gets work, so that its first item starts without delay."""

from __future__ import annotations

import importlib
import logging
import os

from infra.prefect_server import RUN_SETTINGS, log_level, set_in_environment
from infra.surroundings import prepare_surroundings
from storage_schemas.secrets import strike_out_of_logs


def prepare() -> None:
    """Set up Prefect and import what the stages need; our log lines go to their flow run.

    In a SLURM job they also go to the job's log, even if the build is quiet in its own terminal.
    """
    strike_out_of_logs()
    prepare_surroundings()
    set_in_environment(RUN_SETTINGS)
    for module in ("flows.prefect_executor", "tasks.pairs.stages"):
        importlib.import_module(module)
    from prefect.settings import get_current_settings

    level = logging.getLevelNamesMapping()[get_current_settings().logging.level]
    log_level(min(level, logging.INFO) if os.environ.get("SLURM_JOB_ID") else level)


prepare()
