"""``slvmeval suite leaderboard`` and ``correlations``, and what ``alignment`` shares with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from flows.parameters import RARE, Given, SiteParameters
from slvmeval.cli import terminal
from slvmeval.cli.declared import refuse
from slvmeval.cli.store.publish import OutOption
from slvmeval.cli.suite.against import AgainstOption, compared_with
from storage_schemas.counts import count_text

if TYPE_CHECKING:
    from storage_schemas.store import Store
    from storage_schemas.suite_score import SuiteScore
    from tasks.report.owned_folder import OwnedFolder
    from tasks.scoring.suites.base import Suite
    from tasks.scoring.suites.human_ratings import VideoKey
    from tasks.scoring.suites.manifest import VideoEntry


SuiteArgument = Annotated[
    str | None,
    Given(("argument",), "NAME"),
    Field(description="The suite; optional if the store has scores of only one."),
]
SettingsOption = Annotated[
    tuple[str, ...],
    Given(("--checksum",), "CHECKSUM", by_set=True),
    Field(
        description="Use the settings with this prefix of their checksum instead of a dimension's newest "
        "ones."
    ),
]


CategoriesOption = Annotated[
    Path | None,
    Given(("--categories",), "FILE"),
    Field(description="The categories of themes: CSV or JSON Lines with theme, category."),
]


RatingsOption = Annotated[
    Path, Given(("--ratings",), "FILE"), Field(description="People's ratings, as CSV or JSON Lines.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(leaderboard)
    app.command()(correlations)


class LeaderboardOptions(SiteParameters):
    """Options of `leaderboard`."""

    out: OutOption = Path("leaderboard")
    suite: SuiteArgument = None
    settings: SettingsOption = ()
    common: Annotated[bool, Given(("--common",))] = Field(
        default=False, description="Count only prompts for which every model has a score."
    )
    against: AgainstOption = None
    scores: Annotated[Path | None, Given(metavar="FILE")] = Field(
        default=None,
        description="Also write all scores of the suite and its variants, one row per video and dimension, "
        "with its cost: a .parquet, .csv or .jsonl file; an existing one is replaced.",
    )


def leaderboard(options: LeaderboardOptions) -> None:
    """Write a suite's leaderboard, mean scores and average ranks, as CSV, Markdown, LaTeX and a page.

    Example: `slvmeval suite leaderboard video-bench --out BOARD --store STORE`
    """
    from storage_schemas.errors import UserInputError
    from storage_schemas.written_pages import remember_page
    from tasks.report.suite_leaderboard import board_table, write_board
    from tasks.scoring.suites.leaderboard import (
        board_of,
        common_prompts,
        current,
        means_of,
        prompts_sent,
    )
    from tasks.scoring.suites.score_store import ScoresStore

    store = terminal.open_store(options)
    suite = the_suite(store, options.suite)
    if options.scores is not None:
        count = ScoresStore(store).export(options.scores, suite.name)
        terminal.say(f"{count_text(count, 'score')}: {options.scores}")
    rows, others = current(ScoresStore(store).rows(suite.name), options.settings or ())
    if not rows:
        raise UserInputError(
            f"there are no scores of {suite.name} in {store.root}: `slvmeval suite run {suite.name}`"
        )
    rows = common_prompts(rows) if options.common else rows
    board = board_of(suite.title, suite.dimensions_of(rows), means_of(rows), others, prompts_sent(rows))
    table = board_table(board)
    titles = [column.title for column in table.shown]
    terminal.say(terminal.Grid(table.title, titles, table.cells(), numbers=len(titles) - 1))
    page = write_board(board, options.out, compared_with(options.against, suite, [table]))
    remember_page(store, "leaderboard", page, suite.title)
    terminal.say(f"leaderboard: {page}")


def the_suite(store: Store, name: str | None) -> Suite:
    """Return the suite with this name, or the only one with scores in the store.

    Raises
    ------
    UserInputError
        If there are several, or none.
    """
    from storage_schemas.errors import StoreError, UserInputError
    from tasks.scoring.setup import Setup
    from tasks.scoring.suites.registry import make_suite
    from tasks.scoring.suites.score_store import ScoresStore

    names = ScoresStore(store).suites()
    if name is None:
        plain = [one for one in names if "+" not in one]
        if not plain:
            raise StoreError(f"there are no scores in {store.root}: `slvmeval suite run NAME` makes them")
        if len(plain) > 1:
            raise UserInputError(f"name the suite: the store has scores of {', '.join(plain)}")
        (name,) = plain
    return make_suite(name, Setup(store_path=str(store.root)))


def suite_of_file(path: Path, name: str | None) -> tuple[Suite | None, list[SuiteScore]]:
    """Return the suite of a file's scores, and the scores; no suite if the file names none.

    Raises
    ------
    UserInputError
        If it has scores of several, and `name` is not given.
    """
    from storage_schemas.errors import UserInputError
    from tasks.scoring.setup import Setup
    from tasks.scoring.suites.registry import make_suite
    from tasks.scoring.suites.score_store import read_scores

    rows = read_scores(path, name or "")
    plain = sorted({row.suite for row in rows if row.suite and "+" not in row.suite})
    if name is None and len(plain) > 1:
        raise UserInputError(f"name the suite: {path} has scores of {', '.join(plain)}")
    which = name or next(iter(plain), "")
    if not which:
        return None, rows
    # nothing is scored, so the store is not opened
    suite = make_suite(which, Setup(store_path=str(path.parent)))
    return suite, [row for row in rows if row.suite in ("", which)]


#: Every variant with scores.
ALL = "all"


class AlignmentOptions(SiteParameters):
    """Options of `alignment`."""

    ratings: RatingsOption
    out: OutOption = Path("alignment")
    suite: SuiteArgument = None
    settings: SettingsOption = ()
    seed: Annotated[int, Given(panel=RARE)] = Field(default=0, description="Seed of the bootstrap.")
    videos: Annotated[Path | None, Given(metavar="DIR")] = Field(
        default=None, description="Folder of the videos, so that differences.html shows them."
    )
    manifest_file: Annotated[Path | None, Given(("--manifest",), "FILE", RARE)] = Field(
        default=None, description="Their manifest; by default the one in the folder."
    )
    prompt_suite: Annotated[Path | None, Given(metavar="FILE")] = Field(
        default=None,
        description="The prompts, for differences.html, or a table of variants.",
    )
    variants: Annotated[tuple[str, ...], Given(("--variant",), "NAME|all")] = Field(
        default=(), description="Variant to compare with the suite."
    )
    common: Annotated[bool, Given(panel=RARE)] = Field(
        default=False, description="With --variant: count only videos that all have scored."
    )
    most_different: Annotated[int, Given(("--max-shown",), by_set=True)] = Field(
        default=5, ge=0, description="Videos of each dimension in differences.html."
    )
    against: AgainstOption = None


def compare_with_people(options: AlignmentOptions) -> None:
    """Write a suite's agreement with people, and the videos with the largest disagreement."""
    import math

    from tasks.report.difference_page import PAGE, write_differences
    from tasks.report.suite_ablations import baselines_of
    from tasks.report.suite_tables import (
        alignment_figure,
        alignment_table,
        in_words,
        left_out_table,
        runs_of,
        without_score,
        write_tables,
    )
    from tasks.scoring.suites.differences import widest_differences
    from tasks.scoring.suites.human_ratings import load_ratings
    from tasks.scoring.suites.leaderboard import current
    from tasks.scoring.suites.prompts import load_prompts
    from tasks.scoring.suites.score_store import ScoresStore

    store = terminal.open_store(options)
    suite = the_suite(store, options.suite)
    if options.videos is None:
        refuse(options, "only with --videos DIR", "manifest_file")
    files = _files(options.videos, options.manifest_file)
    prompts = {} if options.prompt_suite is None else load_prompts(options.prompt_suite, suite).by_id
    rows = ScoresStore(store).rows()
    plain, _ = current([row for row in rows if row.suite == suite.name], options.settings or ())
    dimensions = suite.dimensions_of(plain)
    scales = {one.name: (math.floor(one.low), math.ceil(one.high)) for one in dimensions}
    given = load_ratings(options.ratings, scales)
    blurred, _ = current([row for row in rows if row.suite.startswith(f"{suite.name}+blur")])
    baselines = baselines_of(ScoresStore(store), suite)
    table = alignment_table(dimensions, runs_of(plain), given.rows, runs_of(blurred), options.seed, baselines)
    figures = [alignment_figure(table)] if table.rows else []
    unscored = without_score(given.rows, plain)
    left_out = [*given.left_out, *(one for lines in unscored.values() for one in lines)]
    differences = widest_differences(given.rows, plain, options.most_different)

    def page(owned: OwnedFolder) -> None:
        missing = write_differences(owned, suite.title, dimensions, differences, files, prompts)
        terminal.say(*(f"{PAGE} does not show {video}: {why}" for video, why in missing.items()))

    published = compared_with(options.against, suite, [table])
    paths = write_tables(options.out, [table, left_out_table(left_out), *published], figures, page)
    titles = [column.title for column in table.shown]
    terminal.say(terminal.Grid(table.title, titles, table.cells(), numbers=len(titles) - 1))
    terminal.say_left_out(given.left_out)
    terminal.say(*(f"left out: {in_words(name, lines)}" for name, lines in unscored.items()))
    terminal.say(f"{count_text(len(paths), 'file')}, and {PAGE}: {options.out}")
    raise typer.Exit(terminal.SOME_SET_ASIDE if left_out else 0)


def _files(videos: Path | None, manifest: Path | None) -> dict[VideoKey, VideoEntry]:
    """Return the videos of a manifest; none without a folder."""
    from tasks.scoring.suites.human_ratings import VideoKey
    from tasks.scoring.suites.manifest import find_manifest, load_manifest

    if videos is None:
        return {}
    entries = load_manifest(manifest or find_manifest(videos), videos).videos
    return {VideoKey(model=one.model, prompt_id=one.prompt_id, sample=one.sample): one for one in entries}


class CorrelationsOptions(SiteParameters):
    """Options of `correlations`."""

    out: OutOption = Path("correlations")
    suite: SuiteArgument = None
    prompt_suite: Annotated[Path | None, Given(metavar="FILE")] = Field(
        default=None, description="The prompts, for tables by theme, category and the prompt's complexity."
    )
    categories: CategoriesOption = None
    scores: Annotated[Path | None, Given(metavar="FILE")] = Field(
        default=None,
        description="Scores from a file in place of the store's: what `suite leaderboard --scores` writes, "
        "or any CSV, JSON Lines or Parquet with model, prompt_id, dimension and score.",
    )
    settings: SettingsOption = ()
    against: AgainstOption = None


def correlations(
    options: CorrelationsOptions,
) -> None:
    """Correlate the dimensions and their groups: Pearson, Spearman, Kendall, also by theme and complexity.

    Where prompts have categories, a table shows each model's means by category.

    In a file that names no suite, dimensions keep their own names.

    Example: `slvmeval suite correlations --out DIR --prompt-suite FILE --store STORE`
    """
    from tasks.report.suite_tables import correlation_figure, correlation_tables, runs_of, write_tables
    from tasks.scoring.suites.leaderboard import current
    from tasks.scoring.suites.prompts import load_categories, load_prompts, with_categories
    from tasks.scoring.suites.score_store import ScoresStore

    if options.prompt_suite is None:
        refuse(options, "only with --prompt-suite FILE, which has the themes", "categories")
    if options.scores is None:
        store = terminal.open_store(options)
        suite: Suite | None = the_suite(store, options.suite)
        scored = ScoresStore(store).rows(suite.name if suite else "")
    else:
        suite, scored = suite_of_file(options.scores, options.suite)
    prompts = {} if options.prompt_suite is None else load_prompts(options.prompt_suite, suite).by_id
    if options.categories is not None:
        prompts = with_categories(prompts, load_categories(options.categories))
    rows, _ = current(scored, options.settings or ())
    tables = correlation_tables(runs_of(rows), suite.dimensions_of(rows) if suite else (), prompts)
    figures = [
        correlation_figure(table) for table in tables if table.name.startswith("correlations") and table.rows
    ]
    paths = write_tables(options.out, [*tables, *compared_with(options.against, suite, tables)], figures)
    first = tables[0]
    titles = [column.title for column in first.shown]
    terminal.say(terminal.Grid(first.title, titles, first.cells()))
    if options.categories is not None and not any(table.name == "categories" for table in tables):
        terminal.tell(
            "no table by category: it needs prompts with a theme that has a category, and groups "
            "of dimensions on a common scale"
        )
    terminal.say(f"{count_text(len(paths), 'file')}: {options.out}")
