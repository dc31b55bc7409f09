"""The organiser's pages in a real browser: on a desktop and on a phone, by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.organising import HASTY, PAGES, Organiser
from tests.slvmeval.web.annotation.pieces import NAME

pytestmark = pytest.mark.browser

SIZES = {"desktop": (1280, 900), "phone": (360, 740)}


@pytest.fixture(params=list(SIZES))
def page(request: pytest.FixtureRequest, chromium: Any, busy: Study, organiser: Organiser) -> Iterator[Any]:
    """A page of a logged-in organiser; it may have no errors, and send no requests elsewhere."""
    width, height = SIZES[request.param]
    phone = request.param == "phone"
    size = {"width": width, "height": height}
    context = chromium.new_context(viewport=size, has_touch=phone, is_mobile=phone)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: (errors.append("a dialog"), dialog.dismiss()))
    page.on("request", lambda one: errors.append(one.url) if busy.address not in one.url else None)
    page.goto(f"{busy.address}/organiser/c/{NAME}")
    page.get_by_label("Your name").fill("Aya")
    page.get_by_label("Secret").fill(organiser.secret)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Progress", exact=True).wait_for()
    yield page
    context.close()
    assert errors == []


def test_progress_is_renewed_by_itself(page: Any, busy: Study) -> None:
    assert "140 of 200" in page.locator("#live").inner_text()
    # set by the script once it runs
    page.locator("#live-note").get_by_text("The numbers are updated every 15 seconds.").wait_for()
    with busy.desk() as opened:
        assert opened.organiser.erase(NAME, HASTY).votes == 14
    # the script updates as soon as somebody returns to the page
    again = "document.dispatchEvent(new Event('visibilitychange'))"
    page.get_by_text("Show as a table").first.click()
    page.evaluate(again)
    page.wait_for_timeout(500)
    assert "140 of 200" in page.locator("#live").inner_text(), "not while a detail is being read"
    page.get_by_text("Show as a table").first.click()
    page.evaluate("document.activeElement.blur()")
    page.evaluate(again)
    page.get_by_text("126 of 200").wait_for(timeout=10_000)


def test_a_worker_is_found_reviewed_and_excluded(page: Any, busy: Study) -> None:
    page.get_by_role("link", name="Workers", exact=True).click()
    page.get_by_role("link", name="to review 1").click()
    page.get_by_role("link", name=HASTY[:10]).click()
    page.wait_for_url(f"**/workers/{HASTY}")
    assert "16" not in page.title()
    assert page.locator(".indicator").count() == 3
    page.get_by_role("link", name="largest difference first").click()
    assert "2 steps apart" in page.locator(".votes tbody tr").first.inner_text()
    # an attacking comment is only text
    assert "<script>document.title='owned'</script>" in page.locator(".comment").inner_text()
    page.get_by_role("button", name="Record decision").click()
    assert page.url.endswith("order=apart#votes"), "the browser itself asks for what is missing"
    page.get_by_label("Exclude").check()
    page.get_by_label("Reason").fill("too fast, and wrong <b>everywhere</b>")
    page.get_by_role("button", name="Record decision").click()
    page.get_by_role("status").get_by_text("Decision recorded: excluded.").wait_for()
    page.get_by_role("link", name="Record").click()
    assert "too fast, and wrong <b>everywhere</b>" in page.locator("main").inner_text()
    with busy.desk() as opened:
        assert [row.by for row in opened.decisions.read(NAME)] == ["Aya"]


def test_nothing_scrolls_sideways_and_everything_is_reached_by_keyboard(page: Any, busy: Study) -> None:
    width = page.viewport_size["width"]
    for path in PAGES:
        page.goto(f"{busy.address}/organiser/c/{NAME}{path}")
        assert page.evaluate("document.documentElement.scrollWidth") == width, path
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button, a, input:not([type=hidden]), textarea, svg[role=img]')]"
            ".filter((one) => !one.ariaLabel && !one.textContent.trim() && !one.labels?.length).length"
        )
        assert unnamed == 0, path
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
    reached = []
    page.goto(f"{busy.address}/organiser/c/{NAME}/workers/{HASTY}")
    for _ in range(15):
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate("document.activeElement.textContent.trim() || document.activeElement.name")
        )
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", reached
    assert {"Progress", "Workers", "Record", "Log out", "standing", "note", "Record decision"} <= set(reached)
