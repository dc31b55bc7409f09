"""A server that says which model it has, started as vLLM is: ``PROGRAM serve … --host H --port P``.

``--slow S`` answers only after S seconds, ``--fail`` ends at once. ``--crash FILE`` starts a worker,
writes its id into the file, and after the first answer crashes without ending it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    began = time.monotonic()
    slow = 0.0
    crash = False

    def do_GET(self) -> None:
        if self.headers.get("Authorization") != f"Bearer {os.environ['VLLM_API_KEY']}":
            return self.answer(401, {})
        if time.monotonic() - self.began < self.slow:
            return self.answer(503, {})
        return self.answer(200, {"object": "list", "data": [{"id": "small", "object": "model"}]})

    def answer(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if self.crash:
            threading.Timer(0.5, os._exit, [9]).start()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slow", type=float, default=0.0)
    parser.add_argument("--fail", action="store_true")
    parser.add_argument("--crash", type=Path)
    asked, _ = parser.parse_known_args()
    if asked.fail:
        sys.exit(7)
    Handler.slow = asked.slow
    if asked.crash:
        Handler.crash = True
        worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        asked.crash.write_text(str(worker.pid))
    ThreadingHTTPServer((asked.host, asked.port), Handler).serve_forever()
