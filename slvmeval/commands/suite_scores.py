"""``slvmeval suite manifest|leaderboard|scores``: what goes in, and what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.commands import shared
from slvmeval.commands.publish import OutOption
from slvmeval.commands.suite_run import VideosOption

if TYPE_CHECKING:
    from storage_schemas.store import Store
    from storage_schemas.suite_score import SuiteScore
    from tasks.suites.base import Suite

SuiteArgument = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="The suite; may be left out if the store has scores of one."),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--settings",
        metavar="CHECKSUM",
        help="Take settings whose checksum begins so in place of the newest ones of a dimension.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(manifest)
    app.command()(leaderboard)
    app.command()(scores)


def manifest(
    videos: VideosOption,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where it goes; manifest.csv in the folder by default."),
    ] = None,
) -> None:
    """Write a first manifest of a folder; you fill in which prompt each video was made from.

    The first folder of a path is taken for the model. Nothing tells the prompt but you. A file that is there
    is not replaced.

    Example: `slvmeval suite manifest --videos DIR`
    """
    from storage_schemas.commit import write_atomic
    from storage_schemas.errors import UserInputError
    from tasks.suites.manifest import draft_manifest

    target = out or videos / "manifest.csv"
    if target.exists():
        raise UserInputError(f"{target} is there already: remove it, or give another --out")
    text, count = draft_manifest(videos)
    write_atomic(target, text.encode())
    shared.say(f"{count} files: {target}; fill in the column prompt_id, and model where it is empty")


def leaderboard(
    out: OutOption,
    suite: SuiteArgument = None,
    settings: SettingsOption = None,
    common: Annotated[
        bool, typer.Option("--common-prompts", help="Count only prompts for which every model has a score.")
    ] = False,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """Write a suite's leaderboard, mean scores and average ranks, as CSV, Markdown, LaTeX and a page.

    Example: `slvmeval suite leaderboard video-bench --out BOARD --store STORE`
    """
    from tasks.suites.leaderboard import board_of, common_prompts, current, means_of
    from tasks.suites.leaderboard_page import board_table, write_board
    from tasks.suites.scores_store import ScoresStore

    held = shared.open_store(store, profile)
    made = the_suite(held, suite)
    rows, others = current(ScoresStore(held).rows(made.name), settings or ())
    rows = common_prompts(rows) if common else rows
    board = board_of(made.title, made.dimensions, means_of(rows), others)
    page = write_board(board, out)
    table = board_table(board)
    titles = [column.title for column in table.shown]
    shared.console().print(shared.table(table.title, titles, table.cells(), numbers=len(titles) - 1))
    shared.say(f"leaderboard: {page}")


def scores(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", dir_okay=False, help="Ends in .parquet, .csv or .jsonl; replaced."),
    ],
    suite: Annotated[str, typer.Option("--suite", metavar="NAME", help="Only of this one.")] = "",
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """Write all scores of a store as one file, one row a video and dimension, with what it took.

    Example: `slvmeval suite scores scores.csv --store STORE`
    """
    from tasks.suites.scores_store import ScoresStore

    count = ScoresStore(shared.open_store(store, profile)).export(file, suite)
    shared.say(f"{count} scores: {file}")


def the_suite(store: Store, name: str | None) -> Suite:
    """Return the suite of a name, or the one that the store has scores of.

    Raises
    ------
    UserInputError
        If there are several, or none.
    """
    from storage_schemas.errors import StoreError, UserInputError
    from tasks.evaluators.setup import Setup
    from tasks.suites.registry import make_suite
    from tasks.suites.scores_store import ScoresStore

    there = ScoresStore(store).suites()
    if name is None:
        plain = [one for one in there if "+" not in one]
        if not plain:
            raise StoreError(f"there are no scores in {store.root}: `slvmeval suite NAME` makes them")
        if len(plain) > 1:
            raise UserInputError(f"name the suite: the store has scores of {', '.join(plain)}")
        (name,) = plain
    return make_suite(name, Setup(store_path=str(store.root)))


def suite_of_file(path: Path, name: str | None) -> tuple[Suite | None, list[SuiteScore]]:
    """Return the suite that a file has scores of, and these; no suite where the file names none.

    Raises
    ------
    UserInputError
        If it has scores of several, and `name` is not given.
    """
    from storage_schemas.errors import UserInputError
    from tasks.evaluators.setup import Setup
    from tasks.suites.registry import make_suite
    from tasks.suites.score_file import read_scores

    rows = read_scores(path, name or "")
    plain = sorted({row.suite for row in rows if row.suite and "+" not in row.suite})
    if name is None and len(plain) > 1:
        raise UserInputError(f"name the suite: {path} has scores of {', '.join(plain)}")
    which = name or next(iter(plain), "")
    if not which:
        return None, rows
    # nothing is scored, so its store is not opened
    made = make_suite(which, Setup(store_path=str(path.parent)))
    return made, [row for row in rows if row.suite in ("", which)]
