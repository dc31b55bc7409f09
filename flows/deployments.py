"""The deployments of the flows on a Prefect server, their work pool, and the automation for dead runs.

The core deployments are defined in ``infra/prefect.yaml``, which also works with ``prefect deploy``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib import resources
from typing import Any

import yaml
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate
from prefect.client.schemas.objects import StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.deployments.runner import DeploymentApplyError, RunnerDeployment
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound, PrefectException
from prefect.flows import Flow, load_flow_from_entrypoint
from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings
from prefect.types.entrypoint import EntrypointType
from prefect.workers.process import ProcessWorker
from pydantic import ValidationError

from flows.flow_names import added_flows, flow_names
from flows.shell import INCOMPLETE
from infra.prefect_server import FLOW_NAME, SILENT_S, require_server
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from storage_schemas.value_problems import value_problem

NIGHTLY = "nightly"
#: Name of the automation that ends silent runs.
AUTOMATION = "slvmeval: a silent run has crashed"


@functools.cache
def deployment_file() -> dict[str, Any]:
    """Return the content of ``infra/prefect.yaml``."""
    text = resources.files("infra").joinpath("prefect.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content


def deployment(name: str) -> dict[str, Any]:
    """Return the entry of one deployment, from ``infra/prefect.yaml`` or a package's flow."""
    entries = deployment_file()["deployments"]
    if name in (points := added_flows()):
        # like ours, except for its flow; its parameters describe it
        return {
            "name": name,
            "description": "",
            "entrypoint": points[name].value.replace(":", "."),
            "work_pool": entries[0]["work_pool"],
            "parameters": {},
        }
    entry: dict[str, Any] = next(entry for entry in entries if entry["name"] == name)
    return entry


@contextmanager
def server(address: str | None) -> Iterator[SyncPrefectClient]:
    """Yield a client for the server at an address, by default that in Prefect's own settings.

    Raises
    ------
    UserInputError
        If no server is configured.
    PrerequisiteError
        If it does not answer.
    """
    given = address or get_current_settings().api.url
    if not given:
        raise UserInputError(
            "no Prefect server is configured: set prefect_api_url in the profile, or PREFECT_API_URL, such "
            "as http://127.0.0.1:4200/api; `prefect server start` starts one there"
        )
    with temporary_settings({PREFECT_API_URL: given}):
        require_server(given)
        with get_client(sync_client=True) as client:
            yield client


def make_work_pool(client: SyncPrefectClient, name: str) -> bool:
    """Create the work pool unless it exists; return whether it was created.

    Raises
    ------
    UserInputError
        If a work pool of that name has another type.
    """
    try:
        pool = client.read_work_pool(name)
    except ObjectNotFound:
        template = ProcessWorker.get_default_base_job_template()
        client.create_work_pool(WorkPoolCreate(name=name, type="process", base_job_template=template))
        return True
    if pool.type != "process":
        raise UserInputError(
            f"the work pool {name!r} on that server has the type {pool.type!r} instead of 'process': rename "
            f"or delete it (prefect work-pool delete {name})"
        )
    return False


def make_nightly_queue(client: SyncPrefectClient) -> bool:
    """Create the queue of nightly runs, which run one at a time; return whether it was created."""
    pool = deployment(NIGHTLY)["work_pool"]
    try:
        queue = client.read_work_queue_by_name(pool["work_queue_name"], work_pool_name=pool["name"])
    except ObjectNotFound:
        client.create_work_queue(pool["work_queue_name"], work_pool_name=pool["name"], concurrency_limit=1)
        return True
    client.update_work_queue(queue.id, concurrency_limit=1)
    return False


def make_deployment(
    client: SyncPrefectClient,
    name: str,
    parameters: dict[str, Any],
    cron: str | None = None,
    timezone: str | None = None,
) -> bool:
    """Create or update a deployment; return whether it was created.

    Values that are not given stay as they are on the server; a new deployment takes them from the file.

    Parameters
    ----------
    cron, timezone
        Its schedule, if it has one.

    Raises
    ------
    UserInputError
        If the schedule is invalid, or the server rejects the deployment.
    """
    entry = deployment(name)
    flow: Flow[..., Any] = load_flow_from_entrypoint(entry["entrypoint"])
    try:
        before = client.read_deployment_by_name(f"{flow.name}/{name}")
    except ObjectNotFound:
        before = None
    made = RunnerDeployment.from_flow(
        flow,
        name=name,
        schedules=_schedules(entry, before, cron, timezone),
        parameters={**entry["parameters"], **(before.parameters if before else {}), **parameters},
        description=entry["description"] or (flow.description or "").partition("\n\n")[0],
        work_pool_name=entry["work_pool"]["name"],
        work_queue_name=entry["work_pool"].get("work_queue_name"),
        job_variables=entry["work_pool"]["job_variables"],
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    try:
        made.apply()
    except (DeploymentApplyError, PrefectException) as problem:
        raise UserInputError(f"the server rejected deployment {name}: {problem}") from problem
    return before is None


def check_schedule(cron: str | None, timezone: str | None) -> None:
    """Raise UserInputError if a schedule is invalid."""
    for what, schedule in (("--cron", {"cron": cron}), ("--set timezone=…", {"timezone": timezone})):
        try:
            CronSchedule.model_validate({"cron": "0 0 * * *"} | {k: v for k, v in schedule.items() if v})
        except ValidationError as problem:
            message = value_problem(problem.errors()[0])
            raise UserInputError(f"{what}: {message}") from problem


def _schedules(
    declared: dict[str, Any], before: DeploymentResponse | None, cron: str | None, timezone: str | None
) -> list[DeploymentScheduleCreate]:
    """Return the schedules: as given, or else as on the server, or else from the file."""
    made = []
    for entry in declared.get("schedules", ()):
        first = before.schedules[0] if before is not None and before.schedules else None
        old = first.schedule if first is not None and isinstance(first.schedule, CronSchedule) else None
        schedule = CronSchedule(
            cron=cron or (old.cron if old else entry["cron"]),
            timezone=timezone or (old.timezone if old else entry["timezone"]),
        )
        # giving its time activates a schedule that is inactive by default
        on = entry.get("active", True)
        active = True if cron and not on else first.active if first else on
        made.append(DeploymentScheduleCreate(schedule=schedule, active=active))
    return made


def run_parameters(name: str, given: dict[str, Any], site: Profile) -> dict[str, Any]:
    """Return the parameters of a deployment.

    For the nightly deployment, a profile's `settle_s` takes precedence.
    """
    if name == NIGHTLY and site.settle_s > 0:
        return {**given, "settle_s": 0}
    return given


def nightly_schedule(client: SyncPrefectClient) -> str:
    """Describe the nightly deployment's schedule."""
    deployed = client.read_deployment_by_name(f"{FLOW_NAME}/{NIGHTLY}")
    words = []
    for entry in deployed.schedules or ():
        if isinstance(entry.schedule, CronSchedule):
            off = "" if entry.active else ", switched off"
            words.append(f"{entry.schedule.cron} ({entry.schedule.timezone or 'UTC'}{off})")
    return "; ".join(words)


def make_automation(client: SyncPrefectClient, silent_s: int = SILENT_S) -> bool:
    """Create or update the automation that ends runs without a process; return whether it was created.

    A running flow sends heartbeats. Without one for `silent_s` seconds the server sets the run to Crashed; if
    it is alive after all, it becomes Completed when it ends. Finished runs are not affected.
    """
    lives = "prefect.flow-run.heartbeat"
    ends = (
        f"prefect.flow-run.{state}" for state in ("Completed", INCOMPLETE, "Failed", "Cancelled", "Crashed")
    )
    automation = AutomationCore(
        name=AUTOMATION,
        description=f"Sets a run of {' or '.join(flow_names())} to Crashed that has sent no heartbeat for "
        f"{silent_s} s.",
        trigger=EventTrigger(
            posture=Posture.Proactive,
            match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
            match_related=ResourceSpecification(
                {"prefect.resource.role": "flow", "prefect.resource.name": list(flow_names())}
            ),
            for_each={"prefect.resource.id"},
            after={lives, "prefect.flow-run.Running"},
            expect={lives, *ends},
            threshold=1,
            within=timedelta(seconds=silent_s),
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED,
                message=f"The process of this run has sent no heartbeat for {silent_s} s.",
            )
        ],
    )
    before = client.read_automations_by_name(AUTOMATION)
    for old in before:
        client.update_automation(old.id, automation)
    if not before:
        client.create_automation(automation)
    return not before
