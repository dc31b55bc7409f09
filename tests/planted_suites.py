"""A small suite of a package of its own: one dimension is arithmetic, two ask a server, one lacks weights."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tiny_models.faulty_server import FaultyServer, Reply

CODE = '''
"""A planted suite."""

import os
import signal
import time

from tasks.llm.usage import Estimate, NotJudged, Usage
from tasks.llm.answer_store import AnswerStore
from tasks.llm.vision_models import VlmModel
from tasks.llm.chat import ChatClient
from tasks.scoring.suites.base import Dimension, ScoredVideo, Scorer, Suite
from tasks.llm.requests import Calls
from storage_schemas.errors import PrerequisiteError
from storage_schemas.judgements import Failure

NAMES = {"length": (0, 100000), "beauty": (1, 5), "contest": (1, 5), "heavy": (0, 1)}
DIMENSIONS = [
    Dimension(name=name, title=name.capitalize(), group="judged" if low else "calculated", low=low, high=high,
              needs=("weight",) if name == "heavy" else (), about="-", behind="-", source="planted")
    for name, (low, high) in NAMES.items()
]
SCHEMA = {"type": "object", "properties": {"scores": {"type": "array", "items": {"type": "integer"}}}}


class Length(Scorer):
    def settings(self):
        return {}

    def check(self):
        pass

    def score(self, prompt, videos, repeat=0):
        (video,) = videos
        if os.environ.get("DEADLY") == video.name:
            os.kill(os.getpid(), signal.SIGKILL)
        where = {"pool": os.environ.get("SLURM_JOB_PARTITION", ""), "process": os.getpid()}
        return [ScoredVideo(float(sum(1 for _ in video.video)), details={"fps": video.video.fps, **where})]


class Heavy(Length):
    hardware = "gpu"

    def check(self):
        if not os.environ.get("WEIGHTS"):
            raise PrerequisiteError("weights of heavy are missing: fetch them")

    def score(self, prompt, videos, repeat=0):
        time.sleep(0.05)
        return [ScoredVideo(repeat / 100, details=super().score(prompt, videos)[0].details)]


class AskingScorer(Scorer):
    def __init__(self, dimension, setup, threads, tokens):
        super().__init__(dimension)
        self.setup, self.threads, self.tokens = setup, threads, tokens
        self.batch = "prompt" if dimension.name == "contest" else "video"
        self.calls = None

    @property
    def concurrency(self):
        return self.threads

    def settings(self):
        return {"model": "tiny"}

    def check(self):
        pass

    def asked(self):
        if self.calls is None:
            model = VlmModel(model="tiny", server="s", context_tokens=6000, answer_tokens=100, most_images=40)
            client = ChatClient(self.setup.servers.find("s", "tiny"))
            self.calls = Calls(model, client, AnswerStore(self.setup.store.root / "suites" / "answers"))
        return self.calls

    def score(self, prompt, videos, repeat=0):
        what = {"videos": [v.digest for v in videos], "dimension": self.dimension.name, "prompt": prompt.text}
        words = {"dimension": self.dimension.name, "prompt": prompt.text, "videos": [v.model for v in videos]}

        def parts():
            import json
            return [{"type": "text", "text": json.dumps(words)}]

        def check(value):
            found = value.get("scores")
            if not isinstance(found, list) or len(found) != len(videos):
                raise NotJudged(Failure.NOT_UNDERSTOOD, f"{found} are not {len(videos)} scores")
            return found

        # a conversation of two
        seen = self.asked().ask({**what, "step": 1, "repeat": repeat}, "Look.", parts, SCHEMA)
        more = {"step": 2, "seen": seen.stored.text}
        answer = self.asked().ask({**what, **more}, "Score.", parts, SCHEMA, check)
        both = (seen.usage, answer.usage)
        usage = Usage(tokens_in=sum(u.tokens_in for u in both), tokens_out=sum(u.tokens_out for u in both))
        calls = seen.calls + answer.calls
        return [
            ScoredVideo(float(value), model="tiny", **({"usage": usage, "calls": calls} if not place else {}))
            for place, value in enumerate(answer.value)
        ]

    def estimate(self, prompt, videos, repeat=0):
        images, tokens = 4 * len(videos), 2 * self.tokens
        return [Estimate(requests=2, images=images, tokens_in=tokens, tokens_out=40, model="tiny")]


class Planted(Suite):
    name, title = "planted", "A planted suite"
    long_side = 32

    def __init__(self, setup, *, threads: int = 1, tokens: int = 100):
        self.setup, self.threads, self.tokens = setup, threads, tokens

    @property
    def dimensions(self):
        return DIMENSIONS

    def scorer(self, dimension):
        (found,) = [one for one in DIMENSIONS if one.name == dimension]
        if dimension in ("length", "heavy"):
            return (Length if dimension == "length" else Heavy)(found)
        return AskingScorer(found, self.setup, self.threads, self.tokens)
'''


def install(folder: Path) -> None:
    """Put the package of the suite `planted` into a folder for the path of imports."""
    (folder / "planted_suite_code.py").write_text(CODE, encoding="utf-8")
    info = folder / "planted_suite_code-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted-suite-code\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[slvmeval.suites]\nplanted = planted_suite_code:Planted\n")


@pytest.fixture
def planted_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the suite `planted` for this process and those that it starts."""
    folder = tmp_path / "suite-site"
    folder.mkdir()
    install(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    yield folder
    sys.modules.pop("planted_suite_code", None)


def asked_for(body: dict[str, Any]) -> dict[str, Any]:
    """Return what the planted suite asks for in a request."""
    user = next(m["content"] for m in body["messages"] if m["role"] == "user")
    result: dict[str, Any] = json.loads(user if isinstance(user, str) else user[0]["text"])
    return result


def answers(_number: int, body: dict[str, Any]) -> Reply:
    """Give every video a score by the first letter of its model: a 1, b 2, …; outside the scale for z."""
    marks = [ord(model[0]) - ord("a") + 1 for model in asked_for(body)["videos"]]
    return Reply(json.dumps({"scores": marks}))


@pytest.fixture
def marker() -> Iterator[FaultyServer]:
    """A server that answers the planted suite."""
    with FaultyServer(answers) as server:
        yield server
