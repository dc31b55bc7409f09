"""``slvmeval suite run SUITE``: every suite has the same options.

The result of a run, or its estimate, as printed in a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from flows.parameters import Given
from flows.score.parameters import SuiteParameters
from slvmeval.cli import terminal
from slvmeval.cli.declared import Without
from storage_schemas.counts import count_text
from storage_schemas.model import Frozen

if TYPE_CHECKING:
    from flows.score.options import SuiteOptions
    from flows.score.results import SuiteResult
    from flows.score.suite_run import SuiteRun
    from tasks.scoring.suites.estimate import DimensionEstimate


def print_result(result: SuiteResult) -> None:
    """Print each dimension's counts, why it stopped, and the rows left out."""
    rows = [
        (
            one.dimension,
            one.videos,
            one.scored,
            one.failed,
            one.left,
            one.asked,
            one.tokens,
            terminal.dollars(one.usd, one.estimated),
            terminal.counted(dict(one.failures)),
        )
        for one in result.dimensions
    ]
    columns = ("dimension", "scores", "there", "failed", "left", "scored now", "tokens", "$", "failures")
    title = f"{result.title}: {count_text(result.videos, 'video')}"
    terminal.say(terminal.Grid(title, columns, rows, numbers=7))
    _warn((one.dimension, one.stopped) for one in result.dimensions)
    terminal.say_left_out(result.left_out, see="--format json")


def _warn(dimensions: Iterable[tuple[str, str]]) -> None:
    """Print which dimensions stopped, grouped by reason."""
    from flows.score.results import by_reason

    for reason, names in by_reason(dimensions).items():
        terminal.say(f"warning: without {', '.join(names)}: {reason}")


def say_estimate(options: SuiteOptions, switches: terminal.RunSwitches) -> None:
    """Print the estimated cost by dimension, and what cannot be scored, without asking any model."""
    from flows.score.results import RequestProgress
    from flows.score.suite_run import SuiteRun

    run = SuiteRun(options, RequestProgress(quiet=True))
    run.prepare(ask_servers=False)
    rows = run.estimate(switches.sample, terminal.teller(switches.quiet or switches.output != "table"))
    refused = {one.dimension.name: one.refused for one in run.dimension_parts if one.refused}
    assumed = run.assumes()
    output = {
        "assumed": assumed,
        "prices_as_of": run.prices.as_of,
        "rows": [row.as_json() for row in rows],
    }
    terminal.show(
        switches.output,
        {**output, "refused": refused, "left_out": [vars(one) for one in run.left_out]},
        *(
            [lambda: _print_estimate(run, rows)]
            if rows
            else [*(["nothing left to score"] if not refused else [])]
        ),
        *(text for text in assumed),
        lambda: _warn(refused.items()),
        lambda: terminal.say_left_out(run.left_out, see="--format json"),
    )


def _print_estimate(run: SuiteRun, rows: list[DimensionEstimate]) -> None:
    from slvmeval.cli.costs import cost_cells, count_cell, print_prices, total_cells

    columns = ("dimension", "videos", "calls", "images", "tokens in", "tokens out", "$")
    per_video = ("calls a video", "tokens a video")
    cells: list[tuple[object, ...]] = [
        (
            row.dimension,
            row.videos,
            *cost_cells(row.cost),
            count_cell(row.calls_per_video, 1),
            count_cell(row.tokens_per_video),
        )
        for row in rows
    ]
    cells.append(("all", sum(row.videos for row in rows), *total_cells(row.cost for row in rows), "", ""))
    terminal.say(terminal.Grid(run.suite.title, (*columns, *per_video), cells, numbers=8))
    print_prices(run.prices)


class RunOptions(Frozen):
    """Which suite."""

    suite: Annotated[str, Given(("suite",), "SUITE")] = Field(
        description="The suite, see `slvmeval list suites`."
    )


def run(
    chosen: RunOptions,
    parameters: Annotated[SuiteParameters, Without("suite")],
    switches: terminal.RunSwitches,
) -> None:
    """Score videos with a suite. Existing scores are not computed again.

    It can be stopped at any time; the same command continues. Exit code 0: every video has its scores, 3:
    some are missing, or rows of the files were left out, 1: failed.

    Example: `slvmeval suite run video-bench --videos DIR --prompt-suite FILE --store STORE`
    """
    from flows.score.options import suite_options

    switches.refuse_ignored()
    asked = parameters.model_copy(update={"suite": chosen.suite})
    site = asked.site()
    options = suite_options(asked, site)
    if switches.dry_run:
        say_estimate(options, switches)
        return
    from flows.command_runs import run_flow
    from flows.score.suite_run import SUITE
    from slvmeval.cli.runs import finish

    finish(run_flow(SUITE, options, site, switches.direct, switches.quiet), print_result, switches)
