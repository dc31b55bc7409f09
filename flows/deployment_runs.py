"""Start a run of a deployment by its short name, and follow it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    LogFilter,
    LogFilterFlowRunId,
    LogFilterTimestamp,
    WorkerFilter,
    WorkerFilterStatus,
)
from prefect.client.schemas.objects import FlowRun, Log
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import LogSort
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.utilities.urls import url_for

from flows.flow_names import flow_names
from storage_schemas.errors import UsageError, UserInputError, did_you_mean
from storage_schemas.names import key_value

_LOOK_EVERY_S = 2.0
_LINES_AT_ONCE = 200
#: Maximum delay of a log line relative to newer ones.
_LATE = timedelta(seconds=30)


def find_deployment(client: SyncPrefectClient, name: str) -> DeploymentResponse:
    """Return a deployment of our flows by its full or short name.

    Raises
    ------
    UserInputError
        If there is none of that name; the message lists the existing ones.
    """
    for full in [name] if "/" in name else [f"{flow}/{name}" for flow in flow_names()]:
        try:
            return client.read_deployment_by_name(full)
        except (ObjectNotFound, ValueError):
            continue
    ours = client.read_deployments(flow_filter=FlowFilter(name=FlowFilterName(any_=list(flow_names()))))
    names = sorted(deployment.name for deployment in ours)
    hint = did_you_mean(name.rpartition("/")[2], names)
    have = f"it has {', '.join(names)}" if names else "`slvmeval deploy --profile FILE` creates them"
    raise UserInputError(f"no deployment {name!r} on that server: {have}.{hint}")


def parameters_from(texts: Sequence[str], deployment: DeploymentResponse) -> dict[str, Any]:
    """Parse ``KEY=VALUE`` texts into parameters; each value is JSON, text or one item of a list.

    Raises
    ------
    UserInputError
        For an invalid text or an unknown parameter.
    """
    properties = (deployment.parameter_openapi_schema or {}).get("properties", {})
    values: dict[str, Any] = {}
    for text in texts:
        key, value = key_value(text, f"--set {text}", "KEY=VALUE, such as release=eight")
        if properties and key not in properties:
            hint = did_you_mean(key, properties)
            names = ", ".join(properties)
            raise UsageError(f"--set {text}: unknown parameter {key!r}.{hint} Parameters: {names}")
        values[key] = value
        if properties.get(key, {}).get("type") == "array" and not isinstance(values[key], list):
            values[key] = [values[key]]
    return values


def start(client: SyncPrefectClient, deployment: DeploymentResponse, parameters: dict[str, Any]) -> FlowRun:
    """Start a run.

    Raises
    ------
    UserInputError
        For an invalid parameter value.
    """
    try:
        return client.create_flow_run_from_deployment(deployment.id, parameters=parameters)
    except PrefectHTTPStatusError as problem:
        if problem.response.status_code not in (409, 422):
            raise
        detail = problem.response.json().get("detail", problem.response.text)
        raise UsageError(f"--set: {detail}") from problem


def page(run: FlowRun) -> str:
    """Return the URL of a run's page in Prefect's UI, or its id without a UI."""
    return url_for(run) or str(run.id)


def why_not_taken(client: SyncPrefectClient, deployment: DeploymentResponse) -> str | None:
    """Return advice if no worker would take a run, else None."""
    pool = deployment.work_pool_name
    if pool is None:
        return f"deployment {deployment.name} has no work pool: run `slvmeval deploy` again"
    online = WorkerFilter(status=WorkerFilterStatus(any_=["ONLINE"]))
    if client.read_workers_for_work_pool(pool, worker_filter=online):
        return None
    return f"no worker can take it: start one with `prefect worker start --pool {pool}`"


def watch(client: SyncPrefectClient, run_id: UUID, say: Callable[[str], None]) -> FlowRun:
    """Print the log lines and states of a run until it ends; return the finished run.

    Requests to an unavailable server are repeated.
    """
    lines, state, away, over = _Lines(run_id), "", False, False
    while True:
        try:
            run = client.read_flow_run(run_id)
            new = lines.new(client)
        except httpx.HTTPError as problem:
            if not away:
                say(f"the server is unavailable ({problem}); waiting for it")
            away = True
            time.sleep(_LOOK_EVERY_S)
            continue
        away = False
        if run.state_name != state:
            state = run.state_name or ""
            say(f"-- {state}")
        for line in new:
            say(f"{line.timestamp:%H:%M:%S} {logging.getLevelName(line.level):<7} {line.message}")
        if over:
            return run
        # the server stores the last lines with a delay
        over = run.state is not None and run.state.is_final()
        time.sleep(_LOOK_EVERY_S)


class _Lines:
    """The log lines of a run, each once; lines from several processes may arrive out of order."""

    def __init__(self, run_id: UUID) -> None:
        self._run = LogFilterFlowRunId(any_=[run_id])
        self._seen: set[UUID] = set()
        self._from = datetime.min.replace(tzinfo=UTC)

    def new(self, client: SyncPrefectClient) -> list[Log]:
        """Return the lines received since the last call, ordered by time."""
        lines: list[Log] = []
        while True:
            since = LogFilter(flow_run_id=self._run, timestamp=LogFilterTimestamp(after_=self._from))
            some = client.read_logs(
                since, limit=_LINES_AT_ONCE, offset=len(lines), sort=LogSort.TIMESTAMP_ASC
            )
            lines += some
            if len(some) < _LINES_AT_ONCE:
                break
        if lines:
            self._from = lines[-1].timestamp - _LATE
        new = [line for line in lines if line.id not in self._seen]
        self._seen.update(line.id for line in new)
        # do not print a line for the end of each small task
        return [line for line in new if line.name != "prefect.task_runs" or line.level > logging.INFO]
