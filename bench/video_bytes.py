"""Whether the bytes of a task's two videos reveal which is the source: ``python -m bench.video_bytes``.

A program reads everything that a browser receives before the answer, without decoding pictures; it knows the
aspect, and is trained on as many tasks as it is tested on. Small films are changed as by each of the ten
aspects. This is repeated with other films, and then once with all tasks together. A line of JSON for each
kind of features and each aspect gives the share of right answers, over all repetitions and in each, and its
95 % interval; `equal length` is all aspects but the one that removes clips. ``--plain`` reads the sides
before they are made alike.

The last lines list the single features that reveal most, and in which aspect, with the p-values of t-tests
over all tasks, corrected by Holm's method for the number of features and aspects.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from statistics import fmean

import numpy as np
from scipy.stats import ttest_1samp

from tests.tasks.annotation.adversary import KINDS, Result, Task, task, tried
from tests.tasks.annotation.shown_films import CHANGES

#: The aspect in which length tells.
_REMOVES = "comprehensiveness"
#: Fewer tasks in which a feature differs say nothing.
_FEW = 10
#: Features that are printed.
_STRONGEST = 5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=300, help="number of training tasks, and of test tasks")
    parser.add_argument(
        "--repeats", type=int, default=3, help="number of repetitions, each with its own films"
    )
    parser.add_argument("--processes", type=int, default=2, help="number of concurrent processes")
    parser.add_argument("--plain", action="store_true", help="read the sides before they are made alike")
    arguments = parser.parse_args()
    numbers = range(-(-2 * arguments.tasks // len(CHANGES)) * arguments.repeats)
    places = list(product(numbers, CHANGES))
    with ProcessPoolExecutor(arguments.processes) as pool:
        aspects = [aspect for _, aspect in places]
        hidden = [not arguments.plain] * len(places)
        tasks = list(pool.map(task, aspects, [number for number, _ in places], hidden, chunksize=10))
    count, step = arguments.tasks, len(tasks) // arguments.repeats
    begun = range(0, len(tasks), step)
    halves = [(tasks[at : at + count], tasks[at + count : at + 2 * count]) for at in begun]
    together = [([one for learn, _ in halves for one in learn], [one for _, on in halves for one in on])]
    for features in KINDS:
        for some in [halves, together][: arguments.repeats]:
            for line in _lines(some, features):
                print(json.dumps({"features": features, **line}), flush=True)
    for line in _strongest(tasks):
        print(json.dumps(line), flush=True)


def _lines(halves: Sequence[tuple[list[Task], list[Task]]], features: str) -> Iterator[dict[str, object]]:
    found = [tried(learn, on, features) for learn, on in halves]
    for one in found:
        one["equal length"] = _sum(one[aspect] for aspect in CHANGES.keys() - {_REMOVES})
    for aspect in found[0]:
        result = _sum(one[aspect] for one in found)
        yield {
            "learned on": len(halves[0][0]),
            "aspect": aspect,
            "right": result.right,
            "tasks": result.tasks,
            "share": round(result.right / result.tasks, 3),
            "interval": [round(end, 3) for end in result.interval],
            "each": [round(one[aspect].right / one[aspect].tasks, 3) for one in found],
        }


def _sum(results: Iterable[Result]) -> Result:
    some = list(results)
    return Result(sum(one.right for one in some), sum(one.tasks for one in some))


def _strongest(tasks: Sequence[Task]) -> list[dict[str, object]]:
    """Return the features whose difference between the sides is surest, source less the other."""
    rows = []
    same = [one for one in tasks if one.aspect != _REMOVES]
    for aspect in ("equal length", *sorted({one.aspect for one in same})):
        some = [one for one in same if aspect in ("equal length", one.aspect)]
        seen = [one.read("everything") for one in some]
        for name in sorted({name for row in seen for name in row}):
            values = [
                row.get(name, 0.0) * (1 if one.first_is_high else -1)
                for row, one in zip(seen, some, strict=True)
            ]
            if np.count_nonzero(values) >= _FEW:
                effect = fmean(values) / np.std(values)
                rows.append((float(ttest_1samp(values, 0).pvalue), aspect, name, float(effect)))
    rows.sort()
    return [
        {
            "feature": name,
            "aspect": aspect,
            "effect": round(effect, 3),
            "p": min(1.0, max(one[0] * (len(rows) - before) for before, one in enumerate(rows[: place + 1]))),
            "looked at": len(rows),
        }
        for place, (_, aspect, name, effect) in enumerate(rows[:_STRONGEST])
    ]


if __name__ == "__main__":
    main()
