"""The human filter: its rule, its verdict on each pair, and the retention table.

The paper's rule counts votes. With `until_certain` votes weigh as much as their workers are careful: a pair
passes if its damage is probably clear (:mod:`tasks.votes.worker_model`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from storage_schemas.model import Frozen
from storage_schemas.pair import PairRecord
from storage_schemas.votes import Decision, Rating, Standing, Vote, moment
from tasks.votes.stopping import enough
from tasks.votes.worker_model import WorkerModel


class FilterRule(Frozen):
    """When a pair passes the filter.

    Parameters
    ----------
    workers_per_pair
        Votes that a pair needs (SLVMEval, section 4.4: 5); with fewer it is undecided.
    until_certain
        Whether a pair instead needs two votes fewer at least, and then one after the other until it is
        certain or has two more. It passes if its damage is clear with a probability of one half at least, and
        `most_c` and `least_lead` say nothing.
    most_c
        Maximum number of votes C on a pair (0).
    least_lead
        Minimum number of votes by which A must lead over B (1: A > B).
    drop_excluded
        Whether votes of workers who were excluded later stop counting, so that the pair is given to others
        (the paper keeps them).
    keep_gold
        Whether gold pairs stay in the filtered release. Their votes test workers and decide nothing: the
        organiser vouches for their damage.
    """

    workers_per_pair: int = Field(default=5, ge=1)
    until_certain: bool = False
    most_c: int = Field(default=0, ge=0)
    least_lead: int = Field(default=1)
    drop_excluded: bool = False
    keep_gold: bool = True


class FilterVerdict(StrEnum):
    """The filter's verdict on a pair. Stored in releases: never rename a value."""

    KEPT = "kept"
    #: more votes C than allowed
    EXCLUDED_C = "excluded_c"
    #: A does not lead over B by enough
    EXCLUDED_A = "excluded_a"
    #: the weighed votes say that its damage is not clear
    EXCLUDED_UNCLEAR = "excluded_unclear"
    #: too few votes, or not certain yet
    UNDECIDED = "undecided"
    #: gold pairs without other votes: the rule keeps them, or leaves them out
    KEPT_GOLD = "kept_gold"
    EXCLUDED_GOLD = "excluded_gold"
    #: controls that no campaign shows
    KEPT_UNASKED = "kept_unasked"
    #: controls whose sides people do not find equal
    EXCLUDED_UNEQUAL = "excluded_unequal"


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """One pair after the votes.

    Parameters
    ----------
    a, b, c
        Numbers of valid votes A, B and C.
    clear
        Probability that its damage is clear, by the weighed votes; None where votes are only counted.
    control
        Whether it is a control, which passes if people see no damage in it.
    excerpt
        Whether it is an excerpt, which passes with the pair whose damage it shows.
    """

    pair_id: str
    source_id: str
    aspect: str
    verdict: FilterVerdict
    a: int = 0
    b: int = 0
    c: int = 0
    clear: float | None = None
    control: bool = False
    excerpt: bool = False

    @property
    def votes(self) -> int:
        """Votes that count."""
        return self.a + self.b + self.c

    @property
    def kept(self) -> bool | None:
        """Whether the pair passes; None if undecided."""
        if self.verdict is FilterVerdict.UNDECIDED:
            return None
        return self.verdict in (FilterVerdict.KEPT, FilterVerdict.KEPT_GOLD, FilterVerdict.KEPT_UNASKED)


def verdict(ratings: Iterable[Rating], rule: FilterRule) -> FilterVerdict:
    """Return the verdict on a pair with these ratings, in any order.

    Votes beyond the needed number count like the others.
    """
    counts = Counter(ratings)
    if counts.total() < rule.workers_per_pair:
        return FilterVerdict.UNDECIDED
    if counts["C"] > rule.most_c:
        return FilterVerdict.EXCLUDED_C
    if counts["A"] - counts["B"] < rule.least_lead:
        return FilterVerdict.EXCLUDED_A
    return FilterVerdict.KEPT


def weighed_verdict(votes: int, clear: float, rule: FilterRule) -> FilterVerdict:
    """Return the verdict on a pair whose votes are weighed.

    Parameters
    ----------
    votes
        Number of votes that count.
    clear
        Probability that the pair's damage is clear.
    """
    if not enough(votes, clear, rule.workers_per_pair):
        return FilterVerdict.UNDECIDED
    return FilterVerdict.KEPT if clear >= 0.5 else FilterVerdict.EXCLUDED_UNCLEAR


def control_verdict(
    ratings: Iterable[Rating], rule: FilterRule, clear: float | None = None, shown: bool = False
) -> FilterVerdict:
    """Return the verdict on a control: it passes if its edit is not damage to people, so that C leads.

    Parameters
    ----------
    clear
        Probability that it has clear damage, where votes are weighed.
    shown
        Whether a campaign shows it; without that and without ratings, people are not asked about it.
    """
    counts = Counter(ratings)
    votes = counts.total()
    if not votes and not shown:
        return FilterVerdict.KEPT_UNASKED
    decided = votes >= rule.workers_per_pair if clear is None else enough(votes, clear, rule.workers_per_pair)
    if not decided:
        return FilterVerdict.UNDECIDED
    # weak damage is not clear either, so C has to lead where votes are weighed, too
    equal = 2 * counts["C"] > votes and (clear is None or clear < 0.5)
    return FilterVerdict.KEPT if equal else FilterVerdict.EXCLUDED_UNEQUAL


def standings(decisions: Iterable[Decision]) -> dict[tuple[str, str], Decision]:
    """Return the latest decision about each worker, by campaign and worker."""
    latest: dict[tuple[str, str], Decision] = {}
    for row in sorted(decisions, key=lambda row: (moment(row.at), row.decision_id)):
        latest[row.campaign, row.worker] = row
    return latest


def counting(votes: Iterable[Vote], decisions: Iterable[Decision], rule: FilterRule) -> list[Vote]:
    """Return the votes that count, by pair, worker and campaign.

    Votes on gold pairs test workers, not pairs. If a worker voted on a pair in two campaigns, the first vote
    counts. Votes of workers whom a campaign excluded count unless the rule drops them.
    """
    excluded = (
        {who for who, row in standings(decisions).items() if row.decision is Standing.EXCLUDED}
        if rule.drop_excluded
        else set()
    )
    first: dict[tuple[str, str], Vote] = {}
    for vote in sorted(votes, key=lambda vote: (moment(vote.at), vote.campaign, vote.vote_id)):
        if not vote.gold and (vote.campaign, vote.worker) not in excluded:
            first.setdefault((vote.pair_id, vote.worker), vote)
    return [first[index] for index in sorted(first)]


def pair_outcomes(
    records: Sequence[PairRecord],
    votes: Iterable[Vote],
    rule: FilterRule,
    model: WorkerModel | None = None,
    gold: Collection[str] = (),
    unanswered: Collection[str] = (),
) -> list[PairOutcome]:
    """Return the outcome of each pair, in the order of `records`.

    People are not asked about excerpts: each has the verdict of the pair of the same source and strength that
    has all its damaged clips, of several the one with the fewest.

    Parameters
    ----------
    votes
        The votes that count, see :func:`counting`; votes on other pairs are ignored.
    model
        Estimates for the workers, which weigh votes; under a rule that asks until a pair is certain.
    gold
        Ids of gold pairs. One that has votes that count is decided by them, as in a second campaign.
    unanswered
        Ids of pairs that campaigns show and that have no vote.
    """
    of_pair: dict[str, list[Vote]] = {}
    for vote in votes:
        of_pair.setdefault(vote.pair_id, []).append(vote)
    outcomes = []
    for record in (one for one in records if not one.excerpt):
        some = of_pair.get(record.pair_id, [])
        ratings = [vote.rating for vote in some]
        if not some and record.pair_id in gold:
            of_gold = FilterVerdict.KEPT_GOLD if rule.keep_gold else FilterVerdict.EXCLUDED_GOLD
            outcomes.append(PairOutcome(record.pair_id, record.source_id, record.aspect, of_gold))
            continue
        clear = model.clear_by(some) if rule.until_certain and model is not None else None
        of_votes = verdict(ratings, rule) if clear is None else weighed_verdict(len(some), clear, rule)
        outcomes.append(
            PairOutcome(
                record.pair_id,
                record.source_id,
                record.aspect,
                control_verdict(ratings, rule, clear, record.pair_id in unanswered)
                if record.control
                else of_votes,
                a=ratings.count("A"),
                b=ratings.count("B"),
                c=ratings.count("C"),
                clear=clear,
                control=record.control,
            )
        )
    by_id = {one.pair_id: one for one in outcomes}
    for record, followed in _followed(records):
        of_it = FilterVerdict.UNDECIDED if followed is None else by_id[followed.pair_id].verdict
        by_id[record.pair_id] = PairOutcome(
            record.pair_id, record.source_id, record.aspect, of_it, excerpt=True
        )
    return [by_id[record.pair_id] for record in records]


def _followed(records: Sequence[PairRecord]) -> Iterator[tuple[PairRecord, PairRecord | None]]:
    """Yield each excerpt and the pair whose verdict it has, or None if the release lacks that pair."""
    whole: dict[tuple[str, ...], list[PairRecord]] = {}
    for record in records:
        if not record.excerpt and not record.control:
            whole.setdefault((record.source_id, record.aspect, record.strength), []).append(record)
    for record in records:
        if record.excerpt:
            same = whole.get((record.source_id, record.aspect, record.strength), [])
            damaged = [one for one in same if set(record.drawn_clips) <= set(one.drawn_clips)]
            yield record, min(damaged, key=lambda one: one.clips_degraded, default=None)


def excerpts_alone(records: Sequence[PairRecord]) -> list[PairRecord]:
    """Return the excerpts whose pair with the whole film is missing, so that no vote decides on them."""
    return [record for record, followed in _followed(records) if followed is None]


def controls_of(outcomes: Iterable[PairOutcome]) -> dict[FilterVerdict, int]:
    """Return the number of controls by verdict."""
    return dict(Counter(outcome.verdict for outcome in outcomes if outcome.control))


def controls_in_words(controls: Mapping[FilterVerdict, int]) -> str:
    """Return a line on what people found of the controls; empty without controls."""
    words = {
        FilterVerdict.KEPT: "found equal",
        FilterVerdict.EXCLUDED_UNEQUAL: "not found equal and left out",
        FilterVerdict.UNDECIDED: "undecided, with too few votes, and left out",
        FilterVerdict.KEPT_UNASKED: "not shown to people and kept",
    }
    found = "; ".join(f"{controls[verdict]} {text}" for verdict, text in words.items() if verdict in controls)
    return f"controls: {found}" if found else ""


#: All aspects together.
TOTAL = "all"


@dataclass(frozen=True, slots=True)
class Retention:
    """One row of the table (SLVMEval, table 3).

    Parameters
    ----------
    initial
        Pairs of the aspect.
    excluded_c, excluded_a
        Pairs excluded for votes C, and other pairs excluded because A does not lead over B.
    excluded_unclear
        Pairs whose weighed votes say that the damage is not clear.
    undecided
        Pairs with too few votes, or not certain yet.
    final
        Pairs that pass, with the gold pairs that the rule keeps.
    gold
        Gold pairs without other votes.
    kept_gold
        Those of them that the rule keeps.
    """

    aspect: str
    initial: int
    excluded_c: int
    excluded_a: int
    excluded_unclear: int
    undecided: int
    final: int
    gold: int = 0
    kept_gold: int = 0

    @property
    def rate(self) -> float | None:
        """Share of the pairs decided by votes that pass; None if none is decided."""
        decided = self.initial - self.undecided - self.gold
        return (self.final - self.kept_gold) / decided if decided else None


def retention(outcomes: Iterable[PairOutcome]) -> list[Retention]:
    """Return a row for each aspect, in order of first appearance, and one for all.

    Controls and excerpts are left out.
    """
    counts: dict[str, dict[FilterVerdict, int]] = {}
    for outcome in outcomes:
        if outcome.control or outcome.excerpt:
            continue
        verdicts = counts.setdefault(outcome.aspect, dict.fromkeys(FilterVerdict, 0))
        verdicts[outcome.verdict] += 1
    total = {kind: sum(verdicts[kind] for verdicts in counts.values()) for kind in FilterVerdict}
    return [_row(aspect, verdicts) for aspect, verdicts in counts.items()] + [_row(TOTAL, total)]


def _row(aspect: str, counts: Mapping[FilterVerdict, int]) -> Retention:
    return Retention(
        aspect,
        sum(counts.values()),
        counts[FilterVerdict.EXCLUDED_C],
        counts[FilterVerdict.EXCLUDED_A],
        counts[FilterVerdict.EXCLUDED_UNCLEAR],
        counts[FilterVerdict.UNDECIDED],
        counts[FilterVerdict.KEPT] + counts[FilterVerdict.KEPT_GOLD],
        counts[FilterVerdict.KEPT_GOLD] + counts[FilterVerdict.EXCLUDED_GOLD],
        counts[FilterVerdict.KEPT_GOLD],
    )
