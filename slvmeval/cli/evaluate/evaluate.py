"""``slvmeval evaluate`` and ``slvmeval evaluators``.

``slvmeval judgements``: hand answers on to another store, and take them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.cli import terminal
from slvmeval.cli.terminal import (
    LIMITS_PANEL,
    OUTPUT_PANEL,
    DryRunOption,
    MostDollarsOption,
    MostTokensOption,
    PricesOption,
)

if TYPE_CHECKING:
    from flows.score.evaluate_options import EvaluateOptions
    from flows.score.evaluate_run import Evaluation, EvaluatorEstimate
    from flows.score.results import EvaluationResult


EVALUATE_PANEL = "Judges"
PAIRS_PANEL = "Which pairs"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(rich_help_panel=EVALUATE_PANEL)(evaluate)
    app.command(name="evaluators", rich_help_panel=EVALUATE_PANEL)(list_evaluators)
    app.add_typer(judgements, name="judgements", rich_help_panel="Judges")


def list_evaluators(as_json: terminal.JsonOption = False) -> None:
    """List the evaluators, ours and those of installed packages. None of them is imported.

    Example: `slvmeval evaluators`
    """
    from tasks.scoring.registry import BUILT_IN, added_evaluators

    rows = {**BUILT_IN, **{name: point.value for name, point in added_evaluators().items()}}
    if as_json:
        terminal.print_json(rows)
        return
    for name, where in rows.items():
        terminal.say(f"{name:<20} {where}")


def evaluate(
    release: terminal.ReleaseArgument = None,
    evaluators: Annotated[
        list[str] | None,
        typer.Option(
            "--evaluator",
            "-e",
            metavar="NAME[?KEY=VALUE&…]",
            help="Who judges, see `slvmeval evaluators`, with settings. May be given several times.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--evaluators", metavar="FILE", help="Evaluators with settings, as TOML."),
    ] = None,
    version: terminal.VersionOption = None,
    pairs_from: Annotated[
        str | None,
        typer.Option(
            "--pairs",
            metavar="NAME:PATH",
            help="Other pairs in place of a release's: a set of `slvmeval meta-sets list`, or pairs:FILE.",
            rich_help_panel=PAIRS_PANEL,
        ),
    ] = None,
    aspects: Annotated[
        list[str] | None,
        typer.Option("--aspect", metavar="NAME", help="Only this one.", rich_help_panel=PAIRS_PANEL),
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option("--pair", metavar="ID", help="Only this one.", rich_help_panel=PAIRS_PANEL),
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(
            "--most-per-aspect",
            min=1,
            help="At most so many pairs of each aspect, drawn; fewer lie within more.",
            rich_help_panel=PAIRS_PANEL,
        ),
    ] = None,
    strengths: Annotated[
        list[str] | None,
        typer.Option("--strength", metavar="NAME", help="Only this severity.", rich_help_panel=PAIRS_PANEL),
    ] = None,
    clips: Annotated[
        list[int] | None,
        typer.Option(
            "--clips", min=1, help="Only pairs with so many degraded clips.", rich_help_panel=PAIRS_PANEL
        ),
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="How often each request is made.")] = 1,
    retry: Annotated[
        bool, typer.Option("--retry", help="Ask again what an evaluator could not answer.")
    ] = False,
    usd: MostDollarsOption = None,
    tokens: MostTokensOption = None,
    prices: PricesOption = None,
    dry_run: DryRunOption = False,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            min=1,
            help="Look at only so many pairs of each aspect; for --dry-run.",
            rich_help_panel=LIMITS_PANEL,
        ),
    ] = None,
    prompts: terminal.PromptsOption = None,
    store: terminal.StoreOption = None,
    model_folders: terminal.ModelFoldersOption = None,
    workers: terminal.WorkersOption = None,
    profile: terminal.ProfileOption = None,
    direct: terminal.DirectOption = False,
    summary: terminal.SummaryOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, for programs.", rich_help_panel=OUTPUT_PANEL)
    ] = False,
    quiet: terminal.QuietOption = False,
) -> None:
    """Let evaluators judge the pairs of a release. What was asked before is not asked again.

    It may be stopped at any time; the same command goes on where it was. Exit code 0: every request has an
    answer, 3: some have none (failures, a limit, an evaluator that cannot be used), 1: failed.

    Example: `slvmeval evaluate main -e duration -e coin --store STORE`

    Other things: `slvmeval evaluate -e gpt-5-video?requests_per_minute=500 --most-dollars 20 --dry-run`,
    `slvmeval evaluate --evaluators judges.toml --aspect color --most-per-aspect 50`
    """
    from flows.score.evaluate_options import EvaluateParameters

    if not evaluators and file is None:
        raise typer.BadParameter("name at least one, see `slvmeval evaluators`", param_hint="--evaluator")
    site = terminal.settings(profile, store=store, model_folders=model_folders, workers=workers)
    parameters = EvaluateParameters(
        evaluators=tuple(evaluators or ()),
        evaluators_file=terminal.path_text(file),
        release=release,
        version=version,
        pairs=pairs_from,
        pair_ids=tuple(pairs or ()),
        aspects=tuple(aspects or ()),
        strengths=tuple(strengths or ()),
        clips=tuple(clips or ()),
        most_per_aspect=most,
        repeats=repeats,
        retry=retry,
        most_dollars=usd,
        most_tokens=tokens,
        prices=terminal.path_text(prices),
        prompts=terminal.path_text(prompts),
    )
    options = parameters.options(site)
    if dry_run:
        _say_estimate(options, sample, as_json, quiet)
        return
    from flows.score.evaluate import EVALUATE
    from slvmeval.cli.runs import run, write_summary

    result = run(EVALUATE, options, site, direct, quiet)
    if summary is not None:
        write_summary(summary, result.summary())
    if as_json:
        terminal.print_json(result.summary())
    else:
        print_result(result)
    raise typer.Exit(result.exit_code)


def print_result(result: EvaluationResult) -> None:
    """Print by evaluator what was answered, failed and left, and why one stopped."""
    rows = []
    for one in result.evaluators:
        total = one.total
        rows.append(
            (
                one.label,
                total.requests,
                total.answered,
                sum(total.failures.values()),
                total.left,
                one.asked,
                one.tokens,
                "unknown" if one.usd is None else f"{one.usd:.2f}",
                terminal.counted(dict(total.failures)),
            )
        )
    columns = ("evaluator", "requests", "answered", "failed", "left", "asked now", "tokens", "$", "failures")
    title = f"{result.title}: {result.pairs} pairs"
    terminal.console().print(terminal.table(title, columns, rows, numbers=7))
    for one in result.evaluators:
        if one.stopped:
            terminal.say(f"{one.label} stopped: {one.stopped}")


def _say_estimate(options: EvaluateOptions, sample: int | None, as_json: bool, quiet: bool) -> None:
    from flows.score.evaluate_run import Evaluation, estimate
    from flows.score.results import RequestProgress

    evaluation = Evaluation(options, RequestProgress(quiet=True))
    evaluation.prepare(ask_servers=False)
    rows = estimate(evaluation, sample, terminal.teller(quiet or as_json))
    if as_json:
        basis = {judge.label: judge.basis for judge in evaluation.judges if judge.basis}
        refused = {judge.label: judge.refused for judge in evaluation.judges if judge.refused}
        found = {"prices_as_of": evaluation.prices.as_of, "rows": [row.as_json() for row in rows]}
        terminal.print_json({**found, "basis": basis, "refused": refused})
        return
    if rows:
        _print_estimate(evaluation, rows)
    elif not any(judge.refused for judge in evaluation.judges):
        terminal.say("nothing is left to ask: every request was made before")
    for judge in evaluation.judges:
        if judge.basis:
            terminal.say(f"{judge.label}: {judge.basis}")
        if judge.refused:
            terminal.say(f"{judge.label} cannot be used: {judge.refused}")


def _print_estimate(evaluation: Evaluation, rows: list[EvaluatorEstimate]) -> None:
    columns = ("evaluator", "aspect", "requests", "calls", "images", "tokens in", "tokens out", "$")
    shown = [_cells(row) for row in rows]
    shown.append(("all", "", sum(row.requests for row in rows), *_totals(rows)))
    terminal.console().print(terminal.table(evaluation.pairs.title, columns, shown))
    if evaluation.prices.as_of:
        terminal.say(f"prices of {evaluation.prices.as_of}, {evaluation.prices.source}")


def _cells(row: EvaluatorEstimate) -> tuple[object, ...]:
    counts = (row.calls, row.images, row.tokens_in, row.tokens_out)
    usd = "unknown" if row.usd is None else f"{row.usd:.2f}"
    if row.tokens_in is None:
        usd = "–"
    return (
        row.evaluator,
        row.aspect,
        row.requests,
        *("–" if count is None else f"{count:.0f}" for count in counts),
        usd,
    )


def _totals(rows: list[EvaluatorEstimate]) -> tuple[str, ...]:
    said = [row for row in rows if row.tokens_in is not None]
    if not said:
        return ("–",) * 5
    names = ("calls", "images", "tokens_in", "tokens_out")
    sums = [sum(getattr(row, name) or 0 for row in said) for name in names]
    priced = [row.usd for row in said if row.usd is not None]
    more = "" if len(priced) == len(said) else " and what has no price"
    return (*(f"{count:.0f}" for count in sums), f"{sum(priced):.2f}{more}")


judgements = typer.Typer(no_args_is_help=True, help="The answers of evaluators, as a file.")


@judgements.command(name="export")
def export_judgements(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", dir_okay=False, help="A Parquet file; replaced if it is there.")
    ],
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Write all judgements of a store as one Parquet file, one row a request.

    Example: `slvmeval judgements export mine.parquet --store STORE`
    """
    from storage_schemas.judgements import JudgementsStore

    count = JudgementsStore(terminal.open_store(store, profile)).export(file)
    terminal.say(f"{count} judgements: {file}")


@judgements.command(name="import")
def import_judgements(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `judgements export` wrote.")],
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Check a file of judgements and add those that are not in the store yet.

    Example: `slvmeval judgements import theirs.parquet --store STORE`
    """
    from storage_schemas.judgements import JudgementsStore

    count = JudgementsStore(terminal.open_store(store, profile)).take(file)
    terminal.say(f"{count} judgements were added")
