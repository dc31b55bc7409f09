"""``slvmeval doctor``: is this machine fit, and what to do where it is not."""

from __future__ import annotations

from collections import Counter

import typer

from slvmeval.commands import shared


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Start here")(doctor)


def doctor(
    store: shared.StoreOption = None,
    models: shared.ModelsOption = None,
    profile: shared.ProfileOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Check Python, packages, store and weights, and say what to do. Exit code 1 if something is wrong.

    Example: `slvmeval doctor --store STORE`
    """
    from slvmeval.commands.checks import Verdict, run_checks

    findings = run_checks(store, models, profile)
    if as_json:
        shared.print_json([vars(finding) for finding in findings])
    else:
        for finding in findings:
            shared.say(f"{finding.verdict.value:<5} {finding.what:<16} {finding.message}")
        counts = Counter(finding.verdict for finding in findings)
        shared.say(
            "all good" if not counts[Verdict.FAIL] else f"{counts[Verdict.FAIL]} things have to be mended"
        )
    if any(finding.verdict is Verdict.FAIL for finding in findings):
        raise typer.Exit(1)
