"""``slvmeval report``: what the judges of a release are worth."""

from __future__ import annotations

from typing import Annotated

import typer

from slvmeval.commands import shared
from slvmeval.commands.publish import OutOption


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Judges")(report)


def report(
    out: OutOption,
    release: shared.ReleaseArgument = None,
    evaluators: Annotated[
        list[str] | None,
        typer.Option("--evaluator", "-e", metavar="NAME", help="Only this one. May be given several times."),
    ] = None,
    interval: Annotated[
        str,
        typer.Option(
            "--interval", metavar="clustered|wilson|paper", help="Which one the page shows; the CSV has all."
        ),
    ] = "clustered",
    ties: Annotated[
        str,
        typer.Option("--ties", metavar="half|wrong|dropped", help="What an answer without a winner counts."),
    ] = "half",
    campaigns: Annotated[
        list[str] | None,
        typer.Option(
            "--campaign", metavar="NAME", help="Only votes of this campaign. May be given several times."
        ),
    ] = None,
    pairs: Annotated[
        int, typer.Option("--pairs", min=0, help="How many pairs that divide the evaluators get a page.")
    ] = 20,
    public: Annotated[
        bool, typer.Option("--public", help="Leave out what may not be passed on: the pages may be served.")
    ] = False,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    version: shared.VersionOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Write a page, tables (CSV, LaTeX, Markdown) and figures (SVG, PDF) on the judgements of a release.

    Example: `slvmeval report main --store STORE --out REPORT --open`
    """
    from typing import cast, get_args

    from storage_schemas.errors import UserInputError
    from tasks.annotation.people import people_of
    from tasks.publish.report.accuracy import INTERVAL_KINDS, IntervalKind
    from tasks.publish.report.gathered import gather
    from tasks.publish.report.write import write_report
    from tasks.statistics.trials import TiePolicy

    for name, value, known in (("interval", interval, INTERVAL_KINDS), ("ties", ties, get_args(TiePolicy))):
        if value not in known:
            raise UserInputError(f"--{name} {value}: choose {', '.join(known[:-1])} or {known[-1]}")
    opened = shared.open_release(store, release, version, profile)
    people = people_of(opened, campaigns or ())
    gathered = gather(opened, evaluators or (), cast(TiePolicy, ties), people=people)
    with shared.step_bar("report", quiet) as step:
        page = write_report(
            gathered,
            out.resolve(),
            interval=cast(IntervalKind, interval),
            private=not public,
            most=pairs,
            progress=step,
        )
    shared.say(str(page))
    if open_it:
        typer.launch(page.as_uri())
