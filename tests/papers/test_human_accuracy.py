"""SLVMEval, table 2: people's row, from votes as the annotation keeps them to the printed numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from storage_schemas.votes import Vote
from tasks.statistics.cells import cell_of
from tasks.statistics.intervals import printed_per_cent
from tasks.statistics.trials import TrialPair, trials_of
from tasks.votes.release_votes import human_judgements
from tests.papers.tables import WORKERS, counts, pairs_of, printed
from tests.tasks.votes.voting import vote

ACCURACY, PLUS_MINUS = printed("table2", "accuracy"), printed("table2", "plus_minus")
ASPECTS = [aspect for evaluator, aspect in ACCURACY if evaluator == "human"]


def votes(aspect: str, right: int) -> Iterator[Vote]:
    """Five votes a pair, of which a given number in all prefer the source, in either order of the two."""
    pairs = pairs_of(aspect)
    for number in range(pairs * WORKERS):
        preferred = "high" if number < right else "low"
        pair, first = f"{aspect}/{number % pairs}", ("high", "low")[number % 2]
        yield vote(pair, f"worker-{number // pairs}", preferred=preferred, aspect=aspect, first=first)


@pytest.mark.parametrize("aspect", ASPECTS)
def test_votes_give_the_printed_accuracy_and_interval(aspect: str) -> None:
    pairs = [
        TrialPair(f"{aspect}/{number}", aspect, aspect, 100.0 + number) for number in range(pairs_of(aspect))
    ]
    # where two counts print the same accuracy, the greater one has the printed interval
    right = max(counts()["human", aspect])
    cell = cell_of(trials_of(human_judgements(votes(aspect, right)), pairs))
    assert (cell.n, cell.requests) == (pairs_of(aspect), WORKERS * pairs_of(aspect))
    assert printed_per_cent(cell.accuracy or 0) == ACCURACY["human", aspect]
    assert cell.paper is not None
    assert printed_per_cent((cell.paper.high - cell.paper.low) / 2) == PLUS_MINUS["human", aspect]
