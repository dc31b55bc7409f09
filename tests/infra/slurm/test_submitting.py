"""Many jobs are submitted in one call, and idle ones are asked to end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import SimpleNamespace as Plain
from typing import Any

import pytest

from infra.slurm import commands
from infra.slurm.cluster import MAX_ARRAY, SlurmCluster
from storage_schemas.errors import PrerequisiteError


class Jobs:
    """What a pool's jobs are told."""

    pool_name = "cpu"

    def __init__(self, retirable: dict[str, list[str]] | None = None) -> None:
        self.there: list[str] = []
        self.problems: list[str] = []
        self.asked: tuple[str, ...] = ()
        self._retirable = retirable or {}

    def submitted(self, id_: str) -> None:
        self.there.append(id_)

    def refused(self, problem: PrerequisiteError, others: bool) -> None:
        self.problems.append(f"{problem}, others: {others}")

    def any_live(self) -> bool:
        return bool(self.there)

    def retirable(self, ids: tuple[str, ...]) -> dict[str, list[str]]:
        return self._retirable

    def ended(self, ids: tuple[str, ...]) -> None:
        self.asked = ids


@pytest.mark.parametrize(
    ("number", "most", "calls", "refused"),
    [
        (4, 1000, [1, 1, 1, 1], 0),
        (5, 1000, [5], 0),
        (1100, 2000, [MAX_ARRAY, 100], 0),
        # an array is refused as a whole
        (30, 3, [30, 1, 1, 1, 1], 1),
        (0, 1000, [], 0),
    ],
)
def test_many_jobs_are_an_array(
    number: int, most: int, calls: list[int], refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    jobs = Jobs()

    def submit(script: str) -> str:
        made.append(int(script))
        if len(jobs.there) + int(script) > most:
            raise PrerequisiteError("sbatch failed: QOSMaxSubmitJobPerUserLimit")
        return f"{100 + len(made)}"

    monkeypatch.setattr(commands, "submit", submit)
    cluster: Any = Plain(
        _stopping=False,
        _index=0,
        _pools={"cpu": jobs},
        _scheduler=Plain(address="tls://x"),
        _script=lambda pool, scheduler, tasks: str(tasks),
    )
    asyncio.run(SlurmCluster._submit(cluster, jobs, number))  # type: ignore[arg-type]
    assert made == calls
    assert len(jobs.there) == len(set(jobs.there)) == min(number, most)
    assert len(jobs.problems) == refused
    assert cluster._index == len(calls)
    if calls == [5]:
        assert jobs.there == [f"101_{task}" for task in range(5)]


def test_a_job_with_workers_is_asked_to_end_and_the_others_are_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cancelled: list[str] = []
    retired: list[str] = []
    monkeypatch.setattr(commands, "cancel", cancelled.extend)

    def retire_workers(workers: list[str], close_workers: bool) -> Awaitable[None]:
        assert close_workers
        retired.extend(workers)
        return asyncio.sleep(0)

    cluster: Any = Plain(_scheduler=Plain(retire_workers=retire_workers))
    jobs = Jobs({"7_1": ["tls://a", "tls://b"]})
    asyncio.run(SlurmCluster._end(cluster, jobs, ("7_0", "7_1")))  # type: ignore[arg-type]
    assert (cancelled, retired, jobs.asked) == (["7_0"], ["tls://a", "tls://b"], ("7_0", "7_1"))
