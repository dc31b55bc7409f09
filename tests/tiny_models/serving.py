"""What the servers of this process share: they listen on the loopback interface and answer with JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self


class Handler(BaseHTTPRequestHandler):
    """Answers requests for its :class:`Serving`, `owner`."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    owner: Any

    def content(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def send(
        self, status: int, value: Any, headers: Mapping[str, str] | None = None, cut_at: int | None = None
    ) -> None:
        """Answer with bytes, a text or what becomes JSON; without what comes after `cut_at`."""
        text = value if isinstance(value, bytes | str) else json.dumps(value)
        content = text.encode() if isinstance(text, str) else text
        about = {"Content-Type": "application/json", "Content-Length": str(len(content)), **(headers or {})}
        try:
            self.send_response(status)
            for name, of_it in about.items():
                self.send_header(name, of_it)
            self.end_headers()
            self.wfile.write(content[:cut_at])
            self.wfile.flush()
        except OSError:  # the client went away
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def completion(
    model: str, message: dict[str, Any], finish: str, tokens: tuple[int, int], **usage: Any
) -> dict[str, Any]:
    """The body of a chat completion, as OpenAI has it."""
    said = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    about = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model}
    return {**about, "choices": [choice], "usage": said | usage}


class Serving:
    """A server that answers until its `with` block ends, by its handler."""

    handler: ClassVar[type[Handler]]
    port = 0

    @cached_property
    def server(self) -> ThreadingHTTPServer:
        return _Server(("127.0.0.1", self.port), type("Bound", (self.handler,), {"owner": self}))

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    @property
    def url(self) -> str:
        return f"{self.base}/v1"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    # a client that gives up leaves its thread behind; the server's end waits for none of them
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that went away."""
