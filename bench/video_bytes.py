"""Whether the bytes of a task's two videos reveal which is the source: ``python -m bench.video_bytes``.

A program reads everything that a browser receives before the answer, without decoding pictures; it knows the
aspect, and is trained on as many tasks as it is tested on. Small films are changed as by each of the ten
aspects. A line of JSON for each kind of features and each aspect gives the share of right answers and its 95
% interval; ``--plain`` reads the sides before they are made alike.
"""

from __future__ import annotations

import argparse
import json

from tests.tasks.annotation.adversary import KINDS, Task, task, tried
from tests.tasks.annotation.shown_films import CHANGES


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=300, help="number of training tasks, and of test tasks")
    parser.add_argument("--plain", action="store_true", help="read the sides before they are made alike")
    arguments = parser.parse_args()
    numbers = range(-(-2 * arguments.tasks // len(CHANGES)))
    tasks: list[Task] = [
        task(aspect, number, hidden=not arguments.plain) for number in numbers for aspect in CHANGES
    ][: 2 * arguments.tasks]
    for features in KINDS:
        for aspect, result in tried(tasks[: arguments.tasks], tasks[arguments.tasks :], features).items():
            low, high = result.interval
            line = {"features": features, "aspect": aspect, "right": result.right, "tasks": result.tasks}
            print(json.dumps({**line, "interval": [round(low, 3), round(high, 3)]}), flush=True)


if __name__ == "__main__":
    main()
