"""SLURM's commands sbatch, squeue, scancel and sinfo, with machine-readable output."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from infra.pool import seconds_of
from storage_schemas.errors import PrerequisiteError, SlvmevalError

#: Timeout of a command, in seconds; a busy controller is slow to answer.
TIMEOUT_S = 60.0

#: The user's own settings of these commands change their output and override job scripts.
_THEIR_SETTINGS = ("SLURM_", "SBATCH_", "SQUEUE_", "SCANCEL_", "SINFO_", "SALLOC_", "SRUN_")
#: Variables that identify the cluster.
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT")

#: SLURM's messages while its controller is unavailable or overloaded.
_AWAY = re.compile(
    r"unable to contact|connect failure|timed out|temporarily|try again|zero bytes|connection refused|"
    r"communication connection|in standby mode",
    re.IGNORECASE,
)

_PENDING = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"}
)
_RUNNING = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"})


class SlurmAway(SlvmevalError):
    """SLURM is temporarily unavailable; the command may be retried later."""


@dataclass(frozen=True)
class Job:
    """A job as squeue shows it.

    Parameters
    ----------
    id
        Its number; of an array's task ``ARRAY_TASK``.
    name
        Its name.
    state
        Its state in capitals, such as ``RUNNING``.
    reason
        SLURM's reason why it waits or ended.
    node
        Node on which it runs or ran; empty if it never started.
    starts_at, ends_at
        Start time and end of its time limit, in seconds since 1970, if known.
    """

    id: str
    name: str
    state: str
    reason: str = ""
    node: str = ""
    starts_at: float | None = None
    ends_at: float | None = None

    @property
    def pending(self) -> bool:
        """Whether it waits for a node."""
        return self.state in _PENDING

    @property
    def running(self) -> bool:
        """Whether it runs on its nodes."""
        return self.state in _RUNNING

    @property
    def there(self) -> bool:
        """Whether it is waiting, running or ending."""
        return self.pending or self.running or self.state == "COMPLETING"


@dataclass(frozen=True)
class Partition:
    """A partition: its name, whether it accepts jobs, and its time limit in seconds (None: no limit)."""

    name: str
    up: bool
    max_time_s: int | None


@dataclass(frozen=True)
class Node:
    """A node, with its memory in MiB and its partitions."""

    name: str
    host: str
    address: str
    state: str
    cpus: int
    memory_mib: int
    gres: str
    features: tuple[str, ...]
    partitions: tuple[str, ...]


def submit(script: str) -> str:
    """Submit a job script to SLURM and return the number of the job, or of the array of jobs.

    Raises
    ------
    SlurmAway
        If SLURM is temporarily unavailable.
    PrerequisiteError
        If it refuses this script, or is not installed.
    """
    answer = _run(["sbatch", "--parsable"], script).strip()
    job = answer.split("\n")[-1].split(";")[0]
    if not job.isdigit():
        raise SlurmAway(f"sbatch answered {answer!r} instead of a job number")
    return job


def check(script: str) -> None:
    """Let SLURM validate a job script without submitting it.

    Raises
    ------
    SlurmAway, PrerequisiteError
        As for :func:`submit`.
    """
    _run(["sbatch", "--test-only"], script)


def jobs(names: Sequence[str]) -> list[Job]:
    """Return this user's jobs with these names, including recently ended ones.

    Raises
    ------
    SlurmAway, PrerequisiteError
        As for :func:`submit`.
    """
    # a reason may be a sentence with any characters
    fields = "%i|%j|%T|%N|%S|%e|%r"
    command = ["squeue", "--noheader", "--array", "--states=all", f"--user={user()}"]
    command.append(f"--name={','.join(names)}")
    return [_job(line) for line in _run([*command, f"--format={fields}"]).splitlines() if line]


def cancel(ids: Iterable[str]) -> None:
    """End jobs, ignoring those that have already ended.

    Raises
    ------
    SlurmAway, PrerequisiteError
        As for :func:`submit`.
    """
    wanted = list(ids)
    if wanted:
        _run(["scancel", "--quiet", *wanted], fine="invalid job id")


def cancel_by_name(names: Iterable[str], state: str | None = None) -> None:
    """End this user's jobs with these names; if a state such as ``PENDING`` is given, only those in it.

    Raises
    ------
    SlurmAway, PrerequisiteError
        As for :func:`submit`.
    """
    only = [] if state is None else [f"--state={state}"]
    for name in names:
        _run(["scancel", "--quiet", *only, f"--user={user()}", f"--name={name}"], fine="invalid job id")


def partitions() -> list[Partition]:
    """Return the partitions that this user sees.

    Raises
    ------
    SlurmAway, PrerequisiteError
        As for :func:`submit`.
    """
    by_name = {}
    for line in _run(["sinfo", "--noheader", "--format=%R|%a|%l"]).splitlines():
        name, available, limit = line.split("|")
        by_name[name] = Partition(name, available == "up", _limit(limit))
    return list(by_name.values())


def nodes() -> list[Node]:
    """Return the nodes that this user sees.

    Raises
    ------
    SlurmAway, PrerequisiteError
        As for :func:`submit`.
    """
    by_name: dict[str, Node] = {}
    fields = "%N|%n|%o|%T|%c|%m|%G|%f|%R"
    for line in _run(["sinfo", "--noheader", "--Node", f"--format={fields}"]).splitlines():
        name, host, address, state, cpus, memory, gres, features, partition = line.split("|")
        before = by_name[name].partitions if name in by_name else ()
        by_name[name] = Node(
            name=name,
            host=host,
            address=address,
            state=state,
            cpus=int(cpus.rstrip("+")),
            memory_mib=int(memory.rstrip("+")),
            gres="" if gres == "(null)" else gres,
            features=() if features == "(null)" else tuple(features.split(",")),
            partitions=(*before, partition),
        )
    return list(by_name.values())


def user() -> int:
    """Return this user's id."""
    return os.getuid()


def user_name() -> str:
    """Return this user's name, or the id of a user without one."""
    try:
        return pwd.getpwuid(user()).pw_name
    except KeyError:
        return str(user())


def array_tasks(array: str, number: int) -> list[str]:
    """Return the ids of the jobs of an array."""
    return [f"{array}_{task}" for task in range(number)]


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for SLURM's commands, which jobs inherit.

    It omits the user's settings for these commands, which override job scripts, and the job variables of a
    driver that runs in a job itself.
    """
    given = os.environ if variables is None else variables
    inherited = {
        name: value for name, value in given.items() if name in _KEPT or not name.startswith(_THEIR_SETTINGS)
    }
    return {**inherited, "LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}


def _run(command: list[str], text: str | None = None, fine: str = "") -> str:
    """Run one of SLURM's commands and return its output, ignoring errors that contain `fine`."""
    try:
        done = subprocess.run(
            command,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=environment(),
            check=False,
        )
    except FileNotFoundError as problem:
        raise PrerequisiteError(
            f"no command {command[0]} here: run this on a machine where SLURM jobs can be "
            "submitted, or remove the tables [pools] from the profile to build on this machine"
        ) from problem
    except subprocess.TimeoutExpired as problem:
        raise SlurmAway(f"{command[0]} did not answer within {TIMEOUT_S:.0f} s") from problem
    if done.returncode == 0 or (fine and fine in done.stderr.lower()):
        return done.stdout
    message = done.stderr.strip() or f"exit status {done.returncode}"
    if _AWAY.search(message):
        raise SlurmAway(f"{command[0]}: {message}")
    raise PrerequisiteError(f"{' '.join(command[:2])} failed: {message}")


def _job(line: str) -> Job:
    fields = line.split("|", 6)
    if len(fields) != 7:
        raise SlurmAway(f"squeue answered {line!r}")
    id_, name, state, node, start, end, reason = fields
    return Job(id_, name, state, reason if reason != "None" else "", node, _time(start), _time(end))


def _time(text: str) -> float | None:
    """Return seconds since 1970, or None if unknown to SLURM."""
    return float(text) if text.isdigit() else None


def _limit(text: str) -> int | None:
    """Return a partition's time limit in seconds; SLURM omits leading zeros."""
    if text in ("infinite", "n/a"):
        return None
    days, _, clock = text.rpartition("-")
    parts = ["00", "00", *clock.split(":")][-3:]
    return seconds_of(f"{days or 0}-{':'.join(part.zfill(2) for part in parts)}")
