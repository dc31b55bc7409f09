"""The embedded Prefect server, run as a process: it ends when the process that started it does.

It ignores signals: these often go to a whole group or job, and a run that they end must still be able to
tell the server.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Maximum time to finish open requests, in seconds.
CLOSE_S = 3


def serve(port: int, folder: str | None = None) -> None:
    """Serve Prefect's API on the loopback interface until standard input closes; then remove a folder."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    closed, serving = threading.Event(), threading.Event()
    threading.Thread(target=_wait_for_end, args=(closed, serving, folder), daemon=True).start()
    import uvicorn

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

        async def on_tick(self, counter: int) -> bool:
            serving.set()
            return closed.is_set() or await super().on_tick(counter)

    config = uvicorn.Config(
        "prefect.server.api.server:create_app",
        factory=True,
        host="127.0.0.1",
        port=port,
        log_level="error",
        lifespan="on",
        timeout_graceful_shutdown=CLOSE_S,
    )
    Server(config).run()
    _remove(folder)


def _remove(folder: str | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_end(closed: threading.Event, serving: threading.Event, folder: str | None) -> None:
    sys.stdin.read()
    closed.set()
    if serving.is_set():
        time.sleep(CLOSE_S + 2)
    # it is still starting, or one of its services does not stop
    _remove(folder)
    os._exit(1)


if __name__ == "__main__":
    serve(int(sys.argv[1]), *sys.argv[2:])
