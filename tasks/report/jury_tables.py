"""The tables on juries of evaluators, for reports and for `slvmeval jury`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from storage_schemas.errors import UserInputError, suggestion
from tasks.report.judged_pairs import JudgedPairs
from tasks.report.repeat_tables import bounds
from tasks.report.table import ALL, ASPECT, EVALUATOR, Column, Table, interval_columns
from tasks.statistics.cells import cell_of
from tasks.statistics.juries import (
    FOLDS,
    MAX_SEARCHED,
    Ballots,
    ballots_of,
    best_juries,
    error_agreement,
    fitted_weights,
    majority_points,
    verdicts_of,
    weighted_points,
)
from tasks.statistics.trials import Trial, grouped
from tasks.votes.release_votes import PEOPLE

#: Minimum size of a report's juries, and maximum size of its best juries.
MIN_MEMBERS, DEFAULT_MAX_MEMBERS = 3, 5

Rows = list[dict[str, Any]]
Trials = Mapping[str, Sequence[Trial]]


def report_juries(gathered: JudgedPairs) -> tuple[Table, ...]:
    """Return the tables on the jury of all evaluators that answered enough; none for fewer than three.

    People are left out, because their answers decide which pairs count.
    """
    pairs = len({trial.pair for trial in gathered.trials})
    members = {
        gathered.names[who]: trials
        for who, trials in gathered.by_who().items()
        if who != PEOPLE and cell_of(trials, gathered.ties, pairs).is_covered
    }
    return jury_tables(gathered, members) if len(members) >= MIN_MEMBERS else ()


def chosen_members(gathered: JudgedPairs, names: Sequence[str]) -> Trials:
    """Return the trials of the named evaluators, or of all but people.

    Raises
    ------
    UserInputError
        If a name is unknown or given twice, or there are fewer than two.
    """
    held = {gathered.names[who]: trials for who, trials in gathered.by_who().items()}
    for name in names:
        if name not in held:
            near = suggestion(name, list(held), "judged by")
            raise UserInputError(f"{name} has not judged these pairs: {near}")
    people = gathered.names.get(PEOPLE)
    wanted = list(dict.fromkeys(names)) or [name for name in held if name != people]
    if len(wanted) < max(2, len(names)):
        raise UserInputError(f"a jury of {', '.join(names) or len(wanted)}: name two different evaluators")
    return {name: held[name] for name in wanted}


def jury_tables(
    gathered: JudgedPairs, members: Trials, most: int = DEFAULT_MAX_MEMBERS, price: float | None = None
) -> tuple[Table, Table, Table]:
    """Return the accuracies of juries, the weights of members, and how alike their errors are.

    Parameters
    ----------
    members
        Trials by name.
    most
        Largest size of the best juries.
    price
        Highest price of a best jury on one pair, in dollars.
    """
    ballots = ballots_of(members, gathered.ties)
    costs = _costs(gathered)
    return (
        _jury_table(ballots, costs, most, price),
        _member_table(ballots, costs),
        _agreement_table(members, gathered),
    )


def _costs(gathered: JudgedPairs) -> dict[str, float | None]:
    """Return the dollars that each evaluator takes on one pair, with all its requests."""
    costs: dict[str, float | None] = {}
    for who, rows in grouped(gathered.rows, lambda row: (row.evaluator, row.settings)).items():
        paid = [row.cost_usd for row in rows]
        priced = [one for one in paid if one is not None]
        pairs = len({row.pair_id for row in rows})
        costs[gathered.names[who]] = sum(priced) / pairs if len(priced) == len(paid) else None
    return costs


def _jury_table(ballots: Ballots, costs: Mapping[str, float | None], most: int, price: float | None) -> Table:
    everyone = ", ".join(ballots.members)
    rows: Rows = []
    whole = [costs.get(name) for name in ballots.members]
    total = None if None in whole else 1000 * sum(one or 0.0 for one in whole)
    ways = {"majority": majority_points(ballots.votes), "weighted": weighted_points(ballots)}
    aspects = sorted({pair.aspect for pair in ballots.pairs})
    for jury, points in ways.items():
        for aspect in [ALL, *aspects] if len(aspects) > 1 else aspects:
            inside = np.array([aspect in (ALL, pair.aspect) for pair in ballots.pairs])
            if points is None or not inside.any():
                continue
            sources = [pair.source_id for pair in ballots.pairs if aspect in (ALL, pair.aspect)]
            found = verdicts_of(points[inside], sources)
            values = {"accuracy": found.accuracy, **bounds(found.clustered)}
            rows.append(
                {"jury": jury, "aspect": aspect, "members": everyone, "pairs": found.pairs, "usd": total}
                | values
            )
    for best in best_juries(ballots, costs, most, price):
        held = best.held_out
        rows.append(
            {
                "jury": f"best of {len(best.members)}",
                "aspect": ALL if len(aspects) > 1 else aspects[0],
                "members": ", ".join(best.members),
                "pairs": best.chosen.pairs,
                "usd": None if best.cost is None else 1000 * best.cost,
                "accuracy": None if held is None else held.accuracy,
                **bounds(None if held is None else held.clustered),
                "chosen": best.chosen.accuracy,
            }
        )
    limit = "" if price is None else f" Best juries cost at most ${price:g} a pair."
    return Table(
        "juries",
        "Juries",
        (
            Column("jury", "jury"),
            ASPECT,
            Column("pairs", "pairs", "count"),
            Column("accuracy", "accuracy", "percent"),
            *interval_columns("95 %"),
            Column("chosen", "where it was chosen", "percent"),
            Column("usd", "$ for 1,000 pairs", "money"),
            Column("members", "members"),
        ),
        tuple(rows),
        "On the pairs that all members answered; a member has one vote on a pair, over all orders and "
        f"repeats. Weighted: {FOLDS} folds of sources, weights fitted on the others. Best of k: the most "
        f"accurate majority of all of that size, among up to {MAX_SEARCHED} evaluators; its accuracy is "
        "that of a choice on the other folds, and where it was chosen it is too high. Intervals are "
        f"clustered by source.{limit}",
        "" if rows else "There is no pair that all members answered.",
    )


def _member_table(ballots: Ballots, costs: Mapping[str, float | None]) -> Table:
    weights = fitted_weights(ballots.votes)
    accuracies = (ballots.votes.mean(axis=0) + 1) / 2 if ballots.pairs else weights
    rows = [
        {
            "evaluator": name,
            "accuracy": float(accuracy),
            "weight": float(weight),
            "usd": None if (cost := costs.get(name)) is None else 1000 * cost,
        }
        for name, accuracy, weight in zip(ballots.members, accuracies, weights, strict=True)
    ]
    return Table(
        "jury-members",
        "Members and their weights",
        (
            EVALUATOR,
            Column("accuracy", "accuracy of votes", "percent"),
            Column("weight", "weight", "number"),
            Column("usd", "$ for 1,000 pairs", "money"),
        ),
        tuple(rows) if ballots.pairs else (),
        "Weights are fitted on all pairs: of members that err together each has less, and one that is "
        "mostly wrong has a negative one.",
        "" if ballots.pairs else "There is no pair that all members answered.",
    )


def _agreement_table(members: Trials, gathered: JudgedPairs) -> Table:
    rows = []
    for first, second in combinations(members, 2):
        both = {name: members[name] for name in (first, second)}
        found = error_agreement(ballots_of(both, gathered.ties))
        rows.append(
            {
                "first": first,
                "second": second,
                "pairs": found.pairs,
                "correlation": found.correlation,
                **bounds(found.correlation_interval, "r_"),
                "kappa": found.kappa,
                **bounds(found.kappa_interval, "kappa_"),
            }
        )
    return Table(
        "error-agreement",
        "Do they err on the same pairs?",
        (
            Column("first", "evaluator"),
            Column("second", "and"),
            Column("pairs", "pairs of both", "count"),
            Column("correlation", "r of errors", "number"),
            *interval_columns("95 %", "number", "r_"),
            Column("kappa", "kappa of errors", "number"),
            *interval_columns("95 %", "number", "kappa_"),
        ),
        tuple(rows),
        "0: they err independently; 1: on the same pairs. Juries gain most where it is low. A vote for "
        "neither is half an error. The intervals delete one source at a time. A dash: one has no errors, or "
        "only errors, or there are fewer than three sources.",
    )
