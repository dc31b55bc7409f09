"""When a worker gets a check task: plain functions of what the worker has done.

A check task is a pair with a known answer: a gold pair, whose damage is obvious; a pair of two equal
videos, in which nothing is damaged; or a pair that the worker has judged before, with its sides swapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

from storage_schemas.votes import Check, check_id, check_of
from tasks.votes.worker_model import CLEAR, NONE, OBVIOUS, WorkerModel

CheckKind: TypeAlias = Check | Literal["gold"]
#: What is known of the pair, by the kind of check.
_STATES: dict[CheckKind, int] = {Check.AGAIN: CLEAR, Check.EQUAL: NONE, "gold": OBVIOUS}

#: A worker can be judged after this number of tasks, since these checks are among them.
FIRST_TASKS = 8
FIRST_CHECKS: tuple[CheckKind, ...] = (Check.AGAIN, Check.EQUAL, Check.EQUAL, Check.EQUAL, "gold", "gold")
#: Share of check tasks after the first eight.
CHECK_SHARE = 0.05
#: From this probability of carelessness on, workers get only check tasks; the second is for the first eight.
DOUBTED, DOUBTED_EARLY = 0.2, 0.6
#: A pair is repeated after at least this number of other tasks.
BETWEEN = 3


def check_due(done: int, share: float, chance: Callable[[str], float]) -> CheckKind | None:
    """Return which check a worker's next task is; None if it is not one.

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
        kinds = tuple(_STATES)
        return kinds[int(chance(f"kind {done}") * len(kinds))]
    positions = sorted(range(1, FIRST_TASKS), key=lambda index: chance(f"place {index}"))
    again = next(index for index in positions if index > BETWEEN)
    positions.remove(again)
    return dict(zip([again, *positions], FIRST_CHECKS, strict=False)).get(done)


def checks_due(
    done: int, share: float, chance: Callable[[str], float], model: WorkerModel, worker: str
) -> tuple[CheckKind, ...]:
    """Return the checks that a worker's next task may be, the best first; nothing if none.

    A worker in doubt gets only check tasks, of the kind that reveals most, until the doubt is gone or the
    worker is listed: a sequential test. Those of the first eight come in any case, as :func:`check_due` says.

    Parameters
    ----------
    done, share, chance
        As for :func:`check_due`.
    model
        What is known of the worker.
    """
    due = check_due(done, share, chance)
    if due is not None and done < FIRST_TASKS:
        return (due,)
    if share and model.doubt(worker) >= (DOUBTED if done >= FIRST_TASKS else DOUBTED_EARLY):
        information = model.told_by_checks(worker)
        return tuple(sorted(_STATES, key=lambda kind: -information[_STATES[kind]]))
    return () if due is None else (due,)


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
