"""The report's tables on people: the filter, retention and agreement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from storage_schemas.votes import Vote
from tasks.report.judged_release import JudgedRelease
from tasks.report.table import ASPECT, EVALUATOR, Column, Table, interval_columns
from tasks.statistics.correlations import FilterCorrelation, filter_correlations
from tasks.statistics.intervals import FEW_SOURCES, clustered_interval
from tasks.statistics.trials import grouped
from tasks.votes.agreement import agreement
from tasks.votes.filter import FilterRule, controls_in_words, controls_of, retention
from tasks.votes.release_votes import PEOPLE
from tasks.votes.stopping import least_votes, most_votes

_NOBODY = "These pairs have no votes yet."


def filter_tables(gathered: JudgedRelease) -> tuple[Table, Table]:
    """Return the filter's correlations, and the underlying accuracies for the figure."""
    judges = [trial for trial in gathered.trials if trial.who != PEOPLE]
    correlations = filter_correlations(judges, gathered.ties)
    empty = "" if correlations else _no_filter(gathered)
    return (
        Table(
            "filter-correlation",
            "With and without the human filter",
            (
                ASPECT,
                Column("evaluators", "evaluators", "count"),
                Column("r", "Pearson's r", "number"),
                Column("p", "p", "p"),
            ),
            tuple(
                {
                    "aspect": one.aspect,
                    "evaluators": one.pearson.n,
                    "r": one.pearson.coefficient,
                    "p": one.pearson.p,
                }
                for one in correlations
            ),
            "Over evaluators, between accuracy on all rated pairs and on the kept pairs; people "
            "themselves are left out.",
            empty,
        ),
        Table(
            "filter-accuracies",
            "Accuracy with and without the human filter",
            (
                ASPECT,
                EVALUATOR,
                Column("unfiltered", "all pairs", "percent"),
                Column("filtered", "kept pairs", "percent"),
                Column("r", "Pearson's r", "number", shown=False),
            ),
            tuple(row for one in correlations for row in _filtered(gathered, one)),
            "Accuracy on all rated pairs and on the kept pairs.",
            empty,
        ),
    )


def _no_filter(gathered: JudgedRelease) -> str:
    if gathered.people is None:
        return "These pairs have no votes yet: there is no filter to compare with."
    if gathered.people.filtered:
        return (
            "This release has only kept pairs: the comparison is in the report of the release it comes from."
        )
    if not gathered.people.kept:
        return "No pair has all the votes it needs: there is no filter to compare with."
    return "Only people answered on these pairs."


def _filtered(gathered: JudgedRelease, one: FilterCorrelation) -> list[dict[str, Any]]:
    return [
        {
            "aspect": one.aspect,
            "evaluator": gathered.names[who],
            "unfiltered": accuracy,
            "filtered": one.filtered[who],
            "r": one.pearson.coefficient,
        }
        for who, accuracy in one.unfiltered.items()
    ]


def retention_table(gathered: JudgedRelease) -> Table:
    """Return how many pairs passed the filter by aspect; for a filtered release, of its original pairs."""
    people = gathered.people
    rule = people.rule if people is not None else None
    rows = [] if people is None else retention(people.outcomes)
    lead = 1 if rule is None else rule.least_lead
    counted = (
        Column("excluded_c", "excluded by C", "count"),
        Column("excluded_a", "excluded, A ≤ B" if lead == 1 else f"excluded, A − B < {lead}", "count"),
    )
    weighed = (Column("excluded_unclear", "excluded as unclear", "count"),)
    excluded = weighed if rule is not None and rule.until_certain else counted
    gold = any(row.gold for row in rows)
    controls = controls_in_words({} if people is None else controls_of(people.outcomes))
    controls = f" {controls[0].upper()}{controls[1:]}." if controls else ""
    columns = (
        ASPECT,
        Column("initial", "pairs", "count"),
        *excluded,
        Column("undecided", "undecided", "count"),
        *((Column("gold", "gold", "count"),) if gold else ()),
        Column("final", "kept", "count"),
        Column("rate", "rate", "percent"),
    )
    return Table(
        "retention",
        "Pairs kept by the human filter",
        columns,
        tuple({column.key: getattr(row, column.key) for column in columns} for row in rows),
        "" if rule is None else _rule_text(rule) + (_GOLD[rule.keep_gold] if gold else "") + controls,
        "" if rows else _NOBODY,
    )


#: How a rule treats gold pairs, by whether it keeps them.
_GOLD = {
    True: " Gold pairs test workers and are kept; they are not in the rate.",
    False: " Gold pairs test workers and are left out; they are not in the rate.",
}


def _rule_text(rule: FilterRule) -> str:
    if rule.until_certain:
        least, most = least_votes(rule.workers_per_pair), most_votes(rule.workers_per_pair)
        return (
            f"A pair has {least} to {most} votes, until it is certain, each weighted by its worker's "
            "care. It is kept if its damage is probably clear. The rate is of decided pairs."
        )
    return (
        f"A pair is kept with at most {rule.most_c} votes C and at least {rule.least_lead} more A than B, of "
        f"{rule.workers_per_pair} votes or more; with fewer it is undecided. The rate is of decided pairs."
    )


def protocol_table(gathered: JudgedRelease) -> Table:
    """Return what people answered under each protocol, beside the first of them; empty for one protocol.

    Where viewing was drawn by worker, differences are the protocols' own.
    """
    votes = () if gathered.people is None else gathered.people.votes
    controls = {record.pair_id for record in gathered.release.pairs() if record.control}
    kept = [
        vote
        for vote in votes
        if vote.protocol and not vote.gold and vote.check is None and vote.pair_id not in controls
    ]
    by_protocol = grouped(sorted(kept, key=lambda vote: vote.protocol), lambda vote: vote.protocol)
    parts = [_protocol(protocol, some) for protocol, some in by_protocol.items()]
    rows = [{**one, **_beside(parts[0], one)} for one in parts] if len(parts) > 1 else []
    return Table(
        "protocols",
        "People by the protocol of their viewing",
        (
            Column("protocol", "protocol"),
            Column("workers", "workers", "count"),
            Column("votes", "votes", "count"),
            Column("right", "right", "percent"),
            *interval_columns("95 %", prefix="right_"),
            Column("difference", "vs. the first", "points"),
            *interval_columns("95 %", "points"),
            Column("a", "A", "percent"),
            Column("b", "B", "percent"),
            Column("c", "C", "percent"),
            Column("watched", "watched", "percent"),
            Column("seconds", "s to the preference", "number"),
        ),
        tuple(rows),
        "Right: the untouched video was preferred, before anything was revealed. Intervals are clustered by "
        "worker, since viewing is drawn by worker; the difference's is Newcombe's of the two. Watched: "
        "median share of both videos that was played; then the median seconds to the preference. Gold "
        "pairs, check tasks and controls are left out.",
        "" if rows else "All votes were given under one protocol (viewing = drawn compares several).",
    )


def _protocol(protocol: str, votes: Sequence[Vote]) -> dict[str, Any]:
    right = [float(vote.preferred == "high") for vote in votes]
    interval = clustered_interval(right, [vote.worker for vote in votes])
    watched = [
        vote.watched_s / vote.pair_duration_s
        for vote in votes
        if vote.watched_s is not None and vote.pair_duration_s
    ]
    seconds = [vote.preference_s for vote in votes if vote.preference_s is not None]
    return {
        "protocol": protocol,
        "workers": len({vote.worker for vote in votes}),
        "votes": len(votes),
        "right": sum(right) / len(right),
        "right_low": interval.low if interval else None,
        "right_high": interval.high if interval else None,
        **{rating.lower(): sum(vote.rating == rating for vote in votes) / len(votes) for rating in "ABC"},
        "watched": median(watched) if watched else None,
        "seconds": median(seconds) if seconds else None,
    }


def _beside(first: Mapping[str, Any], one: Mapping[str, Any]) -> dict[str, float]:
    """Return the difference of two shares with Newcombe's interval, from that of each."""
    if one is first or first["right_low"] is None or one["right_low"] is None:
        return {}
    difference = one["right"] - first["right"]
    below = math.hypot(one["right"] - one["right_low"], first["right_high"] - first["right"])
    above = math.hypot(one["right_high"] - one["right"], first["right"] - first["right_low"])
    return {"difference": difference, "low": difference - below, "high": difference + above}


def agreement_table(gathered: JudgedRelease) -> Table:
    """Return people's agreement by aspect."""
    people = gathered.people
    rows = []
    if people is not None:
        recipe = gathered.release.recipe
        controls = {record.pair_id for record in gathered.release.pairs() if record.control}
        votes = [vote for vote in people.votes if vote.pair_id not in controls]
        for one in agreement(votes, int(recipe.get("seed", 0)), recipe.get("aspects", {})):
            values = {
                key: getattr(one, key)
                for key in ("aspect", "pairs", "votes", "workers", "unanimous", "right")
            }
            for name, alpha in (("ratings", one.ratings), ("preferences", one.preferences)):
                values[name] = alpha.alpha
                values[f"{name}_low"] = alpha.interval.low if alpha.interval else None
                values[f"{name}_high"] = alpha.interval.high if alpha.interval else None
            rows.append(values)
    return Table(
        "agreement",
        "Agreement of people",
        (
            ASPECT,
            Column("pairs", "pairs", "count"),
            Column("votes", "votes", "count"),
            Column("workers", "workers", "count"),
            Column("ratings", "ratings, α", "number"),
            *interval_columns("95 %", "number", "ratings_"),
            Column("unanimous", "all alike", "percent"),
            Column("preferences", "better one, α", "number"),
            *interval_columns("95 %", "number", "preferences_"),
            Column("right", "right", "percent"),
        ),
        tuple(rows),
        "Krippendorff's α, ordinal for A, B and C, nominal for which video is better; the interval is a "
        f"bootstrap over sources, and too narrow with fewer than {FEW_SOURCES} of them. If nearly all "
        "answers are equal, chance agrees nearly as well, and α is low or a dash although people agree: read "
        "it together with the shares.",
        "" if rows else _NOBODY,
    )
