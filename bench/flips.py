"""Flip single bits in a store: which does ``slvmeval verify --deep`` find, and are they repaired?

``python -m bench.flips --count N --seed S`` builds a store of small films once. In rounds it flips bits in
many files of a copy, verifies, repairs and builds again, and prints a table. A flip counts as found if a
problem names its file, and as repaired if its artifact exists again with its original checksum. Rounds are
stored: ``--resume`` continues.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections import Counter, defaultdict
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from bench.faults.outcome import checksums
from bench.growth import add_film, base_film, growth_recipe
from bench.measuring import ROOT
from slvmeval.cli.main import main as slvmeval
from storage_schemas.analysis import CaptionAnalysis, CaptionAnswer
from storage_schemas.release import Release
from storage_schemas.rng import keyed_rng
from storage_schemas.store import Store
from storage_schemas.votes import VotesStore
from tasks.captions.analyser import AnswerJournal

#: Number of films of a store, and maximum number of flips of a round.
FILMS, FLIPS_A_ROUND = 40, 150
#: Without these files nothing else can be read, so each is flipped and verified alone, one per round.
ALONE = ("store.json", "release manifest.json")
#: Damage to input from people and model servers is found, and the file restored from a copy.
NOT_MADE_BY_BUILDS = ("annotation", "partial", "store.json")


def kind_of(path: str) -> str:
    """Return the kind of a file by its path in the store; empty if no checksum covers it.

    Examples
    --------
    >>> kind_of("artifacts/pair/ab/ab12/manifest.json"), kind_of("cache/run-here-12.json")
    ('pair manifest.json', '')
    """
    first, *rest = parts = path.split("/")
    if first == "artifacts":
        inner = parts[4:]
        return f"{parts[1]} {'planes.zarr' if inner[0] == 'planes.zarr' else inner[0]}"
    if first == "releases":
        return f"release {parts[-1]}"
    if first == "cache":
        checked = rest[0] in ("reports", "content-hashes.json") or rest[0].startswith("build-request-")
        return f"cache {rest[0].removesuffix('.json')}" if checked else ""
    return f"{first} {rest[0]}" if len(rest) > 1 else first


class Flips:
    """Rounds of flips in copies of one store, recorded in a folder."""

    def __init__(self, folder: Path, seed: int, films: int = FILMS) -> None:
        self.folder, self.seed, self.films = folder.resolve(), seed, films
        self.records = self.folder / f"flips-{seed}.jsonl"
        self.videos, self.whole, self.store = (self.folder / name for name in ("videos", "whole", "store"))

    def slvmeval(self, *words: str | Path, expect: tuple[int, ...] = (0,)) -> str:
        """Run a command on the copy; return its output.

        Raises
        ------
        RuntimeError
            If it ends with another exit code than expected.
        """
        command = [*map(str, words), "--store", str(self.store)]
        # in this process: starting another takes longer than most commands
        with redirect_stdout(StringIO()) as said, redirect_stderr(said):
            code = slvmeval(command)
        if code not in expect:
            raise RuntimeError(f"slvmeval {' '.join(command)} ended with {code}: {said.getvalue()}")
        return said.getvalue()

    def build(self) -> None:
        """Build, or complete, the release in the copy; a film that cannot be read is set aside."""
        words = ["--sources", self.videos, "--recipe", self.folder / "recipe.json", "--workers", "2"]
        self.slvmeval("build", "--direct", "--quiet", *words, expect=(3,))

    def prepare(self) -> None:
        """Create, once, the store to be damaged: all kinds of files of a build, and some rows."""
        if (self.folder / "whole-is-complete").exists():
            return
        for path in (self.videos, self.whole, self.store):
            shutil.rmtree(path, ignore_errors=True)
        self.videos.mkdir(parents=True)
        base = base_film(self.folder)
        for number in range(self.films):
            add_film(base, self.videos, number)
        (self.videos / "broken.mp4").write_bytes(b"no video" * 100)
        (self.videos / "broken.jsonl").write_text('{"start_s": 0, "end_s": 1, "caption": "A cat."}\n')
        for film in self.videos.iterdir():
            os.utime(film, (1_700_000_000, 1_700_000_000))
        (self.folder / "recipe.json").write_text(growth_recipe().model_dump_json(), encoding="utf-8")
        self.build()
        self.slvmeval("gallery", "--quiet", "--out", self.folder / "gallery", "main")
        store = Store.open(self.store)
        votes = VotesStore(store)
        for number in range(4):
            votes.decide("a", f"worker-{number}", "excluded", "a note", "the organiser")
        votes.erase("a", "worker-0")
        votes.keep_rules("a", {"rule": "paper"}, "paper")
        with AnswerJournal(store.partial_analyses / "0123") as journal:
            for number in range(5):
                answer = CaptionAnswer(
                    caption=str(number), analysis=CaptionAnalysis(), text="{}", characters=2
                )
                journal.append(answer)
        self.store.rename(self.whole)
        (self.folder / "whole-is-complete").touch()

    def read(self) -> list[dict[str, Any]]:
        """Return the recorded flips; a torn last line counts as missing."""
        text = self.records.read_text(encoding="utf-8") if self.records.is_file() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def drawn(self, number: int, count: int) -> list[dict[str, Any]]:
        """Draw the flips of a round: at most one per file and per artifact, so that none hides another.

        Kinds take turns, so that rare files are flipped as often as a round allows.
        """
        draw = keyed_rng("flips", self.seed, number)
        by_kind: dict[str, list[str]] = defaultdict(list)
        for path in sorted(path for path in self.whole.rglob("*") if path.is_file()):
            name = str(path.relative_to(self.whole))
            if path.stat().st_size and kind_of(name):
                by_kind[kind_of(name)].append(name)
        flips: list[dict[str, Any]] = []
        taken: set[str] = set()
        waiting = {kind: [str(name) for name in draw.permutation(by_kind[kind])] for kind in sorted(by_kind)}
        while len(flips) < count and any(waiting.values()):
            for kind, names in waiting.items():
                while names and len(flips) < count:
                    name = names.pop()
                    # a damaged manifest hides its entries on other files
                    owner = str(Path(*Path(name).parts[:4])) if name.startswith("artifacts/") else name
                    if owner not in taken:
                        taken.add(owner)
                        bit = int(draw.integers(8 * (self.whole / name).stat().st_size))
                        flips.append({"round": number, "kind": kind, "path": name, "bit": bit})
                        break
        return flips

    def flip(self, name: str, bit: int) -> None:
        """Flip one bit of a file of the copy, like a failing disk: time stamps do not change."""
        path = self.store / name
        state, raw = path.stat(), bytearray(path.read_bytes())
        raw[bit // 8] ^= 1 << bit % 8
        path.write_bytes(raw)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))

    def run_round(self, number: int, count: int) -> None:
        """Flip, verify, repair, build and compare; record each flip."""
        shutil.rmtree(self.store, ignore_errors=True)
        shutil.copytree(self.whole, self.store)
        flips = self.drawn(number, count)
        verify = ("verify", "main", "--deep", "--format", "json", "--workers", "2")
        for one in [one for one in flips if one["kind"] in ALONE]:
            self.flip(one["path"], one["bit"])
            one["found"] = str(self.store / one["path"]) in self.slvmeval(*verify, expect=(1,))
            self.flip(one["path"], one["bit"])
        together = [one for one in flips if one["kind"] not in ALONE]
        for one in together:
            self.flip(one["path"], one["bit"])
        said = self.slvmeval(*verify, "--repair", expect=(1,))
        for one in together:
            one["found"] = str(self.store / one["path"]) in said
        self.build()
        self.slvmeval("gallery", "--quiet", "--out", self.folder / "gallery-again", "main")
        left = self.slvmeval(*verify, expect=(0, 1))
        before, after = checksums(Store(self.whole)), checksums(Store(self.store))
        same = _release_checksum(self.whole) == _release_checksum(self.store)
        for one in together:
            if not one["kind"].startswith(NOT_MADE_BY_BUILDS):
                kind, id_ = (Path(one["path"]).parts * 2)[1:4:2]
                artifact = f"{kind} {id_}"
                equal = before[artifact] == after.get(artifact) if artifact in before else same
                one["repaired"] = equal and str(self.store / one["path"]) not in left
        with self.records.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(one)}\n" for one in flips)

    def run(self, count: int) -> None:
        """Run rounds until `count` flips are recorded."""
        self.prepare()
        while (done := len(self.read())) < count:
            number = max((one["round"] for one in self.read()), default=-1) + 1
            self.run_round(number, min(FLIPS_A_ROUND, count - done))
            print(f"{len(self.read())} of {count}", file=sys.stderr, flush=True)


def _release_checksum(root: Path) -> str:
    return Release.open(Store(root), "main").manifest.content_checksum


def table(records: list[dict[str, Any]]) -> str:
    """Return the table in Markdown: flips, found and repaired by kind of file."""
    lines = ["| file | flips | found | missed | repaired, equal |", "|---|---|---|---|---|"]
    for kind in [*sorted({one["kind"] for one in records}), "all"]:
        some = [one for one in records if kind in ("all", one["kind"])]
        counts = Counter(one["found"] for one in some)
        tried = [one["repaired"] for one in some if "repaired" in one]
        repaired = f"{sum(tried)} of {len(tried)}" if tried else "–"
        lines.append(f"| {kind} | {len(some)} | {counts[True]} | {counts[False]} | {repaired} |")
    return "\n".join(lines)


def main() -> None:
    """Flip, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", action="store_true", help="keep the flips recorded with this seed")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench" / "flips")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    flips = Flips(given.folder, given.seed)
    if not given.resume:
        flips.records.unlink(missing_ok=True)
    flips.run(given.count)
    print(table(flips.read()))


if __name__ == "__main__":
    main()
