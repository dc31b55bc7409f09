"""A run that is killed: the next one pays for nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from tasks.prompt_suite.videos import load_videos
from tests.tasks.prompt_suite.author import CALLS_TO_DRAFT, CALLS_TO_END, Author, maker
from tests.tasks.scoring.judges.short_films import short_film
from tests.tiny_models.faulty_server import FaultyServer, Reply


def test_after_a_kill_nothing_is_paid_for_twice(tmp_path: Path, ffmpeg: str) -> None:
    """A process is killed amid its questions; the next one asks for the rest only."""
    films = tmp_path / "videos"
    short_film(ffmpeg, films / "one cake.mp4", 2.0)
    author = Author(lambda step, text, count: Reply(delay_s=30) if author.asked["questions"] == 3 else None)
    with FaultyServer(author) as server:
        script = textwrap.dedent(
            f"""
            from pathlib import Path
            from types import SimpleNamespace
            from tasks.prompt_suite.videos import load_videos
            from tests.tasks.prompt_suite.author import maker
            there = SimpleNamespace(url={server.url!r})
            one = maker(Path({str(tmp_path)!r}), there, without_review=True)
            one.run(load_videos(Path({str(films)!r})).videos)
            """
        )
        process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
        try:
            deadline = time.monotonic() + 60
            while author.asked["questions"] < 3 and time.monotonic() < deadline:
                assert process.poll() is None
                time.sleep(0.05)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        answered = len(server.seen) - 1
        author.odd = None
        (made,) = maker(tmp_path, server, without_review=True).run(load_videos(films).videos)
        assert made.state == "ready"
        assert answered + made.calls == CALLS_TO_DRAFT + CALLS_TO_END
        assert len(server.seen) == answered + 1 + made.calls
