"""``slvmeval suite manifest|leaderboard|scores``: input and output of suites.

``slvmeval suite alignment`` and ``slvmeval suite correlations``: agreement with people, and between
dimensions. ``slvmeval suite aesthetics-bound``: the bound of LoCoT2V-Bench's aesthetic quality.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.cli import terminal
from slvmeval.cli.store.publish import OutOption
from slvmeval.cli.suite.against import AgainstOption, compared_with

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage_schemas.store import Store
    from storage_schemas.suite_score import SuiteScore
    from tasks.report.owned_folder import OwnedFolder
    from tasks.scoring.suites.base import Suite
    from tasks.scoring.suites.human_ratings import VideoKey
    from tasks.scoring.suites.manifest import VideoEntry
    from tasks.scoring.user_files import UnusedLine


SuiteArgument = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="The suite; may be left out if the store has scores of one."),
]
SettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--settings",
        metavar="CHECKSUM",
        help="Use the settings with this prefix of their checksum instead of a dimension's newest ones.",
    ),
]


CategoriesOption = Annotated[
    Path | None,
    typer.Option(
        "--categories",
        metavar="FILE",
        help="The categories of themes: CSV or JSON Lines with theme, category.",
    ),
]


RatingsOption = Annotated[
    Path, typer.Option("--ratings", metavar="FILE", help="People's ratings, as CSV or JSON Lines.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(manifest)
    app.command()(leaderboard)
    app.command()(scores)
    app.command()(alignment)
    app.command()(correlations)
    app.command(name="aesthetics-bound")(aesthetics_bound)


def manifest(
    videos: terminal.VideosOption,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Path of the file; manifest.csv in the folder by default."
        ),
    ] = None,
) -> None:
    """Write a first manifest of a folder; you fill in which prompt each video was made from.

    The first folder of a path is taken as the model. Only you know the prompt. An existing file is not
    replaced.

    Example: `slvmeval suite manifest --videos DIR`
    """
    from storage_schemas.commit import write_atomic
    from storage_schemas.errors import UserInputError
    from tasks.scoring.suites.manifest import draft_manifest

    target = out or videos / "manifest.csv"
    if target.exists():
        raise UserInputError(f"{target} is there already: remove it, or give another --out")
    text, count = draft_manifest(videos)
    write_atomic(target, text.encode())
    terminal.say(f"{count} files: {target}; fill in the column prompt_id, and model where it is empty")


def leaderboard(
    out: OutOption,
    suite: SuiteArgument = None,
    settings: SettingsOption = None,
    common: Annotated[
        bool, typer.Option("--common-prompts", help="Count only prompts for which every model has a score.")
    ] = False,
    against: AgainstOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Write a suite's leaderboard, mean scores and average ranks, as CSV, Markdown, LaTeX and a page.

    Example: `slvmeval suite leaderboard video-bench --out BOARD --store STORE`
    """
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

    held = terminal.open_store(store, profile)
    made = the_suite(held, suite)
    rows, others = current(ScoresStore(held).rows(made.name), settings or ())
    rows = common_prompts(rows) if common else rows
    board = board_of(made.title, made.dimensions_of(rows), means_of(rows), others, prompts_sent(rows))
    table = board_table(board)
    titles = [column.title for column in table.shown]
    terminal.console().print(terminal.table(table.title, titles, table.cells(), numbers=len(titles) - 1))
    page = write_board(board, out, compared_with(against, made, [table]))
    remember_page(held, "leaderboard", page, made.title)
    terminal.say(f"leaderboard: {page}")


def scores(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            dir_okay=False,
            help="A .parquet, .csv or .jsonl file; an existing one is replaced.",
        ),
    ],
    suite: Annotated[str, typer.Option("--suite", metavar="NAME", help="Only this suite.")] = "",
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Write all scores of a store as one file, one row per video and dimension, with its cost.

    Example: `slvmeval suite scores scores.csv --store STORE`
    """
    from tasks.scoring.suites.score_store import ScoresStore

    count = ScoresStore(terminal.open_store(store, profile)).export(file, suite)
    terminal.say(f"{count} scores: {file}")


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
    made = make_suite(which, Setup(store_path=str(path.parent)))
    return made, [row for row in rows if row.suite in ("", which)]


_SHOWN = 10


def print_left_out(left_out: Sequence[UnusedLine]) -> None:
    """Print the first ratings of a file that were left out, and the number of the others."""
    terminal.say(*(f"left out: {one.where}: {one.message}" for one in left_out[:_SHOWN]))
    if len(left_out) > _SHOWN:
        terminal.say(f"… and {len(left_out) - _SHOWN} more ratings")


def alignment(
    ratings: RatingsOption,
    out: OutOption,
    suite: SuiteArgument = None,
    settings: SettingsOption = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    videos: Annotated[
        Path | None,
        typer.Option(
            "--videos",
            metavar="DIR",
            help="Folder of the videos, so that differences.html shows them.",
        ),
    ] = None,
    manifest_file: Annotated[
        Path | None,
        typer.Option("--manifest", metavar="FILE", help="Their manifest; by default the one in the folder."),
    ] = None,
    prompt_suite: Annotated[
        Path | None,
        typer.Option(
            "--prompt-suite", metavar="FILE", help="The prompts, so that differences.html shows them."
        ),
    ] = None,
    most_different: Annotated[
        int,
        typer.Option("--most-different", min=0, help="Videos of each dimension in differences.html."),
    ] = 5,
    against: AgainstOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Compare a suite with people: rank correlation, α, difference, stability, robustness.

    differences.html shows the videos on which both differ most, with the model's reasons. Stability needs
    repeated scores (--repeats), robustness scores of blurred videos (--blur). Exit code 3: ratings were left
    out, such as a 0, or those of a video without a score; all of them are in alignment-left-out.csv.

    Example: `slvmeval suite alignment --ratings FILE --videos DIR --out DIR --store STORE`
    """
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

    held = terminal.open_store(store, profile)
    made = the_suite(held, suite)
    files = _files(videos, manifest_file)
    prompts = {} if prompt_suite is None else load_prompts(prompt_suite, made).by_id
    rows = ScoresStore(held).rows()
    plain, _ = current([row for row in rows if row.suite == made.name], settings or ())
    dimensions = made.dimensions_of(plain)
    scales = {one.name: (math.floor(one.low), math.ceil(one.high)) for one in dimensions}
    given = load_ratings(ratings, scales)
    blurred, _ = current([row for row in rows if row.suite.startswith(f"{made.name}+blur")])
    baselines = baselines_of(ScoresStore(held), made)
    table = alignment_table(dimensions, runs_of(plain), given.rows, runs_of(blurred), seed, baselines)
    figures = [alignment_figure(table)] if table.rows else []
    unscored = without_score(given.rows, plain)
    left_out = [*given.left_out, *(one for lines in unscored.values() for one in lines)]
    differences = widest_differences(given.rows, plain, most_different)

    def page(owned: OwnedFolder) -> None:
        missing = write_differences(owned, made.title, dimensions, differences, files, prompts)
        terminal.say(*(f"{PAGE} does not show {video}: {why}" for video, why in missing.items()))

    held_against = compared_with(against, made, [table])
    paths = write_tables(out, [table, left_out_table(left_out), *held_against], figures, page)
    titles = [column.title for column in table.shown]
    terminal.console().print(terminal.table(table.title, titles, table.cells(), numbers=len(titles) - 1))
    print_left_out(given.left_out)
    terminal.say(*(f"left out: {in_words(name, lines)}" for name, lines in unscored.items()))
    terminal.say(f"{len(paths)} files, and {PAGE}: {out}")
    raise typer.Exit(terminal.SOME_SET_ASIDE if left_out else 0)


def _files(videos: Path | None, manifest: Path | None) -> dict[VideoKey, VideoEntry]:
    """Return the videos of a manifest; none without a folder."""
    from storage_schemas.errors import UserInputError
    from tasks.scoring.suites.human_ratings import VideoKey
    from tasks.scoring.suites.manifest import find_manifest, load_manifest

    if videos is None:
        if manifest is not None:
            raise UserInputError("--manifest names files in a folder: give --videos too")
        return {}
    entries = load_manifest(manifest or find_manifest(videos), videos).videos
    return {VideoKey(model=one.model, prompt_id=one.prompt_id, sample=one.sample): one for one in entries}


def correlations(
    out: OutOption,
    suite: SuiteArgument = None,
    prompt_suite: Annotated[
        Path | None,
        typer.Option(
            "--prompt-suite",
            metavar="FILE",
            help="The prompts, for tables by theme, category and the prompt's complexity.",
        ),
    ] = None,
    categories: CategoriesOption = None,
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
    against: AgainstOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Correlate the dimensions and their groups: Pearson, Spearman, Kendall, also by theme and complexity.

    Where prompts have categories, a table has the means of each model in each of them.

    In a file that names no suite, every dimension counts under its own name.

    Example: `slvmeval suite correlations --out DIR --prompt-suite FILE --store STORE`
    """
    from storage_schemas.errors import UserInputError
    from tasks.report.suite_tables import correlation_figure, correlation_tables, runs_of, write_tables
    from tasks.scoring.suites.leaderboard import current
    from tasks.scoring.suites.prompts import load_categories, load_prompts, with_categories
    from tasks.scoring.suites.score_store import ScoresStore

    if categories is not None and prompt_suite is None:
        raise UserInputError(
            "--categories needs the prompts, which have the themes: give --prompt-suite FILE"
        )
    if scores is None:
        held = terminal.open_store(store, profile)
        made: Suite | None = the_suite(held, suite)
        there = ScoresStore(held).rows(made.name if made else "")
    else:
        made, there = suite_of_file(scores, suite)
    known = {} if prompt_suite is None else load_prompts(prompt_suite, made).by_id
    if categories is not None:
        known = with_categories(known, load_categories(categories))
    rows, _ = current(there, settings or ())
    tables = correlation_tables(runs_of(rows), made.dimensions_of(rows) if made else (), known)
    figures = [
        correlation_figure(table) for table in tables if table.name.startswith("correlations") and table.rows
    ]
    paths = write_tables(out, [*tables, *compared_with(against, made, tables)], figures)
    first = tables[0]
    titles = [column.title for column in first.shown]
    terminal.console().print(terminal.table(first.title, titles, first.cells()))
    if categories is not None and not any(table.name == "categories" for table in tables):
        terminal.tell(
            "no table by category: it needs prompts whose theme has a category, and groups of dimensions "
            "that all have one scale"
        )
    terminal.say(f"{len(paths)} files: {out}")


def aesthetics_bound(
    pictures: Annotated[
        Path,
        typer.Argument(
            metavar="PICTURES", file_okay=False, exists=True, help="A folder of reference pictures."
        ),
    ],
    siglip: Annotated[
        str | None, typer.Option("--siglip", metavar="NAME", help="Another SigLIP of the model folder.")
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", metavar="NAME", help="Another head of the predictor.")
    ] = None,
    model_folders: terminal.ModelFoldersOption = None,
    profile: terminal.ProfileOption = None,
    quiet: terminal.QuietOption = False,
) -> None:
    """Compute the upper bound of LoCoT2V-Bench's aesthetic quality: the mean of the best 10 % of PICTURES.

    The paper's pictures are the part data_1024_10K of Text-to-Image-2M, unpacked into a folder. Without a
    bound, the scores of aesthetic quality are raw.

    Example: `slvmeval suite aesthetics-bound PICTURES --models MODELS`
    """
    from tasks.extras.locot2v.aesthetics_bound import bound_of, pictures_in
    from tasks.models.hub import ModelHub

    site = terminal.settings(profile, model_folders=model_folders)
    hub = ModelHub([Path(folder).expanduser() for folder in site.model_folders])
    paths = pictures_in(pictures)
    names = {key: name for key, name in (("siglip", siglip), ("head", head)) if name}
    with terminal.step_bar("pictures", quiet) as step:
        bound = bound_of(paths, hub, step, **names)
    terminal.say(
        f"{bound:.4f}: the mean of the best 10 % of {len(paths)} pictures",
        f"""slvmeval suite locot2v-bench --set 'visual={{"aesthetics": {{"upper_bound": {bound:.4f}}}}}' …""",
    )
