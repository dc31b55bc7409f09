"""The gallery in a real browser, opened from the disk as a reader does."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tasks.publish.gallery.write import write_gallery

pytestmark = pytest.mark.browser

TIMES = "['high', 'low'].map((id) => document.getElementById(id).currentTime)"


@pytest.fixture(scope="module")
def gallery(small: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gallery(small.store, small.release, tmp_path_factory.mktemp("gallery") / "pages").parent


@pytest.fixture
def page(open_page: Callable[..., Any], gallery: Path) -> Any:
    return open_page((gallery / "index.html").as_uri())


def open_source(page: Any, aspect: str) -> None:
    follow(page, f"{aspect}: Film film/<b>one</b>")
    wait(page, "gallery.players && !gallery.players.target && !document.getElementById('high').seeking")
    wait(page, "document.getElementById('low').readyState >= 2")


def follow(page: Any, name: str) -> None:
    """Click the link that leads to a source, and wait until its page is there with its scripts run."""
    with page.expect_navigation(wait_until="load"):
        page.get_by_role("link", name=name).first.click()


def wait(page: Any, expression: str, seconds: float = 60) -> None:
    """Wait until an expression is true; the pages' policy forbids Playwright's own way, which is eval."""
    end = time.monotonic() + seconds
    while not page.evaluate(f"Boolean({expression})"):
        assert time.monotonic() < end, f"still not: {expression}"
        page.wait_for_timeout(50)


def text(page: Any, selector: str) -> str:
    return str(page.locator(selector).inner_text())


def test_pairs_are_listed_filtered_and_grouped(page: Any) -> None:
    assert page.locator(".card").count() == 8
    assert "owned" not in page.title()
    page.get_by_role("button", name="Temporal flow").click()
    assert page.locator(".card").count() == 2
    page.keyboard.press("/")
    page.keyboard.type("secret")
    assert page.locator(".card").count() == 1
    assert text(page, "#pairs-count") == "1 of 8 pairs"
    page.get_by_label("Search").fill("nothing like it")
    assert "No pair fits" in text(page, "#pair-list")
    page.get_by_label("Search").fill("")
    page.get_by_role("button", name="All").click()
    page.get_by_label("Group by").select_option("aspect")
    assert page.locator(".group").count() == 4
    page.locator("h1").click()
    page.keyboard.press("g")
    assert page.locator(".group").count() == 2
    pictures = page.locator(".sheet img")
    pictures.first.scroll_into_view_if_needed()
    wait(page, "document.querySelector('.sheet img').naturalWidth > 0")


def test_statistics_and_reasons_can_be_read_without_seeing(page: Any) -> None:
    drawings = page.locator("#charts svg[role=img]")
    assert drawings.count() == 4
    assert "Travel & Events: 1 source, 4 pairs" in page.locator("#charts svg desc").nth(2).text_content()
    page.locator("#charts details summary").first.click()
    assert "too_few_eligible_clips 1" in text(page, "#charts table >> nth=0")
    assert "</script><script>" in text(page, "#set-aside-list")
    assert "academic use only · not to be redistributed" in text(page, "#source-list")


def test_both_videos_run_together(page: Any) -> None:
    open_source(page, "Aesthetics")
    assert page.evaluate(TIMES) == pytest.approx([6.5, 6.5], abs=0.05)
    assert page.locator(".side.degraded").count() == 2
    page.get_by_label("Speed").select_option("4")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Play").click()
    wait(page, "document.getElementById('high').currentTime > 9")
    page.get_by_role("button", name="Pause").click()
    page.wait_for_timeout(300)
    high, low = page.evaluate(TIMES)
    assert high > 9
    assert abs(high - low) < 0.1


def test_jumping_stepping_and_following_the_captions(page: Any) -> None:
    open_source(page, "Aesthetics")
    assert text(page, "#where") == "Interval 1 of 2"
    page.locator("h1").click()
    page.keyboard.press("n")
    wait(page, "document.getElementById('low').currentTime > 22")
    assert text(page, "#where") == "Interval 2 of 2"
    assert "Caption 5 of film" in text(page, ".captions .now")
    assert page.locator(".change[aria-current=true]").get_attribute("data-clip") == "5"
    page.keyboard.press("p")
    wait(page, "document.getElementById('low').currentTime < 7")
    page.keyboard.press("ArrowRight")
    wait(page, "document.getElementById('low').currentTime > 7")
    assert page.evaluate(TIMES) == pytest.approx([7.5, 7.5], abs=0.05)
    page.locator("[role=slider][data-side=low]").focus()
    page.keyboard.press("Home")
    wait(page, "document.getElementById('high').currentTime < 1")
    page.get_by_role("button", name="Clip 9").click()
    wait(page, "document.getElementById('high').currentTime > 34")


def test_the_controls_of_a_vertical_film_are_on_the_screen(page: Any) -> None:
    open_source(page, "Aesthetics")
    page.evaluate("document.querySelector('.stage').style.setProperty('--ratio', '9 / 16')")
    assert page.locator(".screen").first.bounding_box()["height"] == pytest.approx(
        0.7 * page.evaluate("innerHeight"), abs=1
    )


def test_a_click_on_a_time_line_goes_there(page: Any) -> None:
    open_source(page, "Aesthetics")
    lane = page.locator("[role=slider][data-side=low] .frame").bounding_box()
    page.mouse.click(lane["x"] + lane["width"] * 0.75, lane["y"] + 8)
    wait(page, "Math.abs(document.getElementById('high').currentTime - 30) < 0.5")
    assert page.evaluate(TIMES)[1] == pytest.approx(30, abs=0.5)


def test_a_removed_clip_is_reported_as_removed(page: Any) -> None:
    open_source(page, "Comprehensiveness")
    page.wait_for_selector("#low-veil:not([hidden])")
    assert text(page, "#low-veil") == "This clip was removed here."
    page.keyboard.press("l")
    wait(page, "gallery.players.leading === 'low'")
    page.keyboard.press("n")
    page.wait_for_selector("#low-veil", state="hidden")
    # what follows the first removed clip is four frames earlier on the low side
    page.evaluate("gallery.players.seek('low', 14.5)")
    wait(page, "Math.abs(document.getElementById('high').currentTime - 18.5) < 0.1")
    assert page.evaluate(TIMES) == pytest.approx([18.5, 14.5], abs=0.1)


def test_moved_clips_are_shown_by_content_or_by_the_clock(page: Any) -> None:
    open_source(page, "Temporal flow")
    page.evaluate("gallery.players.seek('high', 7.5)")
    wait(page, "Math.abs(document.getElementById('low').currentTime - 15.5) < 0.1")
    assert page.locator(".ribbon.moved").count() == 3
    page.get_by_label("Together").select_option("clock")
    wait(page, "Math.abs(document.getElementById('low').currentTime - 7.5) < 0.1")


def test_views(page: Any) -> None:
    open_source(page, "Aesthetics")
    page.locator("h1").click()
    page.keyboard.press("d")
    blend = "getComputedStyle(document.querySelector('.side.low')).mixBlendMode"
    assert page.evaluate(blend) == "difference"
    boxes = [page.locator(f"#{side}").bounding_box() for side in ("high", "low")]
    assert boxes[0] == boxes[1]

    def brightest() -> int:
        # what a reader sees, not what the page claims
        shot = Image.open(io.BytesIO(page.screenshot(clip=boxes[0]))).convert("L").resize((32, 18))
        return int(shot.crop((2, 2, 30, 16)).getextrema()[1])

    page.wait_for_timeout(300)
    assert brightest() > 100
    page.evaluate("gallery.players.seek('high', 3.5)")
    wait(page, "document.getElementById('low').currentTime < 4")
    page.wait_for_timeout(300)
    assert brightest() < 8, "an untouched frame differs in nothing"
    page.keyboard.press("w")
    assert page.evaluate(blend) == "normal"
    page.get_by_label("Low side", exact=True).fill("10")
    assert "10%" in page.evaluate("getComputedStyle(document.querySelector('.side.low .screen')).clipPath")
    page.locator("h1").click()
    page.keyboard.press("s")
    assert page.locator("#wipe-box").is_hidden()


def test_colours_and_help(page: Any) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.keyboard.press("t")
    assert page.evaluate(ground) != light
    page.reload()
    assert page.evaluate(ground) != light, "the choice is kept"
    page.keyboard.press("t")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) == light
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible()
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").is_hidden()


def test_the_keyboard_reaches_everything_and_shows_where_it_is(page: Any) -> None:
    open_source(page, "Aesthetics")
    page.locator("h1").click()
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.dataset.side || ''"))
        if page.evaluate("document.activeElement.matches('button, a, select')"):
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert {"play", "previous", "next", "speed", "high", "low", "captions"} <= reached
    unnamed = page.evaluate(
        "[...document.querySelectorAll('button, a, select, input')]"
        ".filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length)).length"
    )
    assert unnamed == 0


@pytest.mark.parametrize("aspect", ["Aesthetics", "Comprehensiveness"])
def test_phone_scrolls_down_only(open_page: Callable[..., Any], gallery: Path, aspect: str) -> None:
    page = open_page((gallery / "index.html").as_uri(), 360, has_touch=True, is_mobile=True)
    width = "document.documentElement.scrollWidth"
    assert page.evaluate(width) == 360
    open_source(page, aspect)
    assert page.evaluate(width) == 360
    high, low = (page.locator(f"#{side}").bounding_box() for side in ("high", "low"))
    assert low["y"] > high["y"] + high["height"]
    for box in page.locator("button:visible").all():
        assert box.bounding_box()["height"] >= 20


def test_hidden_source_still_tells_its_numbers(page: Any, small: Any, tmp_path: Path) -> None:
    page.goto(write_gallery(small.store, small.release, tmp_path / "pages", private=False).as_uri())
    follow(page, "Aesthetics: Source that may not be shown")
    assert "does not allow" in text(page, "#hidden-note")
    assert page.locator("#stage").is_hidden()
    assert page.locator("[role=slider]").count() == 2
    assert "contrast = -0.8" in text(page, "#facts")


def test_a_missing_video_is_reported_as_missing(
    open_page: Callable[..., Any], told: list[str], small: Any, tmp_path: Path
) -> None:
    write_gallery(small.store, small.release, tmp_path / "pages")
    for video in (tmp_path / "pages").rglob("high.mp4"):
        video.unlink()
    page = open_page(next((tmp_path / "pages" / "sources").iterdir()).as_uri())
    wait(page, "!document.getElementById('hidden-note').hidden")
    assert "high video cannot be played" in text(page, "#hidden-note")
    assert all("ERR_FILE_NOT_FOUND" in line for line in told), told
    told.clear()
