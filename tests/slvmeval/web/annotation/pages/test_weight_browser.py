"""The task page's weight, requests and loading of a long film, and its legibility."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slvmeval.web.annotation.pages.render import ASSETS
from tasks.annotation.alike import write_alike
from tasks.annotation.pair_task import PromptClip
from tests.slvmeval.web.annotation.pages.conftest import Served
from tests.slvmeval.web.annotation.pages.films import filmed_pair
from tests.slvmeval.web.annotation.pages.visitor import Visitor

pytestmark = pytest.mark.browser

Visit = Callable[..., Visitor]
LONG_S = 600

SENT = """(() => performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource'))
  .filter((one) => !one.name.includes('/media/'))
  .map((one) => [one.name, one.transferSize, one.decodedBodySize]))()"""


def prompt(characters: int) -> tuple[PromptClip, ...]:
    """Return a prompt of a number of characters, with a distinct clip for every five seconds."""
    words = [f"{n * 7919 % 9973:x} ball rolls over the floor {n}" for n in range(100_000)]
    count, clips, at = LONG_S // 5, [], 0
    for number in range(count):
        caption = ""
        while len(caption) < characters / count:
            caption += words[at] + ". "
            at += 1
        clips.append(
            PromptClip(start_s=number * 5, end_s=number * 5 + 5, caption=caption, translation=caption[::-1])
        )
    return tuple(clips)


def test_weight_and_requests(visit: Visit, served: Served) -> None:
    """The paper's mean prompt has 57,884 characters; here each clip has a translation as well."""
    served.begin(served.pair(prompt_clips=prompt(58_000)))
    visitor = visit()
    visitor.enter()
    visitor.requests.clear()
    visitor.page.locator("input[name=agree]").check()
    visitor.page.locator("form .button.primary").click()
    visitor.settled()
    requests = [request.url for request in visitor.requests if "/media/" not in request.url]
    # the form and the page that follows, two style sheets, the scripts
    assert len(requests) <= 2 + len(list(ASSETS.iterdir()))
    sizes = visitor.page.evaluate(SENT)
    assets = sum(sent for name, sent, _ in sizes if "/assets/" in name)
    page = next(sent for name, sent, _ in sizes if name.endswith("/task"))
    plain = sum(path.stat().st_size for path in ASSETS.iterdir())
    print(f"{len(requests)} requests, assets {assets} B sent of {plain} B, page {page} B sent")
    assert 0 < assets < 35_000
    assert plain < 90_000
    assert 0 < page < 100_000
    # the size of a report of a few seconds, which is sent repeatedly
    visitor.look()
    reports = [(sent, full) for name, sent, full in visitor.page.evaluate(SENT) if name.endswith("/play")]
    assert reports
    assert max(full for _, full in reports) < 2_000


@pytest.fixture(scope="module")
def long_film(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A film of ten minutes and tens of megabytes."""
    folder = tmp_path_factory.mktemp("long")
    draft, path = folder / "draft.mp4", folder / "a.mp4"
    looks = f"testsrc2=size=512x288:rate=1:duration={LONG_S},noise=alls=12:allf=t"
    command = [ffmpeg, "-v", "error", "-f", "lavfi", "-i", looks, "-c:v", "libx264", "-preset", "ultrafast"]
    subprocess.run([*command, "-crf", "30", "-g", "10", "-pix_fmt", "yuv420p", str(draft)], check=True)
    write_alike((draft, draft), (path, folder / "b.mp4"))
    draft.unlink()
    return path


def test_a_long_film_is_not_loaded_whole(visit: Visit, served: Served, long_film: Path) -> None:
    served.filmed = (long_film, long_film.with_name("b.mp4"))
    size = long_film.stat().st_size
    assert size > 20e6
    served.begin(filmed_pair(1, *served.filmed, high_s=float(LONG_S), low_s=float(LONG_S)))
    visitor = visit()
    visitor.agree()
    visitor.page.wait_for_timeout(2000)
    loaded = visitor.page.evaluate(
        "['left', 'right'].map((id) => { const b = document.getElementById(id).buffered; let s = 0;"
        " for (let n = 0; n < b.length; n += 1) s += b.end(n) - b.start(n); return s; })"
    )
    print(f"loaded before play: {loaded} s of {LONG_S} s")
    assert max(loaded) < LONG_S / 2


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours (WCAG 2.2, 1.4.3)."""

    def light(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_contrast_on_the_page(visit: Visit, served: Served, dark: bool) -> None:
    """Text has a contrast of 4.5 against its rendered background, including disabled controls."""
    served.begin()
    visitor = visit(dark=dark)
    visitor.agree()
    visitor.look()
    visitor.prefer("left")
    visitor.page.wait_for_timeout(300)
    pairs: list[Any] = visitor.page.evaluate(
        """[...document.querySelectorAll('h1, h2, p, b, small, span, button, a, label, select, textarea')]
        .filter((e) => e.checkVisibility() && e.textContent.trim() && !e.closest('.screen, .unseen'))
        .map((e) => {
          const ground = (one) => getComputedStyle(one).backgroundColor;
          let under = e;
          while (under && ground(under) === 'rgba(0, 0, 0, 0)') under = under.parentElement;
          return [e.outerHTML.slice(0, 80), getComputedStyle(e).color, ground(under)];
        })"""
    )
    assert len(pairs) > 40

    def hexed(rgb: str) -> str:
        return "#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", rgb)[:3])

    faint = [(what, round(contrast(hexed(front), hexed(back)), 2)) for what, front, back in pairs]
    assert [row for row in faint if row[1] < 4.5] == []


def test_nothing_moves_where_that_is_not_wanted(visit: Visit, served: Served) -> None:
    served.begin()
    visitor = visit()
    visitor.page.emulate_media(reduced_motion="reduce")
    visitor.agree()
    assert (
        visitor.page.evaluate("getComputedStyle(document.getElementById('play')).transitionDuration") == "0s"
    )
    visitor.press("Shift+ArrowRight")
    # the list jumps to its end at once, without an animation
    visitor.wait("document.querySelector('#clips li:last-child').getAttribute('aria-current')")
    first, second = (visitor.page.evaluate("document.getElementById('clips').scrollTop") for _ in range(2))
    assert first == second > 0
