"""``slvmeval evaluate``.

``slvmeval judgements``: export answers, and import them into another store.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from flows.parameters import Given, SiteParameters
from flows.score.parameters import EvaluateParameters
from slvmeval.cli import terminal
from slvmeval.cli.declared import CommandGroup, refuse
from slvmeval.cli.evaluate.evaluators import list_evaluators
from slvmeval.cli.listing import KINDS, ListOptions, chosen
from slvmeval.command_line import command_line
from storage_schemas.counts import count_text

if TYPE_CHECKING:
    from flows.score.evaluate_run import Evaluation, EvaluatorEstimate
    from flows.score.options import EvaluateOptions
    from flows.score.results import EvaluationResult
    from tasks.report.accuracy import MatrixCell


EVALUATE_PANEL = "Judges"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(rich_help_panel=EVALUATE_PANEL)(evaluate)
    KINDS.update({"evaluators": list_evaluators, "batches": batches})
    app.add_typer(judgements, name="judgements", rich_help_panel="Judges")


def evaluate(parameters: EvaluateParameters, run: terminal.RunSwitches) -> None:
    """Let evaluators judge the pairs of a release. Answered requests are not repeated.

    It can be stopped at any time; the same command continues. Exit code 0: every request has an answer, 3:
    some have none (failures, a limit, an unusable evaluator), 1: failed.

    Example: `slvmeval evaluate main -e duration -e coin --store STORE`
    """
    from flows.score.options import evaluate_options

    if not (parameters.evaluators or parameters.evaluators_file):
        raise typer.BadParameter("name one, see `slvmeval list evaluators`", param_hint="--evaluator")
    run.refuse_ignored()
    if not parameters.adaptive:
        refuse(parameters, "only with --adaptive", "precision", "round_pairs")
    if not parameters.batch:
        refuse(parameters, "only with --batch", "wait")
    site = parameters.site()
    options = evaluate_options(parameters, site)
    if run.dry_run:
        _say_estimate(options, run)
        return
    from flows.command_runs import run_flow
    from flows.score.evaluate_run import EVALUATE
    from slvmeval.cli.runs import finish

    def show(result: EvaluationResult) -> None:
        print_result(result)
        if parameters.pairs is None:
            _print_accuracies(options, result)

    finish(run_flow(EVALUATE, options, site, run.direct, run.quiet), show, run)


def print_result(result: EvaluationResult) -> None:
    """Print the counts of each evaluator, and why it stopped."""
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
                terminal.dollars(one.usd, one.estimated),
                terminal.counted(dict(total.failures)),
            )
        )
    columns = ("evaluator", "requests", "answered", "failed", "left", "asked now", "tokens", "$", "failures")
    title = f"{result.title}: {count_text(result.pairs, 'pair')}"
    terminal.say(terminal.Grid(title, columns, rows, numbers=7))
    for one in result.evaluators:
        if one.stopped:
            terminal.say(f"{one.label} stopped: {one.stopped}")
        if one.estimated:
            terminal.say(
                f"{one.label}: the cost of {one.estimated} answers is an estimate: no tokens counted"
            )
    for batch in result.batches:
        terminal.say(batch.in_words())


def _print_accuracies(options: EvaluateOptions, result: EvaluationResult) -> None:
    """Print the accuracies of the evaluators that answered, and the command for a report."""
    from storage_schemas.release import Release
    from storage_schemas.store import Store
    from tasks.report.accuracy import matrix_of
    from tasks.report.judged_release import load_judged_release

    answered = [one.label for one in result.evaluators if one.total.answered]
    if any(one.total.failures for one in result.evaluators):
        command = command_line("judgements", "export", "judgements.parquet", store=options.store)
        terminal.say(f"for the message of each failure: {command}")
    if not answered:
        return
    release = Release.open(Store.open(Path(options.store)), options.release, options.version)
    matrix = matrix_of(load_judged_release(release))
    # one that judged with several settings has a column for each: NAME (SETTINGS)
    columns = [
        column
        for column, name in enumerate(matrix.evaluators)
        if name in answered or name.rpartition(" (")[0] in answered
    ]
    if columns:  # controls and excerpts do not count towards the accuracies
        rows = [
            (row.title, row.pairs, *(_accuracy_text(row.cells[column]) for column in columns))
            for row in (*matrix.rows, *matrix.summary)
        ]
        titles = ("aspect", "pairs", *(matrix.evaluators[column] for column in columns))
        heading = "Accuracy in %, with its 95 % interval clustered by source"
        terminal.say(terminal.Grid(heading, titles, rows, numbers=len(titles) - 1))
    command = command_line("report", release.name, "--out", "report", "--open", store=options.store)
    terminal.say(f"next: {command}")


def _accuracy_text(shown: MatrixCell) -> str:
    if shown.accuracy is None:
        return "–"
    accuracy = f"{100 * shown.accuracy:.1f}"
    if shown.interval is None:
        return accuracy
    return f"{accuracy} [{100 * shown.interval.low:.0f}, {100 * shown.interval.high:.0f}]"


def _say_estimate(options: EvaluateOptions, run: terminal.RunSwitches) -> None:
    from flows.score.evaluate_run import Evaluation, estimate
    from flows.score.results import RequestProgress

    evaluation = Evaluation(options, RequestProgress(quiet=True))
    evaluation.prepare(ask_servers=False)
    with terminal.long_work("the estimate", run.quiet or run.output != "table") as say:
        rows = estimate(evaluation, run.sample, say)
    basis = {judge.label: judge.basis for judge in evaluation.judges if judge.basis}
    refused = {judge.label: judge.refused for judge in evaluation.judges if judge.refused}
    output = {"prices_as_of": evaluation.prices.as_of, "rows": [row.as_json() for row in rows]}
    nothing = [] if refused else ["nothing left to ask: every request has been made"]
    terminal.show(
        run.output,
        {**output, "basis": basis, "refused": refused},
        *([lambda: _print_estimate(evaluation, rows)] if rows else nothing),
        *(f"{label}: {text}" for label, text in basis.items()),
        *(f"{label} cannot be used: {why}" for label, why in refused.items()),
    )


def _print_estimate(evaluation: Evaluation, rows: list[EvaluatorEstimate]) -> None:
    from slvmeval.cli.costs import cost_cells, print_prices, total_cells

    columns = ("evaluator", "aspect", "requests", "calls", "images", "tokens in", "tokens out", "$")
    cells = [(row.evaluator, row.aspect, row.requests, *cost_cells(row.cost)) for row in rows]
    cells.append(("all", "", sum(row.requests for row in rows), *total_cells(row.cost for row in rows)))
    terminal.say(terminal.Grid(evaluation.pairs.title, columns, cells))
    print_prices(evaluation.prices)


judgements = CommandGroup(no_args_is_help=True, help="The answers of evaluators as a file.")


class ExportJudgementsOptions(SiteParameters):
    """Options of `export-judgements`."""

    file: Annotated[Path, Given(("file",), "FILE", no_folder=True)] = Field(
        description="A Parquet file; it may exist."
    )


@judgements.command(name="export")
def export_judgements(
    options: ExportJudgementsOptions,
) -> None:
    """Write all judgements of a store as one Parquet file, one row per request.

    Example: `slvmeval judgements export mine.parquet --store STORE`
    """
    from storage_schemas.judgements import JudgementsStore

    count = JudgementsStore(terminal.open_store(options)).export(options.file)
    terminal.say(f"{count_text(count, 'judgement')}: {options.file}")


def batches(options: ListOptions) -> None:
    """Print the batches not collected yet: id, age, and what the provider last reported."""
    from tasks.scoring.submitted import batch_records

    waiting = {
        batch.id: batch
        for records in batch_records(terminal.open_store(options))
        for batch in records.batches()
    }
    found = [waiting[id_] for id_ in chosen(options, waiting)]
    lines = [batch.in_words() for batch in found] or ["no batches are waiting for answers"]
    terminal.show(options.output, [batch.as_json() for batch in found], *lines)


class ImportJudgementsOptions(SiteParameters):
    """Options of `import-judgements`."""

    file: Annotated[Path, Given(("file",), "FILE")] = Field(
        description="A file written by `judgements export`."
    )


@judgements.command(name="import")
def import_judgements(
    options: ImportJudgementsOptions,
) -> None:
    """Check a file of judgements and add those that the store lacks.

    Example: `slvmeval judgements import theirs.parquet --store STORE`
    """
    from storage_schemas.judgements import JudgementsStore

    count = JudgementsStore(terminal.open_store(options)).take(options.file)
    terminal.say(f"{count} judgements were added")
