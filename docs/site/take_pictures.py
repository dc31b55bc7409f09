"""Take the pictures of the pages in ``docs/images``: ``make pictures``, after ``make demo``.

A copy of the demonstration's store is judged by baselines, reported on, and published for annotation by the
program's own commands; its servers listen on this machine. Each picture is a page as a user finds it.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.chromium import ARGUMENTS, NAMES

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
DEMO = ROOT / "build" / "demo"
#: Pages show this path, which should say nothing of a machine.
PLACE = Path("/tmp/slvmeval")
STORE = PLACE / "store"
SIZE = (1280, 900)
#: A second of the film that the pictures of videos show.
SECOND = 75
CAMPAIGN = """name = "spring"
languages = ["en"]
aspects = ["color"]
equal_pairs = 0
pay_per_hour = 15
currency = "EUR"
organisation = "Video Lab, Example University"
contact = "video-lab@example.org"
"""


def slvmeval(*words: str | Path) -> str:
    """Run a command; return what it prints. 3 says that something is left, which is not a fault."""
    command = [sys.executable, "-m", "slvmeval", *map(str, words), "--store", str(STORE)]
    ended = subprocess.run(command, cwd=PLACE, check=False, capture_output=True, text=True)
    if ended.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    return ended.stdout


@contextmanager
def serving(*words: str, until: str) -> Iterator[re.Match[str]]:
    """Run a server; yield what a pattern finds in its output."""
    command = [sys.executable, "-u", "-m", "slvmeval", *words, "--port", "0", "--store", str(STORE)]
    server = subprocess.Popen(command, cwd=PLACE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert server.stdout is not None
        said = ""
        for line in server.stdout:
            said += line
            if found := re.search(until, said, re.DOTALL):
                yield found
                return
        raise SystemExit(f"{' '.join(command)} ended:\n{said}")
    finally:
        server.terminate()
        server.wait(30)


class Camera:
    """Opens pages in a browser and keeps pictures of them."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    @contextmanager
    def page(self, address: str) -> Iterator[Any]:
        """Yield a page at an address, with its pictures and scripts loaded."""
        context = self._browser.new_context(viewport={"width": SIZE[0], "height": SIZE[1]})
        page = context.new_page()
        page.goto(address)
        page.wait_for_load_state("networkidle")
        yield page
        context.close()

    def take(self, page: Any, name: str) -> None:
        """Keep a picture of what the page shows now."""
        page.wait_for_timeout(500)
        shown = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        path = IMAGES / f"{name}.jpg"
        shown.save(path, "JPEG", quality=82, optimize=True)
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


def prepare() -> None:
    """Show, judge, report on and publish a copy of the demonstration's store."""
    if not (DEMO / "store").is_dir():
        raise SystemExit("there is no demonstration: make demo")
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    # what was written from the store lies where this machine has it
    shutil.copytree(DEMO / "store", STORE, ignore=shutil.ignore_patterns("pages"))
    slvmeval("gallery", "demo", "--out", PLACE / "gallery")
    judges = [word for name in ("duration", "size", "contrast", "motion", "coin") for word in ("-e", name)]
    slvmeval("evaluate", "demo", *judges, "--direct", "--quiet")
    slvmeval("report", "demo", "--out", PLACE / "report", "--quiet")
    (PLACE / "campaign.toml").write_text(CAMPAIGN, encoding="utf-8")
    slvmeval("annotate", "publish", "demo", "--settings", PLACE / "campaign.toml", "--quiet")


def take_all(camera: Camera) -> None:
    """Take all pictures."""
    with camera.page((PLACE / "gallery" / "index.html").as_uri()) as page:
        camera.take(page, "gallery-list")
        page.get_by_role("link", name="Background consistency").first.click()
        # its videos load for as long as they play
        page.wait_for_timeout(5000)
        camera.take(page, "gallery")
    with camera.page((PLACE / "report" / "index.html").as_uri()) as page:
        camera.take(page, "report")
        page.locator("#disagreement a").first.click()
        page.wait_for_load_state("networkidle")
        camera.take(page, "report-pair")
    with (
        serving("status", "--open", "--set", "browser=false", until=r"open (http://\S+)\n") as found,
        camera.page(found[1]) as page,
    ):
        camera.take(page, "store")
    with serving(
        "annotate", "serve", "spring", until=r"organiser: (\S+)/organiser/\n\s*secret:\s*(\S+)\n"
    ) as at:
        link = slvmeval("annotate", "links", "spring", "--count", "1", "--public-url", at[1]).strip()
        with camera.page(link) as page:
            page.locator("[name=agree]").check()
            page.locator("form button").last.click()
            page.wait_for_load_state("networkidle")
            seek = f"document.querySelectorAll('video').forEach((one) => {{ one.currentTime = {SECOND}; }})"
            page.evaluate(seek)
            page.wait_for_timeout(2000)
            camera.take(page, "annotation-task")
        with camera.page(f"{at[1]}/organiser/") as page:
            page.locator("[name=name]").fill("Ada")
            page.locator("input[type=password]").fill(at[2])
            page.keyboard.press("Enter")
            page.wait_for_load_state("networkidle")
            camera.take(page, "annotation-organiser")


def main() -> None:
    """Prepare and take."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        raise SystemExit("no Chromium here: apt-get install chromium")
    prepare()
    IMAGES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        take_all(Camera(browser))
        browser.close()


if __name__ == "__main__":
    main()
