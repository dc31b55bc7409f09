"""The tables on people: which pairs they kept, and how far they agree."""

from __future__ import annotations

from tasks.annotation.agreement import agreement
from tasks.annotation.retention import retention
from tasks.annotation.rule import FilterRule
from tasks.publish.report.gathered import Gathered
from tasks.publish.report.table import Column, Table, interval_columns

_ASPECT = Column("aspect", "aspect", "aspect")
_NOBODY = "People have not rated these pairs yet."


def retention_table(gathered: Gathered) -> Table:
    """Return how many pairs stayed by aspect; of a filtered release, of the pairs it was filtered from."""
    people = gathered.people
    rule = people.rule if people is not None else None
    rows = [] if people is None else retention(people.outcomes)
    lead = 1 if rule is None else rule.least_lead
    return Table(
        "retention",
        "What the human filter kept",
        (
            _ASPECT,
            Column("initial", "pairs", "count"),
            Column("excluded_c", "excluded by C", "count"),
            Column("excluded_a", "excluded, A ≤ B" if lead == 1 else f"excluded, A − B < {lead}", "count"),
            Column("undecided", "undecided", "count"),
            Column("final", "kept", "count"),
            Column("rate", "rate", "percent"),
        ),
        tuple(
            {
                key: getattr(row, key)
                for key in ("aspect", "initial", "excluded_c", "excluded_a", "undecided", "final", "rate")
            }
            for row in rows
        ),
        "" if rule is None else _rule_text(rule),
        "" if rows else _NOBODY,
    )


def _rule_text(rule: FilterRule) -> str:
    return (
        f"A pair stays with at most {rule.most_c} votes C and at least {rule.least_lead} more A than B, of "
        f"{rule.workers_per_pair} votes or more; with fewer it is undecided. The rate is of decided pairs."
    )


def agreement_table(gathered: Gathered) -> Table:
    """Return how far people agree by aspect."""
    people = gathered.people
    rows = []
    if people is not None:
        recipe = gathered.release.recipe
        for one in agreement(people.votes, int(recipe.get("seed", 0)), recipe.get("aspects", {})):
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
        "How far people agree",
        (
            _ASPECT,
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
        "bootstrap over sources. Where nearly all answers are equal chance agrees nearly as well, and α is "
        "low or a dash although people agree: read it beside the shares.",
        "" if rows else _NOBODY,
    )
