"""Whether the bytes of a task's two videos reveal which is the source: ``python -m bench.video_bytes``.

A program reads all that a browser gets before the answer, without decoding pictures, learns on as many tasks
as it is then tried on, and knows the aspect. Small films are changed in the way of each of the ten aspects. A
line of JSON for each kind of features and each aspect has the share that was right and its 95 % interval;
``--plain`` reads the sides before they are made alike.
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
    parser.add_argument("--tasks", type=int, default=300, help="to learn on, and as many to try")
    parser.add_argument("--plain", action="store_true", help="the sides before they are made alike")
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
