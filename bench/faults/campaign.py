"""Draw faults with keyed random numbers, apply them to builds, and record their effects."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from bench.faults.disturbed import MARK, DisturbedBuild, StoppableServer, variable_of
from bench.faults.kinds import KINDS, Took
from bench.faults.outcome import Outcome, compare, shared_memory, what_is_left
from bench.films import FFMPEG
from flows.release.options import BuildOptions, SourceRoot
from storage_schemas.errors import TRANSIENT_REASONS
from storage_schemas.release import Release
from storage_schemas.rng import keyed_rng
from storage_schemas.store import Store
from tests.inline import build_inline
from tests.slurm.conftest import Slurm, one_machine
from tests.small_films import caption_lines, make_film, recipe_without_weights, write_captions

#: Number of films and faults per build.
FILMS, FAULTS_A_BUILD = 8, 10
#: Maximum seconds from one fault to the next, or from the last to the end; the machine may be busy.
STUCK_S = 600.0
#: Faults occur in this part of a build, as a share of its artifacts; the rest is over too quickly.
LATEST = 0.95

RECORDS, BUILDS = "faults.jsonl", "builds.jsonl"


@dataclass(frozen=True)
class Fault:
    """A fault: its number, how often that was drawn, its kind, and the share of artifacts it waits for."""

    number: int
    attempt: int
    kind: str
    share: float

    @classmethod
    def drawn(cls, seed: int, number: int, attempt: int, kinds: list[str]) -> Fault:
        """Draw a fault; each attempt at a number gives a different one."""
        draw = keyed_rng("faults", seed, number, attempt)
        return cls(number, attempt, kinds[int(draw.integers(len(kinds)))], float(draw.random()) * LATEST)


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def read_records(folder: Path, name: str = RECORDS) -> list[dict[str, Any]]:
    """Return the records of a campaign's folder; a torn last line counts as missing."""
    path = folder / name
    lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.is_file() else []
    return [json.loads(line) for line in lines]


class Campaign:
    """Builds with faults, until a number of faults is reached.

    Parameters
    ----------
    folder
        For its records, and for remains of builds with findings, to inspect.
    count
        Total number of faults, including those already recorded.
    seed
        Key of the draws.
    films
        Number of films of a build.
    in_turn
        Kinds of faults to apply one after the other, instead of drawn ones.
    """

    def __init__(
        self, folder: Path, count: int, seed: int, films: int = FILMS, in_turn: Sequence[str] = ()
    ) -> None:
        self.folder, self.count, self.seed, self.films = folder.resolve(), count, seed, films
        self.kinds = [name for name, kind in KINDS.items() if not kind.missing]
        self.in_turn = [name for name in in_turn if name in self.kinds]
        self.attempts: dict[int, int] = {}
        self.recorded = {int(record["number"]) for record in read_records(folder)}
        self.builds = len(read_records(folder, BUILDS))

    def run(self) -> None:
        """Apply faults until all are recorded.

        Raises
        ------
        AssertionError, SubprocessError
            If Slurm or Prefect's server cannot be started, or does not recover after a fault.
        """
        for name, kind in KINDS.items():
            if kind.missing:
                say(f"no {name}: this machine has no {kind.needs}")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._clear()
        undisturbed = self._undisturbed()
        with self._services() as (slurm, server):
            while self._numbers():
                self._build(slurm, server, undisturbed)

    def _clear(self) -> None:
        """End and remove everything that a killed campaign in this folder left."""
        for process in psutil.process_iter():
            mark = variable_of(process, MARK) or ""
            if process.pid != os.getpid() and f"{mark}/".startswith(f"{self.folder}/"):
                with suppress(psutil.Error):
                    process.kill()
        note = self.folder / "slurm-folder"
        if note.exists():
            shutil.rmtree(note.read_text(), ignore_errors=True)
        for left in self.folder.glob("running-*"):
            shutil.rmtree(left)
        os.environ[MARK] = str(self.folder)

    @contextmanager
    def _services(self) -> Iterator[tuple[Slurm, StoppableServer]]:
        with ExitStack() as stack:
            # the path of a socket must be short
            name = stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-", dir="/tmp"))
            (self.folder / "slurm-folder").write_text(name)
            began = time.monotonic()
            started = one_machine("start", name)
            assert started.returncode == 0, started.stderr
            stack.callback(one_machine, "stop", name)
            slurm = Slurm(Path(name), time.monotonic() - began)
            prefect = self.folder / "prefect"
            shutil.rmtree(prefect, ignore_errors=True)
            prefect.mkdir()
            yield slurm, stack.enter_context(StoppableServer(prefect))

    def _undisturbed(self) -> Release:
        """Return the release of the films, built in this process without faults."""
        store = self.folder / "undisturbed"
        if not (self.folder / "undisturbed-is-complete").exists():
            say("building without faults …")
            videos = self.folder / "videos"
            for path in (videos, store):
                shutil.rmtree(path, ignore_errors=True)
            videos.mkdir()
            for number in range(1, self.films + 1):
                make_film(FFMPEG, videos / f"film{number}.mp4", number)
                write_captions(videos / f"film{number}.jsonl", caption_lines())
            build_inline(
                BuildOptions(
                    store=str(store),
                    sources=(SourceRoot(path=str(videos)),),
                    recipe=recipe_without_weights(),
                )
            )
            (self.folder / "undisturbed-is-complete").touch()
        return Release.open(Store.open(store), "main")

    def _numbers(self) -> list[int]:
        """Return the numbers of the next build's faults."""
        return [n for n in range(self.count) if n not in self.recorded][:FAULTS_A_BUILD]

    def _drawn(self) -> list[Fault]:
        """Return the faults of the next build, in order."""
        faults = [Fault.drawn(self.seed, n, self.attempts.get(n, 0), self.kinds) for n in self._numbers()]
        if self.in_turn:
            faults = [replace(one, kind=self.in_turn[one.number % len(self.in_turn)]) for one in faults]
        return sorted(faults, key=lambda fault: fault.share)

    def _build(self, slurm: Slurm, server: StoppableServer, undisturbed: Release) -> None:
        self.builds += 1
        folder = self.folder / f"running-{self.builds}"
        folder.mkdir()
        shutil.copytree(self.folder / "videos", folder / "videos")
        (folder / "recipe.json").write_text(recipe_without_weights().model_dump_json())
        total = len(list(undisturbed.store.root.glob("artifacts/*/*/*/manifest.json")))
        outcome = Outcome()
        build = DisturbedBuild(slurm, folder, server.api, server=server)
        began, shared = time.monotonic(), shared_memory()
        try:
            applied = self._disturb(build, total, outcome)
            if not outcome.stuck:
                compare(build, undisturbed, outcome)
                outcome.left_over += what_is_left(build, shared)
        finally:
            if sys.exc_info()[0] is not None or not outcome.is_clean:
                shutil.copytree(build.disk, folder / "disk-at-the-end", symlinks=True)
            build.close()
            slurm.clean()
        self._record(applied, build, outcome, time.monotonic() - began)
        if outcome.is_clean:
            shutil.rmtree(folder)
        else:
            folder.rename(self.folder / f"finding-{self.builds}")

    def _disturb(
        self, build: DisturbedBuild, total: int, outcome: Outcome
    ) -> list[tuple[Fault, float, int, Took]]:
        """Build with faults to the end; return the applied faults, with times and numbers of artifacts."""
        waiting, applied = self._drawn(), list[tuple[Fault, float, int, Took]]()
        process, began = build.start(), time.monotonic()
        changed = began
        committed = 0
        while True:
            time.sleep(0.1)
            committed = max(committed, build.look())
            if process.poll() is not None:
                if self._is_over(build, process.returncode):
                    break
                process = build.start()
            now = time.monotonic()
            if now - changed > STUCK_S:
                outcome.stuck.append(f"{committed} of {total} artifacts after {now - began:.0f} s")
                break
            # a fault without a target now is retried, without delaying others
            for fault in [fault for fault in waiting if committed >= fault.share * total]:
                draw = keyed_rng("fault", self.seed, fault.number, fault.attempt)
                took = KINDS[fault.kind].apply(build, draw)
                if took is not None:
                    words = f"{fault.kind} at {committed} of {total} artifacts"
                    say(f"fault {fault.number + 1} of {self.count}: {words}")
                    applied.append((fault, now - began, committed, took))
                    waiting.remove(fault)
                    changed = time.monotonic()
                    break
        return applied

    def _is_over(self, build: DisturbedBuild, code: int) -> bool:
        """Return whether the build has ended, with nothing left to do if it were restarted."""
        if code == 0:
            return True
        # with code 3 there is a release, and items may have been set aside because of the machine
        return code == 3 and not any(row.reason in TRANSIENT_REASONS for row in build.release().set_aside())

    def _record(
        self,
        applied: list[tuple[Fault, float, int, Took]],
        build: DisturbedBuild,
        outcome: Outcome,
        wall_s: float,
    ) -> None:
        took = {fault.number: (fault, at_s, one) for fault, at_s, one, hit in applied if hit()}
        for number in self._numbers():
            self.attempts[number] = self.attempts.get(number, 0) + 1
        lines = [
            {
                **asdict(fault),
                "build": self.builds,
                "at_s": round(at_s, 1),
                "artifacts": there,
                "consequence": outcome.counts(),
            }
            for fault, at_s, there in took.values()
        ]
        with (self.folder / RECORDS).open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines)
        self.recorded.update(took)
        entry = {
            "build": self.builds,
            "faults": len(lines),
            "starts": build.starts,
            "wall_s": round(wall_s, 1),
            **vars(outcome),
        }
        with (self.folder / BUILDS).open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(entry)}\n")
        found = {name: count for name, count in outcome.counts().items() if count} or "nothing wrong"
        say(
            f"[{len(self.recorded)}/{self.count}] build {self.builds}: {len(lines)} faults in {wall_s:.0f} s,"
            f" {build.starts} starts: {found}"
        )


def table(folder: Path) -> str:
    """Return the table of a campaign: the builds with problems, by kind of fault."""
    records = read_records(folder)
    columns = ("lost", "differing", "made_twice", "stuck", "left_over", "set_aside")
    words = [name.replace("_", " ") for name in columns]
    lines = [f"| fault | applied | {' | '.join(words)} |", f"|---|{'---|' * (1 + len(columns))}"]
    for name, kind in KINDS.items():
        of_kind = [record for record in records if record["kind"] == name]
        lines.append(_line(kind.words, of_kind, columns))
    lines.append(_line("all", records, columns))
    return "\n".join(lines)


def _line(words: str, records: list[dict[str, Any]], columns: tuple[str, ...]) -> str:
    def builds(column: str) -> int:
        wrong: Mapping[int, int] = {record["build"]: record["consequence"][column] for record in records}
        return sum(count > 0 for count in wrong.values())

    return f"| {words} | {len(records)} | {' | '.join(str(builds(column)) for column in columns)} |"
