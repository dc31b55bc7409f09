"""Report ends of tasks and runs to Prefect's server if they could not do so themselves."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterEndTime,
    FlowRunFilterId,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
    TaskRunFilter,
    TaskRunFilterState,
    TaskRunFilterStateType,
)
from prefect.client.schemas.objects import TERMINAL_STATES, State, StateType, TaskRun
from prefect.exceptions import TerminationSignal
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Crashed

from flows.board import RunBoard
from flows.flow_names import flow_names
from infra.end_signals import end_signals
from infra.progress import process_tag, read_runs
from storage_schemas.store import Store

log = logging.getLogger(__name__)

#: Maximum time for the server to record the last tasks' events, in seconds.
RECORDED_S = 15.0
#: Time after which an ended run has no pending events, in seconds.
OVER_S = 30.0
_OPEN = TaskRunFilter(
    state=TaskRunFilterState(
        type=TaskRunFilterStateType(any_=[StateType.PENDING, StateType.RUNNING, StateType.SCHEDULED])
    )
)


class TaskEnds:
    """Tracks the ends of a flow run's tasks and makes sure that the server records them.

    Parameters
    ----------
    board
        Makes the requests.
    run_id
        The flow run, or None without one.
    """

    def __init__(self, board: RunBoard, run_id: UUID | None) -> None:
        self._board, self._run_id = board, run_id
        self._states: dict[UUID, State[Any]] = {}

    def note(self, task_run_id: UUID, state: State[Any]) -> None:
        """Record a task's end; a worker's death is reported immediately, other ends report themselves."""
        self._states[task_run_id] = state
        if state.is_crashed():
            self._board.post(f"end of task {task_run_id}", partial(_set_states, {task_run_id: state}))

    def __enter__(self) -> TaskEnds:
        """Start tracking."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Report the end of all tasks that the server still considers active.

        After an error or termination, tasks that still run end with the cluster.
        """
        if self._run_id is not None:
            wait_s = RECORDED_S if kind is None else 0.0
            self._board.post("ends of the tasks", partial(self._settle, wait_s))

    def _settle(self, wait_s: float) -> None:
        until = time.monotonic() + wait_s
        of_run = FlowRunFilter(id=FlowRunFilterId(any_=[self._run_id] if self._run_id else []))
        with get_client(sync_client=True) as client:
            while (still := open_tasks(client, of_run)) and time.monotonic() < until:
                time.sleep(1.0)
            gone: State[Any] = Crashed(message="The flow run ended before it.")
            for task in still:
                client.set_task_run_state(task.id, self._states.get(task.id, gone), force=True)
            end_left_over_tasks(client, OVER_S if wait_s else 0.0)


def open_tasks(client: SyncPrefectClient, runs: FlowRunFilter) -> list[TaskRun]:
    """Return up to 200 unfinished task runs of some flow runs."""
    name = FlowFilter(name=FlowFilterName(any_=list(flow_names())))
    return client.read_task_runs(flow_filter=name, flow_run_filter=runs, task_run_filter=_OPEN)


def end_left_over_tasks(client: SyncPrefectClient, wait_s: float = 0.0) -> None:
    """Set to Crashed the unfinished task runs of flow runs that ended some time ago.

    Parameters
    ----------
    client
        Makes the requests.
    wait_s
        Time to wait, seconds, for tasks of runs that have just ended: a run that is restarted immediately
        may finish before the previous run's tasks are due, and may be the last run.
    """
    gone: State[Any] = Crashed(message="Its flow run ended before it.")
    until = time.monotonic() + wait_s
    while True:
        while tasks := open_tasks(client, _over(OVER_S)):
            for task in tasks:
                client.set_task_run_state(task.id, gone, force=True)
        if time.monotonic() >= until or not open_tasks(client, _over(0.0)):
            return
        time.sleep(1.0)


def _over(ago_s: float) -> FlowRunFilter:
    """Return a filter for flow runs that ended at least `ago_s` seconds ago."""
    return FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(TERMINAL_STATES))),
        end_time=FlowRunFilterEndTime(before_=datetime.now(UTC) - timedelta(seconds=ago_s)),
    )


def end_dead_runs(board: RunBoard, store: Store) -> None:
    """Set to Crashed the flow runs whose process on this machine is gone, and their tasks.

    A process may be killed before its run has recorded its id, or be unable to reach the server when it
    ends. Runs on other machines are unknown here: the automation created by ``slvmeval deploy`` ends them
    when they become silent.
    """
    over = [run for run in read_runs(store.cache) if run["over"]]
    ids = [UUID(run["flow_run"]) for run in over if run["flow_run"]]
    tags = [process_tag(run["host"], run["pid"]) for run in over]
    board.post("runs whose process is gone", partial(_end_runs, ids, tags))


def _end_runs(ids: list[UUID], tags: list[str]) -> None:
    ours = FlowFilter(name=FlowFilterName(any_=list(flow_names())))
    unfinished = FlowRunFilterState(type=FlowRunFilterStateType(not_any_=list(TERMINAL_STATES)))
    filters = [
        FlowRunFilter(id=FlowRunFilterId(any_=ids), state=unfinished),
        FlowRunFilter(tags=FlowRunFilterTags(any_=tags), state=unfinished),
    ]
    with get_client(sync_client=True) as client:
        # no filter means all runs
        for run in [
            run for one in filters for run in client.read_flow_runs(flow_filter=ours, flow_run_filter=one)
        ]:
            client.set_flow_run_state(run.id, Crashed(message="Its process is gone."), force=True)
            gone: State[Any] = Crashed(message="The process of its flow run is gone.")
            for task in open_tasks(client, FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))):
                client.set_task_run_state(task.id, gone, force=True)
        end_left_over_tasks(client)


def _set_states(states: dict[UUID, State[Any]]) -> None:
    with get_client(sync_client=True) as client:
        for id_, state in states.items():
            client.set_task_run_state(id_, state, force=True)


@contextmanager
def keep_termination() -> Iterator[None]:
    """Raise the termination again if an error has replaced it.

    Leaving a cluster may fail, and compiled code that calls Python, such as pydantic's serializers, can
    replace even a termination by another error. Prefect sets a flow that raises an error to Failed, and one
    that is terminated to Crashed: a run that a user ended must not look like a failure.

    After a termination Prefect's client retries only once: otherwise a server ended by the same signal would
    delay the process for minutes.
    """
    with end_signals() as received:
        try:
            yield
        except BaseException as problem:
            ended = _termination(received())
            if ended is None and isinstance(problem, Exception):
                raise
            _try_again.enter_context(temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 1}))
            if ended is None or not isinstance(problem, Exception):
                raise
            log.warning("while the run was ended: %s: %s", type(problem).__name__, problem)
            raise ended from problem


#: Holds the setting until the process ends.
_try_again = ExitStack()


def _termination(signals: Sequence[int]) -> BaseException | None:
    """Return the exception of the first signal, or None if there was none."""
    if not signals:
        return None
    return KeyboardInterrupt() if signal.SIGINT in signals else TerminationSignal(signals[0])
