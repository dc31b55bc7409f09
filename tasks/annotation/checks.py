"""When a worker gets a check task: plain functions of what the worker has done.

A check task is a pair with a known answer: a gold pair, whose damage is obvious; a pair of two equal
videos, in which nothing is damaged; or a pair that the worker has judged before, with its sides swapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from storage_schemas.votes import Check, check_id, check_of

CheckKind: TypeAlias = Check | Literal["gold"]

#: A worker can be judged after this number of tasks, since these checks are among them.
FIRST_TASKS = 8
FIRST_CHECKS: tuple[CheckKind, ...] = (Check.AGAIN, Check.EQUAL, Check.EQUAL, Check.EQUAL, "gold", "gold")
#: Share of check tasks after the first eight.
CHECK_SHARE = 0.05
#: Share for workers who are careless with at least `DOUBTED` probability.
DOUBTED_SHARE, DOUBTED = 0.6, 0.05
#: A pair is repeated after at least this number of other tasks.
BETWEEN = 3


def checks_due(
    done: int, share: float, chance: Callable[[str], float], doubt: float = 0.0,
    told: Mapping[CheckKind, float] | None = None
) -> tuple[CheckKind, ...]:
    """Return how"""
    if done >= FIRST_TASKS and share and doubt >= DOUBTED:
        if chance(f"check {done}") >= DOUBTED_SHARE:
            return ()
        return tuple(sorted(told, key=lambda kind: -told[kind]))
    due = check_due(done, share, chance)
    return () if due is None else (due,)


def check_due(done: int, share: float, chance: Callable[[str], float]) -> CheckKind | None:
    """Return how a worker's next task checks; None if it does not.

    The first task is never a check. The first eight contain `FIRST_CHECKS`, at places that differ from worker
    to worker, the repeated pair late enough. Later ones are checks by chance.

    Parameters
    ----------
    done
        Number of tasks that the worker has had.
    share
        Share of check tasks after the first eight; with 0 there are no checks at all.
    chance
        A number in [0, 1) that depends on the worker and the given word alone.
    """
    if not share:
        return None
    if done >= FIRST_TASKS:
        if chance(f"check {done}") >= share:
            return None
        kinds = tuple(dict.fromkeys(FIRST_CHECKS))
        return kinds[int(chance(f"kind {done}") * len(kinds))]
    positions = sorted(range(1, FIRST_TASKS), key=lambda index: chance(f"place {index}"))
    again = next(index for index in positions if index > BETWEEN)
    positions.remove(again)
    return dict(zip([again, *positions], FIRST_CHECKS, strict=False)).get(done)


def share_for(share: float, careless: float) -> float:
    """Return the share of check tasks of a worker after the first eight.

    Parameters
    ----------
    share
        The share of a new worker; with 0 there are no checks at all.
    careless
        Probability that the worker is careless now.
    """
    return max(share, DOUBTED_SHARE) if share and careless >= DOUBTED else share


def check_tasks(had: Sequence[str], due: CheckKind, published: Iterable[str]) -> list[str]:
    """Return the ids of the tasks that can check a worker now.

    Parameters
    ----------
    had
        Ids of the tasks that the worker has had, in order.
    published
        Ids of the campaign's check tasks.
    """
    seen = set(had)
    of_kind = [task for task in published if task not in seen and (check_of(task)[1] or "gold") == due]
    if due is not Check.AGAIN:
        return of_kind
    # a pair of which the worker still has a picture is not repeated
    earlier = {check_id(task, Check.AGAIN) for task in had[:-BETWEEN] if check_of(task)[1] is None}
    return [task for task in of_kind if task in earlier]
