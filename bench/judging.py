"""Judgements per second of a VLM judge: ``python -m bench.judging``.

The server answers each request after 50 ms, with 32 requests in flight. The videos are stored, with 60
frames and 12 scenes each, 512×288; every pair is judged in both orders. ``again`` repeats the same pairs
with scenes and images cached.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bench.asking import CONCURRENCY, DELAY_S, slow_server
from storage_schemas.frames import ColorSpec
from storage_schemas.model import ModelServer
from tasks.llm.servers import Servers
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.vlm import video_judge
from tests.tasks.scoring.sides import FrameList

PAIRS, SCENES, FRAMES = 40, 12, 5
WIDTH, HEIGHT = 512, 288
ASPECT = AspectText(name="color", dimension="color", description="Whether the colours are those of the text.")
PROMPT = "A man in a blue coat walks behind a red ball that rolls across the meadow. " * 200


class Kept(FrameList):
    """Frames with an identity known without reading them, as in a store."""

    def __init__(self, number: int, pair: int) -> None:
        rng = np.random.default_rng(number)
        small = rng.integers(16, 236, (SCENES, HEIGHT * 3 // 16, WIDTH // 8), dtype=np.uint8)
        frames = [np.kron(scene, np.ones((8, 8), np.uint8)) for scene in small for _ in range(FRAMES)]
        super().__init__(frames, WIDTH, HEIGHT)
        self.color = ColorSpec()
        self._ids = [f"{pair}-{number}-{index // FRAMES}" for index in range(len(frames))]

    def frame_ids(self, indices: object) -> list[str]:
        return [self._ids[index] for index in indices]  # type: ignore[attr-defined]


def judgements_a_second() -> dict[str, float]:
    """Return the comparisons per second, at first and with everything cached."""
    with slow_server('{"better": "first"}') as url:
        servers = Servers({"qwen3-vl": ModelServer(url=url, concurrency=CONCURRENCY)})
        judge = video_judge(FeatureCache(), servers, "qwen3-vl", frames="scenes")
        pairs = [(Kept(2 * n, n), Kept(2 * n + 1, n)) for n in range(PAIRS)]
        orders: list[tuple[Side, Side]] = [order for a, b in pairs for order in ((a, b), (b, a))]
        judge.compare(PROMPT, *orders[0], ASPECT)
        figures = {"bound_by_concurrency": CONCURRENCY / DELAY_S}
        for name in ("first", "again"):
            wall, cpu = time.monotonic(), time.process_time()
            with ThreadPoolExecutor(CONCURRENCY) as pool:
                answers = list(pool.map(lambda two: judge.compare(PROMPT, *two, ASPECT), orders))
            wall, cpu = time.monotonic() - wall, time.process_time() - cpu
            assert all(answer.choice == "first" for answer in answers)
            figures[f"{name}_a_second"] = round(len(orders) / wall, 1)
            figures[f"{name}_cpu_ms"] = round(cpu / len(orders) * 1000, 2)
        # the server ends with this block
        judge.close()
    return figures


if __name__ == "__main__":
    print(json.dumps(judgements_a_second(), indent=1))
