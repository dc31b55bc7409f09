"""Which pair a worker gets, as a plain function of the queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple


class WaitingPair(NamedTuple):
    """One pair in the queue: its number of counting votes, and of other workers' leases."""

    pair_id: str
    aspect: str
    votes: int
    leases: int

    @property
    def taken(self) -> int:
        """Votes that are given or reserved."""
        return self.votes + self.leases


def aspect_shares(queue: Iterable[WaitingPair], wanted: int) -> dict[str, float]:
    """Return the share of needed votes that is given or reserved, by aspect."""
    filled: dict[str, int] = defaultdict(int)
    places: dict[str, int] = defaultdict(int)
    for pair in queue:
        filled[pair.aspect] += min(pair.taken, wanted)
        places[pair.aspect] += wanted
    return {aspect: filled[aspect] / places[aspect] for aspect in places}


def choose_pair(
    queue: Iterable[WaitingPair], mine: set[str], wanted: int, chance: Callable[[str], float]
) -> WaitingPair | None:
    """Return the next pair for a worker, None if none is free.

    The aspect with the smallest share of its places taken comes first; in it, the pair with most of its
    places taken. So pairs are finished one after the other, and aspects side by side. `chance` decides among
    equals.

    Parameters
    ----------
    queue
        All pairs of the campaign.
    mine
        Pairs that this worker has had already.
    wanted
        Votes wanted on a pair.
    """
    pairs = list(queue)
    shares = aspect_shares(pairs, wanted)
    free = [pair for pair in pairs if pair.taken < wanted and pair.pair_id not in mine]
    if not free:
        return None
    aspect = min({pair.aspect for pair in free}, key=lambda name: (shares[name], chance(name)))
    of_aspect = [pair for pair in free if pair.aspect == aspect]
    most = max(pair.taken for pair in of_aspect)
    return min((pair for pair in of_aspect if pair.taken == most), key=lambda pair: chance(pair.pair_id))
