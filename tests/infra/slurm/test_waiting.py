from __future__ import annotations

import doctest

from infra.slurm import waiting
from infra.slurm.waiting import lasting_wait


def test_the_examples_hold() -> None:
    assert doctest.testmod(waiting).failed == 0


def test_a_wait_that_other_jobs_end() -> None:
    ends = ("", "None", "Priority", "Resources", "Dependency", "BeginTime", "QOSMaxJobsPerUserLimit")
    for reason in (*ends, "QOSGrpNodeLimit", "AssocGrpCPURunMinutesLimit"):
        assert lasting_wait(reason) is None, reason


def test_a_wait_that_lasts() -> None:
    ours = ("InvalidQOS", "QOSMaxCpuPerJobLimit", "PartitionTimeLimit")
    # the site may end these
    theirs = ("PartitionDown", "JobHeldAdmin", "PartitionNodeLimit", "AssocGrpCPUMinutesLimit")
    for reason in (*ours, *theirs):
        wait = lasting_wait(reason)
        assert wait is not None
        assert wait.ours is (reason in ours), reason
