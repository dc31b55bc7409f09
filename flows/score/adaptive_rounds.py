"""Rounds of an adaptive evaluation: each evaluator's answers determine its next pairs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Judgement, Preferred, is_settled
from storage_schemas.row_store import RowId
from tasks.scoring.request import PairFacts, Request

if TYPE_CHECKING:
    from tasks.statistics.adaptive import Search

_POINTS: Mapping[Preferred, float] = {"high": 1.0, "tie": 0.5, "low": 0.0}


def searches_of(
    pairs: Iterable[PairFacts], title: str, main_clips: int, precision: float, most_pairs: int | None
) -> dict[str, Search]:
    """Return a search for each aspect whose pairs have several doses.

    Parameters
    ----------
    title
        Name of the set of pairs, for messages.
    main_clips
        The number of clips at which a threshold's strength applies.
    precision, most_pairs
        As in :class:`tasks.statistics.adaptive.Search`.

    Raises
    ------
    UserInputError
        If no aspect has several doses.
    """
    # imported late: SciPy would slow down every flow and every deployment command
    from tasks.statistics.adaptive import LadderPair, Search
    from tasks.statistics.psychometric import Dose, Ladder

    by_aspect: dict[str, list[LadderPair]] = {}
    for pair in pairs:
        number = 1.0 if pair.strength_number is None else pair.strength_number
        # a control has no better side, and excerpts are easier or harder than their dose suggests
        if number > 0 and pair.clips > 0 and not pair.control and not pair.length:
            one = LadderPair(pair.pair_id, pair.source_id, Dose(number, pair.clips))
            by_aspect.setdefault(pair.aspect, []).append(one)
    searches = {}
    for aspect, some in by_aspect.items():
        ladder = Ladder.of((one.dose for one in some), main_clips)
        if ladder.ends[0] < ladder.ends[1]:
            searches[aspect] = Search(ladder, tuple(some), precision, most_pairs)
    if not by_aspect:
        raise UserInputError(
            "an adaptive evaluation uses neither controls nor excerpts, and the selection "
            "contains nothing else: leave out strength=control, length=… and position=…"
        )
    if not searches:
        raise UserInputError(
            f"{title} has only one severity per aspect, but an adaptive evaluation chooses between several. "
            "Build a release with more: a recipe with [severity], such as clips = [1, 2, 10] and "
            "strengths = [0.1, 0.2, 0.4, 0.7], see docs/recipes.md#severity"
        )
    return searches


@dataclass
class AdaptiveJudge:
    """The state of one evaluator: its searches, and the requests of all pairs that it may be asked about.

    Parameters
    ----------
    searches
        By aspect.
    requests
        By pair.
    count
        Pairs per round, by aspect.
    opened
        Pairs of this run's rounds: a pair that has no answer by the next round has failed.
    """

    searches: Mapping[str, Search]
    requests: Mapping[str, Sequence[Request]]
    count: int
    opened: set[str] = field(default_factory=set)

    def next_requests(
        self,
        rows: Mapping[RowId, Judgement],
        retry: frozenset[str] = frozenset(),
        waiting: Collection[str] = (),
    ) -> list[Request]:
        """Return the requests of all pairs with answers, and of the next round's pairs.

        Parameters
        ----------
        rows
            The rows of the evaluator's requests.
        retry
            Failures to ask again.
        waiting
            Keys of requests that wait in batches: their pairs are already paid for.
        """
        wanted: list[Request] = []
        for search in self.searches.values():
            points: dict[str, list[float]] = {}
            begun: list[str] = []
            for pair in search.pairs:
                requests = self.requests[pair.pair_id]
                answered = [row for request in requests if (row := rows.get(request.ids[0])) is not None]
                settled = [row for row in answered if is_settled(_failure(row), retry)]
                if pair.pair_id in self.opened or len(settled) == len(requests):
                    points[pair.pair_id] = points_of(requests, settled)
                elif answered or any(request.key in waiting for request in requests):
                    begun.append(pair.pair_id)
            # an interrupted run may have paid for one order of a pair: these pairs come first
            taken = {**points, **{pair_id: [] for pair_id in begun}}
            following = [pair.pair_id for pair in search.next_pairs(taken, self.count)]
            some = [*begun, *following[: max(0, self.count - len(begun))]]
            self.opened |= set(some)
            wanted += [request for pair_id in (*points, *some) for request in self.requests[pair_id]]
        return wanted

    def expected_pairs(self, aspect: str) -> int:
        """Return how many pairs of an aspect a typical evaluator would be asked about."""
        from tasks.statistics.adaptive import expected_pairs

        return expected_pairs(self.searches[aspect], self.count)


def points_of(requests: Sequence[Request], settled: Sequence[Judgement]) -> list[float]:
    """Return what a pair's answers count; None unless both orders are answered, as in the report's units."""
    answered = [row for row in settled if row.preferred]
    if {row.order for row in answered} != {request.order for request in requests}:
        return []
    return [_POINTS[row.preferred] for row in answered if row.preferred]


def _failure(row: Judgement) -> str:
    return "" if row.failure is None else row.failure.value
