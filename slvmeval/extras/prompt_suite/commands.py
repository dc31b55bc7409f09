"""``slvmeval suite prompts``: complex prompts from a user's own videos, corrected by a person.

Also the output of these commands.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from flows.extras.prompt_suite.parameters import PromptSettings, PromptsParameters
from flows.parameters import Given, SiteParameters
from slvmeval.cli import terminal
from slvmeval.cli.declared import CommandGroup, Only, refuse
from slvmeval.cli.store.publish import OutOption
from slvmeval.cli.suite.scores import CategoriesOption
from slvmeval.command_line import command_line
from storage_schemas.counts import count_text
from storage_schemas.model import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tasks.extras.prompt_suite.maker import Expected, Made
    from tasks.extras.prompt_suite.settings import PromptSuiteSettings
    from tasks.llm.usage import Prices
    from tasks.scoring.setup import Setup
    from tasks.scoring.user_files import UnusedLine


def summary(made: Sequence[Made], left_out: Sequence[UnusedLine]) -> dict[str, Any]:
    """Return the result of each video, JSON-serialisable."""
    keys = ("prompt_id", "state", "failure", "message", "calls", "tokens_in", "tokens_out", "usd")
    return {
        "prompts": [{key: getattr(one, key) for key in keys} for one in made],
        "left_out": [vars(one) for one in left_out],
        "calls": sum(one.calls for one in made),
        "tokens_in": sum(one.tokens_in for one in made),
        "tokens_out": sum(one.tokens_out for one in made),
        "usd": _dollars(made),
    }


def _dollars(made: Sequence[Made]) -> float | None:
    """Return the amount spent; None if a model has no price."""
    costs = [one.usd for one in made]
    return None if None in costs else sum(cost for cost in costs if cost is not None)


def print_made(made: Sequence[Made], out: Path) -> None:
    """Print the result of each video, and the next step for a person."""
    from storage_schemas.judgements import Failure

    rows = [
        (
            one.prompt_id,
            one.calls,
            one.tokens_in + one.tokens_out,
            _money(one.usd),
            one.state.replace("_", " "),
            # reported once, below
            "" if one.state == "unfinished" else one.message,
        )
        for one in made
    ]
    columns = ("prompt", "calls", "tokens", "$", "state", "why")
    terminal.say(terminal.Grid(f"{len(made)} prompts", columns, rows, numbers=3))
    states = [one.state for one in made]
    if "unfinished" in states:
        why = made[states.index("unfinished")].message
        terminal.say(
            f"warning: {states.count('unfinished')} prompts were not continued: {why}",
            "stored answers cost nothing again",
        )
    if "waiting" in states:
        terminal.say(
            f"{states.count('waiting')} drafts are waiting for review: "
            f"`{command_line('suite', 'prompts', 'review', out)}`, then this command again"
        )
    if any(one.failure == Failure.NOT_UNDERSTOOD for one in made):
        terminal.say(
            "if no answer was valid, allow more attempts: --set tries=N, with a larger N than before"
        )
    terminal.say(f"{states.count('ready')} prompts are ready: {out / 'prompts.jsonl'}")


def _money(usd: float | None) -> str:
    return "unknown" if usd is None else f"{usd:.2f}"


def say_expected(
    expected: Expected, prices: Prices, left_out: Sequence[UnusedLine], output: terminal.Format
) -> None:
    """Print the estimated cost of prompts."""
    counts = vars(expected)
    rows = [vars(one) for one in left_out]
    terminal.show(
        output,
        {**counts, "prices_as_of": prices.as_of, "left_out": rows},
        "at most, if each answer is valid at once and each round of self-refinement finds something:",
        *(f"{name.replace('_', ' ')}: {count:,.0f}" for name, count in counts.items() if name != "usd"),
        f"$: {_money(expected.usd)}",
        *([f"prices of {prices.as_of}, {prices.source}"] if prices.as_of else []),
        lambda: terminal.say_left_out(left_out),
    )


FolderArgument = Annotated[
    Path, Given(("argument",), "FOLDER"), Field(description="The folder given to `make` as --out.")
]

app = CommandGroup(no_args_is_help=True, help="Complex prompts from your own videos.")


def register(parent: typer.Typer) -> None:
    """Add the group."""
    app.command()(make)
    parent.add_typer(app, name="prompts")


def make(
    parameters: PromptsParameters, run: Annotated[terminal.RunSwitches, Only("output", "quiet")]
) -> None:
    """Make prompts as far as possible: first drafts, then prompts from the drafts that a person accepted.

    Run it, review the drafts (`suite prompts review`), run it again. No answer is paid for twice. Finished
    prompts are in the folder's prompts.jsonl. Exit code 3: videos were left out, an answer was invalid, or a
    limit ended the run.

    Example: `slvmeval suite prompts make VIDEOS --out PROMPTS --store STORE --profile SITE`
    """
    from flows.command_runs import run_flow
    from flows.extras.prompt_suite.flow import PROMPTS
    from flows.extras.prompt_suite.run import PromptsRun, prompts_options
    from infra.progress import BuildProgress

    site = parameters.site()
    options = prompts_options(parameters, site)
    if options.dry_run:
        prepared = PromptsRun(options, BuildProgress(quiet=True))
        prepared.prepare()
        result = prepared.run()
        assert result.expected is not None
        say_expected(result.expected, prepared.prices, result.left_out, run.output)
        return
    result = run_flow(PROMPTS, options, site, direct=True, quiet=run.quiet)
    made, left_out = result.made, result.left_out
    terminal.show(
        run.output,
        summary(made, left_out),
        lambda: print_made(made, Path(result.out)),
        lambda: terminal.say_left_out(left_out),
    )
    failed = any(one.state in ("failed", "unfinished") for one in made)
    raise typer.Exit(terminal.SOME_SET_ASIDE if failed or left_out else 0)


class ReviewOptions(Frozen):
    """Options of `review`."""

    folder: FolderArgument
    edit: bool = Field(
        default=False, description="Write a file for each open draft instead, to edit anywhere."
    )
    edited: bool = Field(
        default=False, description="Read the edited files back; exit code 3 if one is not usable."
    )
    as_drafted: bool = Field(default=False, description="Accept all open drafts unchanged.")
    by: Annotated[str, Given(metavar="NAME")] = Field(default="", description="Name of the reviewer.")
    port: terminal.PortOption = 8018


@app.command()
def review(
    options: ReviewOptions,
) -> None:
    """Review drafts next to stills of their videos on a local page: correct and accept them.

    With --edit it writes files into FOLDER/edit; --edited reads them back.

    Example: `slvmeval suite prompts review PROMPTS`
    """
    from tasks.extras.prompt_suite.edit_files import write_edit_files
    from tasks.extras.prompt_suite.project import Project

    if options.edit or options.edited or options.as_drafted:
        refuse(options, "only for the page", "port")
    if options.edit:
        refuse(options, "not with --edit", "edited", "as_drafted", "by")
    if options.edited:
        refuse(options, "not with --edited", "as_drafted", "by")
    if options.edited or options.as_drafted:
        _accept(options)
        return
    project = Project(options.folder)
    if options.edit:
        written, existing = write_edit_files(project)
        terminal.say(*(f"left unchanged: {path}" for path in existing))
        terminal.say(
            f"{len(written)} files: {project.edit_folder}; edit the texts, write `verdict: accepted` or "
            f"`left_out`, then `{command_line('suite', 'prompts', 'review', options.folder, '--edited')}`"
        )
        return
    from slvmeval.extras.prompt_suite.review.app import ReviewDesk, prepare_review

    with prepare_review(ReviewDesk(project, options.by), options.port) as ready:
        terminal.say(
            f"open {ready.address}",
            "for this machine only; stop it with Ctrl-C, nothing is lost",
        )
        ready.run()


def _accept(options: ReviewOptions) -> None:
    """Read the edited files of FOLDER/edit, or accept all open drafts unchanged."""
    from tasks.extras.prompt_suite.edit_files import import_edits
    from tasks.extras.prompt_suite.project import Project

    project = Project(options.folder)
    if options.as_drafted:
        project.need()
        open_ = [draft for draft in project.drafts() if project.approved(draft) is None]
        for draft in open_:
            project.review(draft.prompt_id, draft.digest, "accepted", draft.text, options.by)
        terminal.say(f"{len(open_)} drafts accepted unchanged")
        return
    imported = import_edits(project)
    accepted = sum(one.verdict == "accepted" for one in imported.reviews)
    terminal.say(
        f"{accepted} accepted, {len(imported.reviews) - accepted} left out, {len(imported.open)} open, "
        f"{len(imported.unfit)} files are not usable"
    )
    if imported.replaced:
        terminal.say(
            f"{count_text(len(imported.replaced), 'file')} with texts that were replaced later, "
            f"which are kept: {', '.join(imported.replaced[:10])}; save a file again to use it "
            "instead"
        )
    terminal.say_left_out(imported.unfit, "does not fit")
    raise typer.Exit(terminal.SOME_SET_ASIDE if imported.unfit else 0)


class StatisticsOptions(SiteParameters):
    """Options of `statistics`."""

    files: Annotated[tuple[Path, ...], Given(("files",), "FILE")] = Field(
        description="Files of prompts: ours, or those published by a suite's authors."
    )
    out: OutOption = Path("statistics")
    ask: bool = Field(
        default=False, description="Let a language model rate the complexity of prompts without one."
    )
    paper: Annotated[bool, Given(by_set=True)] = Field(
        default=False, description="Start with the rows of the paper's Table 1."
    )
    categories: CategoriesOption = None
    settings: PromptSettings = ()
    quiet: terminal.QuietOption = False


@app.command()
def statistics(
    options: StatisticsOptions,
) -> None:
    """Write lengths, words, themes and complexity of prompt suites as tables, and as figures.

    Tables are CSV, Markdown and LaTeX, figures SVG and PDF.

    Exit code 3: rows were left out, or the model gave no valid answer.

    Example: `slvmeval suite prompts statistics PROMPTS/prompts.jsonl --out TABLES`
    """
    from tasks.extras.locot2v.suite import Locot2vBench
    from tasks.extras.prompt_suite.complexity import rated, statistics_tables
    from tasks.extras.prompt_suite.lengths import length_table, word_table
    from tasks.report.prompt_figures import length_figures
    from tasks.report.suite_tables import write_tables
    from tasks.scoring.setup import Setup
    from tasks.scoring.suites.prompts import load_categories, load_prompts, with_categories

    reader = Locot2vBench(Setup(store_path=""))
    loaded = {_name(path, options.files): load_prompts(path, reader) for path in options.files}
    categories = {} if options.categories is None else load_categories(options.categories)
    suites = {name: list(with_categories(one.by_id, categories).values()) for name, one in loaded.items()}
    left_out = [row for one in loaded.values() for row in one.left_out]
    if not options.ask:
        refuse(options, "only with --ask", "settings")
    if options.ask:
        setup, wanted = _setup_and_settings(options)
        for name, prompts in suites.items():
            with terminal.step_bar(name, options.quiet) as step:
                suites[name], failed = rated(setup, wanted, prompts, step)
            left_out += failed
    tables = [*statistics_tables(suites, options.paper), length_table(suites), word_table(suites)]
    paths = write_tables(options.out, tables, length_figures({table.name: table for table in tables}))
    titles = [column.title for column in tables[0].shown]
    terminal.say(terminal.Grid(tables[0].title, titles, tables[0].cells(), numbers=len(titles) - 1))
    terminal.say_left_out(left_out)
    terminal.say(f"{count_text(len(paths), 'file')}: {options.out}")
    raise typer.Exit(terminal.SOME_SET_ASIDE if left_out else 0)


def _name(path: Path, files: Sequence[Path]) -> str:
    """Return a file's name in a table: its path if two files share the name."""
    alike = [one for one in files if one.stem == path.stem]
    return path.stem if len(alike) == 1 else str(path)


def _setup_and_settings(options: StatisticsOptions) -> tuple[Setup, PromptSuiteSettings]:
    from flows.score.options import settings_from_text
    from storage_schemas.store import Store
    from tasks.extras.prompt_suite.settings import prompt_suite_settings
    from tasks.scoring.setup import Setup

    wanted = prompt_suite_settings(settings_from_text(options.settings))
    site = options.site()
    store = Store.create(Path(site.store).expanduser().resolve())
    return Setup(store_path=str(store.root), model_servers=site.model_servers), wanted
