"""A model over HTTP that makes prompts: it knows by its instructions what is wanted of it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage_schemas.store import Store
from tasks.extras.locot2v.dimensions import HERD_NAMES
from tasks.extras.prompt_suite.maker import Made, Maker
from tasks.extras.prompt_suite.project import Project
from tasks.extras.prompt_suite.settings import PromptSuiteSettings
from tasks.extras.prompt_suite.videos import SourceVideo
from tasks.llm.prompt_files import prompt_text
from tasks.scoring.setup import Setup
from tests.tiny_models.faulty_server import FaultyServer, Reply

FIRST = "A red ball lies in the grass and <b>waits</b>."
SECOND = "A red ball rolls through the grass, slowly, and stops at a blue box."
STEPS = {
    "describe": "make_describe",
    "criticise": "make_criticise",
    "rewrite": "make_rewrite",
    "events": "events",
    "actions": "actions",
    "assessments": "make_assessments",
    "questions": "make_questions",
    "polarity": "make_polarity",
    "complexity": "make_complexity",
}
#: With one round of self-refinement.
CALLS_TO_DRAFT, CALLS_TO_END = 3, 4 + 2 * len(HERD_NAMES)
_OPENINGS = {
    name: prompt_text(f"{'prompt-suite' if file.startswith('make_') else 'locot2v-bench'}/{file}").split("{")[
        0
    ][:60]
    for name, file in STEPS.items()
}
EVENT = {
    **{"event": "A ball rolls.", "subject": "a red ball", "setting": "grass"},
    **{"action": "rolls", "camera": "still"},
}
Answer = Callable[[str, str, int], Any]


class Author:
    """Answers as a sensible model would, unless `odd` does: of a step, its text and how often it came."""

    def __init__(self, odd: Answer | None = None) -> None:
        self.odd = odd
        self.asked: Counter[str] = Counter()
        self.bodies: list[tuple[str, dict[str, Any]]] = []
        self._lock = threading.Lock()

    def __call__(self, number: int, body: dict[str, Any]) -> Reply:
        system, text = _system(body), user_text(body)
        (step,) = [name for name, opening in _OPENINGS.items() if system.startswith(opening)]
        with self._lock:
            self.asked[step] += 1
            self.bodies.append((step, body))
            count = self.asked[step]
        result = None if self.odd is None else self.odd(step, text, count)
        if isinstance(result, Reply):
            return result
        return Reply(json.dumps(sensible(step, text) if result is None else result))


def sensible(step: str, text: str) -> Any:
    match step:
        case "describe":
            return {"description": FIRST}
        case "criticise":
            return {"faults": ["The ball does not lie still, it rolls."] if FIRST in text else []}
        case "rewrite":
            return {"description": SECOND}
        case "events":
            return {"events": [EVENT, {**EVENT, "event": "The ball stops.", "action": "stops"}]}
        case "actions":
            return {"actions": []}
        case "assessments":
            return {name: f"It has {name}." for name in HERD_NAMES}
        case "questions":
            return {"questions": questions(wanted(text))}
        case "polarity":
            lines = text.partition("The questions:\n")[2].partition("\n\n")[0].splitlines()
            return {
                "questions": [
                    {"number": at, "reason": "so", "good_answer": "no" if "wrong" in line else "yes"}
                    for at, line in enumerate(lines, 1)
                ]
            }
        case _:
            scores = {"semantic": 7, "structural": 6.5, "control": 4}
            return {name: {"reason": "so", "score": score} for name, score in scores.items()}


def questions(count: int, word: str = "thing") -> list[dict[str, str]]:
    return [
        {
            "question": f"Is {word} {at} {'wrong' if at % 2 else 'right'}?",
            "good_answer": "no" if at % 2 else "yes",
        }
        for at in range(count)
    ]


def wanted(text: str) -> int:
    return int(text.partition("Questions wanted: ")[2].split()[0])


def user_text(body: dict[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def images(body: dict[str, Any]) -> int:
    content = body["messages"][-1]["content"]
    return 0 if isinstance(content, str) else sum(part["type"] == "image_url" for part in content)


def _system(body: dict[str, Any]) -> str:
    return str(next(m["content"] for m in body["messages"] if m["role"] == "system"))


SETTINGS: dict[str, Any] = {
    "multimodal": {"model": "tiny", "server": "s"},
    "language": {"model": "tiny", "server": "s"},
    "rounds": 1,
    "least_words": 8,
    "most_words": 30,
}


def maker(tmp_path: Path, server: FaultyServer, without_review: bool = False, **settings: Any) -> Maker:
    """A maker with a store and a folder below `tmp_path`, as another process would make it too."""
    store = Store.create(tmp_path / "store")
    servers: Any = {"s": {"url": server.url, "patience_s": 0.1}}
    setup = Setup.model_validate({"store_path": str(store.root), "model_servers": servers})
    wanted = PromptSuiteSettings.model_validate({**SETTINGS, **settings})
    return Maker(setup, wanted, Project(tmp_path / "prompts"), without_review)


@dataclass(frozen=True)
class Writing:
    """A model server that an author answers at, and a folder to make prompts in."""

    folder: Path
    author: Author
    server: FaultyServer

    def maker(self, without_review: bool = False, **settings: Any) -> Maker:
        return maker(self.folder, self.server, without_review, **settings)

    def make(self, video: SourceVideo, without_review: bool = True, **settings: Any) -> Made:
        (made,) = self.maker(without_review, **settings).run([video])
        return made
