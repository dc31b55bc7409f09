"""``slvmeval doctor``: check this machine and suggest fixes."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from slvmeval.cli import terminal


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Start here")(doctor)


def doctor(
    store: terminal.StoreOption = None,
    model_folders: terminal.ModelFoldersOption = None,
    profile: terminal.ProfileOption = None,
    ask: Annotated[
        bool,
        typer.Option("--ask/--no-ask", help="Send each model server one small request; paid ones charge it."),
    ] = True,
    probe: Annotated[
        bool, typer.Option("--probe/--no-probe", help="Run a short job in each worker pool of the profile.")
    ] = True,
    probe_wait: Annotated[
        float,
        typer.Option(
            "--probe-wait", min=1, metavar="SECONDS", help="Seconds that these jobs may wait for a node."
        ),
    ] = 120.0,
    as_json: terminal.JsonOption = False,
) -> None:
    """Check Python, packages, store, weights, servers and the cluster, and suggest fixes.

    Exit code 1 if something is wrong. Each model server of the profile or the store gets a question, a
    picture or a text, whatever it is for. If the profile has worker pools, it also checks that SLURM can
    serve them, and that its nodes see the store, the same Python, their GPUs and this machine.

    Example: `slvmeval doctor --store STORE`; on a cluster `slvmeval doctor --profile site.toml`
    """
    from slvmeval.cli.doctor.checks import run_checks
    from slvmeval.cli.doctor.finding import CheckVerdict

    findings = run_checks(store, model_folders, profile, ask=ask, probe=probe, probe_wait_s=probe_wait)
    if as_json:
        terminal.print_json([vars(finding) for finding in findings])
    else:
        for finding in findings:
            terminal.say(f"{finding.verdict.value:<5} {finding.what:<16} {finding.message}")
        counts = Counter(finding.verdict for finding in findings)
        terminal.say(
            "all good" if not counts[CheckVerdict.FAIL] else f"{counts[CheckVerdict.FAIL]} problems to fix"
        )
    if any(finding.verdict is CheckVerdict.FAIL for finding in findings):
        raise typer.Exit(1)
