"""How much work forms one item: a limited number of tasks in a run of any size, with workers busy to its end.

The rule is factoring (Hummel, Schonberg and Flynn, "Factoring: a method for scheduling parallel loops",
Communications of the ACM 35(8), 1992): each round has an item for every worker, half as long as those of the
previous round. A limit on the number of items makes the first rounds longer and the last ones fewer.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Generic, TypeVar

from infra.executor import WorkerLimits

#: Items of several sources take at most this share of ``longest_item``, by the estimate.
MAX_SHARE = 1 / 2
#: Number of items for retried work when all items of a run are used up.
MIN_ITEMS = 50
#: From here on, an item is always a single source.
_MAX_ROUNDS = 40

T = TypeVar("T")


def item_seconds(work_s: float, workers: int, items: int) -> float:
    """Return how long each item of the next round takes.

    Parameters
    ----------
    work_s
        Seconds of waiting work.
    workers
        Number of workers.
    items
        Maximum number of items for this work.

    Examples
    --------
    >>> item_seconds(1200.0, workers=2, items=2)  # one round
    600.0
    >>> item_seconds(1200.0, workers=2, items=4)  # 400, 400, 200, 200
    400.0
    >>> item_seconds(1200.0, workers=2, items=1000)
    300.0
    """
    rounds, rest = divmod(items, workers)
    if not rounds:
        return work_s / max(items, 1)
    rounds = min(rounds, _MAX_ROUNDS)
    # counted in items of the first round
    return work_s / (workers * (2 - 2.0 ** (1 - rounds)) + rest / 2.0**rounds)


#: What may be combined into one item.
Kind = tuple[str, ...]


class Waiting(Generic[T]):
    """What waits for the workers of a pool; each entry has a rank, a kind, and its seconds.

    Lower ranks come first. Within a rank the longest comes first, so that no long entry starts last; entries
    of equal length keep their order.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._number = count()
        self._entries: dict[tuple[int, Kind], list[tuple[float, int, T]]] = {}

    def __len__(self) -> int:
        return sum(len(entries) for entries in self._entries.values())

    def add(self, one: T, rank: int, kind: Kind, seconds: float) -> None:
        """Add an entry."""
        # sorted from long to short
        insort(self._entries.setdefault((rank, kind), []), (-seconds, next(self._number), one))
        self.seconds += seconds

    def take(self, about_s: float, most_s: float) -> tuple[Kind, list[T]]:
        """Remove and return the next entry and others of its rank and kind that fit with it, and the kind.

        Parameters
        ----------
        about_s
            Target length of the item, in seconds.
        most_s
            Maximum length of the item in seconds, if it has more than one entry.
        """
        rank = min(rank for rank, _ in self._entries)
        key = min((key for key in self._entries if key[0] == rank), key=lambda key: self._entries[key][0][:2])
        entries = self._entries[key]
        taken = [entries.pop(0)]
        left_s = min(about_s, most_s) + taken[0][0]
        while entries:
            at = bisect_left(entries, (-left_s,))
            if at == len(entries):
                # even the shortest is too long: take it if that brings the total closer to the target
                shortest_s = -entries[-1][0]
                if shortest_s - left_s >= left_s or shortest_s - left_s > most_s - about_s:
                    break
                at = bisect_left(entries, (-shortest_s,))
            taken.append(entries.pop(at))
            left_s += taken[-1][0]
        if not entries:
            del self._entries[key]
        self.seconds = max(0.0, self.seconds + sum(seconds for seconds, _, _ in taken))
        return key[1], [one for _, _, one in taken]


@dataclass
class Batching:
    """How the sources of a run form items.

    Parameters
    ----------
    items
        Maximum number of items. If there are no more stages of sources than that, each is an item. The
        maximum is exceeded where an item would be too long for its pool.
    seconds
        Returns how long a stage of a source takes, by stage and source.
    ran
        Called with stage, source and the measured seconds.
    """

    items: int
    seconds: Callable[[str, str], float] = lambda _stage, _source: 1.0
    ran: Callable[[str, str, float], None] = lambda _stage, _source, _seconds: None


@dataclass
class ItemSizes:
    """The lengths of the next items of each pool.

    Parameters
    ----------
    items
        Number of items left.
    work_s
        Seconds of all work that has not begun, including later stages.
    """

    items: int
    work_s: float = 0.0
    _rounds: dict[str, tuple[float, int]] = field(default_factory=dict)
    _ran: dict[str, tuple[float, float]] = field(default_factory=dict)

    def share(self, waiting_s: float, number: int) -> int:
        """Return the number of items for a pool's waiting work: `number` sources, these seconds in total."""
        left = self.items if self.items > 0 else MIN_ITEMS
        part = waiting_s / self.work_s if self.work_s > waiting_s else 1.0
        return min(max(round(left * part), 1), number)

    def next(self, pool: str, waiting_s: float, number: int, limits: WorkerLimits) -> tuple[float, float]:
        """Return the seconds of a pool's next item, and the maximum if it is more than one source."""
        estimated_s, measured_s = self._ran.get(pool, (0.0, 0.0))
        slower = max(measured_s / estimated_s, 1.0) if estimated_s > 0 else 1.0
        most_s = limits.longest_s * MAX_SHARE / slower
        about_s, left = self._rounds.get(pool, (0.0, 0))
        if not left:
            items = self.share(waiting_s, number)
            # rather one round too many than items that are too long
            too_few = items * most_s < waiting_s
            items = max(items, limits.workers) if too_few else items
            about_s = item_seconds(waiting_s, limits.workers, items) if items < number else 0.0
            # create the last items one by one, so as not to exceed the maximum
            left = limits.workers if too_few or items > limits.workers else 1
        self._rounds[pool] = about_s, left - 1
        return about_s, most_s

    def began(self, seconds: float) -> None:
        """Record that an item of that length, in seconds, was started."""
        self.items -= 1
        self.dropped(seconds)

    def dropped(self, seconds: float) -> None:
        """Record that work of this length, in seconds, is no longer waiting."""
        self.work_s = max(0.0, self.work_s - seconds)

    def ran(self, pool: str, estimated_s: float, measured_s: float) -> None:
        """Record how long a stage took: if estimates are too low, the next items are shortened."""
        before = self._ran.get(pool, (0.0, 0.0))
        self._ran[pool] = before[0] + estimated_s, before[1] + measured_s
