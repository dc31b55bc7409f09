"""A server that answers each step of Video-Bench, films in memory, and a suite that asks that server."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from PIL import Image

from tasks.extras.video_bench.dimensions import ALIGNMENT, DIMENSIONS
from tasks.extras.video_bench.instructions import sections_of
from tasks.extras.video_bench.suite import VideoBench
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import SuitePrompt, SuiteVideo
from tests.tasks.scoring.sides import FrameList
from tests.tasks.scoring.suites.told import Told, site
from tests.tiny_models.faulty_server import Reply, Seen

PROMPT = SuitePrompt(prompt_id="p", text="A red ball rolls over a {meadow}.")
#: Models that the server has: the paper's.
MODELS = ("gpt-4o-2024-08-06", "gpt-4o-mini")

#: What the second assistant is told, of each dimension: both assistants are asked in one form.
_SECOND = tuple(sections_of(one.name)["second assistant"] for one in DIMENSIONS if one.group == ALIGNMENT)

#: What the usual server says at each step; numbers of a few-shot request follow its images.
USUAL: Mapping[str, Any] = {
    "describe": {"caption": "A ball.", "description": "A ball rolls to the left."},
    "first assistant": {"analysis": "It has no colour.", "questions": ["Is the ball red?"]},
    "second assistant": {"analysis": "Fine.", "questions": ["Does it blend in?", "Is it round?"]},
    "answer": {"description": "A red ball.", "answers": ["Yes.", "No.", "Yes."]},
    "score": {"description": "A red ball rolls.", "reason": "All fits.", "score": 3},
}


class Talk:
    """What the server says: `changes` by step, a value or a text for an answer that is not JSON.

    `scores` gives those of a few-shot request, by the brightness of each video's first frame.
    """

    def __init__(
        self,
        changes: Mapping[str, Any] | None = None,
        scores: Callable[[list[float]], list[Any]] | None = None,
    ) -> None:
        self.answers = {**USUAL, **(changes or {})}
        self.scores = scores or (lambda lights: [1 + round(light) // 60 for light in lights])

    def __call__(self, number: int, body: dict[str, Any]) -> Reply:
        name = step(body)
        if name == "few-shot" and "few-shot" not in self.answers:
            given = self.scores(lights(body))
            entries = [{"video": at, "reason": "Seen.", "score": score} for at, score in enumerate(given, 1)]
            return Reply(json.dumps({"scores": entries}))
        answer = self.answers[name]
        if isinstance(answer, Reply):
            return answer
        return Reply(answer if isinstance(answer, str) else json.dumps(answer))


def step(body: Mapping[str, Any]) -> str:
    """Return which step a request is, by what it asks for."""
    keys = set(body["response_format"]["json_schema"]["schema"]["properties"])
    if "analysis" in keys:
        told = body["messages"][0]["content"]
        return "second assistant" if any(part in told for part in _SECOND) else "first assistant"
    names = {"caption": "describe", "answers": "answer", "reason": "score", "scores": "few-shot"}
    return next(name for key, name in names.items() if key in keys)


def addresses(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what is reported of each image."""
    return [part["image_url"] for part in body["messages"][1]["content"] if part["type"] == "image_url"]


def pictures(body: Mapping[str, Any]) -> list[Image.Image]:
    """Return the images of a request."""
    data = [base64.b64decode(address["url"].split(",")[1]) for address in addresses(body)]
    return [Image.open(io.BytesIO(one)) for one in data]


def lights(body: Mapping[str, Any]) -> list[float]:
    """Return the brightness of the first image of each video of a few-shot request."""
    result: list[float] = []
    new = False
    images = iter(pictures(body))
    for part in body["messages"][1]["content"]:
        if part["type"] == "text":
            new = bool(re.match(r"Video \d+:", part["text"]))
            continue
        picture = next(images)
        if new:
            result.append(float(np.asarray(picture.convert("L"), np.float64).mean()))
            new = False
    return result


def steps(server: Told) -> list[str]:
    """Return the steps that the server was asked for, without questions whether it is there at all."""
    return [step(seen.body) for seen in server.seen if "response_format" in seen.body]


def only(server: Told, name: str) -> Seen:
    """Return the one request of a step."""
    (seen,) = [seen for seen in server.seen if step(seen.body) == name]
    return seen


def video(model: str, film: FrameList, sample: int = 0, digest: str = "") -> SuiteVideo:
    """One model's video of the prompt."""
    return SuiteVideo(model, PROMPT.prompt_id, sample, digest or f"digest of {model}", film)


def setup(server: Told) -> Setup:
    return site(server, "openai")


def suite(server: Told, **settings: Any) -> VideoBench:
    """The suite as another process would make it."""
    return VideoBench(setup(server), **settings)
