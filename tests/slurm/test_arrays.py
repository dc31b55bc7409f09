"""Many jobs of a pool are one array on a real Slurm, and jobs whose work is done complete by themselves."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import cloudpickle
import pytest

from infra.slurm import commands
from storage_schemas.provenance import provenance
from tests.slurm.conftest import Slurm
from tests.slurm.test_pools import driver, pool, quiet, store  # noqa: F401

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def place() -> str:
    """Return the number of the job that this runs in."""
    return str(provenance(0.0)["job"])


def test_an_array_is_submitted_once_replaced_by_task_and_completes(
    slurm: Slurm,
    store: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    submitted: list[str] = []
    submit: Callable[[str], str] = commands.submit
    monkeypatch.setattr(commands, "submit", lambda script: submitted.append(submit(script)) or submitted[-1])
    # two nodes of four cores: the ninth waits
    with driver(store, {"cpu": pool(maximum=9, partition="cpu,h100", constraint=None)}, "array") as flow:
        flow.wait_for_room("cpu", 9, 9)
        (array,) = submitted
        ids = commands.array_tasks(array, 9)
        listed = {job.id: job for job in commands.jobs(flow.names)}
        assert sorted(listed) == sorted(ids)
        assert {slurm.job(id_)["Comment"].split(":")[:2][1] for id_ in ids} == {"array"}
        # each worker knows its job, and its log is where it is looked for
        members = flow.cluster.members.of_pool("cpu")
        assert {member.job for member in members} == set(ids)
        assert all(flow.cluster._pools["cpu"].log_of(id_).is_file() for id_ in ids)
        items = [flow.submit("cpu", place) for _ in range(9)]
        assert {item.result(timeout=30) for item in items} <= {slurm.job(id_)["JobId"] for id_ in ids}
        del items
        # one is lost, and one takes its place
        slurm.cancel(ids[4])
        slurm.wait(lambda: len(submitted) == 2)
        flow.wait_for_room("cpu", 9, 9)
        assert slurm.job(ids[4])["JobState"] == "CANCELLED"
        # what is not needed any more ends by itself
        flow.cluster.room("cpu", 3)
        slurm.wait(lambda: len(flow.cluster.members.of_pool("cpu")) == 3)
        stay = {member.job for member in flow.cluster.members.of_pool("cpu")}
        gone = {*ids, submitted[1]} - stay - {ids[4]}
        slurm.wait(lambda: all(slurm.job(id_)["JobState"] == "COMPLETED" for id_ in gone))
    # and so do the others with the run
    assert {slurm.job(id_)["JobState"] for id_ in stay} == {"COMPLETED"}
    assert slurm.squeue() == []


def test_an_array_that_is_refused_is_submitted_one_by_one(
    slurm: Slurm,
    store: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    submit = commands.submit
    # the largest index that this Slurm takes is 1000
    monkeypatch.setattr(
        commands, "submit", lambda script: submit(script.replace("--array=0-", "--array=900"))
    )
    with caplog.at_level(logging.INFO), driver(store, {"cpu": pool(maximum=5)}, "refused") as flow:
        flow.wait_for_room("cpu", 5, 5)
        assert all("_" not in job.id for job in commands.jobs(flow.names))
    assert "SLURM rejects 5 jobs submitted at once" in caplog.text
