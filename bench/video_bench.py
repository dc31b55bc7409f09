"""Calls and tokens of Video-Bench per video and dimension: ``python -m bench.video_bench``.

Seven models' videos of one prompt, 512×288 at 24 frames a second, are scored by a server that counts text
tokens with GPT-4o's vocabulary and 85 for an image in low detail. Lengths of answers are assumed, not
measured: a description has 250 tokens, a caption 25, a question or an answer 20, a reason 40.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.extras.video_bench.suite import VideoBench
from tasks.llm.usage import Usage, load_prices
from tasks.scoring.suites.base import ScoredVideo, SuitePrompt, SuiteVideo
from tests.tasks.extras.video_bench.talking import MODELS, Talk, addresses, setup, step, text
from tests.tasks.scoring.sides import FrameList, noise
from tests.tiny_models.counted_server import english, text_tokens
from tests.tiny_models.faulty_server import FaultyServer, Reply

VIDEOS, FPS, WIDTH, HEIGHT = 7, 24.0, 512, 288
PROMPT = SuitePrompt(
    prompt_id="p", text="A couple sits at a lake and takes food from a basket while the sky turns red."
)


class Counting(Talk):
    """Answers of assumed lengths, with every token counted."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        self.dimension = ""

    def __call__(self, number: int, body: dict[str, Any]) -> Reply:
        drawn = random.Random(json.dumps(body["messages"], sort_keys=True))
        answer = json.dumps(self._answer(step(body), len(_videos(body)), drawn))
        system = body["messages"][0]["content"]
        schema = json.dumps(body["response_format"]["json_schema"]["schema"])
        images = len(addresses(body))
        # overhead of messages as in OpenAI's guide on counting tokens; an image in low detail is 85
        tokens_in = sum(map(text_tokens, (system, text(body), schema))) + 3 * 2 + 3 + 85 * images
        tokens_out = text_tokens(answer) + 1
        for at, more in enumerate((1, images, tokens_in, tokens_out)):
            self.counted[self.dimension][at] += more
        return Reply(answer, tokens=(tokens_in, tokens_out))

    def _answer(self, name: str, videos: int, drawn: random.Random) -> Mapping[str, Any]:
        long, short = english(250, drawn), english(20, drawn)
        if name == "few-shot":
            entries = [{"video": at + 1, "reason": english(40, drawn), "score": 3} for at in range(videos)]
            return {"scores": entries}
        return {
            "describe": {"caption": english(25, drawn), "description": long},
            "first assistant": {"analysis": english(60, drawn), "questions": [short, english(20, drawn)]},
            "second assistant": {"analysis": english(60, drawn), "questions": [short, english(20, drawn)]},
            "answer": {"description": long, "answers": [short] * 4},
            "score": {"description": long, "reason": english(40, drawn), "score": 2},
        }[name]


def _videos(body: Mapping[str, Any]) -> list[str]:
    parts = body["messages"][1]["content"]
    return [part["text"] for part in parts if part["type"] == "text" and part["text"].startswith("The video")]


@contextmanager
def counted(**settings: Any) -> Iterator[tuple[VideoBench, Counting]]:
    """Yield a suite that uses the counting server."""
    plan = Counting()
    with tempfile.TemporaryDirectory() as folder, FaultyServer(plan, MODELS) as server:
        made = VideoBench(setup(Path(folder), server), **settings)
        yield made, plan
        roles = made.scorer("color_consistency").roles  # type: ignore[attr-defined]
        for role in ("multimodal", "language"):
            roles.calls(role).client.close()


def videos(seconds: float) -> list[SuiteVideo]:
    """Return the models' videos: noise, the worst case for compression."""
    made = []
    for number in range(VIDEOS):
        frame = [noise(number * 4 + at, WIDTH, HEIGHT) for at in range(4)]
        film = FrameList([frame[index // 12 % 4] for index in range(round(seconds * FPS))], WIDTH, HEIGHT)
        film.fps = FPS
        made.append(SuiteVideo(f"m{number}", "p", 0, f"video {number}", film))
    return made


def figures(seconds: float, **settings: Any) -> dict[str, dict[str, float]]:
    """Return, by dimension, the usage per video and the accuracy of the dry run."""
    prices = load_prices(None)
    measured = {}
    with counted(**settings) as (suite, plan):
        films = videos(seconds)
        for dimension in suite.dimensions:
            plan.dimension = dimension.name
            scorer = suite.scorer(dimension.name)
            batches = [films] if scorer.batch == "prompt" else [[film] for film in films]
            expected = [one for batch in batches for one in scorer.estimate(PROMPT, batch)]
            scored = [one for batch in batches for one in scorer.score(PROMPT, batch)]
            assert all(isinstance(one, ScoredVideo) for one in scored), scored
            calls, images, tokens_in, tokens_out = plan.counted[dimension.name]
            dollars = sum(_dollars(prices, one.usage) for one in scored)
            assert calls == len(expected)
            measured[dimension.name] = {
                "calls": round(calls / VIDEOS, 2),
                "images": round(images / VIDEOS, 1),
                "tokens_in": round(tokens_in / VIDEOS),
                "tokens_out": round(tokens_out / VIDEOS),
                "dollars": round(dollars / VIDEOS, 4),
                "dollars_a_minute": round(dollars / VIDEOS / seconds * 60, 4),
                "dry_run_in": round(sum(one.tokens_in for one in expected) / tokens_in, 3),
                "dry_run_out": round(sum(one.tokens_out for one in expected) / tokens_out, 3),
            }
    return measured


def _dollars(prices: Any, usage: Usage) -> float:
    own = prices.cost(MODELS[0], usage.tokens_in, usage.tokens_out)
    return float(own + sum(prices.cost(one.model, one.tokens_in, one.tokens_out) for one in usage.others))


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--set", default="{}", help="settings of the suite, JSON")
    chosen = parser.parse_args()
    rows = figures(chosen.seconds, **json.loads(chosen.set))
    names = list(next(iter(rows.values())))
    print("| dimension |", " | ".join(names), "|")
    print("|---|" + "---|" * len(names))
    for dimension, row in rows.items():
        print(f"| `{dimension}` |", " | ".join(f"{row[name]:,}" for name in names), "|")


if __name__ == "__main__":
    main()
