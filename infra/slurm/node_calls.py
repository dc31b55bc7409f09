"""Run programs on nodes of the pools, in jobs like those of workers, and get their answers.

A program prints its answer as JSON after `MARK`, in a line of its job's log: the log arrives even if the
program cannot see the store.
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
#: Seconds after which SLURM's reason for waiting is trusted.
_SETTLES_S = 3.0
#: Queries of SLURM that may miss a job: one just submitted is not listed.
_MAX_MISSES = 2


@dataclass(frozen=True)
class NodeProgram:
    """A program for a pool's Python, which a job runs in place of a worker.

    The job requests everything that a worker requests, including time and memory, so that SLURM rejects it
    if it would reject a worker.

    Parameters
    ----------
    pool
        Name of the pool.
    name
        Unique name, a part of the job's.
    arguments, text
        Python's arguments and standard input.
    log
        Path of the job's log, in an existing folder.
    node
        The node on which to run; any of the pool if it is empty.
    needs_temporary_folder
        Whether it must not run without the job's private folder for temporary files.
    """

    pool: str
    name: str
    arguments: tuple[str, ...]
    text: str
    log: Path
    node: str = ""
    needs_temporary_folder: bool = True

    @property
    def job_name(self) -> str:
        """Name of its job."""
        return job_name(self.name, self.pool)

    def script(self, profile: Profile, store: Path) -> str:
        """Return its job script."""
        text = job_script(profile, self.pool, run=self.name, index=0, scheduler="tls://none:0", store=store)
        *lines, _worker = text.rstrip("\n").splitlines()
        end = max(index for index, line in enumerate(lines) if line.startswith("#SBATCH")) + 1
        # sbatch uses the last of repeated options
        options = [f'--output="{self.log}"', *([f"--nodelist={self.node}"] if self.node else [])]
        python = profile.pools[self.pool].python or sys.executable
        program = [
            *([NEEDS_TEMPORARY_FOLDER] if self.needs_temporary_folder else []),
            f"{shlex.join([python, *self.arguments])} <<'END_OF_PROGRAM'",
            self.text.rstrip("\n"),
            "END_OF_PROGRAM",
        ]
        return "\n".join([*lines[:end], *(f"#SBATCH {one}" for one in options), *lines[end:], *program, ""])


@dataclass(frozen=True)
class NodeAnswer:
    """Result of a program on a node.

    Parameters
    ----------
    answer
        The program's answer, or None.
    waited
        Whether the job only waited for a node, so nothing is known about it.
    problem
        Why there is no answer, and what to do.
    """

    answer: Mapping[str, Any] | None
    waited: bool = False
    problem: str = ""


def run_on_nodes(
    profile: Profile,
    programs: Sequence[NodeProgram],
    store: Path,
    *,
    wait_s: float,
    run_s: float,
    poll_s: float = 1.0,
    tell: Callable[[str], None] = log.info,
) -> list[NodeAnswer]:
    """Run programs simultaneously and return their answers in order; afterwards their jobs have ended.

    Parameters
    ----------
    store
        The store, which may not exist yet.
    wait_s, run_s
        Maximum seconds that the jobs may wait for a node, and run.
    poll_s
        Interval between queries of SLURM, in seconds.
    tell
        Called with a job's number and state when they change.

    Raises
    ------
    UserInputError
        If a value of the profile is invalid in a script.
    PrerequisiteError, SlurmAway
        If SLURM is not installed, or does not answer at the end.
    """
    answers: dict[str, NodeAnswer] = {}
    names = [program.job_name for program in programs]
    scripts = [program.script(profile, store) for program in programs]
    try:
        for program, script in zip(programs, scripts, strict=True):
            try:
                commands.submit(script)
            except SlvmevalError as problem:
                look = f"look at pools.{program.pool} in {profile.label}"
                answers[program.job_name] = NodeAnswer(None, problem=f"{problem}: {look}")
        seen = _until_over(set(names) - set(answers), wait_s, run_s, poll_s, tell)
    finally:
        commands.cancel_by_name(names)
    end = time.monotonic() + _FILE_COMES_S
    return [
        answers.get(name) or _came_of(profile, program, seen.get(name), wait_s, end)
        for name, program in zip(names, programs, strict=True)
    ]


def _until_over(
    waiting: set[str], wait_s: float, run_s: float, poll_s: float, tell: Callable[[str], None]
) -> dict[str, commands.Job]:
    """Return the jobs by name once they have ended, timed out, or would wait indefinitely."""
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
                # the first reasons may be temporary
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
    profile: Profile, program: NodeProgram, job: commands.Job | None, wait_s: float, end: float
) -> NodeAnswer:
    """Return the result of a program, waiting for its log until `end`."""
    if job is not None and job.pending:
        return NodeAnswer(None, lasting_wait(job.reason) is None, _why_waiting(profile, program, job, wait_s))
    while (answer := _answer(text := _text(program.log))) is None and time.monotonic() < end:
        time.sleep(0.2)
    return NodeAnswer(answer, problem="" if answer else _why_silent(profile, program, job, text))


def _why_waiting(profile: Profile, program: NodeProgram, job: commands.Job, wait_s: float) -> str:
    lasting = lasting_wait(job.reason)
    if lasting is not None:
        keys = ", ".join(f"pools.{program.pool}.{key}" for key in lasting.keys)
        look = f"; look at {keys} in {profile.label}" if keys else ""
        return f"job {job.id} would never start by itself ({job.reason}): {lasting.remedy}{look}"
    if is_unknown(job.reason):
        return (
            f"job {job.id} waits, and SLURM says: {job.reason}. If that does not end by itself, change "
            f"pools.{program.pool} in {profile.label}"
        )
    reason = f" ({job.reason})" if job.reason else ""
    return (
        f"job {job.id} was still waiting{reason} after {wait_s:.0f} s and was cancelled: try again later or "
        "with a longer --set max_wait=…; `sinfo` shows the nodes"
    )


def _why_silent(profile: Profile, program: NodeProgram, job: commands.Job | None, text: str) -> str:
    if job is not None and job.there:
        return f"job {job.id} ran on {job.node} and did not report in time: check that node"
    state = job.state if job is not None else ""
    ended = f"job {job.id} ended as {state.lower()} on {job.node or 'no node'}" if job else "its job ended"
    if not text:
        return (
            f"{ended}, but its report did not reach {program.log.parent}: nodes cannot see that "
            f"folder; put it on a file system that they share (store, job_logs in {profile.label})"
        )
    pool, place = f"pools.{program.pool}", profile.label
    why = {
        "OUT_OF_MEMORY": f"it used more memory than allowed; raise {pool}.memory in {place}",
        "TIMEOUT": "it took longer than its time limit",
    }.get(state, f"look at {pool}.python and {pool}.setup in {place}")
    tail = "\n".join(text.splitlines()[-_LOG_LINES:])
    return f"{ended} without an answer: {why}. The end of its log:\n{tail}"


def _text(log_file: Path) -> str:
    return log_file.read_text(encoding="utf-8", errors="replace") if log_file.exists() else ""


def _answer(text: str) -> dict[str, Any] | None:
    """Return the answer in a log; None if it is missing or incomplete."""
    lines = [line.removeprefix(MARK) for line in text.splitlines() if line.startswith(MARK)]
    try:
        return dict(json.loads(lines[-1])) if lines else None
    except ValueError:
        return None
