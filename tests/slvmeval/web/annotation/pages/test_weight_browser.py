"""The task page's weight, requests and loading of a long film, and its legibility."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slvmeval.web.annotation.pages.render import ASSETS
from tasks.annotation.alike import write_alike
from tasks.annotation.pair_task import PromptClip
from tests.slvmeval.web.annotation.pages.conftest import Served
from tests.slvmeval.web.annotation.pages.films import film
from tests.slvmeval.web.annotation.pages.visitor import Visitor

pytestmark = pytest.mark.browser

Visit = Callable[..., Visitor]
LONG_S = 600

SENT = """(() => performance.getEntriesByType('navigation').concat(performance.getEntriesByType('resource'))
  .filter((one) => !one.name.includes('/media/'))
  .map((one) => [one.name, one.transferSize, one.decodedBodySize]))()"""


def prompt(characters: int) -> tuple[PromptClip, ...]:
    """Return a prompt of at least a number of characters, with a distinct clip for every five seconds."""
    words = "".join(f"{n * 7919 % 9973:x} ball rolls over the floor {n}. " for n in range(characters // 25))
    size = -(-characters * 5 // LONG_S)
    captions = [words[at * size : (at + 1) * size] for at in range(LONG_S // 5)]
    assert sum(map(len, captions)) >= characters
    return tuple(
        PromptClip(start_s=n * 5, end_s=n * 5 + 5, caption=caption, translation=caption[::-1])
        for n, caption in enumerate(captions)
    )


def test_weight_and_requests(visit: Visit, own: Served) -> None:
    """The paper's mean prompt has 57,884 characters; here each clip has a translation as well."""
    own.open(own.pair(prompt_clips=prompt(58_000)))
    visitor = visit(own)
    visitor.enter()
    visitor.requests.clear()
    visitor.consent()
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


def test_a_long_film_is_not_loaded_whole(visit: Visit, own: Served, ffmpeg: str, tmp_path: Path) -> None:
    draft = tmp_path / "draft.mp4"
    film(ffmpeg, draft, f"{LONG_S},noise=alls=12:allf=t", "-crf", "30")
    own.filmed = (tmp_path / "a.mp4", tmp_path / "b.mp4")
    write_alike((draft, draft), own.filmed, "long film")
    assert own.filmed[0].stat().st_size > 20e6
    own.open(own.pair(high_s=float(LONG_S), low_s=float(LONG_S)))
    visitor = visit(own)
    visitor.agree()
    visitor.page.wait_for_timeout(2000)
    loaded = visitor.page.evaluate(
        "['left', 'right'].map((id) => { const b = document.getElementById(id).buffered; let s = 0;"
        " for (let n = 0; n < b.length; n += 1) s += b.end(n) - b.start(n); return s; })"
    )
    print(f"loaded before play: {loaded} s of {LONG_S} s")
    assert max(loaded) < LONG_S / 2


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as the browser names them (WCAG 2.2, 1.4.3)."""

    def light(colour: str) -> float:
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


#: Texts with their colour and the one under them.
COLOURS = """[...document.querySelectorAll('h1, h2, p, b, small, span, button, a, label, select, textarea')]
  .filter((e) => e.checkVisibility() && e.textContent.trim() && !e.closest('.screen, .unseen'))
  .map((e) => {
    const ground = (one) => getComputedStyle(one).backgroundColor;
    let under = e;
    while (under && ground(under) === 'rgba(0, 0, 0, 0)') under = under.parentElement;
    return [e.outerHTML.slice(0, 80), getComputedStyle(e).color, ground(under)];
  })"""


def test_contrast_on_the_page(visit: Visit) -> None:
    """Text has a contrast of 4.5 against its rendered background, including disabled controls."""
    visitor = visit()
    visitor.decided()
    for scheme in ("light", "dark"):
        visitor.page.emulate_media(color_scheme=scheme)
        visitor.page.wait_for_timeout(300)
        pairs: list[Any] = visitor.page.evaluate(COLOURS)
        assert len(pairs) > 40
        faint = [(what, round(contrast(front, back), 2)) for what, front, back in pairs]
        assert [row for row in faint if row[1] < 4.5] == [], scheme


def test_nothing_moves_where_that_is_not_wanted(visit: Visit) -> None:
    visitor = visit()
    visitor.page.emulate_media(reduced_motion="reduce")
    visitor.agree()
    duration = "getComputedStyle(document.getElementById('play')).transitionDuration"
    assert visitor.page.evaluate(duration) == "0s"
    visitor.tap("#prompt-open")
    visitor.press("Shift+ArrowRight")
    # the list jumps to its end at once, without an animation
    visitor.wait("document.querySelector('#clips li:last-child').getAttribute('aria-current')")
    first, second = (visitor.page.evaluate("document.getElementById('clips').scrollTop") for _ in range(2))
    assert first == second > 0
