"""A process in which some workers vote endlessly; it prints each acknowledged vote on a line."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from tests.tasks.annotation.example_desk import HandClock, come_in, do_task, open_desk


def vote_on(url: str, first: int) -> None:
    """Workers `first` to `first` + 3 vote until the process is killed."""
    clock = HandClock()
    desk = open_desk(Path(), clock, url)
    lock = threading.Lock()

    def work(name: str) -> None:
        worker = come_in(desk, name)
        while True:
            vote = do_task(desk, clock, worker)
            with lock:
                sys.stdout.write(vote.vote_id + "\n")
                sys.stdout.flush()

    threads = [threading.Thread(target=work, args=(f"worker-{first + n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    vote_on(sys.argv[1], int(sys.argv[2]))
