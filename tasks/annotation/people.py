"""What people said of a release: from the votes of its store, or from the release that they filtered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from pydantic import ValidationError

from storage_schemas.errors import IntegrityError, UserInputError
from storage_schemas.judgements import Judgement
from storage_schemas.parquet import read_dicts, read_rows
from storage_schemas.release import Release
from storage_schemas.votes import Vote, VotesStore
from tasks.annotation.filter import Outcome, Verdict, counting, outcomes
from tasks.annotation.human import human_judgements
from tasks.recipe import FilterRule

#: What a filtered release has beside the tables of every release.
VOTES_FILE, OUTCOMES_FILE = "votes.parquet", "filter.parquet"
#: In `info.json` of a filtered release: which release it was filtered from.
FILTERED_FROM = "filtered_from"


@dataclass(frozen=True)
class People:
    """The votes on a release, and what they decide.

    Parameters
    ----------
    rule
        The rule.
    votes
        The votes that count; of a filtered release all that it was filtered by.
    outcomes
        What became of each pair; of a filtered release, of each pair of the release it comes from.
    filtered
        Whether the release is what the filter left.
    """

    rule: FilterRule
    votes: tuple[Vote, ...]
    outcomes: tuple[Outcome, ...]
    filtered: bool

    @property
    def kept(self) -> dict[str, bool]:
        """Whether a decided pair stays, by its id."""
        return {one.pair_id: one.kept for one in self.outcomes if one.kept is not None}

    @cached_property
    def judgements(self) -> list[Judgement]:
        """People's answers as rows of the evaluator `human`."""
        return human_judgements(self.votes)


def rule_of(release: Release) -> FilterRule:
    """Return the rule of a release's recipe; the default where it was made before there were rules.

    Raises
    ------
    IntegrityError
        If the recipe's rule does not fit.
    """
    try:
        return FilterRule.model_validate(release.recipe.get("annotation", {}))
    except ValidationError as problem:
        raise IntegrityError(
            f"the recipe of {release.path} has a rule that does not fit: {problem}"
        ) from problem


def filtered_from(release: Release) -> Mapping[str, object] | None:
    """Return name, version and checksum of what a release was filtered from; None where a build made it."""
    found: Mapping[str, object] | None = release.info.get(FILTERED_FROM)
    return found


def people_of(
    release: Release, campaigns: Collection[str] = (), rule: FilterRule | None = None
) -> People | None:
    """Return what people said of a release; None where nobody has voted on a pair of it.

    Parameters
    ----------
    campaigns
        Only votes of these; of all where there are none. A filtered release has those it was filtered by.
    rule
        A rule in place of the recipe's.

    Raises
    ------
    UserInputError
        If a campaign is named that has no votes.
    IntegrityError
        If a file is damaged.
    """
    if filtered_from(release) is not None:
        return _of_filtered(release)
    store = VotesStore(release.store)
    known = store.campaigns()
    for name in campaigns:
        if name not in known:
            raise UserInputError(
                f"there are no votes of campaign {name!r} in {store.path}: "
                f"there are {', '.join(known) or 'none'}"
            )
    rule = rule or rule_of(release)
    records = release.pairs()
    pairs = {record.pair_id for record in records}
    votes = [vote for vote in store.votes(campaigns) if vote.pair_id in pairs]
    votes = counting(votes, store.decisions(campaigns), rule)
    if not votes:
        return None
    return People(rule, tuple(votes), tuple(outcomes(records, votes, rule)), filtered=False)


def _of_filtered(release: Release) -> People:
    votes = read_rows(release.path / VOTES_FILE, Vote)
    try:
        found = [
            Outcome(**{**row, "verdict": Verdict(row["verdict"])})
            for row in read_dicts(release.path / OUTCOMES_FILE)
        ]
    except (TypeError, ValueError, KeyError) as problem:
        raise IntegrityError(f"{release.path / OUTCOMES_FILE} does not fit: {problem}") from problem
    return People(rule_of(release), tuple(votes), tuple(found), filtered=True)
