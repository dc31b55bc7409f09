"""Progress through large files: a bar in a terminal, a line a file in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slvmeval.commands import shared

if TYPE_CHECKING:
    from tasks.models.mirror import Progress

#: Smaller files are read in no time: a log has no line for them.
_WORTH_A_LINE = 100_000_000


@contextmanager
def file_bar(what: str) -> Iterator[Progress]:
    """Give a function that is told (bytes done, all bytes, file) before each file."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    terminal = sys.stderr.isatty()
    bars = Progress(
        TextColumn("{task.description:<10}"),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=shared.console(stderr=True),
        disable=not terminal,
        transient=True,
    )
    with bars:
        task = bars.add_task(what, total=None, note="")

        def step(done: int, total: int, path: str) -> None:
            bars.update(task, completed=done, total=total, note=path)
            if not terminal and total >= _WORTH_A_LINE:
                shared.tell(f"{what} {shared.size_text(done)} of {shared.size_text(total)}: {path}")

        yield step
