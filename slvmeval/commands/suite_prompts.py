"""``slvmeval suite prompts``: complex prompts from a user's own videos, corrected by a person."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.commands import shared
from slvmeval.commands.build import QuietOption
from slvmeval.commands.limits import DryRunOption, MostDollarsOption, MostTokensOption, PricesOption
from slvmeval.commands.publish import OutOption
from slvmeval.commands.suite_prompts_view import print_made, say_expected, say_left_out, summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tasks.evaluators.setup import Setup
    from tasks.suites.locot2v.prompt_suite.settings import PromptSuiteSettings

FolderArgument = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The folder that `make` was given with --out.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting: rounds=3, language=NAME. Several times."),
]
ByOption = Annotated[str, typer.Option("--by", metavar="NAME", help="Who looks at the drafts.")]

app = typer.Typer(no_args_is_help=True, help="Complex prompts from your own videos.")


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="prompts")


@app.command()
def make(
    videos: Annotated[
        Path,
        typer.Argument(
            metavar="VIDEOS",
            help="A folder, or a .csv or .jsonl file with file, and maybe prompt_id and theme.",
        ),
    ],
    out: OutOption,
    settings: SetOption = None,
    without_review: Annotated[
        bool, typer.Option("--without-review", help="Take drafts that nobody looked at as they are.")
    ] = False,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Videos at once.")] = 4,
    usd: MostDollarsOption = None,
    tokens: MostTokensOption = None,
    prices: PricesOption = None,
    dry_run: DryRunOption = False,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
    as_json: shared.JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make prompts as far as they can be made: drafts first, then the rest of what a person accepted.

    Run it, look at the drafts (`suite prompts review`), run it again. No answer is paid for twice. What is
    ready is in prompts.jsonl of the folder. Exit code 3: videos were left out, an answer did not fit, or a
    limit ended the run.

    Example: `slvmeval suite prompts make VIDEOS --out PROMPTS --store STORE --profile SITE`
    """
    from tasks.evaluators.prices import load_prices
    from tasks.evaluators.spending import Limits
    from tasks.suites.locot2v.prompt_suite.making import Maker
    from tasks.suites.locot2v.prompt_suite.project import Project
    from tasks.suites.locot2v.prompt_suite.videos import load_videos

    setup, wanted = _setup_and_settings(store, profile, settings)
    priced = load_prices(None if prices is None else str(prices))
    limits = Limits(usd=usd, tokens=tokens)
    maker = Maker(setup, wanted, Project(out), without_review, limits, priced)
    given = load_videos(videos)
    if dry_run:
        say_expected(maker.reckon(given.videos), priced, given.left_out, as_json)
        return
    with shared.step_bar("prompts", quiet) as step:
        made = maker.run(given.videos, concurrency, step)
    if as_json:
        shared.print_json(summary(made, given.left_out))
    else:
        print_made(made, out)
        say_left_out(given.left_out)
    failed = any(one.state in ("failed", "unfinished") for one in made)
    raise typer.Exit(shared.SOME_SET_ASIDE if failed or given.left_out else 0)


@app.command()
def review(
    folder: FolderArgument,
    edit: Annotated[
        bool, typer.Option("--edit", help="Write a file for each open draft instead, to edit anywhere.")
    ] = False,
    by: ByOption = "",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0 takes a free one.")] = 8018,
) -> None:
    """Show drafts beside stills of their videos, on a page of this machine, to be corrected and accepted.

    With --edit it writes files into FOLDER/edit instead; `suite prompts accept` reads them back.

    Example: `slvmeval suite prompts review PROMPTS`
    """
    from tasks.suites.locot2v.prompt_suite.edit_files import write_edit_files
    from tasks.suites.locot2v.prompt_suite.project import Project

    project = Project(folder)
    if edit:
        written, there = write_edit_files(project)
        shared.say(*(f"left as it is: {path}" for path in there))
        shared.say(
            f"{len(written)} files: {project.edit_folder}; mend the texts, write `verdict: accepted` or "
            f"`left_out`, then `slvmeval suite prompts accept {folder}`"
        )
        return
    from slvmeval.prompt_review.app import Desk
    from slvmeval.prompt_review.serve import prepare, run

    with prepare(Desk(project, by), port) as ready:
        shared.say(
            f"open {ready.address}",
            "for this machine only; end it with Ctrl-C, nothing is lost by that",
        )
        run(ready)


@app.command()
def accept(
    folder: FolderArgument,
    as_drafted: Annotated[
        bool, typer.Option("--as-drafted", help="Accept all open drafts unchanged instead.")
    ] = False,
    by: ByOption = "",
) -> None:
    """Take over what a person wrote into the files of FOLDER/edit.

    Exit code 3: a file does not fit, or its draft has changed since.

    Example: `slvmeval suite prompts accept PROMPTS`
    """
    from tasks.suites.locot2v.prompt_suite.edit_files import take_over
    from tasks.suites.locot2v.prompt_suite.project import Project

    project = Project(folder)
    if as_drafted:
        project.need()
        open_ = [draft for draft in project.drafts() if project.approved(draft) is None]
        for draft in open_:
            project.review(draft.prompt_id, draft.digest, "accepted", draft.text, by)
        shared.say(f"{len(open_)} drafts accepted as they are")
        return
    taken = take_over(project)
    accepted = sum(one.verdict == "accepted" for one in taken.reviews)
    shared.say(
        f"{accepted} accepted, {len(taken.reviews) - accepted} left out, {len(taken.open)} open, "
        f"{len(taken.unfit)} files do not fit"
    )
    if taken.replaced:
        shared.say(
            f"{len(taken.replaced)} files say what was replaced since, which stays: "
            f"{', '.join(taken.replaced[:10])}; save a file again to bring it back"
        )
    say_left_out(taken.unfit, "does not fit")
    raise typer.Exit(shared.SOME_SET_ASIDE if taken.unfit else 0)


@app.command()
def statistics(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="Files of prompts: ours, or as the suite's authors publish."),
    ],
    out: OutOption,
    ask: Annotated[
        bool, typer.Option("--ask", help="Let a language model rate prompts that have no complexity.")
    ] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="Put the rows of the paper's Table 1 before.")
    ] = False,
    settings: SetOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
    quiet: QuietOption = False,
) -> None:
    """Write length and complexity of prompt suites as a table, as CSV, Markdown and LaTeX.

    Exit code 3: rows were left out, or the model had no fitting answer.

    Example: `slvmeval suite prompts statistics PROMPTS/prompts.jsonl --out TABLES`
    """
    from tasks.evaluators.setup import Setup
    from tasks.suites.locot2v.prompt_suite.complexity_table import statistics_tables
    from tasks.suites.locot2v.prompt_suite.rating import rated
    from tasks.suites.locot2v.suite import Locot2vBench
    from tasks.suites.prompts import load_prompts
    from tasks.suites.tables import write_tables

    reader = Locot2vBench(Setup(store_path=""))
    loaded = {_name(path, files): load_prompts(path, reader) for path in files}
    suites = {name: list(one.by_id.values()) for name, one in loaded.items()}
    left_out = [row for one in loaded.values() for row in one.left_out]
    if ask:
        setup, wanted = _setup_and_settings(store, profile, settings)
        for name, prompts in suites.items():
            with shared.step_bar(name, quiet) as step:
                suites[name], failed = rated(setup, wanted, prompts, step)
            left_out += failed
    tables = statistics_tables(suites, paper)
    paths = write_tables(out, tables, [])
    titles = [column.title for column in tables[0].shown]
    shared.console().print(shared.table(tables[0].title, titles, tables[0].cells(), numbers=len(titles) - 1))
    say_left_out(left_out)
    shared.say(f"{len(paths)} files: {out}")
    raise typer.Exit(shared.SOME_SET_ASIDE if left_out else 0)


def _name(path: Path, files: Sequence[Path]) -> str:
    """Return what a table calls a file: its name, or its path where two share it."""
    alike = [one for one in files if one.stem == path.stem]
    return path.stem if len(alike) == 1 else str(path)


def _setup_and_settings(
    store: Path | None, profile: Path | None, given: list[str] | None
) -> tuple[Setup, PromptSuiteSettings]:
    from flows.suite_options import settings_from_text
    from storage_schemas.store import Store
    from tasks.evaluators.setup import Setup
    from tasks.suites.locot2v.prompt_suite.settings import prompt_suite_settings

    wanted = prompt_suite_settings(settings_from_text(given or []))
    site = shared.settings(profile, store=store)
    held = Store.create(Path(site.store).expanduser().resolve())
    return Setup(store_path=str(held.root), model_servers=site.model_servers), wanted
