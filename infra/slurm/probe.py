"""A probe of a node: the program that runs a worker's checks there, and the server it reports to here."""

from __future__ import annotations

import json
import logging
import secrets
import socket
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.slurm import worker_checks
from infra.slurm.node_calls import MARK

log = logging.getLogger(__name__)

#: Maximum run time of the program, seconds: first imports from a shared file system can take a minute.
RUN_S = 180.0
_CALL_S = 10.0


def report_program(request: Mapping[str, Any]) -> str:
    """Return a program for a Python without our packages: :func:`infra.slurm.worker_checks.report`."""
    source = Path(worker_checks.__file__).read_text(encoding="utf-8")
    return f"{source}\n\nprint({MARK!r} + json.dumps(report({dict(request)!r})), flush=True)\n"


@contextmanager
def listening(address: str) -> Iterator[tuple[int, str]]:
    """Answer nodes that call this address while the block runs; yield the port and the secret."""
    secret = secrets.token_hex(16)

    class CallBack(socketserver.StreamRequestHandler):
        """Connects to the address that a node sends, and reports the result to the node."""

        timeout = _CALL_S

        def handle(self) -> None:
            word = json.loads(self.rfile.readline())
            if word["secret"] != secret:
                return
            try:
                socket.create_connection(tuple(word["address"]), _CALL_S).close()
            except OSError as problem:
                self.wfile.write(f"{problem}\n".encode())
            else:
                self.wfile.write(b"reached\n")

    with _Server((address, 0), CallBack) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.2,), name="probe", daemon=True)
        thread.start()
        try:
            yield server.server_address[1], secret
        finally:
            server.shutdown()
            thread.join()


class _Server(socketserver.ThreadingTCPServer):
    # a node behind a firewall must delay neither the others nor the end
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        # a foreign client, or one that disconnected
        log.info("a client of the probe, %s", client_address, exc_info=True)
