"""Pages as HTML, without a server: their content, and that external text cannot break out of its place."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import jinja2
import pytest

from slvmeval.web.annotation.pages.render import ASSETS, ASSETS_URL, render
from slvmeval.web.annotation.pages.texts import texts
from tasks.annotation.campaign import Campaign
from tests.slvmeval.web.annotation.pages.films import EVIL

VIEW = {"id": "a1", "aspect": "color", "state": "opened", "preferred": None, "prompt": [], "look_share": 0.0}
REVEALED = {**VIEW, "state": "preferred", "preferred": "left", "intended": "right", "must_see": []}
URLS = {"left": "/l", "right": "/r", "task": "/t"}


def campaign(**values: Any) -> Campaign:
    return Campaign.model_validate({"name": "study", "release": "demo", "version": 1, **values})


def every_page(language: str, of: Campaign, word: str = "x") -> dict[str, str]:
    made = {
        "enter": render("enter", language, campaign=of),
        "consent": render("consent", language, campaign=of, csrf=word),
        "done": render("done", language, campaign=of, csrf=word, code=word, answered=3),
        "refused": render(
            "refused", language, campaign=of, csrf=word, reason="expired", message=word, go_on="/c/study/task"
        ),
    }
    view = {**REVEALED, "prompt": [{"start_s": 0, "end_s": 1, "caption": word, "translation": word}]}
    made["task"] = render("task", language, campaign=of, csrf=word, view=view, urls=URLS)
    return made


class Elements(HTMLParser):
    """Collects what the pages' policy and a screen reader require."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


@pytest.mark.parametrize("language", ["en", "ja"])
def test_no_page_needs_anything_from_elsewhere(language: str) -> None:
    for name, html in every_page(language, campaign(organisation="Lab", contact="a@example.org")).items():
        elements = Elements()
        elements.feed(html)
        assert f'<html lang="{language}">' in html
        ids = [attributes["id"] for _, attributes in elements.seen if "id" in attributes]
        assert len(ids) == len(set(ids)), name
        assert "http:" not in html, name
        assert "https:" not in html, name
        assert "//" not in re.sub(r"https?://", "", html), name
        for tag, attributes in elements.seen:
            assert not any(key == "style" or key.startswith("on") for key in attributes), (name, tag)
            assert tag != "style"
            if tag == "script":
                assert attributes.get("type") == "application/json" or str(attributes["src"]).startswith(
                    ASSETS_URL
                )
            for key in ("src", "href"):
                target = attributes.get(key) or ""
                if target.startswith(ASSETS_URL):
                    assert (ASSETS / target.rsplit("/", 1)[1]).is_file()


def test_what_comes_from_outside_stays_text() -> None:
    of = campaign(organisation=EVIL, contact=EVIL, consent={"en": EVIL})
    for name, html in every_page("en", of, EVIL).items():
        assert "<img" not in html, name
        assert "<script>" not in html, name
    island = re.search(r'id="island">(.*?)</script>', every_page("en", of, EVIL)["task"], re.DOTALL)
    assert island is not None
    assert json.loads(island[1])["view"]["prompt"][0]["caption"] == EVIL


def test_what_was_done_is_not_in_the_page_before_the_preference() -> None:
    changed = texts("en", "color").aspect["changed"]
    before = render("task", "en", campaign=campaign(), csrf="x", view=VIEW, urls=URLS)
    after = render("task", "en", campaign=campaign(), csrf="x", view=REVEALED, urls=URLS)
    assert changed not in before
    assert "step-see" not in before
    assert 'rating"' not in before
    assert changed in after
    assert "We made the left video worse" in after


def test_consent_has_our_words_or_the_campaigns_own() -> None:
    ours = render("consent", "en", campaign=campaign(pay_per_task=1.5, currency="EUR"), csrf="x")
    assert "1.50 EUR" in ours
    assert "voluntary" in ours
    hourly = campaign(pay_per_hour=12, currency="EUR")
    for language in ("en", "ja"):
        page = render("consent", language, campaign=hourly, csrf="x", pay="3.10 EUR – 4.20 EUR")
        assert "3.10 EUR – 4.20 EUR" in page
        assert "12.00 EUR" in page
        task = render("task", language, campaign=hourly, csrf="x", view=VIEW, urls=URLS, pay="3.10 EUR")
        assert "3.10 EUR" in task
    assert texts("en").words["consent"]["pay_title"] not in render(
        "consent", "en", campaign=campaign(), csrf="x"
    )
    own = campaign(consent={"en": "First part.\n\nSecond part."})
    page = render("consent", "en", campaign=own, csrf="x")
    assert "<p>First part.</p>" in page
    assert "<p>Second part.</p>" in page
    assert "voluntary" not in page
    # a language for which the campaign has no texts of its own
    assert texts("ja").words["consent"]["free"] in render("consent", "ja", campaign=own, csrf="x")


def test_languages_are_offered_where_there_are_some_and_somebody_to_keep_them_for() -> None:
    assert "日本語" in render("consent", "en", campaign=campaign(), csrf="x")
    assert "日本語" not in render("consent", "en", campaign=campaign(languages=["en"]), csrf="x")
    assert "日本語" not in render("enter", "en", campaign=campaign())


def test_a_refusal_needs_no_campaign() -> None:
    html = render("refused", "ja", campaign=None, reason="wrong_host", message="", go_on=None)
    assert texts("ja").refused("wrong_host")["title"] in html
    assert '<a class="button' not in html


def test_data_that_is_forgotten_is_no_empty_page() -> None:
    with pytest.raises(jinja2.UndefinedError):
        render("done", "en", campaign=campaign(), csrf="x", code="c")


def test_only_speeds_that_count_are_offered() -> None:
    html = render("task", "en", campaign=campaign(most_speed=1.5), csrf="x", view=VIEW, urls=URLS)
    assert re.findall(r'<option value="([\d.]+)"', html) == ["0.5", "1", "1.5"]
