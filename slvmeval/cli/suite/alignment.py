"""``slvmeval suite alignment``: agreement of a suite or of its variants with people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from slvmeval.cli import terminal
from slvmeval.cli.declared import refuse
from slvmeval.cli.suite.against import compared_with
from slvmeval.cli.suite.scores import ALL, AlignmentOptions, compare_with_people, the_suite
from storage_schemas.counts import count_text

if TYPE_CHECKING:
    from tasks.report.table import Table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(alignment)


def alignment(
    options: AlignmentOptions,
) -> None:
    """Compare a suite with people: rank correlation, α, difference, stability, robustness.

    differences.html shows the videos with the largest disagreement, and the model's reasons. Stability needs
    repeated scores (--repeats), robustness scores of blurred videos (--set blur=…). Exit code 3: ratings
    were left out, such as a 0 or those of a video without a score; alignment-left-out.csv lists them. With
    --variant, one table shows ρ and α of the suite and its variants by dimension.

    Example: `slvmeval suite alignment --ratings FILE --videos DIR --out DIR --store STORE`
    """
    if options.variants:
        of_page = ("videos", "manifest_file", "most_different", "settings", "seed")
        refuse(options, "not with --variant, which writes no differences.html", *of_page)
        compare_variants(options)
    else:
        refuse(options, "only with --variant", "common")
        compare_with_people(options)


def compare_variants(options: AlignmentOptions) -> None:
    """Compare a suite and its variants with people: Spearman's ρ and Krippendorff's α by dimension."""
    import math
    from dataclasses import replace

    from tasks.report.suite_ablations import ablation_tables, scored_variants
    from tasks.report.suite_tables import left_out_table, write_tables
    from tasks.scoring.suites.human_ratings import load_ratings
    from tasks.scoring.suites.prompts import load_prompts
    from tasks.scoring.suites.score_store import ScoresStore

    store = terminal.open_store(options)
    suite = the_suite(store, options.suite)
    scales = {one.name: (math.floor(one.low), math.ceil(one.high)) for one in suite.dimensions}
    given = load_ratings(options.ratings, scales)
    prompts = {} if options.prompt_suite is None else load_prompts(options.prompt_suite, suite).by_id
    scored = scored_variants(ScoresStore(store), suite, () if ALL in options.variants else options.variants)
    tables = ablation_tables(suite.dimensions, scored, given.rows, prompts, options.common)
    left_out = replace(left_out_table(given.left_out), name="ablations-left-out")
    for table in tables:
        _print_by_dimension(table)
    paths = write_tables(options.out, [*tables, left_out, *compared_with(options.against, suite, tables)], [])
    terminal.say_left_out(given.left_out)
    terminal.say(f"{count_text(len(paths), 'file')}: {options.out}")
    raise typer.Exit(terminal.SOME_SET_ASIDE if given.left_out else 0)


def _print_by_dimension(table: Table) -> None:
    """Print a table with one row per dimension, narrow enough for a terminal."""
    words = [column for column in table.shown if not column.is_number]
    heads = [", ".join(column.text(row.get(column.key)) for column in words) for row in table.rows]
    lines = [
        (column.title, *(column.text(row.get(column.key)) for row in table.rows))
        for column in table.shown
        if column.is_number
    ]
    titles = ["dimension", *heads]
    terminal.say(terminal.Grid(table.title, titles, lines, numbers=len(heads)))
