"""Executors run functions elsewhere; a dying worker costs the guilty item only."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from flows.through_stages import MOST_DEATHS, StageItem, through_stages
from infra.executor import SINGLE_THREADED, InlineExecutor, ProcessExecutor, WorkerDied
from infra.progress import BuildProgress
from storage_schemas.errors import Reason
from storage_schemas.source import Source
from tasks.pairs.stages import Outcome, Work
from tasks.recipe import BUILT_IN


def square(number: int) -> int:
    return number * number


def die() -> None:
    os._exit(1)


def threads_allowed() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in SINGLE_THREADED}


def stage(work: Work, source: Source, aspects: tuple[str, ...]) -> Outcome:
    with (Path(work.store) / source.id).open("a") as log:
        log.write("x")
    if source.id == "poison":
        os._exit(1)
    time.sleep(0.02)
    return Outcome(source.id, "work")


def test_inline_runs_here() -> None:
    with InlineExecutor() as executor:
        handle = executor.submit("one", "cpu", square, 3)
        assert executor.wait_any([handle]) == {handle}
        assert executor.result(handle) == 9


def test_processes_run_elsewhere_with_one_thread_each() -> None:
    with ProcessExecutor(2) as executor:
        handles = [executor.submit("n", "cpu", square, n) for n in range(5)]
        assert [executor.result(handle) for handle in handles] == [0, 1, 4, 9, 16]
        assert executor.result(executor.submit("pid", "cpu", os.getpid)) != os.getpid()
        assert executor.result(executor.submit("env", "cpu", threads_allowed)) == SINGLE_THREADED


def test_a_dead_worker_is_said_and_replaced() -> None:
    with ProcessExecutor(1) as executor:
        with pytest.raises(WorkerDied):
            executor.result(executor.submit("die", "cpu", die))
        assert executor.result(executor.submit("again", "cpu", square, 2)) == 4


def test_only_the_source_that_kills_its_worker_is_set_aside(tmp_path: Path) -> None:
    def source(name: str) -> Source:
        return Source(id=name, adapter="test", title=name, video=name, content_sha256="0", clips=())

    names = ["poison", *(f"good{n}" for n in range(8))]
    items = [StageItem(source(name), (), [("work", stage), ("more", stage)]) for name in names]
    outcomes: list[Outcome] = []

    def note(outcome: Outcome) -> bool:
        outcomes.append(outcome)
        return not outcome.rows

    work = Work(store=str(tmp_path), recipe=BUILT_IN["cpu-approx"], models=())
    with ProcessExecutor(2) as executor, BuildProgress(quiet=True) as progress:
        through_stages(executor, work, items, progress, note)
    bad = [outcome for outcome in outcomes if outcome.rows]
    assert [(o.source_id, o.rows[0].reason) for o in bad] == [("poison", Reason.WORKER_DIED)]
    assert sorted(o.source_id for o in outcomes if not o.rows) == sorted(names[1:] * 2)
    assert len((tmp_path / "poison").read_text()) <= MOST_DEATHS + 1
