"""People as one evaluator: what they preferred before they were told which video is damaged.

A vote becomes a judgement of the evaluator `human`. The five answers on a pair are repeats of one request,
and statistics average repeats: n is the number of pairs, as in the paper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from storage_schemas.ids import digest_text
from storage_schemas.judgements import Choice, Judgement, Order
from storage_schemas.votes import Vote

#: The name under which people stand in tables.
HUMAN = "human"
#: The settings' name: answers come from votes, and not from a judge that somebody called human.
SETTINGS = "votes"
#: Name and settings, as statistics know an evaluator.
PEOPLE = (HUMAN, SETTINGS)


def human_judgements(votes: Iterable[Vote]) -> list[Judgement]:
    """Return people's answers as rows of the table of judgements.

    Parameters
    ----------
    votes
        The votes that count, see :func:`tasks.annotation.filter.counting`.
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
                at=vote.at,
            )
        )
        before[vote.pair_id] += 1
    return rows
