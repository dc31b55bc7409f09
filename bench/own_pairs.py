"""2,000 own pairs judged by a video judge, live and in a batch, and their report.

``python -m bench.own_pairs``. The pairs are drawn from 40 films of 256×144, 8 frames a second and 6 s, each
with a prompt and an aspect. Each is judged in both orders by one worker process against servers of this
process, which answer at once. CPU includes the commands' workers; memory is the resident set of the largest
process started by a command, its worker.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import psutil
from imageio_ffmpeg import get_ffmpeg_exe

from bench.asking import ROOT
from storage_schemas.ids import digest_text
from storage_schemas.rng import keyed_rng
from storage_schemas.store import Store
from tests.tasks.scoring.judges.short_films import short_film, write_lines
from tests.tasks.scoring.one_source import ASPECTS
from tests.tiny_models.batch_server import BatchServer
from tests.tiny_models.provider_server import KEY, Said
from tests.tiny_models.serving import Handler, Serving, completion

PAIRS, FILMS = int(os.environ.get("PAIRS", "2000")), 40
#: Requests after which memory must stay constant.
FIRST = 1000


class _Answers(Handler):
    owner: Live

    def do_GET(self) -> None:
        self.send(200, {"data": [{"id": "m", "object": "model"}]})

    def do_POST(self) -> None:
        choice = said(digest_text(self.content().decode())[:8])
        self.owner.asked += 1
        message = {"role": "assistant", "content": choice}
        self.send(200, completion("m", message, "stop", (1000, 20)))


def said(key: object) -> str:
    """Return an answer that depends only on the request."""
    first = keyed_rng("answer", str(key)).random() < 0.5
    return json.dumps({"better": "first" if first else "second"})


@dataclass
class Live(Serving):
    """Answers chats without storing them."""

    handler: ClassVar[type[Handler]] = _Answers
    asked: int = 0


@dataclass
class Ran:
    """A command: its exit code, wall and CPU seconds, and the memory of its worker by requests."""

    code: int
    wall_s: float
    cpu_s: float
    rss_mb: list[tuple[int, float]] = field(default_factory=list)


def run(words: list[str], asked: Callable[[], int] = lambda: 0, codes: tuple[int, ...] = (0,)) -> Ran:
    """Run a command, checking its processes once per second.

    Raises
    ------
    RuntimeError
        If it ends with an unexpected code, or prints a traceback.
    """
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "slvmeval", *words]
    ran = Ran(0, 0.0, 0.0)
    environment = {**os.environ, "THE_KEY": KEY}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()))
        reader.start()
        while process.poll() is None:
            time.sleep(1.0)
            ran.rss_mb.append((asked(), _largest_mb(process.pid)))
        reader.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran.code, ran.wall_s = process.returncode, time.monotonic() - began
    ran.cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    errors = "".join(lines)
    if ran.code not in codes or "Traceback" in errors:
        raise RuntimeError(f"{' '.join(words)} ended with {ran.code}: {errors[-2000:]}")
    return ran


def _largest_mb(pid: int) -> float:
    try:
        workers = psutil.Process(pid).children(recursive=True)
        return max((worker.memory_info().rss for worker in workers), default=0) / 1e6
    except psutil.Error:
        return 0.0


def make_pairs(folder: Path) -> Path:
    """Write films, and a pairs file for them."""
    ffmpeg = get_ffmpeg_exe()
    for number in range(FILMS):
        short_film(ffmpeg, folder / f"{number}.mp4", 6, hue=9 * number, size="256x144")
    lines = []
    for number in range(PAIRS):
        high, low = keyed_rng("pair", number).choice(FILMS, 2, replace=False)
        aspect = ASPECTS[number % len(ASPECTS)]
        lines.append(
            {
                "id": f"pair-{number}",
                "video_a": f"{high}.mp4",
                "video_b": f"{low}.mp4",
                "gold": "a",
                "prompt": f"Coloured bars and a clock, number {number}. " * 20,
                "aspect": aspect,
            }
        )
    return write_lines(folder / "pairs.jsonl", lines)


def steady(samples: list[tuple[int, float]]) -> dict[str, float]:
    """Return the memory after the first thousand requests, the later maximum, and the difference."""
    after = [mb for asked, mb in samples if asked >= FIRST]
    growth = round(max(after) / after[0] - 1, 3) if after and after[0] else 0.0
    return {"rss_mb_after_first": round(after[0]), "rss_mb_most": round(max(after)), "growth": growth}


def live_figures(words: list[str], live: Live) -> dict[str, Any]:
    """Return the usage of a command that asked about all pairs, and its worker's memory."""
    ran = run(words, lambda: live.asked)
    assert live.asked == 2 * PAIRS, live.asked
    return {
        "wall_s": round(ran.wall_s),
        "cpu_s_a_request": round(ran.cpu_s / (2 * PAIRS), 4),
        **steady(ran.rss_mb),
    }


def figures(folder: Path) -> Mapping[str, Any]:
    """Return the figures of all commands."""
    pairs, store = make_pairs(folder / "films"), Store.create(folder / "store").root
    common = ["--pairs", f"pairs:{pairs}", "--store", str(store)]
    found: dict[str, Any] = {"pairs": PAIRS, "requests": 2 * PAIRS}
    profile = folder / "site.toml"
    words = ["--profile", str(profile), "--direct", "--workers", "1", "--quiet"]

    def entry(url: str) -> None:
        profile.write_text(f'[model_servers.s]\nurl = "{url}"\nkey_variable = "THE_KEY"\n')

    judge = "vlm-video?vlm=mine&model=m&server=s&label={}"
    with Live() as live:
        entry(live.url)
        found["live"] = live_figures(["evaluate", "-e", judge.format("live"), *common, *words], live)
        print(json.dumps(found), flush=True)
        again = run(["evaluate", "-e", judge.format("live"), *common, *words])
        assert live.asked == 2 * PAIRS
        found["live_again_s"] = round(again.wall_s)
    with BatchServer("openai") as server:
        entry(server.url)
        asks = ["evaluate", "-e", judge.format("batch") + "&temperature=0.1", *common, *words]
        over = run([*asks, "--batch", "--no-wait"], codes=(3,))
        server.answer(lambda number: Said(text=said(number)))
        collected = run([*asks, "--batch"])
        assert len(server.handed_over) == 2 * PAIRS
        found["batch"] = {
            "cpu_s_a_request": round((over.cpu_s + collected.cpu_s) / (2 * PAIRS), 4),
            "batches": len(server.batches),
            "rss_mb_most": round(max(mb for _, mb in [*over.rss_mb, *collected.rss_mb])),
        }
    for name, command in {
        "report": ["report", "--out", str(folder / "report")],
        "compare": ["compare", "live", "batch", "--out", str(folder / "compared")],
    }.items():
        told = run([*command, *common])
        found[name] = {"wall_s": round(told.wall_s), "cpu_s": round(told.cpu_s)}
    return found


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        print(json.dumps(figures(Path(folder)), indent=1))
