"""Sources on their way through the stages, a bounded number at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from infra.executor import Executor, Handle, WorkerDied
from infra.progress import BuildProgress
from storage_schemas.errors import Reason
from storage_schemas.source import Source
from tasks.pairs.stages import Outcome, Work, source_row

#: Items in flight for each worker: enough to keep it busy, few enough to keep the scheduler small.
WINDOW = 3
#: How often a worker may die while it has one item alone, before that item is set aside.
MOST_DEATHS = 2

Stage = tuple[str, Callable[[Work, Source, tuple[str, ...]], Outcome]]


@dataclass(eq=False)
class StageItem:
    """One source, the aspects that it is built for, and the stages that it still has before it."""

    source: Source
    aspects: tuple[str, ...]
    stages: list[Stage]
    deaths: int = 0


class _Items:
    """The items that wait, and those that were running when a worker died.

    A dying worker can take what runs beside it along, so nobody knows whose fault it was: each of them is
    tried again alone, and only a death while alone counts.
    """

    def __init__(self, items: Sequence[StageItem]) -> None:
        self.waiting = deque(items)
        self.suspects: deque[StageItem] = deque()
        self.running: dict[Handle, StageItem] = {}
        self.alone: StageItem | None = None

    def next(self, most: int) -> StageItem | None:
        """Return the item to start now, if one may be started."""
        if self.alone is not None or len(self.running) >= most:
            return None
        if self.waiting:
            return self.waiting.popleft()
        if self.suspects and not self.running:
            self.alone = self.suspects.popleft()
            return self.alone
        return None


def through_stages(
    executor: Executor,
    work: Work,
    items: Sequence[StageItem],
    progress: BuildProgress,
    goes_on: Callable[[Outcome], bool],
) -> None:
    """Run every item through its stages.

    Parameters
    ----------
    goes_on
        Called with each outcome as it comes; says whether the source goes on to its next stage.
    """
    left = _Items(items)
    while left.waiting or left.suspects or left.running:
        while (item := left.next(WINDOW * executor.workers)) is not None:
            stage, function = item.stages[0]
            name = f"{stage} {item.source.title}"
            left.running[executor.submit(name, "cpu", function, work, item.source, item.aspects)] = item
        for handle in executor.wait_any(left.running):
            item = left.running.pop(handle)
            was_alone, left.alone = left.alone is item, None if left.alone is item else left.alone
            outcome = _outcome(executor, handle, item, was_alone)
            if outcome is None:
                left.suspects.append(item)
                continue
            stage, _ = item.stages.pop(0)
            progress.done(stage, item.source.title, len(outcome.rows))
            if goes_on(outcome) and item.stages:
                # what has begun goes first, so that frames are used while they are warm
                (left.suspects if was_alone else left.waiting).appendleft(item)


def _outcome(executor: Executor, handle: Handle, item: StageItem, alone: bool) -> Outcome | None:
    """Return what a stage said, or None where it has to be started again."""
    try:
        outcome: Outcome = executor.result(handle)
        return outcome
    except WorkerDied as problem:
        item.deaths += alone
        if item.deaths < MOST_DEATHS:
            return None
        stage = item.stages[0][0]
        message = f"{stage} of {item.source.title}: {problem}, {item.deaths} times; see the worker's log"
        row = source_row(item.source, stage, Reason.WORKER_DIED, message)
        return Outcome(item.source.id, stage, rows=(row,))
