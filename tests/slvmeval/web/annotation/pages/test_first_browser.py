"""The question, training and the first task in a real browser, with the keyboard alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slvmeval.web.annotation.pages.texts import texts
from tests.slvmeval.web.annotation.pages.conftest import Served
from tests.slvmeval.web.annotation.pages.visitor import FOCUSED, Visitor

pytestmark = pytest.mark.browser

Snap = Callable[[str], object]


def open_study(own: Served, **settings: Any) -> None:
    pairs = [own.pair(number) for number in range(3)]
    first = {"comprehension": True, "training": 1, "gold_pairs": (pairs[0].pair_id,), "rule": "paper"}
    own.open(*pairs, links=3, **{**first, "pay_per_hour": 15, "currency": "EUR", **settings})


def consent(visitor: Visitor, snap: Snap) -> None:
    visitor.enter()
    snap("consent")
    visitor.tab_to("at.name === 'agree'")
    visitor.press("Space", "Tab", "Enter")
    visitor.page.wait_for_url("**/question")


def choose(visitor: Visitor, language: str, right: bool) -> None:
    """Choose an answer to the question with the arrow keys, and send it."""
    instruction = texts(language, "aesthetics").aspect["instruction"]
    visitor.tab_to("at.name === 'choice'")
    visitor.press("Space")
    chosen = f"{FOCUSED}.closest('label').textContent.trim()"
    while (visitor.page.evaluate(chosen) == instruction) != right:
        visitor.press("ArrowDown")
    visitor.press("Tab", "Enter")


def practise(visitor: Visitor, snap: Snap, place: str) -> None:
    visitor.settled()
    snap("practice")
    for _ in range(5):
        visitor.press("]")
    visitor.press("Space")
    visitor.wait("!document.querySelector('[data-prefer]').disabled")
    visitor.press("Space")
    visitor.tab_to(f"at.dataset.prefer === '{place}'")
    visitor.press("Enter", "Enter")
    visitor.wait(f"{FOCUSED}.id === 'see-title'")
    snap("revealed")
    visitor.see_all()
    visitor.tab_to("at.name === 'rating'")
    visitor.press("Space", "ArrowDown")
    visitor.tab_to("at.id === 'send'")
    visitor.press("Enter")
    visitor.wait("document.getElementById('go-on')")
    visitor.both("document.getElementById(id).readyState >= 1")


def in_view(visitor: Visitor, *selectors: str) -> None:
    size: Any = visitor.page.viewport_size
    for selector in selectors:
        box: Any = visitor.page.locator(selector).bounding_box()
        assert 0 <= box["y"] <= box["y"] + box["height"] <= size["height"], selector
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def sized(visitor: Visitor, size: tuple[int, int]) -> Visitor:
    visitor.page.set_viewport_size({"width": size[0], "height": size[1]})
    return visitor


def walk(visitor: Visitor, own: Served, language: str, snap: Snap) -> None:
    """Take the second try, train, look at a part again, and come to the first task."""
    words = texts(language).words
    consent(visitor, snap)
    snap("question")
    choose(visitor, language, right=False)
    visitor.wait("document.getElementById('again')")
    assert visitor.text("#again") == words["question"]["again"]
    snap("again")
    choose(visitor, language, right=True)
    practise(visitor, snap, "left")
    snap("explained")
    in_view(visitor, ".question", "#feedback", "#go-on")
    # the left video is not always the original
    said = visitor.text("#feedback")
    right = words["training"]["right"].partition("{")[0] in said if language == "en" else "正解" in said
    assert right == (visitor.page.evaluate("document.querySelector('.fits') !== null"))
    assert words["training"]["rated_other"].replace("{rating}", "B") in said
    # a part is played again, and a page that is loaded again still explains
    visitor.press("n")
    visitor.wait("document.getElementById('left').currentTime > 0.2")
    visitor.page.reload()
    visitor.wait("document.getElementById('go-on')")
    visitor.tab_to("at.id === 'go-on'")
    visitor.press("Enter")
    visitor.wait("!document.querySelector('.practice') && !document.getElementById('go-on')")
    visitor.settled()
    snap("first")
    assert own.votes(visitor.token) == []
    visitor.tab_to("at.href?.endsWith('/done')")
    visitor.press("Enter")
    visitor.page.wait_for_url("**/done")
    snap("done")
    assert len(visitor.text("li >> nth=0")) > 5


@pytest.mark.parametrize(("size", "language"), [((1366, 768), "en"), ((390, 844), "ja")])
def test_the_question_then_training_then_the_first_task(
    visit: Callable[..., Visitor], own: Served, size: tuple[int, int], language: str
) -> None:
    open_study(own)
    walk(sized(visit(own, language=language), size), own, language, lambda _: None)


def test_who_fails_both_tries_sees_the_sum_and_the_code(visit: Callable[..., Visitor], own: Served) -> None:
    open_study(own, screen_out_code="OUT-1")
    visitor = sized(visit(own), (390, 844))
    consent(visitor, lambda _: None)
    choose(visitor, "en", right=False)
    visitor.wait("document.getElementById('again')")
    choose(visitor, "en", right=False)
    visitor.page.wait_for_url("**/done")
    assert visitor.text(".code") == "OUT-1"
    # a minute at 15 an hour
    assert "You have earned 0.25 EUR" in visitor.text("main")
    in_view(visitor, "h1", ".code", "#copy")
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor.tab_to("at.id === 'copy'")
    visitor.press("Enter")
    visitor.wait("document.getElementById('copy').textContent === 'Copied'")
    assert visitor.page.evaluate("navigator.clipboard.readText()") == "OUT-1"
