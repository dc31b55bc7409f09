"""``slvmeval submission`` and ``slvmeval leaderboard``: a judge's answers as one file, and a page of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slvmeval.commands import shared
from slvmeval.commands.publish import OutOption

app = typer.Typer(no_args_is_help=True, help="A judge's answers on a release, as one file with its card.")

FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", dir_okay=False, help="The submission, a JSON file.")
]
ReleaseOption = Annotated[
    str | None,
    typer.Option("--release", metavar="NAME", help="Name of the release; may be left out if there is one."),
]


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="submission", rich_help_panel="Judges")
    parent.command(rich_help_panel="Judges")(leaderboard)


@app.command()
def make(
    file: FileArgument,
    evaluator: Annotated[str, typer.Option("--evaluator", "-e", metavar="NAME", help="Whose answers.")],
    card: Annotated[
        Path, typer.Option("--card", metavar="FILE", help="name, authors, url, model, description, as TOML.")
    ],
    settings: Annotated[
        str, typer.Option("--settings", metavar="CHECKSUM", help="Its beginning, where there are several.")
    ] = "",
    prices: Annotated[
        Path | None, typer.Option("--prices", metavar="FILE", help="The price list that was used; ours else.")
    ] = None,
    release: ReleaseOption = None,
    version: shared.VersionOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """Write a judge's answers on a release as a submission, and check it.

    Example: `slvmeval submission make mine.json -e my-judge --card card.toml --store STORE`
    """
    from storage_schemas.commit import write_atomic
    from storage_schemas.judgements_store import JudgementsStore
    from tasks.evaluators.prices import load_prices
    from tasks.publish.submission import UsedPrices, make_submission, submission_bytes
    from tasks.publish.submission_check import check_submission, read_card

    opened = shared.open_release(store, release, version, profile)
    who = read_card(card)
    used = load_prices(None if prices is None else str(prices))
    pairs = [record.pair_id for record in opened.pairs()]
    rows = [
        row
        for row in JudgementsStore(opened.store).rows([evaluator], pairs)
        if row.settings.startswith(settings)
    ]
    made = make_submission(opened, rows, who, UsedPrices(as_of=used.as_of, source=used.source))
    draft = file.with_name(f".{file.name}.unchecked")
    try:
        write_atomic(draft, submission_bytes(made))
        check_submission(draft, opened)
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
    failed = sum(answer.failure is not None for answer in made.answers)
    shared.say(f"{len(made.answers)} answers, {failed} of them failures: {file}")


@app.command()
def check(
    file: FileArgument,
    release: ReleaseOption = None,
    version: shared.VersionOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Check a submission against its release: form, completeness, accuracies. Exit code 1: not in order.

    Example: `slvmeval submission check theirs.json --store STORE`
    """
    from tasks.publish.submission_check import check_submission

    found = check_submission(file, shared.open_release(store, release, version, profile)).submission
    if as_json:
        shared.print_json(found.model_dump(mode="json", exclude={"answers"}))
        return
    shared.say(f"{found.card.name}: {len(found.answers)} answers, in order")
    for aspect, one in found.accuracies.items():
        accuracy = "–" if one.accuracy is None else f"{100 * one.accuracy:.1f}"
        shared.say(f"  {aspect:<24} {accuracy:>5}  n {one.n}, {one.failed} failed")


def leaderboard(
    files: Annotated[list[Path], typer.Argument(metavar="SUBMISSION...", help="JSON files.")],
    out: OutOption,
    interval: Annotated[
        str,
        typer.Option(
            "--interval", metavar="clustered|wilson|paper", help="Which one the page shows; the CSV has all."
        ),
    ] = "clustered",
    release: ReleaseOption = None,
    version: shared.VersionOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """Write a page with a table of submissions that can be sorted. Exit code 3 if some are not in order.

    Example: `slvmeval leaderboard mine.json theirs.json --store STORE --out BOARD`
    """
    from storage_schemas.errors import UserInputError
    from tasks.publish.report.accuracy import INTERVAL_KINDS
    from tasks.publish.report.leaderboard import write_leaderboard
    from tasks.publish.submission_check import check_submission

    if interval not in INTERVAL_KINDS:
        raise UserInputError(f"--interval {interval}: choose {', '.join(INTERVAL_KINDS)}")
    opened = shared.open_release(store, release, version, profile)
    checked, refused = [], {}
    for file in files:
        try:
            checked.append(check_submission(file, opened))
        except UserInputError as problem:
            refused[file.name] = str(problem).replace(str(file), file.name)
            shared.tell(str(problem))
    page = write_leaderboard(opened, checked, out.resolve(), refused=refused, interval=interval)
    shared.say(str(page))
    if refused:
        raise typer.Exit(shared.SOME_SET_ASIDE)
