"""``slvmeval annotate filter``: the pairs that pass the votes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from flows.parameters import Given, ReleaseParameters
from slvmeval.cli import terminal
from slvmeval.cli.annotate import workers
from slvmeval.cli.declared import refuse
from storage_schemas.counts import count_text
from storage_schemas.first_of_many import first_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage_schemas.pair import PairRecord
    from storage_schemas.release import Release
    from tasks.votes.filter import Retention
    from tasks.votes.release_votes import ReleaseVotes

RuleOption = Annotated[
    str | None,
    Given(("--recipe",), "NAME|FILE"),
    Field(description="Use this recipe's rule instead of those of the campaigns and the release."),
]


def register(annotate: typer.Typer) -> None:
    """Add the commands."""
    annotate.command(name="filter")(filter_)
    workers.register(annotate)


class FilterOptions(ReleaseParameters):
    """Options of `filter`."""

    name: Annotated[str | None, Given(("--as",), "NAME")] = Field(
        default=None, description="Name of the new release; RELEASE-filtered by default."
    )
    campaigns: terminal.VotesOption = ()
    recipe: RuleOption = None
    dry_run: bool = Field(
        default=False,
        description="Only print how many pairs of each aspect would pass, and why the others fail.",
    )
    output: terminal.FormatOption = "table"


def filter_(
    options: FilterOptions,
) -> None:
    """Write the pairs that pass the filter as a new release that includes the votes.

    It uses the collected votes (`annotate collect`). If nothing changed, no new version is written.
    Votes are weighed or counted as the campaign or the recipe says. Exit code 3 if pairs were left out
    because they have too few votes.

    Example: `slvmeval annotate filter main --store STORE`
    """
    from tasks.annotation.filtered_release import write_filtered
    from tasks.votes.filter import FilterVerdict, controls_in_words, controls_of, excerpts_alone
    from tasks.votes.filter import retention as retention_of

    parent = terminal.open_release(options)
    people = _people(parent, options.campaigns, options.recipe)
    rows = retention_of(people.outcomes)
    controls = controls_of(people.outcomes)
    alone = excerpts_alone(parent.pairs())
    about = [in_words] if (in_words := controls_in_words(controls)) else []
    about += [_in_words(parent, alone)] if alone else []
    if options.dry_run:
        refuse(options, "not with --dry-run", "name")
        terminal.show(
            options.output,
            [_plain(row) for row in rows],
            lambda: _print_retention(parent, people, rows),
            *about,
        )
        return
    filtered = write_filtered(parent, people, options.name)
    what = "written" if filtered.new else "unchanged since it was written"
    final, initial = rows[-1].final, rows[-1].initial
    terminal.show(
        options.output,
        {
            "release": filtered.release.name,
            "version": filtered.release.version,
            "new": filtered.new,
            "checksum": filtered.release.manifest.content_checksum,
            "filtered_from": {"release": parent.name, "version": parent.version},
            "rule": people.rule.model_dump(mode="json"),
            "retention": [_plain(row) for row in rows],
            "controls": controls,
            "excerpts_alone": [record.pair_id for record in alone],
        },
        lambda: _print_retention(parent, people, rows),
        *about,
        f"release {filtered.release.name}, version {filtered.release.version}: "
        f"{final} of {initial} pairs, {what}",
    )
    if any(one.verdict is FilterVerdict.UNDECIDED for one in people.outcomes):
        raise typer.Exit(terminal.SOME_SET_ASIDE)


def _people(release: Release, campaigns: Sequence[str], recipe: str | None) -> ReleaseVotes:
    from storage_schemas.errors import UserInputError
    from tasks.recipe import load_recipe
    from tasks.votes.release_votes import read_release_votes

    rule = None if recipe is None else load_recipe(recipe).annotation
    people = read_release_votes(release, campaigns, rule)
    if people is None:
        raise UserInputError(
            f"there are no votes on release {release.name}, version {release.version}: "
            "`slvmeval annotate publish` and `slvmeval annotate serve` show it to annotators, and "
            "`slvmeval annotate collect` collects their votes"
        )
    return people


def _in_words(release: Release, alone: Sequence[PairRecord]) -> str:
    """Return the excerpts that no vote can decide, and what to do."""
    where = dict.fromkeys(f"{one.aspect} of {release.source(one.source_id).title}" for one in alone)
    return (
        f"{count_text(len(alone), 'excerpt')} left out, because the pair with the whole film, on which "
        f"people vote, is missing ({first_names(list(where), terminal.MAX_LISTED)}): `slvmeval status` "
        "says why, `slvmeval build --retry` builds it if it failed"
    )


def _plain(row: Retention) -> dict[str, object]:
    from dataclasses import asdict

    return {**asdict(row), "rate": row.rate}


def _print_retention(release: Release, people: ReleaseVotes, rows: list[Retention]) -> None:
    from tasks.statistics.intervals import printed_per_cent

    rule = people.rule
    rule_text = (
        "weighed, until a pair is certain"
        if rule.until_certain
        else f"at most {rule.most_c} C, A over B by {rule.least_lead}, of {rule.workers_per_pair} votes"
    )
    title = f"release {release.name}, version {release.version}: {len(people.votes)} votes; {rule_text}"
    excluded = ("excluded as unclear",) if rule.until_certain else ("excluded by C", "by A and B")
    gold = rows[-1].gold > 0
    columns = ("aspect", "pairs", *excluded, "undecided", *(("gold",) if gold else ()), "kept", "rate, %")
    terminal.say(
        terminal.Grid(
            title,
            columns,
            [
                (
                    row.aspect,
                    row.initial,
                    *((row.excluded_unclear,) if rule.until_certain else (row.excluded_c, row.excluded_a)),
                    row.undecided,
                    *((row.gold,) if gold else ()),
                    row.final,
                    "-" if row.rate is None else printed_per_cent(row.rate),
                )
                for row in rows
            ],
            numbers=len(columns) - 1,
        )
    )
