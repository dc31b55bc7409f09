"""Kill builds at random moments and compare the results: ``python -m bench.kills --count N``.

A build of small films in plain processes, or with ``--prefect`` by the flow on an embedded server and a local
cluster, is killed with SIGKILL at a random moment and restarted in the same store, five times; then it may
finish. Either only the main process is killed, or all processes at once. The store is then compared with
that of an undisturbed build. The outcome of each store is recorded: ``--resume`` continues.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil

from bench.faults.outcome import OLD_S, checksums, drafts
from bench.growth import add_film, base_film, growth_recipe
from bench.measuring import ROOT
from infra import leftovers
from storage_schemas.gc import clear_staging
from storage_schemas.release import Release
from storage_schemas.rng import keyed_rng
from storage_schemas.store import Store

FILMS, KILLS_A_STORE = 12, 5
#: Time for the processes of a killed build to end by themselves, in seconds.
GONE_S = 60.0
#: Identifies a campaign's processes, in their environment.
_MARK = "SLVMEVAL_BENCH_KILLS"


class Kills:
    """Stores in a folder whose builds are killed; each has a record."""

    def __init__(self, folder: Path, seed: int, prefect: bool) -> None:
        self.folder, self.seed, self.prefect = folder.resolve(), seed, prefect
        self.way = "prefect" if prefect else "direct"
        self.records = self.folder / f"kills-{self.way}-{seed}.jsonl"
        self.videos, self.whole = self.folder / "videos", self.folder / f"whole-{self.way}"
        self.store = self.folder / f"store-{self.way}"

    def start(self, store: Path) -> subprocess.Popen[bytes]:
        """Start a build, as the leader of a process group."""
        options = ["--recipe", self.folder / "recipe.json", "--workers", "2", "--quiet", "--store", store]
        command = [sys.executable, "-m", "slvmeval", "build", "--sources", self.videos, *options]
        return subprocess.Popen(
            [str(word) for word in (*command, *([] if self.prefect else ["--direct"]))],
            cwd=ROOT,
            env={**os.environ, _MARK: self.records.name},
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / f"errors-{self.way}.txt").open("ab"),
            start_new_session=True,
        )

    def prepare(self) -> None:
        """Write the films, and build once without a kill."""
        if (self.folder / f"seconds-{self.way}").exists():
            return
        shutil.rmtree(self.whole, ignore_errors=True)
        self.videos.mkdir(parents=True, exist_ok=True)
        base = base_film(self.folder)
        for number in range(FILMS):
            add_film(base, self.videos, number)
        (self.folder / "recipe.json").write_text(growth_recipe().model_dump_json(), encoding="utf-8")
        began = time.monotonic()
        if code := self.start(self.whole).wait():
            raise RuntimeError(f"the undisturbed build ended with {code}")
        (self.folder / f"seconds-{self.way}").write_text(str(time.monotonic() - began))

    def processes(self) -> Iterator[psutil.Process]:
        """Yield the processes of the campaign's builds that are still running."""
        for process in psutil.process_iter():
            try:
                if process.environ().get(_MARK) == self.records.name and process.status() != "zombie":
                    yield process
            except psutil.Error:
                continue

    def run_store(self, number: int) -> dict[str, Any]:
        """Kill the builds of one store, let the last one finish, and return what is wrong."""
        shutil.rmtree(self.store, ignore_errors=True)
        draw = keyed_rng("kills", self.way, self.seed, number)
        seconds = float((self.folder / f"seconds-{self.way}").read_text())
        kills = 0
        while kills < KILLS_A_STORE:
            build = self.start(self.store)
            alone = bool(draw.integers(2))
            try:
                build.wait(float(draw.uniform(0, seconds)))
                break  # nothing is left to do, so there is no moment left to kill at
            except subprocess.TimeoutExpired:
                os.kill(build.pid, signal.SIGKILL) if alone else os.killpg(build.pid, signal.SIGKILL)
            build.wait()
            kills += 1
        codes = [code] if (code := self.start(self.store).wait()) else []
        until = time.monotonic() + GONE_S
        while (left := list(self.processes())) and time.monotonic() < until:
            time.sleep(0.2)
        stayed = [f"process {' '.join(process.cmdline())[:200]}" for process in left]
        store, undisturbed = Store.open(self.store), Store.open(self.whole)
        kept, made = checksums(undisturbed), checksums(store)
        releases = [Release.open(one, "main").manifest for one in (undisturbed, store)]
        for path in self.store.rglob("*"):
            os.utime(path, (time.time() - OLD_S,) * 2, follow_symlinks=False)
        clear_staging(store)
        # it also checks the time of the last change, which cannot be set
        with patch.object(leftovers, "LEFT_AFTER_S", -1.0):
            leftovers.clear_cache(store)
        differing = [name for name in kept.keys() & made.keys() if kept[name] != made[name]]
        if releases[0].content_checksum != releases[1].content_checksum:
            differing.append("the release")
        return {
            "store": number,
            "kills": kills,
            "exit_codes": codes,
            "lost": sorted(kept.keys() - made.keys()),
            "too_many": sorted(made.keys() - kept.keys()),
            "differing": differing,
            "left_over": stayed + [str(path.relative_to(self.store)) for path in drafts(store)],
        }

    def read(self) -> list[dict[str, Any]]:
        """Return the records."""
        text = self.records.read_text(encoding="utf-8") if self.records.is_file() else ""
        return [json.loads(line) for line in text.splitlines()]

    def run(self, count: int) -> None:
        """Kill until `count` kills are recorded."""
        self.prepare()
        while (done := sum(one["kills"] for one in self.read())) < count:
            record = self.run_store(len(self.read()))
            with self.records.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(record)}\n")
            wrong = {name: what for name, what in record.items() if isinstance(what, list) and what}
            print(f"{done + record['kills']} of {count} {wrong or ''}", file=sys.stderr, flush=True)


def main() -> None:
    """Kill, and print the number of stores with each problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prefect", action="store_true", help="build by the flow, not in plain processes")
    parser.add_argument("--resume", action="store_true", help="keep the records of this seed")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench" / "kills")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    kills = Kills(given.folder, given.seed, given.prefect)
    if not given.resume:
        kills.records.unlink(missing_ok=True)
    kills.run(given.count)
    records = kills.read()
    print("| stores | kills | lost | too many | differing | left over | ended with an error |")
    print("|---|---|---|---|---|---|---|")
    columns = ("lost", "too_many", "differing", "left_over", "exit_codes")
    counts = [sum(bool(one[name]) for one in records) for name in columns]
    print(f"| {len(records)} | {sum(one['kills'] for one in records)} | {' | '.join(map(str, counts))} |")


if __name__ == "__main__":
    main()
