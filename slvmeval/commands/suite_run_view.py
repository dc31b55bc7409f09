"""What a run of a suite did, or would take, as the command line says it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from slvmeval.commands import shared

if TYPE_CHECKING:
    from flows.suite_options import SuiteOptions
    from flows.suite_result import SuiteResult
    from flows.suite_run import SuiteRun
    from tasks.evaluators.meta_sets.base import LeftOut
    from tasks.suites.estimate import EstimateRow

_SHOWN_LEFT_OUT = 10


def print_result(result: SuiteResult) -> None:
    """Print by dimension what was scored, failed and left, why one stopped, and what was left out."""
    rows = [
        (
            one.dimension,
            one.videos,
            one.scored,
            one.failed,
            one.left,
            one.asked,
            one.tokens,
            "unknown" if one.usd is None else f"{one.usd:.2f}",
            shared.counted(dict(one.failures)),
        )
        for one in result.dimensions
    ]
    columns = ("dimension", "scores", "there", "failed", "left", "scored now", "tokens", "$", "failures")
    title = f"{result.title}: {result.videos} videos"
    shared.console().print(shared.table(title, columns, rows, numbers=7))
    _warn((one.dimension, one.stopped) for one in result.dimensions)
    _say_left_out(result.left_out)


def _say_left_out(left_out: Sequence[LeftOut]) -> None:
    """Say the first rows of the files that could not be used, and how many more there are."""
    shared.say(*(f"left out: {one.where}: {one.message}" for one in left_out[:_SHOWN_LEFT_OUT]))
    if len(left_out) > _SHOWN_LEFT_OUT:
        shared.say(f"… and {len(left_out) - _SHOWN_LEFT_OUT} more; --json says all")


def _warn(dimensions: Iterable[tuple[str, str]]) -> None:
    """Say which dimensions were not gone on with, those with the same reason together."""
    from flows.suite_result import by_reason

    for reason, names in by_reason(dimensions).items():
        shared.say(f"warning: without {', '.join(names)}: {reason}")


def say_estimate(options: SuiteOptions, sample: int | None, as_json: bool, quiet: bool) -> None:
    """Say what a run would take, by dimension, and what cannot be scored; nobody is asked."""
    from flows.evaluate_progress import RequestProgress
    from flows.suite_run import SuiteRun

    run = SuiteRun(options, RequestProgress(quiet=True))
    run.prepare(ask_servers=False)
    rows = run.estimate(sample, shared.teller(quiet or as_json))
    refused = {one.dimension.name: one.refused for one in run.asked if one.refused}
    if as_json:
        found = {"prices_as_of": run.prices.as_of, "rows": [row.as_json() for row in rows]}
        shared.print_json({**found, "refused": refused, "left_out": [vars(one) for one in run.left_out]})
        return
    if rows:
        _print_estimate(run, rows)
    elif not refused:
        shared.say("nothing is left to score")
    _warn(refused.items())
    _say_left_out(run.left_out)


def _print_estimate(run: SuiteRun, rows: list[EstimateRow]) -> None:
    columns = ("dimension", "videos", "calls", "a video", "images", "tokens in", "tokens out", "a video", "$")
    shared.console().print(
        shared.table(run.suite.title, columns, [*map(_cells, rows), _total(rows)], numbers=8)
    )
    if run.prices.as_of:
        shared.say(f"prices of {run.prices.as_of}, {run.prices.source}")


def _cells(row: EstimateRow) -> tuple[Any, ...]:
    usd = "unknown" if row.usd is None else f"{row.usd:.2f}"
    return (
        row.dimension,
        row.videos,
        _count(row.calls),
        _count(row.calls_per_video, 1),
        *map(_count, (row.images, row.tokens_in, row.tokens_out, row.tokens_per_video)),
        "–" if row.calls is None else usd,
    )


def _total(rows: list[EstimateRow]) -> tuple[Any, ...]:
    said = [row for row in rows if row.calls is not None]
    calls, images, into, out = (
        sum(getattr(row, name) or 0 for row in said)
        for name in ("calls", "images", "tokens_in", "tokens_out")
    )
    more = "" if all(row.usd is not None for row in said) else " and what has no price"
    usd = f"{sum(row.usd or 0.0 for row in said):.2f}{more}"
    cells = (_count(calls), "", _count(images), _count(into), _count(out), "", usd)
    return ("all", sum(row.videos for row in rows), *(cells if said else ("–",) * 7))


def _count(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
