from __future__ import annotations

import doctest

import pytest

from infra.slurm import waiting
from infra.slurm.waiting import is_unknown, lasting_wait


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
        "ReqNodeNotAvail, UnavailableNodes:n1",
        "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
        "Licenses",
    ],
)
def test_a_wait_that_other_jobs_end(reason: str) -> None:
    assert lasting_wait(reason) is None
    assert not is_unknown(reason)


@pytest.mark.parametrize(
    ("reason", "ours"),
    [
        ("InvalidQOS", True),
        ("QOSMaxCpuPerJobLimit", True),
        ("PartitionTimeLimit", True),
        ("Job's account not permitted to use this partition (gpu allows lab not guests)", True),
        ("Job's account not permitted to use this partition (gpu denies a,b including b)", True),
        ("Job's QOS not permitted to use this partition (gpu allows long not normal)", True),
        ("User's group not permitted to use this partition", True),
        ("DependencyNeverSatisfied", True),
        ("launch failed requeued held", False),
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
    assert not is_unknown(reason)


def test_a_sentence_that_is_not_known_is_unknown() -> None:
    assert is_unknown("The licence server says no")
    assert lasting_wait("The licence server says no") is None
