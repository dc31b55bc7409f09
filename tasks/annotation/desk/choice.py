"""Which pair a worker gets, as a plain function of the queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple


class WaitingPair(NamedTuple):
    """One pair in the queue: its number of counting votes, of other workers' leases, and of wanted votes."""

    pair_id: str
    aspect: str
    votes: int
    leases: int
    wanted: int


def aspect_shares(queue: Iterable[WaitingPair]) -> dict[str, float]:
    """Return the share of needed votes that is given or reserved, by aspect."""
    filled: dict[str, int] = defaultdict(int)
    needed: dict[str, int] = defaultdict(int)
    for pair in queue:
        _, aspect, votes, leases, wanted = pair
        filled[aspect] += min(votes + leases, wanted)
        needed[aspect] += wanted
    return {aspect: filled[aspect] / needed[aspect] for aspect in needed}


def choose_pair(
    queue: Iterable[WaitingPair], mine: set[str], chance: Callable[[str], float]
) -> WaitingPair | None:
    """Return the next pair for a worker, None if none is free.

    The aspect with the smallest share of its votes given or leased comes first; in it, the pair that lacks
    the fewest. So pairs are finished one after the other, and aspects side by side. `chance` decides among
    equals.

    Parameters
    ----------
    queue
        All pairs of the campaign.
    mine
        Pairs that this worker has had already.
    """
    pairs = list(queue)
    shares = aspect_shares(pairs)
    # a queue has hundreds of pairs, and access to fields by name would take most of the time
    free = [pair for pair in pairs if pair[2] + pair[3] < pair[4] and pair[0] not in mine]
    if not free:
        return None
    aspect = min({pair.aspect for pair in free}, key=lambda name: (shares[name], chance(name)))
    of_aspect = [pair for pair in free if pair.aspect == aspect]
    most = max(pair[2] + pair[3] for pair in of_aspect)
    return min((pair for pair in of_aspect if pair[2] + pair[3] == most), key=lambda pair: chance(pair[0]))
