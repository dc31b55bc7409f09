"""How many jobs there are: properties that hold for all that can happen."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from infra.pool import Pool
from infra.slurm.scaling import (
    ASKED_LATELY_S,
    MAX_FAILED_STARTS,
    MAX_PAUSE_S,
    Demand,
    JobState,
    ScalingStep,
    Starts,
    decide,
)

NOW = 10_000.0
MAX_S = 600.0


@cache
def pool(maximum: int = 3, minimum: int = 0, workers: int = 4, idle_s: float = 60.0) -> Pool:
    given = {"minimum": minimum, "maximum": maximum, "workers": workers, "idle_s": idle_s}
    asked = {"partition": "cpu", "cores": 4, "memory": "1GiB", "walltime": "02:00:00"}
    return Pool.model_validate(asked | {"longest_item": "00:10:00"} | given)


bounds = st.integers(1, 6).flatmap(lambda most: st.tuples(st.just(most), st.integers(0, most)))
pools = st.builds(
    lambda bound, *more: pool(*bound, *more), bounds, st.integers(1, 4), st.sampled_from([0.0, 30.0, 60.0])
)
one_job = st.builds(
    JobState,
    st.just("?"),
    *[st.booleans()] * 3,
    st.sampled_from([math.inf, *(NOW - s for s in (0.0, 10.0, 45.0, 60.0, 500.0))]),
    st.sampled_from([None, *(NOW + s for s in (1.0, MAX_S - 1, MAX_S, 7000.0))]),
)
queues = st.lists(one_job, max_size=8).map(
    lambda jobs: [replace(job, id=str(n)) for n, job in enumerate(jobs)]
)
demands = st.sampled_from([0, 0, 0, 1, 2, 3, 5, 8, 20])


def after(jobs: list[JobState], decision: ScalingStep) -> int:
    return len(jobs) - len(decision.cancel) + decision.submit


@settings(max_examples=300)
@given(pools, queues, demands, demands, st.booleans())
def test_one_decision(pool: Pool, jobs: list[JobState], wanted: int, lately: int, may_submit: bool) -> None:
    decision = decide(pool, wanted, lately, jobs, NOW, may_submit)
    by_id = {job.id: job for job in jobs}
    cancelled = [by_id[id_] for id_ in decision.cancel]
    assert len(set(decision.cancel)) == len(decision.cancel)
    # never over the maximum
    assert decision.submit == 0 or after(jobs, decision) <= pool.maximum
    # nothing that works is ended
    assert not any(job.busy and not job.pending for job in cancelled)
    # pending ones go before idle ones
    draining = {job.id for job in jobs if job.draining} | set(decision.drain)
    surplus = [job for job in cancelled if job.id not in draining]
    if any(not job.pending for job in surplus):
        assert all(job.id in decision.cancel for job in jobs if job.pending and not job.draining)
    # an idle one has been so for as long as was asked
    for job in surplus:
        assert job.pending or NOW - job.idle_since >= pool.idle_s
    # those whose time is nearly over are given nothing new
    for job in jobs:
        late = not job.pending and job.ends_at is not None and job.ends_at - NOW < MAX_S
        assert (job.id in decision.drain) == (late and not job.draining)
    # enough stay, as far as there were enough
    live = [job for job in jobs if job.id not in draining]
    kept = [job for job in live if job.id not in decision.cancel]
    need = min(pool.maximum, max(pool.minimum, math.ceil(max(wanted, lately) / pool.processes)))
    assert len(kept) >= min(need, len(live))
    if may_submit and len(jobs) <= pool.maximum:
        assert after(jobs, decision) >= pool.minimum
    else:
        assert may_submit or decision.submit == 0


@given(pools, demands.filter(bool), st.integers(1, 6))
def test_expiring_jobs_are_replaced_while_there_is_demand(pool: Pool, wanted: int, count: int) -> None:
    count = min(count, pool.maximum)
    late = [JobState(str(n), busy=True, ends_at=NOW + MAX_S - 1) for n in range(count)]
    decision = decide(pool, wanted, wanted, late, NOW)
    assert set(decision.drain) == {job.id for job in late}
    needed = min(pool.maximum, max(pool.minimum, math.ceil(wanted / pool.processes)))
    assert decision.submit == min(needed, pool.maximum - count)
    # at the maximum a new one has to wait until an old one is done, and then comes at once
    done = [replace(late[0], busy=False, draining=True), *(replace(job, draining=True) for job in late[1:])]
    decision = decide(pool, wanted, wanted, done, NOW)
    assert decision.cancel == (late[0].id,)
    assert decision.submit >= 1


@given(pools, st.lists(st.tuples(demands, st.integers(1, 120), st.integers(0, 3)), max_size=30))
def test_a_run_stays_within_its_bounds_and_falls_to_the_minimum(
    pool: Pool, steps: list[tuple[int, int, int]]
) -> None:
    """Jobs start late, and are busy as long as there is something to do."""
    demand, jobs, now, number = Demand(pool.idle_s), list[JobState](), NOW, 0
    quiet = [(0, 200, 6)] * 4
    for wanted, wait, starting in [*steps, *quiet]:
        demand.say(wanted, now)
        waiting = [job for job in jobs if job.pending][:starting]
        items = wanted
        for at, job in enumerate(jobs):
            running = not job.pending or job in waiting
            busy = running and items > 0
            items -= pool.processes if busy else 0
            idle_since = math.inf if busy or not running else min(job.idle_since, now)
            ends_at = job.ends_at or (now + 7200 if running else None)
            jobs[at] = replace(job, pending=not running, busy=busy, idle_since=idle_since, ends_at=ends_at)
        in_flight = sum(pool.processes for job in jobs if job.busy)
        decision = decide(pool, *demand.look(now, min(in_flight, wanted)), jobs, now)
        jobs = [
            replace(job, draining=job.draining or job.id in decision.drain)
            for job in jobs
            if job.id not in decision.cancel
        ]
        jobs += [JobState(str(number + n), pending=True) for n in range(decision.submit)]
        number += decision.submit
        assert pool.minimum <= len(jobs) <= pool.maximum
        now += wait
    assert len(jobs) == pool.minimum


def test_nothing_is_ended_before_its_time() -> None:
    single = Pool(partition="p", cores=1, memory="1GiB", walltime="02:00:00", maximum=3, idle_s=60)
    demand = Demand(60)
    assert demand.say(3, 0.0)
    assert not demand.say(0, 100.0)
    jobs = [JobState("1", idle_since=100.0), JobState("2", pending=True)]
    assert decide(single, *demand.look(159.0, 0), jobs, 159.0) == ScalingStep(0, (), ())
    assert decide(single, *demand.look(161.0, 0), jobs, 161.0) == ScalingStep(0, ("2", "1"), ())


def test_a_driver_that_asks_no_more_wants_what_is_in_flight() -> None:
    demand = Demand(10.0)
    demand.say(9, 0.0)
    assert demand.look(ASKED_LATELY_S, 2) == (9, 9)
    assert demand.look(ASKED_LATELY_S + 1, 2) == (2, 9)
    assert demand.look(ASKED_LATELY_S + 20, 2) == (2, 2)
    assert demand.look(ASKED_LATELY_S + 21, 0) == (0, 2)
    assert demand.say(1, ASKED_LATELY_S + 40)
    assert demand.look(ASKED_LATELY_S + 41, 0)[0] == 1


def test_pauses_grow_until_it_is_hopeless() -> None:
    starts = Starts(10.0)
    assert starts.may_submit(0.0)
    assert not starts.hopeless
    starts.failed(0.0)
    assert not starts.may_submit(9.0)
    assert starts.may_submit(10.0)
    starts.failed(10.0)
    assert not starts.may_submit(29.0)
    assert starts.may_submit(30.0)
    assert not starts.hopeless
    starts.came_up()
    assert starts.may_submit(11.0)
    for failure in range(MAX_FAILED_STARTS):
        assert not starts.hopeless, failure
        starts.failed(100.0)
    assert starts.hopeless
    for _ in range(20):
        starts.failed(100.0)
    assert starts.may_submit(100.0 + MAX_PAUSE_S)


def test_a_job_serves_as_many_items_as_it_has_workers() -> None:
    # a worker for each core
    plain = Pool(partition="p", cores=4, memory="1GiB", walltime="02:00:00", maximum=3)
    for wanted, jobs in ((0, 0), (1, 1), (4, 1), (5, 2), (100, 3)):
        assert decide(plain, wanted, wanted, [], NOW) == ScalingStep(jobs, (), ())
