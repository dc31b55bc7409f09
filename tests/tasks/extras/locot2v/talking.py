"""A server that answers each step of LoCoT2V-Bench and embeds texts by their words, and its suite."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tasks.extras.locot2v.dimensions import CLARITY_NAMES
from tasks.extras.locot2v.suite import Locot2vBench
from tasks.llm.usage import NotJudged
from tasks.pairs.view import Side
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import ScoredVideo, SuitePrompt, SuiteVideo
from tests.tasks.scoring.suites.told import Told, film, scored, site, text
from tests.tiny_models.faulty_server import Reply

#: The models that the suite asks for, by role.
SEES, READS, LOCATES, EMBEDS = "sees", "reads", "locates", "embeds"
MODELS = (SEES, READS, LOCATES, EMBEDS)
#: As a user sets them.
ROLES: dict[str, Any] = {
    role: {"model": model, "server": "s"}
    for role, model in zip(("multimodal", "language", "locating", "embeddings"), MODELS, strict=True)
}


def event(event: str, subject: str, setting: str, action: str, camera: str = "still") -> dict[str, str]:
    return {"event": event, "subject": subject, "setting": setting, "action": action, "camera": camera}


RISE = event("sun rises", "sun", "sea", "rises")
WAVE = event("man waves", "man", "beach", "waves")
PROMPT = SuitePrompt(
    prompt_id="p", text="Base words here. The mood is calm.", details={"base": "sun rises man waves"}
)

#: What the usual server says at each step.
USUAL: Mapping[str, Any] = {
    "describe": {"description": "sun rises dog sits"},
    "events": {"events": [RISE, WAVE]},
    "actions": {"actions": ["A man waves.", "A man sits."]},
    "look": {
        "actions": [
            {"number": 2, "reason": "-", "present": "yes", "smooth": "no"},
            {"number": 1, "reason": "-", "present": "yes", "smooth": "yes"},
        ]
    },
    "clarity": {name: {"reason": "-", "score": 3} for name in CLARITY_NAMES},
    "questions": None,
    "locate": {
        "events": [
            {"number": 1, "seen": True, "start": 0.0, "end": 1.0},
            {"number": 2, "seen": False, "start": 0, "end": 0},
        ]
    },
}


class Talk:
    """What the server says: by step a value, a list of values in turn, or a text that is not JSON."""

    def __init__(self, **changes: Any) -> None:
        self.answers = {**USUAL, **changes}
        self.count: dict[str, int] = {}
        self.words: dict[str, int] = {}

    def __call__(self, number: int, body: dict[str, Any]) -> Reply:
        name = step(body)
        if name == "embed":
            given = self.answers.get("embed")
            return given if isinstance(given, Reply) else self.embedded(body["input"])
        answer = self.answers[name]
        if isinstance(answer, list):
            at = self.count.get(name, 0)
            self.count[name] = at + 1
            answer = answer[min(at, len(answer) - 1)]
        if name == "questions" and answer is None:
            answer = {"answers": [{"number": n, "reason": "-", "answer": "yes"} for n in asked_numbers(body)]}
        if isinstance(answer, Reply):
            return answer
        return Reply(answer if isinstance(answer, str) else json.dumps(answer))

    def embedded(self, texts: list[str]) -> Reply:
        """A row counts the words of a text; each word has a place of its own."""
        rows = np.zeros((len(texts), 200))
        for row, one in zip(rows, texts, strict=True):
            for word in re.findall(r"\w+", one.lower()):
                row[self.words.setdefault(word, len(self.words))] += 1
        # in another order: places are given by `index`
        data = [{"object": "embedding", "index": n, "embedding": row.tolist()} for n, row in enumerate(rows)]
        value = {"object": "list", "model": EMBEDS, "data": data[::-1], "usage": {"prompt_tokens": 7}}
        return Reply(body=json.dumps(value).encode())


def step(body: Mapping[str, Any]) -> str:
    """Return which step a request is, by what it asks for."""
    if "input" in body:
        return "embed"
    properties = body["response_format"]["json_schema"]["schema"]["properties"]
    (key, *_) = properties
    fields = properties[key].get("items", {}).get("properties", {})
    if key == "events":
        return "events" if "camera" in fields else "locate"
    if key == "actions":
        return "look" if fields else "actions"
    return {"description": "describe", "answers": "questions", "theme_clarity": "clarity"}[key]


def asked_numbers(body: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the questions of a request."""
    return [int(number) for number in re.findall(r"^(\d+)\. ", text(body), re.MULTILINE)]


def images(body: Mapping[str, Any]) -> int:
    """Return how many images a request has."""
    return sum(part["type"] == "image_url" for part in body["messages"][1]["content"])


def steps(server: Told) -> list[str]:
    """Return the steps that the server was asked for, without the question whether it is there."""
    return [step(one.body) for one in server.seen if "input" in one.body or "response_format" in one.body]


def video(film: Side, digest: str = "digest") -> SuiteVideo:
    return SuiteVideo("a", PROMPT.prompt_id, 0, digest, film)


def setup(server: Told) -> Setup:
    return site(server, "s")


def suite(server: Told, **settings: Any) -> Locot2vBench:
    return Locot2vBench(setup(server), **{**ROLES, **settings})


def score(
    server: Told,
    name: str,
    prompt: SuitePrompt = PROMPT,
    repeat: int = 0,
    of: Side | None = None,
    **settings: Any,
) -> ScoredVideo | NotJudged:
    """Score one video by a suite of its own, as another process would."""
    scorer = suite(server, **settings).scorer(name)
    (result,) = scorer.score(prompt, [video(film() if of is None else of)], repeat)
    return result


def value(found: ScoredVideo | NotJudged) -> float:
    """Return the number of a score that has to be there."""
    return scored(found).value
