"""Requests per second of the chat client, and losses under faults: ``python -m bench.asking``.

For the first figure a separate server process answers each request after 50 ms, so that the client is limited
by its concurrency or its own CPU. The second also stores every answer on disk. For the third, the server
responds to about every fifth request with one of the faults of the tests.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from storage_schemas.model import ModelServer
from storage_schemas.parquet import read_dicts
from storage_schemas.rng import keyed_rng
from storage_schemas.source import Clip, Source
from storage_schemas.store import ANALYSIS, Store
from tasks.captions.analyser import AnalyserRecipe
from tasks.captions.stage import ANSWERS_FILE, source_analyses
from tasks.llm.chat import ask_all
from tasks.llm.exchange import ChatRequest
from tasks.llm.servers import Servers
from tests.tiny_models.faulty_server import RED_BALL, FaultyServer, Reply

ROOT = Path(__file__).parents[1]
DELAY_S, CONCURRENCY = 0.05, 32
REQUESTS, CAPTIONS = 4000, 1000
RECIPE = AnalyserRecipe(name="llm", parameters={"model": "tiny"})
FAULTS = (
    Reply(status=500),
    Reply(status=429, headers={"Retry-After": "0.2"}),
    Reply(cut="before"),
    Reply(cut="body"),
    Reply(body=b"<html>gateway</html>"),
    Reply("The ball is red."),
    Reply(json.dumps({**RED_BALL, "human_action": [{"agent": "dog", "action": "runs"}]})),
    Reply("<think>The ball is"),
    Reply(finish_reason="length"),
)


async def serve(text: str) -> None:
    """Answer every request after `DELAY_S` with the same text, using as little CPU as possible."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = json.dumps({"id": "1", "model": "tiny", "choices": [choice], "usage": usage}).encode()
    head = (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    )

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                headers = await reader.readuntil(b"\r\n\r\n")
                length = headers.lower().split(b"content-length:")[1].split(b"\r\n")[0]
                await reader.readexactly(int(length))
                await asyncio.sleep(DELAY_S)
                writer.write(head + body)
        except asyncio.IncompleteReadError:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    # end with the parent
    await asyncio.to_thread(sys.stdin.read)


@contextmanager
def slow_server(text: str) -> Iterator[str]:
    """Yield the address of a separate server process that answers with a text after `DELAY_S`."""
    command = [sys.executable, "-m", "bench.asking", "serve", text]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


def requests_a_second(keep_answers: bool) -> dict[str, float]:
    """Return the client's rate, with or without storing each caption's answer."""
    with slow_server(json.dumps(RED_BALL)) as url, TemporaryDirectory() as folder:
        entry = ModelServer(url=url, concurrency=CONCURRENCY)
        servers = Servers({"caption-analysis": entry})
        server = servers.find("caption-analysis", "tiny")
        messages = ({"role": "user", "content": "A red ball rolls across the meadow. " * 25},)
        ask_all(
            server, [ChatRequest(messages=messages)] * CONCURRENCY, lambda *_: None
        )  # imports and connects
        store = Store.create(Path(folder) / "store")
        wall, cpu = time.monotonic(), time.process_time()
        if keep_answers:
            source_analyses(store, _source(REQUESTS), RECIPE, servers)
        else:
            ask_all(server, [ChatRequest(messages=messages)] * REQUESTS, lambda *_: None)
        wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    return {
        "requests_a_second": round(REQUESTS / wall, 1),
        "bound_by_concurrency": CONCURRENCY / DELAY_S,
        "client_cpu_ms_a_request": round(cpu / REQUESTS * 1000, 2),
        "client_cpu_share": round(cpu / wall, 2),
    }


def under_faults() -> dict[str, Any]:
    """Return the number of lost captions and of repeated requests."""
    met: Counter[int] = Counter()

    def plan(number: int, _: dict[str, Any]) -> Reply:
        draw = int(keyed_rng("fault", number).integers(5 * len(FAULTS)))
        if draw < len(FAULTS):
            met[draw] += 1
            return FAULTS[draw]
        return Reply()

    source = _source(CAPTIONS)
    with FaultyServer(plan) as server, TemporaryDirectory() as folder:
        store = Store.create(Path(folder) / "store")
        entry = ModelServer(url=server.url, concurrency=CONCURRENCY)
        analyses = source_analyses(store, source, RECIPE, Servers({"caption-analysis": entry}))
        (manifest,) = store.manifests(ANALYSIS)
        answers = read_dicts(store.artifact_path(ANALYSIS, manifest.id) / ANSWERS_FILE)
        requests = len(server.seen)
    return {
        "captions": CAPTIONS,
        "lost": CAPTIONS - len(analyses),
        "requests": requests,
        "faults_met": sum(met.values()),
        "share_asked_again": round(sum(row["tries"] > 1 for row in answers) / CAPTIONS, 3),
        "share_that_met_a_fault": round(sum(row["calls"] > 1 for row in answers) / CAPTIONS, 3),
    }


def _source(count: int) -> Source:
    text = "A red ball rolls across the meadow, number {}. " + "A man in a blue coat walks behind it. " * 20
    clips = tuple(Clip(index=n, start_s=n, end_s=n + 1, caption=text.format(n).strip()) for n in range(count))
    return Source(id="s", adapter="folder", title="film", video="f.mp4", content_sha256="0", clips=clips)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(sys.argv[2]))
    else:
        figures = {
            "client": requests_a_second(keep_answers=False),
            "captions_kept": requests_a_second(keep_answers=True),
            "under_faults": under_faults(),
        }
        print(json.dumps(figures, indent=1))
