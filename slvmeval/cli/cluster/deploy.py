"""``slvmeval deploy`` creates the deployments on a Prefect server; ``slvmeval run`` starts a run of one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from pydantic import Field

from flows.parameters import Given, SiteParameters
from slvmeval.cli import terminal
from slvmeval.command_line import command_line

DEPLOY_PANEL = "Deployments on a Prefect server"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=DEPLOY_PANEL)(deploy)
    app.command(rich_help_panel=DEPLOY_PANEL)(run)


class DeployOptions(SiteParameters):
    """Options of `deploy`."""

    cron: Annotated[tuple[str, ...], Given(metavar="[NAME=]'M H * * *'")] = Field(
        default=(),
        description="Schedule of the nightly build, initially 2:00; evaluate='M H * * *' and annotate='M "
        "H * * *' schedule the other flows, initially never.",
    )
    timezone: Annotated[str | None, Given(metavar="ZONE", by_set=True)] = Field(
        default=None, description="Time zone, such as Asia/Tokyo; initially UTC."
    )
    recipe: Annotated[str | None, Given(metavar="NAME|FILE")] = Field(
        default=None, description="Recipe of the builds; initially cpu-approx."
    )
    release: Annotated[str | None, Given(metavar="NAME")] = Field(
        default=None, description="Name of the release of the builds; the profile's by default."
    )
    evaluators: Annotated[tuple[str, ...], Given(("--evaluator",), "NAME")] = Field(
        default=(), description="Evaluator used by evaluate-slvmeval."
    )
    notify: Annotated[str | None, Given(metavar="URL|BLOCK", variable="SLVMEVAL_NOTIFY")] = Field(
        default=None,
        description="Send a message when a deployed run fails or sets something aside: to a webhook "
        "(Slack, Mattermost, …), or by a notification block of the server, such as "
        "sendgrid-email/lab. Other users can read command lines: pass the secret address of "
        "a webhook in SLVMEVAL_NOTIFY, or give - to read it from standard input.",
    )


def deploy(
    options: DeployOptions,
) -> None:
    """Create or update the deployments on a Prefect server: builds, evaluation, annotation and suites.

    They are `build-slvmeval`, `nightly`, `evaluate-slvmeval`, `annotate-slvmeval`, `suite-slvmeval` and
    those of installed packages, such as `prompts-slvmeval`. It also creates the work pool `slvmeval`, and an
    automation that fails runs whose process has died. The server is the profile's `prefect_api_url`, else
    that of PREFECT_API_URL. Run it again to change options: those not given stay unchanged.

    Example: `slvmeval deploy --profile site.toml --cron '30 1 * * *' --set timezone=Asia/Tokyo`
    """
    import os

    from flows.release.flow import BUILD
    from flows.release.parameters import BuildParameters
    from flows.score.options import evaluate_options
    from flows.score.parameters import EvaluateParameters
    from infra.prefect_server import (
        ANNOTATE_FLOW_NAME,
        EVALUATE_FLOW_NAME,
        FLOW_NAME,
        SUITE_FLOW_NAME,
    )
    from infra.profile import PROFILE_VARIABLE
    from storage_schemas.errors import UserInputError

    crons = _crons(options.cron)
    profile = options.profile or os.environ.get(PROFILE_VARIABLE)
    if not profile:
        raise typer.BadParameter("name the profile for the runs", param_hint="--profile")
    file = Path(profile)
    given: dict[str, Any] = {
        "profile": str(file.expanduser().resolve()),
        **({"recipe": _absolute(options.recipe)} if options.recipe else {}),
        **({"release": options.release} if options.release else {}),
    }
    if not terminal.settings(file).sources:
        raise UserInputError(
            f"profile {file} names no sources, which the nightly build scans: add a line such as "
            'sources = ["folder:/data/videos"]'
        )
    # report now anything that would make the runs fail
    parameters = BuildParameters(**given)
    site = parameters.site_on_worker()
    BUILD.options(parameters, site)
    judging: dict[str, Any] = {key: value for key, value in given.items() if key != "recipe"}
    if options.evaluators:
        evaluate_options(EvaluateParameters(evaluators=tuple(options.evaluators)), site)
        judging["evaluators"] = tuple(options.evaluators)
    elif crons["evaluate"]:
        raise typer.BadParameter("name the evaluators for the schedule", param_hint="--evaluator")

    from flows import deployments
    from flows.flow_names import added_flows

    for cron in crons.values():
        deployments.check_schedule(cron, options.timezone)
    with deployments.server(site.prefect_api_url) as client:
        address = str(client.api_url).rstrip("/")
        pool = deployments.deployment(FLOW_NAME)["work_pool"]["name"]
        _report("work pool", pool, deployments.make_work_pool(client, pool))
        queue = deployments.make_nightly_queue(client)
        _report("work queue", f"{pool}/{deployments.NIGHTLY}, one run at a time", queue)
        for name in (FLOW_NAME, deployments.NIGHTLY):
            created = deployments.make_deployment(
                client,
                name,
                deployments.run_parameters(name, given, site),
                crons["nightly"],
                options.timezone,
            )
            _report("deployment", f"{FLOW_NAME}/{name}", created)
        created = deployments.make_deployment(
            client, EVALUATE_FLOW_NAME, judging, crons["evaluate"], options.timezone
        )
        _report("deployment", f"{EVALUATE_FLOW_NAME}/{EVALUATE_FLOW_NAME}", created)
        showing: dict[str, Any] = {key: value for key, value in given.items() if key != "recipe"}
        created = deployments.make_deployment(
            client, ANNOTATE_FLOW_NAME, showing, crons["annotate"], options.timezone
        )
        _report("deployment", f"{ANNOTATE_FLOW_NAME}/{ANNOTATE_FLOW_NAME}", created)
        for name in (SUITE_FLOW_NAME, *added_flows()):
            created = deployments.make_deployment(client, name, {"profile": given["profile"]})
            _report("deployment", f"{name}/{name}", created)
        _report("automation", deployments.AUTOMATION, deployments.make_automation(client))
        if options.notify is not None:
            from flows import notifications

            where = sys.stdin.readline().strip() if options.notify == "-" else options.notify
            _report("automation", notifications.NOTIFICATION, notifications.notify(client, where))
        when = deployments.nightly_schedule(client)
    terminal.say(
        f"nightly:    {when}",
        "",
        "Next, on the machine that runs the builds, permanently:",
        f"  PREFECT_API_URL={address} prefect worker start --pool {pool}",
        "Then, from here:",
        f"  {command_line('run', FLOW_NAME, '--profile', file, '--watch')}",
    )
    if site.pools and urlsplit(address).hostname in _LOOPBACK:
        terminal.say(
            "",
            f"The compute nodes of the profile's pools cannot reach {address}: start the server "
            "with --host, and set prefect_api_url to an address that they can reach.",
        )


def _crons(given: Sequence[str]) -> dict[str, str | None]:
    """Return the schedule of each flow; None if it is not given."""
    from storage_schemas.errors import UsageError, suggestion

    crons: dict[str, str | None] = dict.fromkeys(("nightly", "evaluate", "annotate"))
    for text in given:
        name, equals, cron = text.partition("=")
        name, cron = (name, cron) if equals else ("nightly", text)
        if name not in crons:
            raise UsageError(f"--cron {text}: {suggestion(name, list(crons), 'the schedules are of')}")
        crons[name] = cron
    return crons


def _absolute(recipe: str) -> str:
    """Return a recipe for the worker: a file as an absolute path."""
    return str(Path(recipe).resolve()) if Path(recipe).suffix in (".toml", ".json") else recipe


def _report(what: str, name: str, created: bool) -> None:
    terminal.say(f"{what + ':':<11} {name} ({'created' if created else 'up to date'})")


class RunOptions(SiteParameters):
    """Options of `run`."""

    name: Annotated[str, Given(("name",), "NAME")] = Field(
        description="build-slvmeval, nightly, evaluate-slvmeval, suite-slvmeval, annotate-slvmeval "
        "or prompts-slvmeval."
    )
    parameters: Annotated[tuple[str, ...], Given(("--set",), "KEY=VALUE")] = Field(
        default=(), description="A parameter of the run; its value is JSON or text."
    )
    watch: bool = Field(default=False, description="Follow the run until it ends.")


def run(
    options: RunOptions,
) -> None:
    """Start a run of a deployment that `slvmeval deploy` created; a Prefect worker executes it.

    The profile only supplies the Prefect server's address. With --watch the exit code is 0 if the run is
    Completed, else 1; interrupting the command does not stop the run.

    Example: `slvmeval run build-slvmeval --set 'sources=["folder:/videos"]' --set release=eight --watch`
    """
    from flows import deployment_runs, deployments

    site = options.site()
    with deployments.server(site.prefect_api_url) as client:
        deployment = deployment_runs.find_deployment(client, options.name)
        values = deployment_runs.parameters_from(options.parameters or (), deployment)
        started = deployment_runs.start(client, deployment, values)
        terminal.say(f"run {started.name} of {options.name}: {deployment_runs.page(started)}")
        waiting = deployment_runs.why_not_taken(client, deployment)
        if waiting:
            terminal.tell(waiting)
        if options.watch:
            ended = deployment_runs.watch(client, started.id, terminal.say)
            state = ended.state
            terminal.say(f"{ended.state_name}: {state.message if state is not None else ''}".rstrip(": "))
            if state is None or not state.is_completed():
                raise typer.Exit(terminal.FAILED)
