"""``slvmeval report``: how well judges perform. ``slvmeval compare``: is one of two evaluators better?

``slvmeval submission`` and ``slvmeval leaderboard``: a judge's answers as one file, and a page that compares
such files.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

import typer
from pydantic import Field

from flows.parameters import RARE, Given, ReleaseParameters, SiteParameters
from flows.score.parameters import OtherPairs
from slvmeval.cli import terminal
from slvmeval.cli.declared import CommandGroup, refuse
from slvmeval.cli.store.publish import OpenOption, OutOption

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from storage_schemas.release import Release
    from tasks.publish.submission import Checked, Submission
    from tasks.report.judged_pairs import JudgedPairs
    from tasks.report.judged_release import JudgedRelease
    from tasks.report.published import Against
    from tasks.report.table import Table
    from tasks.report.write import Report
    from tasks.statistics.trials import FailurePolicy, TiePolicy


TiesOption = Annotated[
    Literal["half", "wrong", "dropped"],
    Given(("--ties",), "half|wrong|dropped", by_set=True),
    Field(description="How answers without a winner count."),
]
IntervalOption = Annotated[
    Literal["clustered", "wilson", "paper"],
    Given(("--interval",), "clustered|wilson|paper", by_set=True),
    Field(description="Interval shown on the page; the CSV has all."),
]
FailuresOption = Annotated[
    Literal["ignored", "half", "wrong"],
    Given(("--failures",), "ignored|half|wrong", by_set=True),
    Field(description="How requests without an answer count."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Judges")(report)
    app.command(rich_help_panel="Judges")(compare)
    app.command(rich_help_panel="Judges")(jury)
    app.add_typer(submissions, name="submission", rich_help_panel="Judges")
    app.command(rich_help_panel="Judges")(leaderboard)


class JudgedOptions(ReleaseParameters):
    """Which judged pairs to include, and how answers count."""

    pairs: OtherPairs = None
    ties: TiesOption = "half"
    failures: FailuresOption = "ignored"


class ReportOptions(JudgedOptions):
    """Options of `report`."""

    out: OutOption = Path("report")
    evaluators: Annotated[tuple[str, ...], Given(("--evaluator", "-e"), "NAME")] = Field(
        default=(), description="Only this one."
    )
    interval: IntervalOption = "clustered"
    campaigns: terminal.VotesOption = ()
    pair_pages: Annotated[int, Given(("--max-shown",), by_set=True)] = Field(
        default=20,
        ge=0,
        description="Number of pairs with a separate page: those on which the evaluators disagree most.",
    )
    public: Annotated[bool, Given(panel=RARE)] = Field(
        default=False,
        description="Leave out what may not be redistributed, so that the pages can be published.",
    )
    against: Annotated[str | None, Given(metavar="paper|FILE")] = Field(
        default=None,
        description="Show published values next to yours: those of the paper, or of a TOML file.",
    )
    margin: Annotated[float, Given(metavar="POINTS", by_set=True)] = Field(
        default=10.0,
        ge=0.1,
        le=100,
        description="With `--against`: accuracies within this difference count as reproduced.",
    )
    open_it: OpenOption = False
    quiet: terminal.QuietOption = False


def report(
    options: ReportOptions,
) -> None:
    """Write a page, tables and figures on the judgements of a release.

    `--pairs` reports on your own or other people's pairs instead.

    Exit code 3: some published values in the file do not match the release; they are not compared.

    Example: `slvmeval report main --store STORE --out REPORT --against paper --open`
    """
    from storage_schemas.written_pages import remember_page
    from tasks.report.published import PAPER, read_published
    from tasks.report.write import write_report

    if options.against is None:
        refuse(options, "only with --against", "margin")
    published = None if options.against is None else read_published(options.against)
    with terminal.step_bar("report", options.quiet) as step:
        made: Report
        if options.pairs is None:
            from tasks.report.release_report import report_of

            judged = _judged_release(options, options.evaluators, options.campaigns)
            about = f"{judged.release.name}, version {judged.release.version}"
            made = report_of(judged, options.interval, published, options.margin / 100)
        else:
            from tasks.report.pair_reports import report_of_set

            only_paper = ("against",) if options.against == PAPER else ()
            refuse(options, "not with --pairs", "release", "campaigns", *only_paper)
            about = options.pairs
            judged_pairs = _judged_set(options, options.pairs, options.evaluators)
            made = report_of_set(
                options.pairs, judged_pairs, options.interval, published, options.margin / 100
            )
        page = write_report(
            made, options.out.resolve(), private=not options.public, most=options.pair_pages, progress=step
        )
    remember_page(terminal.open_store(options), "report", page, about)
    terminal.say(*map(_grid, made.printed))
    if made.against is not None:
        _print_against(made.against)
    terminal.say(str(page))
    if options.open_it:
        typer.launch(page.as_uri())
    if made.against is not None and made.against.problems:
        raise typer.Exit(terminal.SOME_SET_ASIDE)


class CompareOptions(JudgedOptions):
    """Options of `compare`."""

    first: Annotated[str, Given(("first",), "FIRST")] = Field(
        description="An evaluator, named as in the report."
    )
    second: Annotated[str, Given(("second",), "SECOND")] = Field(
        description="The evaluator to compare it with."
    )
    out: Annotated[Path | None, Given(metavar="DIR")] = Field(
        default=None, description="Also write a page, a figure and a table into this folder."
    )
    points: Annotated[float, Given(metavar="N", by_set=True)] = Field(
        default=5.0, description="How many pairs would show a difference of N points?"
    )
    open_it: OpenOption = False


def compare(
    options: CompareOptions,
) -> None:
    """Test whether one of two evaluators is better, where and by how much, and how many pairs are needed.

    Example: `slvmeval compare gpt-5-video qwen3-vl-video --store STORE --out COMPARISON`
    """
    from storage_schemas.written_pages import remember_page
    from tasks.report.comparison_page import (
        NAME,
        compare_evaluators,
        comparison_files,
        comparison_table,
        verdict,
    )
    from tasks.report.owned_folder import OwnedFolder

    if options.out is None:
        refuse(options, "only with --out DIR, which has the page", "open_it")
    gathered = _judged_pairs(options)
    comparison = compare_evaluators(gathered, options.first, options.second, options.points / 100)
    table = comparison_table(comparison)
    if table.rows:
        # a terminal is narrow; the page shows the rest
        shown = tuple(column for column in table.columns if column.key not in _ON_THE_PAGE_ONLY)
        terminal.say(_grid(replace(table, columns=shown)))
    terminal.say(*verdict(comparison))
    if options.out is None:
        return
    owned = OwnedFolder(options.out.resolve(), "files.json")
    for name, content in comparison_files(comparison).items():
        owned.write(name, content)
    owned.settle()
    page = options.out.resolve() / f"{NAME}.html"
    remember_page(terminal.open_store(options), "comparison", page, f"{options.first} and {options.second}")
    terminal.say(str(page))
    if options.open_it:
        typer.launch(page.as_uri())


class JuryOptions(JudgedOptions):
    """Options of `jury`."""

    evaluators: Annotated[tuple[str, ...], Given(("--evaluator", "-e"), "NAME")] = Field(
        default=(), description="A member, named as in the report; by default all."
    )
    price: Annotated[float | None, Given(("--max-dollars",), metavar="DOLLARS")] = Field(
        default=None, ge=0.0, description="Maximum price of a best jury per pair."
    )
    most: Annotated[int, Given(("--max-members",), metavar="K", by_set=True)] = Field(
        default=5, ge=1, description="Maximum size of the best juries."
    )
    output: terminal.FormatOption = "table"


def jury(
    options: JuryOptions,
) -> None:
    """Report how juries would answer: by majority, with fitted weights, and the best jury of each size.

    It uses stored answers only. The report has the same tables for all evaluators.

    Example: `slvmeval jury -e gpt-5-video -e qwen3-vl-video -e clipscore --store STORE`
    """
    import json

    from tasks.report.formats import json_text
    from tasks.report.jury_tables import chosen_members, jury_tables

    gathered = _judged_pairs(options)
    tables = jury_tables(gathered, chosen_members(gathered, options.evaluators), options.most, options.price)
    terminal.show(
        options.output,
        json.loads(json_text({table.name: table for table in tables})),
        *(_grid(table) if table.rows else f"{table.title}: {table.empty}" for table in tables),
    )


def _judged_release(
    options: JudgedOptions, evaluators: Collection[str] = (), campaigns: Collection[str] = ()
) -> JudgedRelease:
    from tasks.report.judged_release import load_judged_release
    from tasks.votes.release_votes import read_release_votes

    opened = terminal.open_release(options)
    people = read_release_votes(opened, campaigns)
    return load_judged_release(opened, evaluators, people=people, **_counting(options))


def _judged_pairs(options: JudgedOptions) -> JudgedPairs:
    if options.pairs is None:
        return _judged_release(options)
    refuse(options, "not with --pairs", "release")
    return _judged_set(options, options.pairs)


def _judged_set(options: JudgedOptions, where: str, evaluators: Collection[str] = ()) -> JudgedPairs:
    from tasks.report.pair_reports import judged_set

    return judged_set(terminal.open_store(options), where, evaluators, **_counting(options))


#: Columns of a comparison that a terminal does not show.
_ON_THE_PAGE_ONLY = ("first_better", "second_better", "shown", "pairs_for_seen")


class Counting(TypedDict):
    """How answers without a winner, and requests without an answer, count."""

    ties: TiePolicy
    failures: FailurePolicy


def _counting(options: JudgedOptions) -> Counting:
    return Counting(ties=options.ties, failures=options.failures)


def _print_against(against: Against) -> None:
    for line in (*against.problems, *against.absent):
        terminal.tell(line)
    terminal.say(*map(_grid, against.tables))
    if not against.tables:
        terminal.say(f"no value of {against.title} can be compared with this report")


def _grid(table: Table) -> terminal.Grid:
    """Return a table for a terminal, with the numbers directly after the first text."""
    texts = [index for index, column in enumerate(table.shown) if not column.is_number]
    numbers = [index for index, column in enumerate(table.shown) if column.is_number]
    order = [*texts[:1], *numbers, *texts[1:]]
    titles = [table.shown[index].title for index in order]
    rows = [[row[index] for index in order] for row in table.cells()]
    return terminal.Grid(table.title, titles, rows, len(numbers))


submissions = CommandGroup(
    no_args_is_help=True, help="A judge's answers on a release, as one file with its card."
)

FileArgument = Annotated[
    Path, Given(("argument",), "FILE", no_folder=True), Field(description="The submission, a JSON file.")
]
CardOption = Annotated[
    Path, Given(("--card",), "FILE"), Field(description="name, authors, url, model, description, as TOML.")
]


class MakeOptions(ReleaseParameters):
    """Options of `make`."""

    file: FileArgument
    evaluator: Annotated[
        str,
        Given(("--evaluator", "-e"), "NAME"),
    ] = Field(
        default="",
        description="Evaluator whose answers to submit; with --answers, the name to use instead of the "
        "log's model.",
    )
    card: CardOption
    answers: Annotated[Path | None, Given(metavar="FILE", no_folder=True)] = Field(
        default=None,
        description="Answers of another harness in place of the store's: a log of Inspect AI (.eval, "
        ".json) or "
        "lmms-eval (.jsonl), or pair, order, choice as CSV or JSON Lines.",
    )
    partial: bool = Field(default=False, description="With --answers: count missing answers as failures.")
    settings: Annotated[str, Given(("--checksum",), metavar="CHECKSUM", by_set=True)] = Field(
        default="", description="Prefix of the settings' checksum, if there are several."
    )
    prices: Annotated[Path | None, Given(metavar="FILE", by_set=True)] = Field(
        default=None, description="Price list; by default the built-in one."
    )


@submissions.command()
def make(
    options: MakeOptions,
) -> None:
    """Write a judge's answers on a release as a submission, and check it.

    `slvmeval export --harness` writes a task for another harness. If its answers have unknown, missing,
    duplicate or contradictory rows, these are listed and nothing is written.

    Example: `slvmeval submission make mine.json -e my-judge --card card.toml --store STORE`
    """
    from storage_schemas.errors import UserInputError, suggestion
    from storage_schemas.judgements import JudgementsStore
    from tasks.llm.usage import load_prices
    from tasks.publish.submission import UsedPrices, make_submission, read_card

    if options.answers is not None:
        refuse(options, "not with --answers", "settings", "prices")
        _of_harness(options, options.answers)
        return
    refuse(options, "only with --answers FILE", "partial")
    if not options.evaluator:
        raise typer.BadParameter("name the judge, or give --answers FILE", param_hint="--evaluator")
    opened = terminal.open_release(options)
    who = read_card(options.card)
    used = load_prices(None if options.prices is None else str(options.prices))
    pairs = [record.pair_id for record in opened.pairs()]
    judged = JudgementsStore(opened.store).rows(pair_ids=pairs)
    if options.evaluator not in (names := sorted({row.evaluator for row in judged})):
        hint = suggestion(options.evaluator, names, "answered by")
        raise UserInputError(f"{options.evaluator} has no answers on release {opened.name}: {hint}")
    rows = [
        row
        for row in judged
        if row.evaluator == options.evaluator and row.settings.startswith(options.settings)
    ]
    submission = make_submission(opened, rows, who, UsedPrices(as_of=used.as_of, source=used.source))
    _write_submission(options.file, submission, opened)


def _of_harness(options: MakeOptions, answers: Path) -> None:
    """Write a submission from another harness's log, or from a table of answers."""
    from tasks.publish.foreign_answers import judgements_from
    from tasks.publish.submission import UsedPrices, make_submission, read_card

    opened = terminal.open_release(options)
    who = read_card(options.card)
    rows, coverage = judgements_from(answers, opened, options.evaluator, options.partial)
    terminal.say(coverage)
    _write_submission(options.file, make_submission(opened, rows, who, UsedPrices()), opened)


def _write_submission(file: Path, submission: Submission, release: Release) -> None:
    """Write a valid submission, and report its content."""
    from storage_schemas.commit import write_atomic
    from tasks.publish.submission import check_submission, submission_bytes

    draft = file.with_name(f".{file.name}.unchecked")
    try:
        write_atomic(draft, submission_bytes(submission))
        check_submission(draft, release)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    failed = sum(answer.failure is not None for answer in submission.answers)
    terminal.say(f"{len(submission.answers)} answers, {failed} of them failures: {file}")


class CheckOptions(ReleaseParameters):
    """Options of `check`."""

    file: FileArgument
    push: Annotated[str | None, Given(metavar="ORG/NAME")] = Field(
        default=None, description="Upload it, if valid, to a dataset of the Hugging Face hub."
    )
    public: bool = Field(default=False, description="Let everyone read a dataset that --push creates.")
    output: terminal.FormatOption = "table"


@submissions.command()
def check(
    options: CheckOptions,
) -> None:
    """Check a submission against its release: form, completeness, accuracies. Exit code 1: invalid.

    With --push it is uploaded; HF_TOKEN or `hf auth login` log in.

    Example: `slvmeval submission check theirs.json --store STORE`
    """
    import tempfile

    from tasks.publish.hub_sharing import check_repository, push_submission
    from tasks.publish.submission import check_submission

    if options.push is None:
        refuse(options, "only with --push ORG/NAME", "public")
    else:
        check_repository(options.push)
    submission = check_submission(options.file, terminal.open_release(options)).submission
    lines = [f"{submission.card.name}: {len(submission.answers)} answers, valid"]
    for aspect, one in submission.accuracies.items():
        accuracy = "–" if one.accuracy is None else f"{100 * one.accuracy:.1f}"
        lines.append(f"  {aspect:<24} {accuracy:>5}  n {one.n}, {one.failed} failed")
    terminal.show(options.output, submission.model_dump(mode="json", exclude={"answers"}), *lines)
    if options.push is not None:
        with tempfile.TemporaryDirectory(prefix="slvmeval-submission-") as work:
            terminal.tell(push_submission(options.file, options.push, options.public, Path(work)))


class LeaderboardOptions(SiteParameters):
    """Options of `leaderboard`."""

    files: Annotated[tuple[Path, ...], Given(("files",), "SUBMISSION")] = Field(
        description="JSON files, or folders of them."
    )
    out: OutOption = Path("leaderboard")
    interval: IntervalOption = "clustered"
    release: Annotated[str | None, Given(("--release",), "RELEASE")] = Field(
        default=None, description="NAME, or NAME@3; may be omitted if there is only one."
    )


def leaderboard(
    options: LeaderboardOptions,
) -> None:
    """Write a page with a sortable table of submissions. Exit code 3: some are invalid.

    Example: `slvmeval leaderboard mine.json theirs.json --store STORE --out BOARD`
    """
    from storage_schemas.errors import UserInputError
    from storage_schemas.release import Release
    from storage_schemas.written_pages import remember_page
    from tasks.publish.leaderboard import write_leaderboard
    from tasks.publish.submission import check_submission

    opened = Release.open(terminal.open_store(options), options.release)
    checked: list[Checked] = []
    refused: dict[str, str] = {}
    for file in _submission_files(options.files):
        try:
            checked.append(check_submission(file, opened))
        except UserInputError as problem:
            refused[file.name] = str(problem).replace(str(file), file.name)
            terminal.tell(str(problem))
    if not checked:
        raise UserInputError(f"none of the submissions is valid: {options.out} is unchanged")
    page = write_leaderboard(
        opened, checked, options.out.resolve(), refused=refused, interval=options.interval
    )
    remember_page(opened.store, "leaderboard", page, f"{opened.name}, version {opened.version}")
    terminal.say(str(page))
    if refused:
        raise typer.Exit(terminal.SOME_SET_ASIDE)


def _submission_files(given: Sequence[Path]) -> list[Path]:
    """Return the given files, and the JSON files of the given folders."""
    from storage_schemas.errors import UserInputError

    files = []
    for path in given:
        if not path.exists():
            raise UserInputError(f"there is no {path}")
        found = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not found:
            raise UserInputError(f"{path} has no submission (no *.json)")
        files += found
    return files
