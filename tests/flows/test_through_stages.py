"""Sources go through their stages: bounded, in their pools, in batches, and past workers that die."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows import stages as module
from flows.batches import Batching
from flows.stages import MAX_DEATHS, StageItem, through_stages
from infra.executor import Executor, Handle, InlineExecutor, ProcessExecutor, WorkerDied
from infra.progress import BuildProgress
from storage_schemas.errors import Reason
from storage_schemas.source import Source
from tasks.pairs.stages import BuildWork, Stage, StageResult, source_row
from tasks.recipe import BUILT_IN
from tests.own_time import own_time


def source(name: str) -> Source:
    return Source(id=name, adapter="test", title=name, video=name, content_sha256="0", clips=())


def stage(work: BuildWork, source: Source, aspects: tuple[str, ...]) -> StageResult:
    with (Path(work.store) / source.id).open("a") as log:
        log.write("x")
    if source.id == "poison":
        os._exit(1)
    time.sleep(0.02)
    return StageResult(source.id, "work")


def at_once(work: BuildWork, source: Source, aspects: tuple[str, ...]) -> StageResult:
    return StageResult(source.id, "work")


CPU = Stage("work", "cpu", at_once)
GPU = Stage("paint", "h100", at_once)
MORE = Stage("more", "cpu", at_once)


def died(item: StageItem, message: str) -> StageResult:
    row = source_row(item.source, item.next.name, Reason.WORKER_DIED, message)
    return StageResult(item.source.id, item.next.name, rows=(row,))


def through(
    executor: Executor, items: Sequence[StageItem], store: str = "", tasks: int = 1000
) -> list[StageResult]:
    outcomes: list[StageResult] = []

    def note(outcome: StageResult) -> bool:
        outcomes.append(outcome)
        return not outcome.rows

    work = BuildWork(store=store, recipe=BUILT_IN["cpu-approx"], model_folders=())
    with executor, BuildProgress(quiet=True) as progress:
        through_stages(executor, work, items, progress, note, died, Batching(tasks))
    return outcomes


class Recorded(InlineExecutor):
    """Keeps what was submitted, ends one task a turn, and lets chosen sources end their worker."""

    deaths_before_alone = 2

    def __init__(self, room: dict[str, int], deaths: Callable[[str], bool] = lambda _: False) -> None:
        self.rooms, self.deaths = room, deaths
        self.submitted: list[tuple[str, str]] = []
        self.in_flight: dict[Handle, str] = {}
        self.most: Counter[str] = Counter()
        self.wanted: Counter[str] = Counter()

    def room(self, pool: str, wanted: int) -> int:
        self.wanted[pool] = max(self.wanted[pool], wanted)
        return self.rooms[pool]

    def submit(self, name: str, pool: str, function: Callable[..., Any], *arguments: Any) -> Handle:
        handle: Future[Any] = Future()
        _, _, calls, _ = arguments
        if any(self.deaths(source.id) for source, _ in calls):
            handle.set_exception(WorkerDied("the worker that ran it died"))
        else:
            handle.set_result(function(*arguments))
        self.submitted.append((name, pool))
        self.in_flight[handle] = pool
        for of, number in Counter(self.in_flight.values()).items():
            self.most[of] = max(self.most[of], number)
        return handle

    def wait_any(self, handles: Iterable[Handle], timeout_s: float | None = None) -> set[Handle]:
        first = next(iter(handles))
        del self.in_flight[first]
        return {first}


@pytest.mark.slow
def test_only_the_source_that_kills_its_worker_is_set_aside(tmp_path: Path) -> None:
    names = ["poison", *(f"good{n}" for n in range(8))]
    stages = [Stage("work", "cpu", stage), Stage("more", "cpu", stage)]
    items = [StageItem(source(name), (), list(stages)) for name in names]
    outcomes = through(ProcessExecutor(2), items, str(tmp_path))
    bad = [outcome for outcome in outcomes if outcome.rows]
    assert [(o.source_id, o.rows[0].reason) for o in bad] == [("poison", Reason.WORKER_DIED)]
    assert sorted(o.source_id for o in outcomes if not o.rows) == sorted(names[1:] * 2)
    assert len((tmp_path / "poison").read_text()) <= MAX_DEATHS + 1


@settings(deadline=None, max_examples=50)
@given(
    number=st.integers(1, 30),
    gpu=st.integers(0, 30),
    tasks=st.integers(1, 60),
    room=st.fixed_dictionaries({"cpu": st.integers(1, 5), "h100": st.integers(1, 3)}),
    poison=st.sets(st.integers(0, 29), max_size=3),
)
def test_every_source_ends_whatever_happens(
    number: int, gpu: int, tasks: int, room: dict[str, int], poison: set[int]
) -> None:
    items = [StageItem(source(f"s{n}"), (), [CPU, *([GPU] if n < gpu else []), MORE]) for n in range(number)]
    bad = {f"s{n}" for n in poison if n < number}
    executor = Recorded(room, deaths=lambda name: name in bad)
    outcomes = through(executor, items, tasks=tasks)
    assert sorted(o.source_id for o in outcomes if o.rows) == sorted(bad)
    good = Counter(o.source_id for o in outcomes if not o.rows)
    assert good == {f"s{n}": 2 + (n < gpu) for n in range(number) if f"s{n}" not in bad}
    assert all(executor.most[pool] <= room[pool] for pool in room)
    assert {name.split()[0] for name, pool in executor.submitted if pool == "h100"} <= {"paint"}


def test_a_pool_without_workers_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [StageItem(source("a"), (), [GPU]), StageItem(source("b"), (), [CPU])]
    executor = Recorded({"cpu": 1, "h100": 0})
    waited = []

    def workers_come(seconds: float) -> None:
        waited.append(seconds)
        executor.rooms["h100"] = 1

    own_time(monkeypatch, module, sleep=workers_come)
    through(executor, items)
    assert executor.submitted == [("work b", "cpu"), ("paint a", "h100")]
    assert waited == [module.LOOK_EVERY_S]
    assert executor.wanted["h100"] == 1


def test_batches_hold_several_sources_and_stages_and_a_death_costs_one_source() -> None:
    items = [StageItem(source(f"s{n}"), (), [CPU, MORE]) for n in range(10)]
    executor = Recorded({"cpu": 4}, deaths=lambda name: name == "s5")
    outcomes = through(executor, items, tasks=3)
    # for one worker: a half, a quarter, and the rest
    assert [name for name, _ in executor.submitted[:3]] == [
        "work+more s0 and 5 more",
        "work+more s6 and 2 more",
        "work+more s9",
    ]
    assert [(o.source_id, o.stage) for o in outcomes if o.rows] == [("s5", "work")]
    # once in its batch, twice beside others, then alone, when it is known which stage it is
    of_poison = [name.split()[0] for name, _ in executor.submitted if name.endswith(" s5")]
    assert of_poison == ["work+more"] * executor.deaths_before_alone + ["work"] * MAX_DEATHS


def test_a_worker_that_dies_now_and_then_costs_no_source() -> None:
    """A cancelled job, a drained node: nobody's fault, and never twice while alone."""
    left = {f"s{n}": n % 4 for n in range(12)}

    def sometimes(name: str) -> bool:
        left[name] -= 1
        return left[name] >= 0

    items = [StageItem(source(name), (), [CPU, MORE]) for name in left]
    assert not [o for o in through(Recorded({"cpu": 3}, deaths=sometimes), items) if o.rows]


def test_a_stage_that_has_to_run_again_does_so_before_the_next_one_of_its_task() -> None:
    ran: list[str] = []

    def twice(work: BuildWork, source: Source, aspects: tuple[str, ...]) -> StageResult:
        ran.append(f"twice {source.id}")
        return StageResult(source.id, "twice", unfinished=ran.count(ran[-1]) < 2)

    def after(work: BuildWork, source: Source, aspects: tuple[str, ...]) -> StageResult:
        ran.append(f"after {source.id}")
        return StageResult(source.id, "after")

    stages = [Stage("twice", "cpu", twice), Stage("after", "cpu", after)]
    items = [StageItem(source(name), (), list(stages)) for name in ("a", "b")]
    work = BuildWork(store="", recipe=BUILT_IN["cpu-approx"], model_folders=())
    with InlineExecutor() as executor, BuildProgress(quiet=True) as progress:
        # fewer tasks than stages: those of a source are joined
        through_stages(
            executor, work, items, progress, lambda _: True, died, Batching(1),
            unfinished=lambda outcome: outcome.unfinished,
        )  # fmt: skip
    assert [line for line in ran if line.endswith("a")] == ["twice a", "twice a", "after a"]
    assert sorted(ran) == sorted(2 * ["twice a", "twice b"] + ["after a", "after b"])
