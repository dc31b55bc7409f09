"""Progress of a build: to a terminal, to the log, and to a file that `slvmeval status` reads."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from storage_schemas.commit import write_atomic
from storage_schemas.provenance import utc_now

log = logging.getLogger(__name__)

_WRITE_EVERY_S = 1.0


class BuildProgress:
    """Counts what is done in each stage and says so, in a terminal as bars and elsewhere as log lines.

    Parameters
    ----------
    state
        File that `slvmeval status` reads, or None.
    quiet
        Draw no bars.
    """

    def __init__(self, state: Path | None = None, quiet: bool = False) -> None:
        self._state_path = state
        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description:<10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            # a title may hold anything, also what looks like markup
            TextColumn("{task.fields[note]}", markup=False),
            console=self._console,
            disable=quiet or not sys.stderr.isatty(),
        )
        self._tasks: dict[str, TaskID] = {}
        self._done: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        self._set_aside: Counter[str] = Counter()
        self._written = 0.0
        self._started = utc_now()

    def __enter__(self) -> BuildProgress:
        """Start drawing."""
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing and note how it ended."""
        self._bars.stop()
        self._write("failed" if kind else "ended", force=True)

    def expect(self, stage: str, total: int) -> None:
        """Say how many items a stage has, on top of those it had."""
        self._total[stage] += total
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=self._total[stage], note="")
        self._bars.update(self._tasks[stage], total=self._total[stage])
        self._write("running", force=True)

    def done(self, stage: str, label: str, set_aside: int = 0) -> None:
        """Count one item of a stage as done."""
        self._done[stage] += 1
        self._set_aside[stage] += set_aside
        note = label if not set_aside else f"{label} ({set_aside} set aside)"
        if stage in self._tasks:
            self._bars.update(self._tasks[stage], advance=1, note=note)
        log.info("%s %d/%d: %s", stage, self._done[stage], self._total[stage], note)
        self._write("running")

    def say(self, message: str) -> None:
        """Tell a person something, above the bars."""
        log.info("%s", message)
        if not self._bars.disable:
            self._bars.console.print(message, markup=False, emoji=False, highlight=False)

    def state(self, status: str) -> dict[str, Any]:
        """Return what the state file holds."""
        return {
            "status": status,
            "pid": os.getpid(),
            "started_at": self._started,
            "updated_at": utc_now(),
            "stages": {
                stage: {
                    "done": self._done[stage],
                    "total": self._total[stage],
                    "set_aside": self._set_aside[stage],
                }
                for stage in self._total
            },
        }

    def _write(self, status: str, force: bool = False) -> None:
        if self._state_path is None or not (force or time.monotonic() - self._written > _WRITE_EVERY_S):
            return
        self._written = time.monotonic()
        write_atomic(self._state_path, json.dumps(self.state(status), indent=1).encode())
