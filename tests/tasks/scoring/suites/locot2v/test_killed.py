"""A process that is killed in the middle of a video's steps: what it had answers to is not paid for again."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.scoring.suites.locot2v.talking import MODELS, Talk, score, steps, value
from tests.tasks.scoring.suites.told import Told
from tests.tiny_models.faulty_server import Reply

ROOT = Path(__file__).parents[5]
CODE = """
import sys
from pathlib import Path
from types import SimpleNamespace
from tests.tasks.scoring.suites.locot2v.talking import score
print(score(SimpleNamespace(folder=Path(sys.argv[1]), url=sys.argv[2]), sys.argv[3]))
"""


class Hanging(Talk):
    """Answers nothing more from the request of a number on, until it is let go."""

    def __init__(self, until: int) -> None:
        super().__init__()
        self.until, self.reached, self.go_on = until, threading.Event(), threading.Event()

    def __call__(self, number: int, body: dict[str, Any]) -> Reply:
        if number == self.until:
            self.reached.set()
            self.go_on.wait(60)
        return super().__call__(number, body)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "until", "again"), [("theme_clarity", 2, 1), ("event_alignment", 3, 1)])
def test_only_the_request_under_way_is_asked_again(tmp_path: Path, name: str, until: int, again: int) -> None:
    talk = Hanging(until)
    with Told() as server:
        server.say(talk, MODELS)
        server.folder = tmp_path
        words = [sys.executable, "-c", CODE, str(tmp_path), server.url, name]
        process = subprocess.Popen(words, cwd=ROOT)
        try:
            assert talk.reached.wait(120)
        finally:
            process.kill()
            process.wait()
            talk.go_on.set()
        before = len(steps(server))
        result = score(server, name)
        assert value(result) == {"theme_clarity": 0.75, "event_alignment": 1.0}[name]
        # none of the answers that it had is paid for twice
        asked = [json.dumps(seen.body, sort_keys=True) for seen in server.seen]
        assert len(asked) - before == again
        assert len(set(asked[:until])) == until
        assert not set(asked[before:]) & set(asked[:until])
