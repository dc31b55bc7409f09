"""A stand-in for a model server: its answers are valid but meaningless.

``python -m infra.stand_in_server --host HOST --port PORT`` starts it, with the key in ``VLLM_API_KEY``, as
for vLLM. It lets a site try its services, addresses and keys before it has a GPU, and packages test their
evaluators. It speaks the chats of OpenAI, Anthropic and Gemini. An answer is the smallest that the request's
JSON schema allows; without a schema, a sentence saying that this is a stand-in. Never use it for results.
Tokens are counted by simple rules, and those of a shared beginning as the provider would count them. It
rejects videos that are not JPEG frames with their rate, the format in which judges send them to vLLM.
"""

from __future__ import annotations

import argparse
import base64
import hmac
import json
import math
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from infra.prefix_cache import Piece, PrefixCache, image_piece, text_pieces
from storage_schemas.errors import UserInputError

#: The name of its model, which appears in all records of its answers.
MODEL = "stand-in"
#: Its answer to a question without a schema.
SENTENCE = "This is a stand-in: no model has read the question."
_KEY_VARIABLE = "VLLM_API_KEY"


def smallest(schema: Mapping[str, Any], whole: Mapping[str, Any] | None = None) -> Any:
    """Return the smallest value that a JSON schema allows, for the keywords used by our schemas.

    Raises
    ------
    UserInputError
        If the schema has none of these keywords.
    """
    whole = whole or schema
    if reference := schema.get("$ref"):
        target: Any = whole
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
        return smallest(target, whole)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return smallest(schema[several][0], whole)
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) else kind:
        case "object":
            fields = schema.get("properties", {})
            return {name: smallest(fields[name], whole) for name in schema.get("required", fields)}
        case "array":
            return [smallest(schema["items"], whole)] * schema.get("minItems", 0)
        case "string":
            return SENTENCE[: schema.get("maxLength", len(SENTENCE))]
        case "integer" | "number":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case "null":
            return None
    raise UserInputError(f"the stand-in has no value for the schema {json.dumps(schema)[:200]}")


def check_videos(request: Mapping[str, Any]) -> None:
    """Check the videos of a chat request: JPEG frames, all of them to be read, with a rate.

    Raises
    ------
    UserInputError
        If a video has another format.
    """
    contents = (message.get("content") for message in request.get("messages", ()))
    parts = [part for content in contents if isinstance(content, list) for part in content]
    addresses = [part["video_url"]["url"] for part in parts if part.get("type") == "video_url"]
    read = request.get("media_io_kwargs", {}).get("video", {})
    if addresses and (read.get("num_frames") != -1 or not read.get("fps", 0) > 0):
        raise UserInputError("a video needs media_io_kwargs with its fps, and num_frames -1")
    for address in addresses:
        head, _, data = address.partition(",")
        starts = (base64.b64decode(frame)[:2] for frame in data.split(","))
        if head != "data:video/jpeg;base64" or any(start != b"\xff\xd8" for start in starts):
            raise UserInputError("a video is not data:video/jpeg;base64, with JPEG frames")


def answer(request: Mapping[str, Any], cache: PrefixCache) -> dict[str, Any]:
    """Return the response body to a chat request in OpenAI's format.

    Raises
    ------
    UserInputError
        If the stand-in does not support its schema or the format of a video.
    """
    check_videos(request)
    asked = request.get("response_format", {}).get("json_schema", {}).get("schema")
    asked = asked or request.get("structured_outputs", {}).get("json")
    text = _text(asked)
    message = {"role": "assistant", "content": text}
    chances = {"logprobs": _logprobs(text, asked or {})} if request.get("logprobs") else {}
    contents = (message.get("content") for message in request.get("messages", ()))
    tokens, cached = cache.read(piece for content in contents for piece in _pieces(content))
    out = len(list(text_pieces(text)))
    usage: dict[str, Any] = {"prompt_tokens": tokens, "completion_tokens": out, "total_tokens": tokens + out}
    return {
        "id": MODEL,
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", **chances}],
        "usage": {**usage, "prompt_tokens_details": {"cached_tokens": cached}},
    }


def anthropic_answer(request: Mapping[str, Any], cache: PrefixCache) -> dict[str, Any]:
    """Return the response body to a message in Anthropic's format; errors as in :func:`answer`."""
    text = _text(request.get("output_config", {}).get("format", {}).get("schema"))
    blocks = [*request.get("system", ()), *(b for m in request["messages"] for b in m["content"])]
    pieces: list[Piece] = []
    marks = []
    for block in blocks:
        pieces += _pieces([block])
        if "cache_control" in block:
            marks.append(len(pieces))
    tokens, cached, written = cache.read_marked(pieces, marks)
    return {
        "id": MODEL,
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": tokens - cached - written,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": written,
            "output_tokens": len(list(text_pieces(text))),
        },
    }


def gemini_answer(request: Mapping[str, Any], cache: PrefixCache) -> dict[str, Any]:
    """Return the response body to contents in Gemini's format; errors as in :func:`answer`."""
    text = _text(request.get("generationConfig", {}).get("responseJsonSchema"))
    contents = [request.get("systemInstruction", {}), *request.get("contents", ())]
    tokens, cached = cache.read(piece for one in contents for piece in _pieces(one.get("parts", ())))
    out = len(list(text_pieces(text)))
    counts = {"promptTokenCount": tokens, "candidatesTokenCount": out, "totalTokenCount": tokens + out}
    content = {"role": "model", "parts": [{"text": text}]}
    return {
        "candidates": [{"index": 0, "finishReason": "STOP", "content": content}],
        "usageMetadata": {**counts, "cachedContentTokenCount": cached},
        "modelVersion": MODEL,
    }


def _text(schema: Mapping[str, Any] | None) -> str:
    return SENTENCE if schema is None else json.dumps(smallest(schema))


def _pieces(content: str | Iterable[Mapping[str, Any]] | None) -> Iterator[Piece]:
    """Yield the pieces of a message in any provider's format."""
    if isinstance(content, str):
        yield from text_pieces(content)
        return
    for part in content or ():
        data = part.get("image_url", {}).get("url") or part.get("source", {}).get("data")
        data = data or part.get("inlineData", {}).get("data")
        if "text" in part:
            yield from text_pieces(part["text"])
        elif data is not None:
            yield image_piece(data.rpartition(",")[2])
        elif "video_url" in part:
            for frame in part["video_url"]["url"].partition(",")[2].split(","):
                yield image_piece(frame)


def _logprobs(text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return each word as a token; the values of an `enum` are equally probable, all other words certain."""
    enums = [field["enum"] for field in schema.get("properties", {}).values() if "enum" in field]
    content = []
    for token in re.findall(r"\w+|\W", text):
        same = next((words for words in enums if token in words), [token])
        chances = [{"token": word, "logprob": -math.log(len(same))} for word in same]
        content.append({"token": token, "logprob": -math.log(len(same)), "top_logprobs": chances})
    return {"content": content}


#: Maximum size of a request: a few hundred frames; and how much is read of a request without the key.
_MAX_BYTES, _MAX_STRANGE_BYTES = 256 << 20, 1 << 20


#: The function that answers a request, by the end of its path; for Gemini it is :func:`gemini_answer`.
_ANSWERS: Mapping[str, Callable[[Mapping[str, Any], PrefixCache], dict[str, Any]]] = {
    "/v1/chat/completions": answer,
    "/v1/messages": anthropic_answer,
}


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        model = {"id": MODEL, "object": "model", "type": "model", "name": f"models/{MODEL}"}
        if path == "/health":
            self._send(200, {"status": "ok"})
        elif not self._may():
            self._refuse(401, "wrong key")
        elif path in ("/v1/models", "/v1beta/models"):
            self._send(200, {"object": "list", "data": [model], "models": [model], "has_more": False})
        else:
            self._refuse(404, f"there is no {self.path}")

    def do_POST(self) -> None:
        may, length = self._may(), self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > _MAX_BYTES:
            self._refuse(413, f"a request may have at most {_MAX_BYTES} bytes")
            return
        # read it whatever the answer is, or the connection breaks; but only part of a stranger's
        body = self.rfile.read(int(length) if may else min(int(length), _MAX_STRANGE_BYTES))
        asked = gemini_answer if self.path.endswith(":generateContent") else _ANSWERS.get(self.path)
        if not may:
            self._refuse(401, "wrong key")
        elif asked is None:
            self._refuse(404, f"there is no {self.path}")
        else:
            try:
                self._send(200, asked(json.loads(body), self.server.cache))
            except (ValueError, OSError, UserInputError) as problem:
                self._refuse(400, str(problem))

    def _may(self) -> bool:
        if self.server.key is None:
            return True
        bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
        given = bearer or self.headers.get("x-goog-api-key", "")
        return hmac.compare_digest(given.encode(), self.server.key.encode())

    def _refuse(self, status: int, why: str) -> None:
        self._send(status, {"error": {"message": f"stand-in: {why}"}})

    def _send(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: questions contain captions."""


class StandIn(ThreadingHTTPServer):
    """The server.

    Parameters
    ----------
    key
        The key that clients must send; None for no key.
    """

    daemon_threads = True

    def __init__(self, key: str | None = None, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__((host, port), _Handler)
        self.key, self.cache = key, PrefixCache()

    @property
    def url(self) -> str:
        """Its address; that of OpenAI's interface ends with ``/v1``."""
        return f"http://{self.server_address[0]!s}:{self.server_port}"


@contextmanager
def standing_in() -> Iterator[StandIn]:
    """Serve without a key on the loopback interface, in a thread that ends with the block."""
    with StandIn() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="stand-in", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line and serve until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m infra.stand_in_server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args(arguments)
    if not os.environ.get(_KEY_VARIABLE):
        print(f"error: set {_KEY_VARIABLE}, the key that clients send", file=sys.stderr)
        return 1
    with StandIn(os.environ[_KEY_VARIABLE], options.host, options.port) as server:
        print(f"{SENTENCE} http://{options.host}:{server.server_port}/v1", flush=True)
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
