"""The review pages in a browser: unsaved text survives the end of the server and a click on a link."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tasks.extras.prompt_suite.drafts import Version
from tasks.extras.prompt_suite.project import Draft, Project
from tasks.extras.prompt_suite.videos import SourceVideo
from tests.tasks.scoring.judges.short_films import short_film

pytestmark = pytest.mark.browser


@contextmanager
def reviewing(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield the process and the address at which it serves the prompts of a folder."""
    words = ["suite", "prompts", "review", str(folder), "--port", "0"]
    command = [sys.executable, "-m", "slvmeval", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().split()
            assert line[0] == "open", line
            yield process, line[1]
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def without_scripts(chromium: Any, address: str) -> None:
    """Leave out the first prompt and accept the second."""
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{address}prompt/p1")
    page.fill("#text", "Corrected.")
    page.click("text=Leave out this prompt")
    page.wait_for_url("**/prompt/p2")
    page.click("text=Accept this text")
    page.wait_for_url("**/prompt/p3")
    context.close()


def test_a_text_is_corrected_and_outlives_a_killed_server(chromium: Any, tmp_path: Path, ffmpeg: str) -> None:
    project = Project(tmp_path / "prompts")
    film = short_film(ffmpeg, tmp_path / "a.mp4", 2.0)
    for name in ("p1", "p2", "p3", "p4"):
        video = SourceVideo(prompt_id=name, path=str(film), digest="d", theme="food")
        project.keep_draft(Draft(video=video, versions=(Version(text=f"The draft of {name}."),)))

    def reviews() -> list[tuple[str, str]]:
        return [(one.verdict, one.text) for one in project.reviews()]

    with reviewing(project.folder) as (process, address):
        without_scripts(chromium, address)
        assert reviews() == [("left_out", ""), ("accepted", "The draft of p2.")]
        page = chromium.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda problem: faults.append(str(problem)))
        assert "server" not in page.goto(f"{address}prompt/p3").headers
        page.fill("#text", "Corrected.")
        page.click("text=Accept this text")
        page.wait_for_url("**/prompt/p4")
        assert reviews()[2:] == [("accepted", "Corrected.")]
        page.click("text=Leave out this prompt")
        page.wait_for_url(address)
        assert reviews()[3:] == [("left_out", "")]
        page.goto(f"{address}prompt/p3")
        page.fill("#text", "The work of an hour.")
        requests: list[str] = []
        page.on("dialog", lambda dialog: (requests.append(dialog.type), dialog.dismiss()))
        page.click("text=All prompts", no_wait_after=True)
        page.wait_for_function("document.querySelector('#text').value === 'The work of an hour.'")
        process.send_signal(signal.SIGKILL)
        process.wait()
        page.click("text=Accept this text")
        page.wait_for_selector("#unsaved", state="visible")
        assert page.input_value("#text") == "The work of an hour."
        assert (requests, faults) == (["beforeunload"], [])
        page.close(run_before_unload=False)
    assert len(reviews()) == 4
