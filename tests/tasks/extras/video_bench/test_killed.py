"""A process that is killed in the middle of conversations: what was answered is not paid for again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from storage_schemas.store import Store
from tests.tasks.extras.video_bench.talking import MODELS, Talk, film, suite, video
from tests.tiny_models.faulty_server import FaultyServer, Reply

VIDEOS = 2
_CHILD = """
import sys
from pathlib import Path
from tests.tasks.extras.video_bench.test_killed import score_all
score_all(Path(sys.argv[1]), sys.argv[2])
"""


class At(SimpleNamespace):
    """A server by its address, with a folder for the store."""


def score_all(folder: Path, url: str) -> list[Any]:
    """Score some videos in both ways."""
    from tests.tasks.extras.video_bench.talking import PROMPT

    made = suite(At(folder=folder, url=url))  # type: ignore[arg-type]
    films = [video(f"m{number}", film(luma=30 + 40 * number)) for number in range(VIDEOS)]
    result: list[Any] = list(made.scorer("imaging_quality").score(PROMPT, films))
    for one in films:
        result += made.scorer("color_consistency").score(PROMPT, [one])
    return result


def test_scorers_ask_again_after_a_kill_only_what_was_under_way(tmp_path: Path) -> None:
    after = 3  # the batch, and a part of the first conversation
    answered: Counter[str] = Counter()
    reached, killed = threading.Event(), threading.Event()
    talk = Talk()

    def waiting_at_last(number: int, body: dict[str, Any]) -> Reply:
        if not killed.is_set() and number >= after:
            # the child is killed while it waits for this one
            reached.set()
            killed.wait(60)
            return Reply(status=503)
        answered[json.dumps(body, sort_keys=True)] += 1
        described = talk(number, body)
        if described.text and "caption" in described.text:
            # each video is another one, so that no two conversations are the same
            described = Reply(json.dumps({"caption": f"Ball {number}.", "description": "It rolls."}))
        return described

    Store.create(tmp_path / "store")
    with FaultyServer(waiting_at_last, MODELS) as server:
        child = subprocess.Popen([sys.executable, "-c", _CHILD, str(tmp_path), server.url])
        try:
            assert reached.wait(120)
        finally:
            child.kill()
            assert child.wait() == -signal.SIGKILL
            killed.set()
        assert sum(answered.values()) == after
        result = score_all(tmp_path, server.url)
    assert all(hasattr(one, "value") for one in result)
    # one request for the batch and five a video, each answered once
    assert sum(answered.values()) == 1 + 5 * VIDEOS
    assert set(answered.values()) == {1}
