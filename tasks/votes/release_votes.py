"""The votes on one release, and people as an evaluator.

Votes are read from the release's store, or from the filtered release itself.

As an evaluator, people are scored by their preference before they learned which video is degraded. Each vote
becomes one judgement of the evaluator `human`. The five answers on a pair are repeats of one request, and
statistics average repeats: n is the number of pairs, as in the paper.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from pydantic import ValidationError

from storage_schemas.errors import IntegrityError, UserInputError
from storage_schemas.ids import digest_text
from storage_schemas.judgements import Choice, Judgement, Order
from storage_schemas.parquet import read_dicts, read_rows
from storage_schemas.release import Release
from storage_schemas.value_problems import first_error, problem_text
from storage_schemas.votes import Vote, VotesStore, check_of, moment
from tasks.votes.filter import FilterRule, FilterVerdict, PairOutcome, counting, pair_outcomes
from tasks.votes.worker_model import worker_model

#: Name of people as an evaluator.
HUMAN = "human"
#: Name of the settings, which distinguishes votes from a judge that a user named human.
SETTINGS = "votes"
#: Name and settings, which identify an evaluator in statistics.
PEOPLE = (HUMAN, SETTINGS)


def human_judgements(votes: Iterable[Vote]) -> list[Judgement]:
    """Return people's answers as rows of the table of judgements.

    Parameters
    ----------
    votes
        The votes that count, see :func:`tasks.votes.filter.counting`.
    """
    before: Counter[str] = Counter()
    rows = []
    for vote in sorted(votes, key=lambda vote: (vote.pair_id, vote.worker, vote.vote_id)):
        order: Order = "high_first" if vote.first == "high" else "low_first"
        choice: Choice = "first" if vote.preferred == vote.first else "second"
        rows.append(
            Judgement(
                key=digest_text(f"{HUMAN}/{vote.pair_id}/{vote.vote_id}"),
                evaluator=HUMAN,
                settings=SETTINGS,
                pair_id=vote.pair_id,
                source_id=vote.source_id,
                aspect=vote.aspect,
                order=order,
                repeat=before[vote.pair_id],
                choice=choice,
                preferred=vote.preferred,
                model=HUMAN,
                seconds=vote.preference_s or 0.0,
                use=HUMAN,
                details=json.dumps({"protocol": vote.protocol}) if vote.protocol else "{}",
                at=vote.at,
            )
        )
        before[vote.pair_id] += 1
    return rows


#: Files that only a filtered release has.
VOTES_FILE, OUTCOMES_FILE = "votes.parquet", "filter.parquet"
#: Key in `info.json` of a filtered release: the release it was filtered from.
FILTERED_FROM = "filtered_from"


@dataclass(frozen=True)
class ReleaseVotes:
    """The votes on a release and what they decide.

    Parameters
    ----------
    rule
        The rule.
    votes
        The votes that count; for a filtered release, all votes of its filter.
    outcomes
        The outcome of each pair; for a filtered release, of each pair of its parent release.
    filtered
        Whether the release is the result of the filter.
    """

    rule: FilterRule
    votes: tuple[Vote, ...]
    outcomes: tuple[PairOutcome, ...]
    filtered: bool

    @property
    def kept(self) -> dict[str, bool]:
        """Whether a decided pair passes, by its id."""
        return {one.pair_id: one.kept for one in self.outcomes if one.kept is not None}

    @cached_property
    def judgements(self) -> list[Judgement]:
        """People's answers as rows of the evaluator `human`."""
        return human_judgements(self.votes)


def rule_of(release: Release) -> FilterRule:
    """Return the rule of a release's recipe; the default if the recipe has none.

    Raises
    ------
    IntegrityError
        If the recipe's rule is not valid.
    """
    try:
        return FilterRule.model_validate(release.recipe.get("annotation", {}))
    except ValidationError as problem:
        raise IntegrityError(
            f"the recipe of {release.path} has an invalid filter rule: {first_error(problem)}"
        ) from problem


def filtered_from(release: Release) -> Mapping[str, object] | None:
    """Return name, version and checksum of the release it was filtered from; None if a build made it."""
    origin: Mapping[str, object] | None = release.info.get(FILTERED_FROM)
    return origin


def read_release_votes(
    release: Release, campaigns: Collection[str] = (), rule: FilterRule | None = None
) -> ReleaseVotes | None:
    """Return the votes on a release; None if there are none.

    Parameters
    ----------
    campaigns
        Only votes of these campaigns; by default of all. A filtered release keeps the votes of its filter.
    rule
        A rule that replaces the recipe's, and what the campaigns say about it.

    Raises
    ------
    UserInputError
        If a named campaign has no votes.
    IntegrityError
        If a file is damaged.
    """
    if filtered_from(release) is not None:
        return _of_filtered(release)
    store = VotesStore(release.store)
    stored = store.campaigns()
    for name in campaigns:
        if name not in stored:
            raise UserInputError(
                f"there are no votes of campaign {name!r} in {store.path} (campaigns with votes: "
                f"{', '.join(stored) or 'none'})"
            )
    records = release.pairs()
    pairs = {record.pair_id for record in records}
    # check tasks tell about workers
    every = [vote for vote in store.votes(campaigns) if check_of(vote.pair_id)[0] in pairs]
    asked = {vote.campaign for vote in every}
    rule = rule or _rule_of_campaigns(release, store, asked)
    shown = campaigns or store.with_rules()
    unanswered = {pair_id for name in shown for pair_id in store.unanswered(name)}
    votes = [vote for vote in every if vote.pair_id in pairs]
    gold = {vote.pair_id for vote in votes if vote.gold}
    # a gold pair may be for training only
    gold |= {pair_id for name in shown for pair_id in store.gold(name)}
    votes = counting(votes, store.decisions(campaigns), rule)
    if not votes:
        return None
    model = worker_model(one_each(every)) if rule.until_certain else None
    outcomes = pair_outcomes(records, votes, rule, model, gold, unanswered)
    return ReleaseVotes(rule, tuple(votes), tuple(outcomes), filtered=False)


def _rule_of_campaigns(release: Release, store: VotesStore, campaigns: Collection[str]) -> FilterRule:
    """Return the recipe's rule with what the campaigns change of it, if they all change the same."""
    kept = [store.kept_rule(name) or {} for name in sorted(campaigns)]
    rule = rule_of(release)
    return rule.model_copy(update=kept[0]) if kept and all(one == kept[0] for one in kept) else rule


def one_each(votes: Iterable[Vote]) -> list[Vote]:
    """Return a worker's first vote on each task, whichever campaign it was in."""
    first: dict[tuple[str, str], Vote] = {}
    for vote in sorted(votes, key=lambda vote: (moment(vote.at), vote.campaign, vote.vote_id)):
        first.setdefault((vote.pair_id, vote.worker), vote)
    return list(first.values())


def _of_filtered(release: Release) -> ReleaseVotes:
    votes = read_rows(release.path / VOTES_FILE, Vote)
    try:
        outcomes = [
            PairOutcome(**{**row, "verdict": FilterVerdict(row["verdict"])})
            for row in read_dicts(release.path / OUTCOMES_FILE)
        ]
    except (TypeError, ValueError, KeyError) as problem:
        raise IntegrityError(
            f"{release.path / OUTCOMES_FILE} is damaged: {problem_text(problem)}"
        ) from problem
    return ReleaseVotes(rule_of(release), tuple(votes), tuple(outcomes), filtered=True)
