"""The cost of suites, votes and pairs files as the number of answers grows.

``python -m bench.answer_growth --sizes 1000 4000 16000`` prints a table of CPU seconds: a suite scores that
number of videos, then nothing, then one more; a desk with many votes assigns tasks and receives answers;
votes are collected, then nothing, then a few more; a pairs file of many lines is read. Everything runs in
one process, without a server or a cluster.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.growth import add_film, base_film
from flows.score.options import SuiteOptions
from storage_schemas.store import Store
from tasks.annotation.sync import collect
from tasks.pairs.file_pairs import read_pairs_file
from tests.inline import suite_inline
from tests.planted_suites import install
from tests.tasks.annotation.example_desk import (
    HandClock,
    come_in,
    do_task,
    example_campaign,
    example_tasks,
    file_vote,
    open_desk,
)

SIZES = (1000, 4000)
#: Votes given through the pages' desk, after the others were stored.
GIVEN = 40

Timed = dict[str, float]


@contextmanager
def clocked(step: str, into: Timed, share: int = 1) -> Iterator[None]:
    """Record the CPU seconds of a block, divided by `share`."""
    began = time.process_time()
    yield
    into[step] = (time.process_time() - began) / share
    print(f"{step}: {into[step]:.3f} s", file=sys.stderr)


def suites(size: int, folder: Path) -> Timed:
    """Score `size` videos in one dimension, then nothing, then one more video."""
    videos, timed = folder / "videos", Timed()
    videos.mkdir()
    base, rows = base_film(folder), ["model,prompt_id,sample,file"]
    prompts = [{"prompt_id": f"p{n}", "text": f"Prompt {n}.", "details": {}} for n in range(size + 1)]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in prompts))
    options = SuiteOptions.model_validate(
        {
            "store": str(folder / "store"),
            "suite": "planted",
            "videos": str(videos),
            "prompt_suite": str(folder / "prompts.jsonl"),
            "dimensions": ["length"],
        }
    )

    def add(number: int) -> None:
        add_film(base, videos, number)
        rows.append(f"anna,p{number},0,film{number:05}.mp4")
        (videos / "manifest.csv").write_text("\n".join(rows) + "\n")

    for number in range(size):
        add(number)
    for film in videos.glob("*.mp4"):
        # checksums of files that have just changed are not cached
        os.utime(film, (1_700_000_000, 1_700_000_000))
    with clocked("suite: a video", timed, size):
        scored(options, size)
    with clocked("suite: nothing new", timed):
        scored(options, 0)
    add(size)
    with clocked("suite: one more video", timed):
        scored(options, 1)
    return timed


def scored(options: SuiteOptions, expected: int) -> None:
    """Run the suite, which has to score this number of videos."""
    (result,) = suite_inline(options).dimensions
    assert result.scored - result.found_before == expected, result


def votes(size: int, folder: Path) -> Timed:
    """Store `size` votes, give :data:`GIVEN` through the desk, and collect all, nothing, and the latter."""
    timed, clock = Timed(), HandClock()
    store = Store.create(folder / "votes-store")
    tasks = example_tasks(size // 5 + GIVEN)
    campaign = example_campaign()
    with open_desk(folder, clock) as desk:
        desk.organiser.publish(campaign, tasks)
        # in the paper a worker judges five pairs
        stored = [
            file_vote(task, f"{index // 5 * 5 + vote:032x}", campaign)
            for index, task in enumerate(tasks[: size // 5])
            for vote in range(5)
        ]
        desk.votes.add(campaign.name, stored)
        with clocked("annotate collect: all", timed):
            collect(store, desk, campaign.name)
        with clocked("annotate collect: nothing new", timed):
            collect(store, desk, campaign.name)
        workers = [come_in(desk, f"worker {number}") for number in range(GIVEN // 4)]
        with clocked("desk: a task, from the queue to the vote", timed, GIVEN):
            for number in range(GIVEN):
                do_task(desk, clock, workers[number % len(workers)])
        with clocked(f"annotate collect: {GIVEN} new", timed):
            collected = collect(store, desk, campaign.name)
        assert collected.votes == GIVEN, collected
    return timed


def pairs_file(size: int, folder: Path) -> Timed:
    """Read a pairs file of `size` lines."""
    timed = Timed()
    path = folder / "pairs.jsonl"
    for name in ("a.mp4", "b.mp4"):
        (folder / name).write_bytes(name.encode())
    line = {
        "video_a": "a.mp4",
        "video_b": "b.mp4",
        "prompt": "A prompt. " * 100,
        "aspect": "color",
        "gold": "a",
    }
    path.write_text("".join(json.dumps(line | {"id": f"p{n}"}) + "\n" for n in range(size)))
    with clocked("pairs file", timed):
        assert len(read_pairs_file(path)) == size
    return timed


STEPS: tuple[Callable[[int, Path], Timed], ...] = (pairs_file, votes, suites)


def table(sizes: list[int], measured: list[Timed]) -> str:
    """Return the table in Markdown, with the exponent of growth between the last two sizes."""
    rows = [["CPU seconds", *(f"{size:,}" for size in sizes), "exponent"]]
    rows.append(["---"] * len(rows[0]))
    for step in measured[0]:
        times = [timed[step] for timed in measured]
        growth = "–"
        if len(sizes) > 1:
            growth = f"{math.log(times[-1] / times[-2]) / math.log(sizes[-1] / sizes[-2]):.2f}"
        rows.append([step, *(f"{seconds:.3g}" for seconds in times), growth])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    given = parser.parse_args()
    measured = []
    with TemporaryDirectory() as site:
        install(Path(site))
        sys.path.insert(0, site)
        for size in given.sizes:
            print(f"{size:,} answers", file=sys.stderr)
            with TemporaryDirectory() as folder:
                measured.append({step: s for work in STEPS for step, s in work(size, Path(folder)).items()})
    print(table(given.sizes, measured))


if __name__ == "__main__":
    main()
