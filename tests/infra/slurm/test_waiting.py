from __future__ import annotations

import doctest

import pytest

from infra.slurm import waiting
from infra.slurm.waiting import lasting_wait


def test_the_examples_hold() -> None:
    assert doctest.testmod(waiting).failed == 0


@pytest.mark.parametrize(
    "reason",
    [
        "",
        "None",
        "Priority",
        "Resources",
        "Dependency",
        "BeginTime",
        "QOSMaxJobsPerUserLimit",
        "QOSGrpNodeLimit",
        "AssocGrpCPURunMinutesLimit",
    ],
)
def test_a_wait_that_other_jobs_end(reason: str) -> None:
    assert lasting_wait(reason) is None


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("InvalidQOS", True),
        ("QOSMaxCpuPerJobLimit", True),
        ("PartitionTimeLimit", True),
        # the site may end these
        ("PartitionDown", False),
        ("JobHeldAdmin", False),
        ("PartitionNodeLimit", False),
        ("AssocGrpCPUMinutesLimit", False),
    ],
)
def test_a_wait_that_lasts(reason: str, ours: bool) -> None:
    wait = lasting_wait(reason)
    assert wait is not None
    assert wait.ours is ours
