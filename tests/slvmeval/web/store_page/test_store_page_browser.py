"""The page of a store as the command serves it, in a browser: wide and narrow, light and dark."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from slvmeval.cli.main import main

pytestmark = pytest.mark.browser


def look(chromium: Any, address: str, width: int, scheme: str) -> None:
    """Go from the page to a video of the gallery, back, and to the page of a release."""
    page = chromium.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    faults: list[str] = []
    page.on("pageerror", lambda problem: faults.append(str(problem)))
    page.on("console", lambda one: faults.append(one.text) if one.type == "error" else None)
    page.goto(address)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, background[4:-1].split(","))) < 200) == (scheme == "dark")
    page.click("text=Gallery: ")
    page.wait_for_url("**/index.html")
    page.click("a[href*='sources/'] >> nth=0")
    page.wait_for_selector("video")
    end = time.monotonic() + 30
    while not page.evaluate("[...document.querySelectorAll('video')].some((one) => one.readyState > 1)"):
        assert time.monotonic() < end, "no video can be played"
        page.wait_for_timeout(100)
    # the same header on each page, with a switch that the others remember, and the way back
    page.click("#theme")
    page.click("text=← Store")
    page.wait_for_selector("h1:text('Store')")
    kept = page.evaluate("document.documentElement.dataset.theme")
    assert kept == ("light" if scheme == "dark" else "dark")
    page.click("table a >> nth=0")
    page.wait_for_selector("text=Pairs by aspect")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click("text=← Store")
    page.click("#theme")
    assert faults == []
    page.close()


def test_from_the_command_to_a_gallery(chromium: Any, judged_store: Path, tmp_path: Path) -> None:
    store = ["--store", str(judged_store)]
    assert main(["gallery", *store, "--out", str(tmp_path / "gallery"), "--quiet"]) == 0
    words = ["status", "--open", "--set", "browser=false", "--port", "0", *store]
    command = [sys.executable, "-m", "slvmeval", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[1]
            look(chromium, address, 1366, "light")
            look(chromium, address, 360, "dark")
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
