"""``slvmeval run``: start a deployment by its bare name."""

from __future__ import annotations

from typing import Annotated

import typer

from slvmeval.commands import shared
from slvmeval.commands.deploy import DEPLOY_PANEL


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel=DEPLOY_PANEL)(run)


def run(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="build-slvmeval, nightly, evaluate-slvmeval, suite-slvmeval, annotate-slvmeval "
            "or prompts-slvmeval.",
        ),
    ],
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            metavar="KEY=VALUE",
            help="A parameter of the run, its value JSON or text. May be given several times.",
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Follow the run until it ends.")] = False,
    profile: shared.ProfileOption = None,
) -> None:
    """Start a run of a deployment that `slvmeval deploy` made; a Prefect worker takes it.

    The profile only says where the Prefect server is. With --watch the exit code is 0 if the run is
    Completed, else 1; to stop watching does not stop the run.

    Example: `slvmeval run build-slvmeval --param 'sources=["folder:/videos"]' --param release=eight --watch`
    """
    from flows import deployed_runs, deployments

    site = shared.settings(profile)
    with deployments.server(site.prefect_api_url) as client:
        deployment = deployed_runs.find_deployment(client, name)
        values = deployed_runs.parameters_from(parameters or (), deployment)
        started = deployed_runs.start(client, deployment, values)
        shared.say(f"run {started.name} of {name}: {deployed_runs.page(started)}")
        waiting = deployed_runs.nobody_takes_it(client, deployment)
        if waiting:
            shared.tell(waiting)
        if watch:
            ended = deployed_runs.watch(client, started.id, shared.say)
            state = ended.state
            shared.say(f"{ended.state_name}: {state.message if state is not None else ''}".rstrip(": "))
            if state is None or not state.is_completed():
                raise typer.Exit(shared.FAILED)
