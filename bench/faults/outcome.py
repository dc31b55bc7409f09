"""What a disturbed build lost, changed, repeated or left behind, compared with an undisturbed one."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import httpx
import psutil

from bench.faults.disturbed import DisturbedBuild
from infra import leftovers
from storage_schemas.gc import clear_staging
from storage_schemas.ids import canonical_json
from storage_schemas.release import Release
from storage_schemas.store import Store

#: Maximum seconds until processes, jobs and runs of an ended build are gone: a guard checks twice, and a
#: worker without its scheduler gives up after a while.
GONE_S = 180.0
#: Seconds until a killed slurmctld is told to ask its nodes which jobs they have. It considers jobs running
#: that it ended in its last seconds, and asks by itself only after minutes. This must exceed the 20 s in
#: which it does not miss a job that has just started.
ASK_S = 30.0
#: Age in seconds that files are given before `gc`, which leaves files that may belong to a run.
OLD_S = 7200.0
#: Temporary folder of a job, see infra/slurm/job_script.py; a driver's has a shorter name.
_JOBS_FOLDER = re.compile(r"slvmeval-[A-Za-z0-9]{10}")
_DRAFT = re.compile(r"\..*(draft|[0-9a-f]{32})")
_SHARED_MEMORY = Path("/dev/shm")


@dataclass
class Outcome:
    """Problems after a build, by kind; each item is a description."""

    lost: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    made_twice: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    left_over: list[str] = field(default_factory=list)
    #: Not a problem: sources or pairs that the release lists as set aside, with the reason.
    set_aside: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Return the number of items by kind of problem."""
        return {name: len(items) for name, items in vars(self).items()}

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        return not any(count for name, count in self.counts().items() if name != "set_aside")


def compare(build: DisturbedBuild, undisturbed: Release, outcome: Outcome) -> None:
    """Record what is missing or different in the build's release and store, compared with the original."""
    release = build.release()
    usual = {(row.reason, row.location) for row in undisturbed.set_aside()}
    rows = [row for row in release.set_aside() if (row.reason, row.location) not in usual]
    outcome.set_aside = [
        f"{row.reason.value} {row.location} {row.aspect or ''}: {row.message}" for row in rows
    ]
    excused = {(row.source_id, row.aspect) for row in rows}
    pairs = {record.pair_id: record for record in release.pairs()}
    for wanted in undisturbed.pairs():
        found = pairs.pop(wanted.pair_id, None)
        if found is None:
            if not {(wanted.source_id, wanted.aspect), (wanted.source_id, None)} & excused:
                outcome.lost.append(f"pair {wanted.pair_id}")
        elif _row(found) != _row(wanted):
            outcome.differing.append(f"pair {wanted.pair_id}")
    outcome.differing += [f"pair {pair_id} is too many" for pair_id in pairs if not rows]
    if not rows and release.manifest.content_checksum != undisturbed.manifest.content_checksum:
        outcome.differing.append(f"release {release.name}, version {release.version}")
    kept, made = checksums(undisturbed.store), checksums(release.store)
    outcome.differing += [name for name in kept.keys() & made.keys() if kept[name] != made[name]]
    if not rows:
        outcome.lost += sorted(kept.keys() - made.keys())
        outcome.made_twice += [f"{name} is too many" for name in sorted(made.keys() - kept.keys())]
    outcome.made_twice += [name for name, times in build.seen.items() if len(times) > 1]
    if (build.folder / "planted-was-imported").exists():
        outcome.differing.append("the planted tasks.py was imported")


def _row(record: object) -> str:
    return canonical_json(record.model_dump(mode="json"))  # type: ignore[attr-defined]


def checksums(store: Store) -> dict[str, str]:
    """Return the content checksum of every artifact of a store."""
    kinds = sorted(path.name for path in (store.root / "artifacts").iterdir())
    return {
        f"{kind} {manifest.id}": manifest.content_checksum
        for kind in kinds
        for manifest in store.manifests(kind)
    }


def what_is_left(build: DisturbedBuild, shared_before: set[str]) -> list[str]:
    """Wait until everything that the build started is gone; return what remains, even after ``gc``."""
    began = time.monotonic()
    asked = not build.slurm_forgot
    while (left := list(_remains(build))) and time.monotonic() < began + GONE_S:
        if not asked and time.monotonic() > began + ASK_S:
            build.ask_nodes()
            asked = True
        time.sleep(0.5)
    store = Store.open(build.store)
    past = time.time() - OLD_S
    for path in build.store.rglob("*"):
        os.utime(path, (past, past), follow_symlinks=False)
    clear_staging(store)
    # it also checks the time of the last change, which cannot be set
    with patch.object(leftovers, "LEFT_AFTER_S", -1.0):
        leftovers.clear_cache(store)
    left += [f"file {path}" for path in drafts(store)]
    left += [f"file {path}" for path in _temporary(build.temporary)]
    left += [f"shared memory {name}" for name in sorted(shared_memory() - shared_before)]
    return left


def _remains(build: DisturbedBuild) -> Iterator[str]:
    for process in build.processes():
        try:
            yield f"process {process.pid} {' '.join(process.cmdline())[:200]}"
        except psutil.Error:
            continue
    yield from (f"job {job}" for job in build.slurm.squeue())
    for what in ("flow_runs", "task_runs"):
        states = {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}
        answer = httpx.post(f"{build.api}/{what}/count", json={what: states}, timeout=60)
        if count := int(answer.raise_for_status().json()):
            yield f"{count} {what} that Prefect considers active"


def _temporary(folder: Path) -> Iterator[Path]:
    """Yield temporary files, except those of jobs, which a killed script cannot remove."""
    jobs = {path for path in folder.iterdir() if _JOBS_FOLDER.fullmatch(path.name)}
    yield from (path for path in sorted(folder.rglob("*")) if not jobs & {path, *path.parents})


def drafts(store: Store) -> Iterator[Path]:
    """Yield what an interrupted build leaves besides its commits."""
    yield from store.staging.glob("*")
    yield from (store.cache / "slurm").glob("*")
    for path in store.root.rglob(".*"):
        if _DRAFT.fullmatch(path.name):
            yield path


def shared_memory() -> set[str]:
    """Return the names of semaphores and shared memory, which are private to the campaign."""
    # libfaketime, part of a fault, leaves some when a job is killed
    return {path.name for path in _SHARED_MEMORY.iterdir() if "faketime" not in path.name}
