"""``slvmeval suite alignment`` and ``slvmeval suite correlations``: what a suite's scores are worth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.commands import shared
from slvmeval.commands.publish import OutOption
from slvmeval.commands.suite_scores import SettingsOption, SuiteArgument, suite_of_file, the_suite

if TYPE_CHECKING:
    from tasks.suites.base import Suite

_SHOWN = 10


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(alignment)
    app.command()(correlations)


def alignment(
    ratings: Annotated[
        Path, typer.Option("--ratings", metavar="FILE", help="People's ratings, as CSV or JSON Lines.")
    ],
    out: OutOption,
    suite: SuiteArgument = None,
    settings: SettingsOption = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the bootstrap.")] = 0,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """Say how far a suite agrees with people: rank correlation, α, difference, stability, robustness.

    Stability needs scores that were asked for several times (--repeats), robustness those of blurred videos
    (--blur). Exit code 3: ratings were left out, such as a 0, or those of a video without a score; all of
    them are in alignment-left-out.csv.

    Example: `slvmeval suite alignment --ratings FILE --out DIR --store STORE`
    """
    import math

    from tasks.suites.alignment.left_out import in_words, left_out_table, without_score
    from tasks.suites.alignment.ratings import load_ratings
    from tasks.suites.figures import alignment_figure
    from tasks.suites.leaderboard import current
    from tasks.suites.scores_store import ScoresStore
    from tasks.suites.tables import alignment_table, runs_of, write_tables

    held = shared.open_store(store, profile)
    made = the_suite(held, suite)
    scales = {one.name: (math.floor(one.low), math.ceil(one.high)) for one in made.dimensions}
    given = load_ratings(ratings, scales)
    rows = ScoresStore(held).rows()
    plain, _ = current([row for row in rows if row.suite == made.name], settings or ())
    blurred, _ = current([row for row in rows if row.suite.startswith(f"{made.name}+blur")])
    table = alignment_table(made.dimensions, runs_of(plain), given.rows, runs_of(blurred), seed)
    figures = [alignment_figure(table)] if table.rows else []
    unscored = without_score(given.rows, plain)
    left_out = [*given.left_out, *(one for found in unscored.values() for one in found)]
    paths = write_tables(out, [table, left_out_table(left_out)], figures)
    titles = [column.title for column in table.shown]
    shared.console().print(shared.table(table.title, titles, table.cells(), numbers=len(titles) - 1))
    shared.say(*(f"left out: {one.where}: {one.message}" for one in given.left_out[:_SHOWN]))
    if len(given.left_out) > _SHOWN:
        shared.say(f"… and {len(given.left_out) - _SHOWN} more ratings")
    shared.say(*(f"left out: {in_words(name, found)}" for name, found in unscored.items()))
    shared.say(f"{len(paths)} files: {out}")
    raise typer.Exit(shared.SOME_SET_ASIDE if left_out else 0)


def correlations(
    out: OutOption,
    suite: SuiteArgument = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            "--prompts",
            metavar="FILE",
            help="The prompts, for tables by theme and by the prompt's complexity.",
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            "--scores",
            metavar="FILE",
            help="Scores from a file in place of the store's: what `suite scores` writes, or any CSV, JSON "
            "Lines or Parquet with model, prompt_id, dimension and score.",
        ),
    ] = None,
    settings: SettingsOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """Say how the dimensions go together: Pearson, Spearman, Kendall, also by theme and by complexity.

    Of a file that names no suite every dimension counts, under its own name.

    Example: `slvmeval suite correlations --out DIR --prompts FILE --store STORE`
    """
    from tasks.suites.figures import correlation_figure
    from tasks.suites.leaderboard import current
    from tasks.suites.prompts import load_prompts
    from tasks.suites.scores_store import ScoresStore
    from tasks.suites.tables import correlation_tables, runs_of, write_tables

    if scores is None:
        held = shared.open_store(store, profile)
        made: Suite | None = the_suite(held, suite)
        there = ScoresStore(held).rows(made.name if made else "")
    else:
        made, there = suite_of_file(scores, suite)
    known = {} if prompts is None else load_prompts(prompts, made).by_id
    rows, _ = current(there, settings or ())
    tables = correlation_tables(runs_of(rows), made.dimensions if made else (), known)
    figures = [
        correlation_figure(table) for table in tables if table.name.startswith("correlations") and table.rows
    ]
    paths = write_tables(out, tables, figures)
    first = tables[0]
    titles = [column.title for column in first.shown]
    shared.console().print(shared.table(first.title, titles, first.cells()))
    shared.say(f"{len(paths)} files: {out}")
