"""A real Slurm on this machine for the tests of this folder, all of which bear the marker `slurm`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ONE_MACHINE = Path(__file__).parents[2] / "slurm" / "one_machine.py"
#: Set by `make test-slurm` and by CI: a machine that cannot run Slurm fails there.
REQUIRED = "SLVMEVAL_REQUIRE_SLURM"
_CANNOT = 3


#: The files that take longest begin first, so that no process works alone at the end.
LONGEST = (
    "test_faults.py",
    "test_fault_campaign.py",
    "test_pools.py",
    "test_driver.py",
    "test_one_machine.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("slurm")
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))


class Slurm:
    """A Slurm that runs, and what tests do with it."""

    def __init__(self, folder: Path, start_s: float) -> None:
        self.folder = folder
        self.start_s = start_s
        self.conf = folder / "slurm.conf"

    @property
    def environment(self) -> dict[str, str]:
        """This process's variables, with SLURM_CONF."""
        return os.environ | {"SLURM_CONF": str(self.conf)}

    def run(self, *command: str) -> str:
        """Return what a command prints; a failure is an error with what it said."""
        ran = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, f"{command}: {ran.stderr}{ran.stdout}"
        return ran.stdout.strip()

    def sbatch(self, *options: str, wrap: str) -> int:
        """Submit shell lines with little memory and return the job's id."""
        return int(self.run("sbatch", "--parsable", "--mem=200", *options, f"--wrap={wrap}"))

    def squeue(self, *options: str) -> list[dict[str, str]]:
        """Return the jobs that wait, run or are ending."""
        fields = ("id", "partition", "name", "state", "reason", "node")
        text = self.run("squeue", "-h", "-o", "%A|%P|%j|%T|%r|%N", *options)
        return [dict(zip(fields, line.split("|"), strict=True)) for line in text.splitlines()]

    def sinfo(self) -> dict[str, str]:
        """Return the state of each node, such as ``idle`` or ``drained``."""
        text = self.run("sinfo", "-h", "-N", "-o", "%N %T")
        return dict(line.split() for line in text.splitlines())

    def job(self, job: int | str) -> dict[str, str]:
        """Return all that is known of a job, also for five minutes after its end."""
        words = self.run("scontrol", "-o", "show", "job", str(job)).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def cancel(self, *jobs: int | str) -> None:
        """Cancel jobs, or all of them."""
        ids = [str(job) for job in jobs] or [job["id"] for job in self.squeue()]
        if ids:
            self.run("scancel", *ids)

    def drain(self, node: str) -> None:
        """Let a node take no new jobs."""
        self.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")

    def resume(self, node: str) -> None:
        """Let a node take jobs again."""
        self.run("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def wait(self, reached: Callable[[], object], limit_s: float = 30.0) -> None:
        """Wait until a condition holds; else fail with the queue."""
        end = time.monotonic() + limit_s
        while not reached():
            assert time.monotonic() < end, f"not reached in {limit_s} s; {self.squeue()} {self.sinfo()}"
            time.sleep(0.25)

    def clean(self) -> None:
        """Take all jobs away and let every node take jobs."""
        self.cancel()
        self.wait(lambda: not self.squeue())
        self.wait(self._all_idle)

    def _all_idle(self) -> bool:
        states = self.sinfo()
        for node, state in states.items():
            if state.startswith(("drain", "down")):
                # refused where the node has come back by itself meanwhile
                command = ["scontrol", "update", f"NodeName={node}", "State=RESUME"]
                subprocess.run(command, env=self.environment, capture_output=True, check=False)
        return set(states.values()) == {"idle"}


def one_machine(*words: str) -> subprocess.CompletedProcess[str]:
    """Run slurm/one_machine.py."""
    return subprocess.run([sys.executable, ONE_MACHINE, *words], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="session")
def slurm_of_session() -> Iterator[Slurm]:
    """The Slurm of all tests, ended with them, also when this process is killed."""
    # not below pytest's folders: a socket's path may not be long
    with tempfile.TemporaryDirectory(prefix="slurm-") as name:
        folder = Path(name)
        began = time.monotonic()
        started = one_machine("start", name)
        if started.returncode == _CANNOT and not os.environ.get(REQUIRED):
            pytest.skip(started.stderr.strip())
        assert started.returncode == 0, started.stderr
        slurm = Slurm(folder, time.monotonic() - began)
        # its input ends when this process does
        guard = subprocess.Popen(
            [
                "sh",
                "-c",
                'cat >/dev/null; "$0" "$1" stop "$2"; rm -rf "$2"',
                sys.executable,
                ONE_MACHINE,
                name,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield slurm
        finally:
            stopped = one_machine("stop", name)
            guard.communicate(timeout=60)
        assert stopped.returncode == 0, stopped.stderr


@pytest.fixture
def slurm(slurm_of_session: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """A Slurm with idle nodes c1, c2 (4 cores) and g1, g2 (4 cores, 2 GPUs); afterwards its jobs are gone."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_of_session.conf))
    yield slurm_of_session
    slurm_of_session.clean()
