"""Run programs on nodes of the pools, in jobs as those of workers, and get their answers.

A program prints its answer as JSON after `MARK`, in a line of its job's log: the log arrives also where the
program does not see the store.
"""

from __future__ import annotations

import json
import logging
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.profile import Profile
from infra.slurm import commands
from infra.slurm.commands import SlurmAway
from infra.slurm.job_script import NEEDS_TEMPORARY_FOLDER, job_name, job_script
from infra.slurm.waiting import is_unknown, lasting_wait
from storage_schemas.errors import SlvmevalError

log = logging.getLogger(__name__)

#: Prefix of the line with the answer.
MARK = "SLVMEVAL-ANSWER "
_LOG_LINES = 12
#: Seconds until a file written by a node is visible here.
_FILE_COMES_S = 10.0
#: Seconds after which SLURM's reason for waiting is believed.
_SETTLES_S = 3.0
#: Queries of SLURM that may miss a job: one just submitted is not listed.
_MAX_MISSES = 2


@dataclass(frozen=True)
class NodeCall:
    """A program to run on a node: the name, pool, script and log of its job."""

    name: str
    pool: str
    script: str
    log: Path


@dataclass(frozen=True)
class NodeAnswer:
    """What came of a call.

    Parameters
    ----------
    answer
        What the program answered; None without an answer.
    waited
        Whether the job only waited for a node, so that nothing is known of it.
    problem
        Why there is no answer, and what to do.
    """

    answer: Mapping[str, Any] | None
    waited: bool = False
    problem: str = ""


def node_call(
    profile: Profile,
    pool: str,
    arguments: Sequence[str],
    text: str,
    *,
    store: Path,
    name: str,
    log: Path,
    node: str = "",
    needs_temporary_folder: bool = True,
) -> NodeCall:
    """Return a call of the pool's Python, in the job of a worker with the program in the worker's place.

    It asks for all that a worker asks for, time and memory included: what SLURM refuses a worker, it is to
    refuse the program.

    Parameters
    ----------
    arguments, text
        Python's arguments and standard input.
    name
        Unique name, a part of the job's.
    log
        Path of the job's log, in an existing folder.
    node
        The node on which to run; any of the pool if it is empty.
    needs_temporary_folder
        Whether the program must not run without the job's private folder for temporary files.
    """
    script = job_script(profile, pool, run=name, index=0, scheduler="tls://none:0", store=store)
    *lines, _worker = script.rstrip("\n").splitlines()
    end = max(index for index, line in enumerate(lines) if line.startswith("#SBATCH")) + 1
    # sbatch uses the last of repeated options
    options = [f'#SBATCH --output="{log}"', *([f"#SBATCH --nodelist={node}"] if node else [])]
    program = [
        *([NEEDS_TEMPORARY_FOLDER] if needs_temporary_folder else []),
        f"{shlex.join([profile.pools[pool].python or sys.executable, *arguments])} <<'END_OF_PROGRAM'",
        text.rstrip("\n"),
        "END_OF_PROGRAM",
    ]
    script = "\n".join([*lines[:end], *options, *lines[end:], *program]) + "\n"
    return NodeCall(job_name(name, pool), pool, script, log)


def call_nodes(
    profile: Profile,
    calls: Sequence[NodeCall],
    *,
    wait_s: float,
    run_s: float,
    poll_s: float = 1.0,
    tell: Callable[[str], None] = log.info,
) -> list[NodeAnswer]:
    """Run programs, all at once, and return their answers in order; afterwards their jobs have ended.

    Parameters
    ----------
    wait_s
        Maximum time that the jobs may wait for a node, seconds.
    run_s
        Maximum time that they may run, seconds.
    poll_s
        Interval between queries of SLURM, seconds.
    tell
        Called with a job's number and state when they change.

    Raises
    ------
    PrerequisiteError
        If SLURM is not installed.
    """
    refused: dict[str, str] = {}
    names = [call.name for call in calls]
    try:
        for call in calls:
            try:
                commands.submit(call.script)
            except SlvmevalError as problem:
                refused[call.name] = str(problem)
        seen = _until_over(set(names) - set(refused), wait_s, run_s, poll_s, tell)
    finally:
        commands.cancel_by_name(names)
    end = time.monotonic() + _FILE_COMES_S
    return [
        NodeAnswer(None, problem=f"{refused[call.name]}: look at pools.{call.pool} in {profile.place}")
        if call.name in refused
        else _came_of(profile, call, seen.get(call.name), wait_s, end)
        for call in calls
    ]


def _until_over(
    waiting: set[str], wait_s: float, run_s: float, poll_s: float, tell: Callable[[str], None]
) -> dict[str, commands.Job]:
    """Return the jobs by name when they have ended, their time is up, or their wait does not end."""
    began = time.monotonic()
    end = began + wait_s
    seen: dict[str, commands.Job] = {}
    misses: Counter[str] = Counter()
    while waiting and time.monotonic() < end + run_s:
        try:
            listed = {job.name: job for job in commands.jobs(sorted(waiting))}
        except SlurmAway as problem:
            log.info("%s", problem)
        else:
            for name in sorted(waiting):
                job = listed.get(name)
                misses[name] = misses[name] + 1 if job is None else 0
                if job is not None:
                    if (line := _line(job)) != (_line(seen[name]) if name in seen else ""):
                        tell(line)
                    seen[name] = job
                now = time.monotonic()
                # a reason may be a passing one in the first moments
                lasts = job is not None and lasting_wait(job.reason) is not None and now > began + _SETTLES_S
                late = job is not None and job.pending and (now > end or lasts)
                if misses[name] > _MAX_MISSES or late or (job is not None and not job.there):
                    waiting.discard(name)
        if waiting:
            time.sleep(poll_s)
    return seen


def _line(job: commands.Job) -> str:
    return f"job {job.id}: {job.state.lower()}" + (f" ({job.reason})" if job.reason else "")


def _came_of(
    profile: Profile, call: NodeCall, job: commands.Job | None, wait_s: float, end: float
) -> NodeAnswer:
    """Return what came of a call; its log is waited for until `end`."""
    if job is not None and job.pending:
        return NodeAnswer(None, lasting_wait(job.reason) is None, _why_waiting(profile, call, job, wait_s))
    while (answer := _answer(text := _text(call.log))) is None and time.monotonic() < end:
        time.sleep(0.2)
    return NodeAnswer(answer, problem="" if answer else _why_silent(profile, call, job, text))


def _why_waiting(profile: Profile, call: NodeCall, job: commands.Job, wait_s: float) -> str:
    lasting = lasting_wait(job.reason)
    if lasting is not None:
        keys = ", ".join(f"pools.{call.pool}.{key}" for key in lasting.keys)
        look = f"; look at {keys} in {profile.place}" if keys else ""
        return f"job {job.id} would never start by itself ({job.reason}): {lasting.remedy}{look}"
    if is_unknown(job.reason):
        return (
            f"job {job.id} waits, and SLURM says: {job.reason}. If that does not end by itself, change "
            f"pools.{call.pool} in {profile.place}"
        )
    reason = f" ({job.reason})" if job.reason else ""
    return (
        f"job {job.id} was still waiting{reason} after {wait_s:.0f} s and was cancelled: try again later or "
        "with a longer --set max_wait=…; `sinfo` shows the nodes"
    )


def _why_silent(profile: Profile, call: NodeCall, job: commands.Job | None, text: str) -> str:
    if job is not None and job.there:
        return f"job {job.id} ran on {job.node} and did not report in time: check that node"
    state = job.state if job is not None else ""
    ended = f"job {job.id} ended as {state.lower()} on {job.node or 'no node'}" if job else "its job ended"
    if not text:
        return (
            f"{ended}, and its report did not reach {call.log.parent}: nodes do not see that folder; put it "
            f"on a file system that they share (store, job_logs in {profile.place})"
        )
    pool, place = f"pools.{call.pool}", profile.place
    why = {
        "OUT_OF_MEMORY": f"it took more memory than it was given; raise {pool}.memory in {place}",
        "TIMEOUT": "it took longer than its time limit",
    }.get(state, f"look at {pool}.python and {pool}.setup in {place}")
    tail = "\n".join(text.splitlines()[-_LOG_LINES:])
    return f"{ended} without an answer: {why}. The end of its log:\n{tail}"


def _text(log_file: Path) -> str:
    return log_file.read_text(encoding="utf-8", errors="replace") if log_file.exists() else ""


def _answer(text: str) -> dict[str, Any] | None:
    """Return the answer in a log; None if there is none, or not yet all of it."""
    lines = [line.removeprefix(MARK) for line in text.splitlines() if line.startswith(MARK)]
    try:
        return dict(json.loads(lines[-1])) if lines else None
    except ValueError:
        return None
