"""Progress of a build: in the terminal, in the log, and in a file that `slvmeval status` reads."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from storage_schemas.commit import process_alive, write_atomic
from storage_schemas.errors import SetAside
from storage_schemas.printable import printable
from storage_schemas.provenance import utc_now

log = logging.getLogger(__name__)

_WRITE_EVERY_S = 1.0
#: Minimum seconds between log lines of a stage; its last item, and items set aside, are always logged.
LOG_EVERY_S = 10.0
#: Number of finished runs of each flow whose files are kept.
KEPT_RUNS = 5


class SilenceBreaker:
    """Prints what is in progress after ten seconds without a line; for logs, which have no progress bars.

    Parameters
    ----------
    say
        Prints a line.
    what
        What is in progress at first.
    """

    def __init__(self, say: Callable[[str], object], what: str) -> None:
        self._say, self._what, self._others = say, what, 0
        self._began = self._heard = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="silence", daemon=True)

    def __enter__(self) -> SilenceBreaker:
        """Start watching."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        self._ended.set()
        # the log's reader may have gone away
        self._thread.join(1.0)

    def working_on(self, what: str, others: int = 0) -> None:
        """Record what has been in progress longest, and the number of others."""
        if what != self._what:
            self._what, self._began = what, time.monotonic()
        self._others = others

    def heard(self) -> None:
        """Record that a line was printed."""
        self._heard = time.monotonic()

    def _watch(self) -> None:
        while not self._ended.wait(max(self._heard + LOG_EVERY_S - time.monotonic(), 0.01)):
            now = time.monotonic()
            if now - self._heard >= LOG_EVERY_S:
                self._heard = now
                word = "other" if self._others == 1 else "others"
                others = f" (and {self._others} {word})" if self._others else ""
                self._say(f"still at {self._what}{others}: {now - self._began:.0f} s")


class BuildProgress:
    """Counts completed items per stage and shows them as bars in a terminal or as log lines elsewhere.

    Parameters
    ----------
    cache
        Cache folder of the store for the file ``run-HOST-PID.json``, written from the start; None for no
        file. Several instances in one process share the file. If it cannot be written, the build continues.
    quiet
        Do not draw bars.
    what
        What runs: ``build``, or the name of another flow.
    """

    def __init__(self, cache: Path | None = None, quiet: bool = False, what: str = "build") -> None:
        self._what = what
        self._run_file = None if cache is None else cache / f"run-{_host()}-{os.getpid()}.json"
        self._console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description:<10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            # a title may contain text that looks like markup
            TextColumn("{task.fields[note]}", markup=False),
            console=self._console,
            disable=quiet or not sys.stderr.isatty(),
        )
        self._silence = SilenceBreaker(log.info, what)
        self._speaks = not quiet and self._bars.disable
        self._tasks: dict[str, TaskID] = {}
        self._done: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        self._set_aside: Counter[str] = Counter()
        self._logged: dict[str, float] = {}
        self._elsewhere: dict[str, Any] = {}
        self._pools: dict[str, dict[str, Any]] = {}
        #: Why nodes were left out, by pool and node.
        self.unfit: dict[str, dict[str, str]] = {}
        self._listeners: list[Callable[[str, int, int], None]] = []
        self._flow_run: str | None = None
        self._summary: list[dict[str, Any]] = []
        self._written = 0.0
        self._unwritten = False
        self._started = utc_now()

    def __enter__(self) -> BuildProgress:
        """Record that a build is running, and start drawing."""
        if self._run_file is not None:
            with suppress(OSError):
                _remove_old_runs(self._run_file.parent)
        self._write("running", force=True)
        self._bars.start()
        if self._speaks:
            self._silence.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing and record how the build ended."""
        if self._speaks:
            self._silence.__exit__()
        self._bars.stop()
        if self._run_file is not None and not self._total:
            # nothing was counted here: keep the counts of another instance in this process
            stored = read_run(self._run_file) or {}
            self._elsewhere = stored.get("stages", {})
            self._summary = self._summary or stored.get("summary", [])
            self.unfit = self.unfit or stored.get("unfit", {})
        self._write("failed" if kind else "ended", force=True)

    def listen(self, listener: Callable[[str, int, int], None]) -> None:
        """Call a listener with stage, items done and total items, now and at every change."""
        self._listeners.append(listener)
        for stage in self._total:
            listener(stage, self._done[stage], self._total[stage])

    def _tell(self, stage: str) -> None:
        for listener in self._listeners:
            listener(stage, self._done[stage], self._total[stage])

    def _log(self, message: str, *values: object) -> None:
        self._silence.heard()
        log.info(message, *values)

    def working_on(self, what: str = "", others: int = 0) -> None:
        """Record what has been in progress longest, and the number of others; by default the run."""
        self._silence.working_on(printable(what or self._what), others)

    def expect(self, stage: str, total: int) -> None:
        """Add to the number of items of a stage."""
        self._total[stage] += total
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=self._total[stage], note="")
        self._bars.update(self._tasks[stage], total=self._total[stage])
        self._tell(stage)
        self._write("running", force=True)

    def done(self, stage: str, label: str, set_aside: int = 0) -> None:
        """Count one item of a stage as done."""
        self._done[stage] += 1
        self._set_aside[stage] += set_aside
        note = printable(label) + (f" ({set_aside} set aside)" if set_aside else "")
        if stage in self._tasks:
            self._bars.update(self._tasks[stage], advance=1, note=note)
        now = time.monotonic()
        if (
            set_aside
            or self._done[stage] == self._total[stage]
            or now - self._logged.get(stage, -LOG_EVERY_S) >= LOG_EVERY_S
        ):
            self._logged[stage] = now
            self._log("%s %d/%d: %s", stage, self._done[stage], self._total[stage], note)
        self._tell(stage)
        self._write("running")

    @property
    def process_tag(self) -> str:
        """Tag of this process's Prefect run until :meth:`note_flow_run`."""
        return process_tag(_host(), os.getpid())

    def note_flow_run(self, id_: str) -> None:
        """Record the id of the Prefect run, so that it can be ended if this process is killed."""
        self._flow_run = id_
        self._write("running", force=True)

    def note_pools(self, pools: Mapping[str, Mapping[str, Any]]) -> None:
        """Record the state of the worker pools (possibly none), see ``Executor.state``.

        May be called often: the file is written once per second, a log line only when jobs change.
        """
        for name, pool in pools.items():
            before = self._pools.get(name, {})
            if any(before.get(key) != pool[key] for key in ("jobs", "pending", "reason")):
                why = f" ({pool['reason']})" if pool["reason"] else ""
                self._log("pool %s: %d jobs running, %d waiting%s", name, pool["jobs"], pool["pending"], why)
        self._pools = {name: dict(pool) for name, pool in pools.items()}
        self.unfit |= {name: dict(pool["unfit"]) for name, pool in pools.items() if pool.get("unfit")}
        if pools:
            self._write("running")

    def unfit_in_words(self) -> str:
        """Return a sentence on the nodes that were left out, after a space; empty if there are none."""
        nodes = [f"{node} (pool {pool})" for pool, of_pool in self.unfit.items() for node in of_pool]
        if not nodes:
            return ""
        count = "1 node was" if len(nodes) == 1 else f"{len(nodes)} nodes were"
        return f" {count} unfit and left out: {', '.join(nodes)}; `slvmeval status` says why."

    def note_summary(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Record the result of each aspect: aspect, planned, built, set_aside, and counts by reason."""
        self._summary = [dict(row) for row in rows]
        self._write("running", force=True)

    def say(self, message: str) -> None:
        """Print a message above the bars."""
        self._log("%s", message)
        if not self._bars.disable:
            self._bars.console.print(message, markup=False, emoji=False, highlight=False)

    def state(self, status: str) -> dict[str, Any]:
        """Return the content of this process's file."""
        return {
            "what": self._what,
            "status": status,
            "host": _host(),
            "pid": os.getpid(),
            "started_at": self._started,
            "updated_at": utc_now(),
            "stages": self._elsewhere
            | {
                stage: {
                    "done": self._done[stage],
                    "total": self._total[stage],
                    "set_aside": self._set_aside[stage],
                }
                for stage in self._total
            },
            # jobs end with their build
            "flow_run": self._flow_run,
            "pools": self._pools if status == "running" else {},
            "unfit": self.unfit,
            "summary": self._summary,
        }

    def _write(self, status: str, force: bool = False) -> None:
        if self._run_file is None or not (force or time.monotonic() - self._written > _WRITE_EVERY_S):
            return
        self._written = time.monotonic()
        try:
            write_atomic(self._run_file, json.dumps(self.state(status), indent=1).encode())
            self._unwritten = False
        except (OSError, SetAside) as problem:
            if not self._unwritten:
                log.warning("progress cannot be written to %s, trying again: %s", self._run_file, problem)
            self._unwritten = True


def read_runs(cache: Path) -> list[dict[str, Any]]:
    """Return the state of the runs of a store, newest first, each with the path of its `file`.

    `what` is ``build`` or another flow. A run recorded as running whose process on this machine has ended
    has the status ``died``. Processes of other machines cannot be checked. `over` is
    whether the process is known to have ended.
    """
    runs = [run for path in cache.glob("run-*.json") if (run := read_run(path)) is not None]
    return sorted(runs, key=lambda run: (run["started_at"], run["updated_at"]), reverse=True)


def read_run(path: Path) -> dict[str, Any] | None:
    """Read one file, see :func:`read_runs`; None if it is missing, unreadable or damaged."""
    try:
        run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        over = run["host"] == _host() and not process_alive(int(run["pid"]))
        if run["status"] == "running" and over:
            run["status"] = "died"
        fields = {key: run[key] for key in ("status", "host", "pid", "started_at", "updated_at", "stages")}
        # an older version wrote fewer keys
        return fields | {
            "what": run.get("what", "build"),
            "flow_run": run.get("flow_run"),
            "pools": run.get("pools", {}),
            "unfit": run.get("unfit", {}),
            "summary": run.get("summary", []),
            "file": str(path),
            "over": over,
        }
    except (OSError, ValueError, KeyError, TypeError):
        return None


def process_tag(host: str, pid: int) -> str:
    """Return the tag of a process's Prefect run, used until the run has recorded its id in the file."""
    return f"process:{host}:{pid}"


def _remove_old_runs(cache: Path) -> None:
    kept = Counter[str]()
    for run in read_runs(cache):
        if run["status"] != "running":
            kept[run["what"]] += 1
            if kept[run["what"]] > KEPT_RUNS:
                Path(run["file"]).unlink(missing_ok=True)


def _host() -> str:
    return socket.gethostname()
