"""The same requests sent by our client and by evaluation harnesses: ``python -m bench.beside_harnesses``.

``--inspect PYTHON`` names an interpreter with inspect_ai and openai, ``--lmms PYTHON`` one with lmms-eval,
in separate environments: ``uv venv E``, then ``uv pip install --python E/bin/python inspect-ai openai``.
Each request has a prompt and two JPEG images of 512×288, like those of a judge that sees one image of each
video; the server answers after 50 ms, with 32 requests in flight. Each side is a separate process, whose
start is included. Our client and inspect_ai store every answer on disk in their own way, lmms-eval keeps
them in memory and encodes decoded pictures itself, unlike the others. The sides take turns.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import cv2
import numpy as np

from bench.asking import CONCURRENCY, DELAY_S, ROOT, slow_server
from storage_schemas.model import ModelServer
from tasks.llm.chat import ask_all
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.servers import Servers

REQUESTS, TURNS = 2000, 3
PROMPT = "A man in a blue coat walks behind a red ball that rolls across the meadow. " * 200


def write_requests(path: Path, count: int) -> None:
    """Write the parts of each request as one line of JSON."""
    rng = np.random.default_rng(0)
    images = []
    for _ in range(16):
        small = rng.integers(16, 236, (36, 64, 3), dtype=np.uint8)
        _, coded = cv2.imencode(".jpg", cv2.resize(small, (512, 288)), [cv2.IMWRITE_JPEG_QUALITY, 90])
        images.append(f"data:image/jpeg;base64,{base64.b64encode(coded.tobytes()).decode()}")
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            urls = (images[number % 16], images[(number + 1) % 16])
            parts = [{"type": "text", "text": f"{number}: {PROMPT}"}]
            parts += [{"type": "image_url", "image_url": {"url": url}} for url in urls]  # type: ignore[dict-item]
            file.write(json.dumps(parts) + "\n")


def ours(file: Path, url: str, connections: int) -> None:
    """Send each line to the server, and store each answer as a flushed line."""
    servers = Servers({"qwen3-vl": ModelServer(url=url, concurrency=connections)})
    requests = [
        ChatRequest(messages=({"role": "user", "content": json.loads(line)},))
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    with TemporaryDirectory() as folder, Path(folder, "answers.jsonl").open("a", encoding="utf-8") as kept:

        def keep(number: int, answer: ChatAnswer) -> None:
            kept.write(json.dumps({"number": number, "text": answer.text}) + "\n")
            kept.flush()
            os.fsync(kept.fileno())

        ask_all(servers.find("qwen3-vl", "tiny"), requests, keep)


def measured(command: Sequence[str]) -> tuple[float, float]:
    """Run a process; return its wall and CPU seconds."""
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - wall
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(harnesses: Mapping[str, str]) -> dict[str, object]:
    """Return each side's figures, its best turn, and the ratio of ours to theirs.

    Parameters
    ----------
    harnesses
        Interpreters by harness: ``inspect``, ``lmms``.
    """
    with TemporaryDirectory() as folder, slow_server('{"better": "first"}') as url:
        file = Path(folder) / "requests.jsonl"
        write_requests(file, REQUESTS)
        given = [str(file), url, str(CONCURRENCY)]
        sides = {"ours": [sys.executable, "-m", "bench.beside_harnesses", "--ours", *given]} | {
            name: [python, str(ROOT / "bench" / f"{name}_side.py"), *given]
            for name, python in harnesses.items()
        }
        turns: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
        for _ in range(TURNS):
            for name, command in sides.items():
                turns[name].append(measured(command))
    best = {name: [min(one[index] for one in some) for index in (0, 1)] for name, some in turns.items()}
    ours_s = best["ours"]
    return {"requests": REQUESTS, "least_s": REQUESTS * DELAY_S / CONCURRENCY} | {
        name: {
            "wall_s": round(wall, 2),
            "cpu_s": round(cpu, 2),
            "ours_wall_ratio": round(ours_s[0] / wall, 2),
            "ours_cpu_ratio": round(ours_s[1] / cpu, 2),
        }
        for name, (wall, cpu) in best.items()
    }


def main() -> None:
    """Run one side, or compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--inspect", metavar="PYTHON", help="an interpreter with inspect_ai")
    parser.add_argument("--lmms", metavar="PYTHON", help="an interpreter with lmms-eval")
    parser.add_argument("--ours", nargs=3, metavar=("FILE", "URL", "N"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    harnesses = {name: python for name in ("inspect", "lmms") if (python := getattr(chosen, name))}
    if chosen.ours:
        file, url, connections = chosen.ours
        ours(Path(file), url, int(connections))
    elif harnesses:
        print(json.dumps(compare(harnesses), indent=1))
    else:
        parser.error("name an interpreter with --inspect or --lmms")


if __name__ == "__main__":
    main()
