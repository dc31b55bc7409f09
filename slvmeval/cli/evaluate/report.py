"""``slvmeval report``: how well the judges of a release perform. ``slvmeval compare``: is one of two better?

``slvmeval submission`` and ``slvmeval leaderboard``: a judge's answers as one file, and a page that compares
such files.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, cast

import typer

from slvmeval.cli import terminal
from slvmeval.cli.store.publish import OpenOption, OutOption, RevisionOption

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from storage_schemas.release import Release
    from tasks.extras.meta_sets.judged_set import JudgedSet
    from tasks.publish.submission import Submission
    from tasks.report.judged_pairs import JudgedPairs
    from tasks.report.judged_release import JudgedRelease
    from tasks.report.published import Against
    from tasks.report.table import Table
    from tasks.report.write import Report
    from tasks.statistics.trials import FailurePolicy, TiePolicy


ReleaseOption = Annotated[
    str | None,
    typer.Option("--release", metavar="NAME", help="Name of the release; may be left out if there is one."),
]


PairsOption = Annotated[
    str | None,
    typer.Option(
        "--pairs",
        metavar="NAME:PATH",
        help="Other pairs in place of a release's: a set of `slvmeval meta-sets list`, or pairs:FILE.",
    ),
]


TiesOption = Annotated[
    str, typer.Option("--ties", metavar="half|wrong|dropped", help="How an answer without a winner counts.")
]
IntervalOption = Annotated[
    str,
    typer.Option(
        "--interval", metavar="clustered|wilson|paper", help="The interval on the page; the CSV has all."
    ),
]
FailuresOption = Annotated[
    str,
    typer.Option("--failures", metavar="ignored|half|wrong", help="How a request without an answer counts."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Judges")(report)
    app.command(rich_help_panel="Judges")(compare)
    app.command(rich_help_panel="Judges")(jury)
    app.add_typer(submissions, name="submission", rich_help_panel="Judges")
    app.command(rich_help_panel="Judges")(leaderboard)


def report(
    out: OutOption,
    release: terminal.ReleaseArgument = None,
    evaluators: Annotated[
        list[str] | None,
        typer.Option("--evaluator", "-e", metavar="NAME", help="Only this one. May be given several times."),
    ] = None,
    interval: IntervalOption = "clustered",
    ties: TiesOption = "half",
    failures: FailuresOption = "ignored",
    campaigns: Annotated[
        list[str] | None,
        typer.Option(
            "--campaign", metavar="NAME", help="Only votes of this campaign. May be given several times."
        ),
    ] = None,
    pair_pages: Annotated[
        int,
        typer.Option(
            "--pair-pages",
            min=0,
            help="Number of pairs with a page of their own: those on which the evaluators disagree most.",
        ),
    ] = 20,
    pairs: PairsOption = None,
    public: Annotated[
        bool,
        typer.Option(
            "--public", help="Leave out what may not be redistributed, so that the pages can be published."
        ),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="paper|FILE",
            help="Show published values beside the release's: those of the paper, or of a TOML file.",
        ),
    ] = None,
    margin: Annotated[
        float,
        typer.Option(
            "--margin",
            min=0.1,
            max=100,
            metavar="POINTS",
            help="With `--against`: accuracies that differ by less count as reproduced.",
        ),
    ] = 10.0,
    open_it: OpenOption = False,
    version: terminal.VersionOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
    quiet: terminal.QuietOption = False,
) -> None:
    """Write a page, tables (CSV, LaTeX, Markdown) and figures (SVG, PDF) on the judgements of a release.

    With `--pairs` it is on other people's pairs or your own.

    Exit code 3: the file of published values does not fit; what is wrong with it is not compared.

    Example: `slvmeval report main --store STORE --out REPORT --against paper --open`

    More: `slvmeval report --pairs pairs:mine.jsonl --store STORE --out REPORT`
    """
    from storage_schemas.errors import UserInputError
    from storage_schemas.written_pages import remember_page
    from tasks.report.accuracy import INTERVAL_KINDS
    from tasks.report.published import read_published
    from tasks.report.write import write_report

    if interval not in INTERVAL_KINDS:
        raise UserInputError(
            f"--interval {interval}: choose {', '.join(INTERVAL_KINDS[:-1])} or {INTERVAL_KINDS[-1]}"
        )
    counting = _counting(ties, failures)
    published = None if against is None else read_published(against)
    site = (store, profile)
    with terminal.step_bar("report", quiet) as step:
        made: Report
        if pairs is None:
            from tasks.report.release_report import report_of

            judged = _judged_release(release, version, site, counting, evaluators or (), campaigns or ())
            about = f"{judged.release.name}, version {judged.release.version}"
            made = report_of(judged, interval, published, margin / 100)
        else:
            from tasks.extras.meta_sets.set_report import set_report_of

            _only_for_releases(
                {"RELEASE": release, "--version": version, "--campaign": campaigns, "--against": against}
            )
            about = pairs
            made = set_report_of(_judged_set(pairs, site, counting, evaluators or ()), interval)
        page = write_report(made, out.resolve(), private=not public, most=pair_pages, progress=step)
    remember_page(terminal.open_store(store, profile), "report", page, about)
    if made.against is not None:
        _print_against(made.against)
    terminal.say(str(page))
    if open_it:
        typer.launch(page.as_uri())
    if made.against is not None and made.against.problems:
        raise typer.Exit(terminal.SOME_SET_ASIDE)


def compare(
    first: Annotated[str, typer.Argument(metavar="FIRST", help="An evaluator, named as in the report.")],
    second: Annotated[str, typer.Argument(metavar="SECOND", help="The one to compare it with.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Also write a page, a figure, a table into it."),
    ] = None,
    points: Annotated[
        float,
        typer.Option("--points", metavar="N", help="How many pairs would show a difference of N points?"),
    ] = 5.0,
    ties: TiesOption = "half",
    failures: FailuresOption = "ignored",
    release: ReleaseOption = None,
    version: terminal.VersionOption = None,
    pairs: PairsOption = None,
    open_it: OpenOption = False,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Say whether one of two evaluators is better, at what, by how much, and how many pairs would show it.

    Example: `slvmeval compare gpt-5-video qwen3-vl-video --store STORE --out COMPARISON`
    """
    from storage_schemas.errors import UserInputError
    from storage_schemas.written_pages import remember_page
    from tasks.report.comparison_page import (
        NAME,
        compare_evaluators,
        comparison_files,
        comparison_table,
        verdict,
    )
    from tasks.report.owned_folder import OwnedFolder

    if open_it and out is None:
        raise UserInputError("--open needs --out: there is no page otherwise")
    gathered = _judged_pairs(release, version, pairs, (store, profile), _counting(ties, failures))
    made = compare_evaluators(gathered, first, second, points / 100)
    table = comparison_table(made)
    if table.rows:
        # a terminal is narrow; the page has the rest
        shown = tuple(column for column in table.columns if column.key not in _ON_THE_PAGE_ONLY)
        columns, rows = _numbers_first(replace(table, columns=shown))
        numbers = sum(column.is_number for column in shown)
        terminal.console().print(terminal.table(table.title, columns, rows, numbers))
    terminal.say(*verdict(made))
    if out is None:
        return
    owned = OwnedFolder(out.resolve(), "files.json")
    for name, content in comparison_files(made).items():
        owned.write(name, content)
    owned.settle()
    page = out.resolve() / f"{NAME}.html"
    remember_page(terminal.open_store(store, profile), "comparison", page, f"{first} and {second}")
    terminal.say(str(page))
    if open_it:
        typer.launch(page.as_uri())


def jury(
    evaluators: Annotated[
        list[str] | None,
        typer.Option(
            "--evaluator",
            "-e",
            metavar="NAME",
            help="A member, named as in the report; by default all.",
        ),
    ] = None,
    price: Annotated[
        float | None,
        typer.Option("--price", min=0.0, metavar="DOLLARS", help="Maximum price of a best jury per pair."),
    ] = None,
    most: Annotated[
        int, typer.Option("--most", min=1, metavar="K", help="Maximum size of the best juries.")
    ] = 5,
    ties: TiesOption = "half",
    failures: FailuresOption = "ignored",
    release: ReleaseOption = None,
    version: terminal.VersionOption = None,
    pairs: PairsOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Say what a jury of several evaluators would answer: majority, fitted weights, best jury of each size.

    It uses stored answers only. The report has the same tables for all evaluators.

    Example: `slvmeval jury -e gpt-5-video -e qwen3-vl-video -e clipscore --store STORE`
    """
    import json

    from tasks.report.formats import json_text
    from tasks.report.jury_tables import chosen_members, jury_tables

    gathered = _judged_pairs(release, version, pairs, (store, profile), _counting(ties, failures))
    tables = jury_tables(gathered, chosen_members(gathered, evaluators or ()), most, price)
    if as_json:
        terminal.print_json(json.loads(json_text({table.name: table for table in tables})))
        return
    for table in tables:
        if not table.rows:
            terminal.say(f"{table.title}: {table.empty}")
            continue
        columns, rows = _numbers_first(table)
        numbers = sum(column.is_number for column in table.shown)
        terminal.console().print(terminal.table(table.title, columns, rows, numbers))


Site = tuple[Path | None, Path | None]


def _judged_release(
    name: str | None,
    version: int | None,
    site: Site,
    counting: Counting,
    evaluators: Collection[str] = (),
    campaigns: Collection[str] = (),
) -> JudgedRelease:
    from tasks.report.judged_release import load_judged_release
    from tasks.votes.release_votes import read_release_votes

    opened = terminal.open_release(site[0], name, version, site[1])
    return load_judged_release(opened, evaluators, people=read_release_votes(opened, campaigns), **counting)


def _judged_pairs(
    release: str | None, version: int | None, pairs: str | None, site: Site, counting: Counting
) -> JudgedPairs:
    if pairs is None:
        return _judged_release(release, version, site, counting)
    _only_for_releases({"--release": release, "--version": version})
    return _judged_set(pairs, site, counting)


def _judged_set(where: str, site: Site, counting: Counting, evaluators: Collection[str] = ()) -> JudgedSet:
    from tasks.extras.meta_sets.judged_set import load_judged_set
    from tasks.extras.meta_sets.provider import meta_set_from_text

    return load_judged_set(terminal.open_store(*site), meta_set_from_text(where), evaluators, **counting)


def _only_for_releases(given: Mapping[str, object]) -> None:
    from storage_schemas.errors import UserInputError

    unfit = [name for name, value in given.items() if value]
    if unfit:
        raise UserInputError(f"{' and '.join(unfit)}: only for a release; leave --pairs out, or this")


#: Columns of a comparison that a terminal does not show.
_ON_THE_PAGE_ONLY = ("first_better", "second_better", "shown", "pairs_for_seen")


class Counting(TypedDict):
    """How answers without a winner, and requests without an answer, count."""

    ties: TiePolicy
    failures: FailurePolicy


def _counting(ties: str, failures: str) -> Counting:
    from typing import get_args

    from storage_schemas.errors import UserInputError
    from tasks.statistics.trials import FailurePolicy, TiePolicy

    for option, given, policy in (("ties", ties, TiePolicy), ("failures", failures, FailurePolicy)):
        known = get_args(policy)
        if given not in known:
            raise UserInputError(f"--{option} {given}: choose {', '.join(known[:-1])} or {known[-1]}")
    return Counting(ties=cast("TiePolicy", ties), failures=cast("FailurePolicy", failures))


def _print_against(against: Against) -> None:
    for line in (*against.problems, *against.absent):
        terminal.tell(line)
    for table in against.tables:
        columns, rows = _numbers_first(table)
        numbers = sum(column.is_number for column in table.shown)
        terminal.console().print(terminal.table(table.title, columns, rows, numbers))
    if not against.tables:
        terminal.say(f"nothing of {against.title} can be compared with this release")


def _numbers_first(table: Table) -> tuple[list[str], list[list[str]]]:
    """Return titles and rows with the numbers directly after the first text, for a terminal."""
    texts = [place for place, column in enumerate(table.shown) if not column.is_number]
    numbers = [place for place, column in enumerate(table.shown) if column.is_number]
    order = [*texts[:1], *numbers, *texts[1:]]
    return [table.shown[place].title for place in order], [
        [row[place] for place in order] for row in table.cells()
    ]


submissions = typer.Typer(
    no_args_is_help=True, help="A judge's answers on a release, as one file with its card."
)

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", dir_okay=False, help="The submission, a JSON file.")
]
CardOption = Annotated[
    Path, typer.Option("--card", metavar="FILE", help="name, authors, url, model, description, as TOML.")
]


@submissions.command()
def make(
    file: FileArgument,
    evaluator: Annotated[str, typer.Option("--evaluator", "-e", metavar="NAME", help="Whose answers.")],
    card: CardOption,
    settings: Annotated[
        str,
        typer.Option(
            "--settings", metavar="CHECKSUM", help="Prefix of the settings' checksum, if there are several."
        ),
    ] = "",
    prices: Annotated[
        Path | None,
        typer.Option("--prices", metavar="FILE", help="The price list used; by default the built-in one."),
    ] = None,
    release: ReleaseOption = None,
    version: terminal.VersionOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Write a judge's answers on a release as a submission, and check it.

    Example: `slvmeval submission make mine.json -e my-judge --card card.toml --store STORE`
    """
    from storage_schemas.judgements import JudgementsStore
    from tasks.llm.usage import load_prices
    from tasks.publish.submission import UsedPrices, make_submission, read_card

    opened = terminal.open_release(store, release, version, profile)
    who = read_card(card)
    used = load_prices(None if prices is None else str(prices))
    pairs = [record.pair_id for record in opened.pairs()]
    rows = [
        row
        for row in JudgementsStore(opened.store).rows([evaluator], pairs)
        if row.settings.startswith(settings)
    ]
    made = make_submission(opened, rows, who, UsedPrices(as_of=used.as_of, source=used.source))
    _write_submission(file, made, opened)


def _write_submission(file: Path, made: Submission, release: Release) -> None:
    """Write a submission if it is in order, and say what it has."""
    from storage_schemas.commit import write_atomic
    from tasks.publish.submission import check_submission, submission_bytes

    draft = file.with_name(f".{file.name}.unchecked")
    try:
        write_atomic(draft, submission_bytes(made))
        check_submission(draft, release)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    failed = sum(answer.failure is not None for answer in made.answers)
    terminal.say(f"{len(made.answers)} answers, {failed} of them failures: {file}")


@submissions.command(name="from")
def from_file(
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWERS",
            dir_okay=False,
            help="A log of Inspect AI (.eval, .json) or lmms-eval (.jsonl), or pair, order, choice as CSV or "
            "JSON Lines.",
        ),
    ],
    file: FileArgument,
    card: CardOption,
    evaluator: Annotated[
        str,
        typer.Option("--evaluator", "-e", metavar="NAME", help="Its name; by default the model of the log."),
    ] = "",
    partial: Annotated[bool, typer.Option("--partial", help="Count missing answers as failures.")] = False,
    release: ReleaseOption = None,
    version: terminal.VersionOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Make a submission of another harness's log, or of a table of answers.

    `slvmeval export --harness` writes what the harness runs. Rows that are unknown, missing, there twice or
    contradict each other are named, and nothing is written.

    Example: `slvmeval submission from logs/log.eval mine.json --card card.toml --store STORE`
    """
    from tasks.publish.foreign_answers import judgements_from
    from tasks.publish.submission import UsedPrices, make_submission, read_card

    opened = terminal.open_release(store, release, version, profile)
    who = read_card(card)
    rows, coverage = judgements_from(answers, opened, evaluator, partial)
    terminal.say(coverage)
    _write_submission(file, make_submission(opened, rows, who, UsedPrices()), opened)


@submissions.command()
def check(
    file: FileArgument,
    release: ReleaseOption = None,
    version: terminal.VersionOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """Check a submission against its release: form, completeness, accuracies. Exit code 1: invalid.

    Example: `slvmeval submission check theirs.json --store STORE`
    """
    from tasks.publish.submission import check_submission

    submission = check_submission(file, terminal.open_release(store, release, version, profile)).submission
    if as_json:
        terminal.print_json(submission.model_dump(mode="json", exclude={"answers"}))
        return
    terminal.say(f"{submission.card.name}: {len(submission.answers)} answers, in order")
    for aspect, one in submission.accuracies.items():
        accuracy = "–" if one.accuracy is None else f"{100 * one.accuracy:.1f}"
        terminal.say(f"  {aspect:<24} {accuracy:>5}  n {one.n}, {one.failed} failed")


@submissions.command()
def push(
    file: FileArgument,
    repository: Annotated[
        str, typer.Argument(metavar="ORG/NAME", help="A dataset of the Hugging Face hub; a new one is made.")
    ],
    public: Annotated[
        bool, typer.Option("--public", help="Everyone can read a dataset that is new.")
    ] = False,
    release: ReleaseOption = None,
    version: terminal.VersionOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Check a submission and upload it. HF_TOKEN or `hf auth login` log in.

    Example: `slvmeval submission push mine.json my-lab/demo-answers --store STORE`
    """
    import tempfile

    from tasks.publish.hub_sharing import check_repository, push_submission
    from tasks.publish.submission import check_submission

    check_repository(repository)
    check_submission(file, terminal.open_release(store, release, version, profile))
    with tempfile.TemporaryDirectory(prefix="slvmeval-submission-") as work:
        terminal.say(push_submission(file, repository, public, Path(work)))


@submissions.command()
def pull(
    repository: Annotated[str, typer.Argument(metavar="ORG/NAME", help="A dataset of the Hugging Face hub.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the submissions.")],
    revision: RevisionOption = "main",
) -> None:
    """Download the submissions of a dataset; `slvmeval leaderboard` reads the folder.

    Example: `slvmeval submission pull my-lab/demo-answers --out SUBMISSIONS`
    """
    import tempfile

    from tasks.publish.hub_sharing import pull_submissions

    with tempfile.TemporaryDirectory(prefix="slvmeval-submission-") as work:
        for path in pull_submissions(repository, revision, out, Path(work)):
            terminal.say(str(path))


def leaderboard(
    files: Annotated[
        list[Path], typer.Argument(metavar="SUBMISSION...", help="JSON files, or folders of them.")
    ],
    out: OutOption,
    interval: IntervalOption = "clustered",
    release: ReleaseOption = None,
    version: terminal.VersionOption = None,
    store: terminal.StoreOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Write a page with a sortable table of submissions. Exit code 3: some are invalid.

    Example: `slvmeval leaderboard mine.json theirs.json --store STORE --out BOARD`
    """
    from storage_schemas.errors import UserInputError
    from storage_schemas.written_pages import remember_page
    from tasks.publish.leaderboard import write_leaderboard
    from tasks.publish.submission import check_submission
    from tasks.report.accuracy import INTERVAL_KINDS

    if interval not in INTERVAL_KINDS:
        raise UserInputError(f"--interval {interval}: choose {', '.join(INTERVAL_KINDS)}")
    opened = terminal.open_release(store, release, version, profile)
    checked, refused = [], {}
    for file in _submission_files(files):
        try:
            checked.append(check_submission(file, opened))
        except UserInputError as problem:
            refused[file.name] = str(problem).replace(str(file), file.name)
            terminal.tell(str(problem))
    page = write_leaderboard(opened, checked, out.resolve(), refused=refused, interval=interval)
    remember_page(opened.store, "leaderboard", page, f"{opened.name}, version {opened.version}")
    terminal.say(str(page))
    if refused:
        raise typer.Exit(terminal.SOME_SET_ASIDE)


def _submission_files(given: list[Path]) -> list[Path]:
    """Return the given files, and the JSON files of the given folders."""
    from storage_schemas.errors import UserInputError

    files = []
    for path in given:
        found = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not found:
            raise UserInputError(f"{path} has no submission (no *.json)")
        files += found
    return files
