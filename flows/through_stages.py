"""Sources on their way through the stages, a bounded number at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from infra.executor import Executor, Handle, WorkerDied
from infra.progress import BuildProgress
from storage_schemas.errors import Reason
from storage_schemas.source import Source
from tasks.pairs.stages import Outcome, Work, source_row

#: Items in flight for each worker: enough to keep it busy, few enough to keep the scheduler small.
WINDOW = 3
#: How often an item is started again when its worker process died.
MOST_TRIES = 3

Stage = tuple[str, Callable[[Work, Source, tuple[str, ...]], Outcome]]


@dataclass(eq=False)
class StageItem:
    """One source, the aspects that it is built for, and the stages that it still has before it."""

    source: Source
    aspects: tuple[str, ...]
    stages: list[Stage]
    tries: int = 0


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
    waiting = deque(items)
    running: dict[Handle, StageItem] = {}
    while waiting or running:
        while waiting and len(running) < WINDOW * executor.workers:
            item = waiting.popleft()
            stage, function = item.stages[0]
            name = f"{stage} {item.source.title}"
            running[executor.submit(name, "cpu", function, work, item.source, item.aspects)] = item
        for handle, item, outcome in _done(executor, running):
            del running[handle]
            if outcome is None:
                waiting.appendleft(item)
                continue
            stage, _ = item.stages.pop(0)
            progress.done(stage, item.source.title, len(outcome.rows))
            if goes_on(outcome) and item.stages:
                # what has begun goes first, so that frames are used while they are warm
                waiting.appendleft(item)


def _done(
    executor: Executor, running: dict[Handle, StageItem]
) -> Iterator[tuple[Handle, StageItem, Outcome | None]]:
    """Wait; yield what is done with its outcome, or with None where it has to be started again."""
    for handle in executor.wait_any(running):
        item = running[handle]
        try:
            yield handle, item, executor.result(handle)
        except WorkerDied as problem:
            item.tries += 1
            if item.tries < MOST_TRIES:
                yield handle, item, None
                continue
            stage = item.stages[0][0]
            message = f"{stage} of {item.source.title}: {problem}, {item.tries} times; see the worker's log"
            row = source_row(item.source, stage, Reason.WORKER_DIED, message)
            yield handle, item, Outcome(item.source.id, stage, rows=(row,))
