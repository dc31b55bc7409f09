from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from infra.open_files import FILES_A_WORKER, FILES_BESIDES

PROGRAM = """
import logging, resource, sys
logging.basicConfig(format="%(message)s")
from infra.open_files import allow_workers
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 1000))
assert allow_workers(int(sys.argv[1])) == 1000
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1000, 1000)
"""


@pytest.mark.parametrize("more", [0, 1])
def test_the_limit_is_raised_and_one_that_does_not_do_is_reported(more: int) -> None:
    if (hard := resource.getrlimit(resource.RLIMIT_NOFILE)[1]) != resource.RLIM_INFINITY and hard < 1000:
        pytest.skip("this machine allows fewer files")
    workers = (1000 - FILES_BESIDES) // FILES_A_WORKER + more
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(workers)], capture_output=True, text=True, timeout=60, check=True
    )
    assert ("may open 1000 files, but the" in ended.stderr) is bool(more)
