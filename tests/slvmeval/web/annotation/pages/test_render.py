"""Pages as HTML, without a server: their content, and that external text cannot break out of its place."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import jinja2
import pytest

from slvmeval.web.annotation.pages.render import ASSETS, ASSETS_URL, PageName, render
from slvmeval.web.annotation.pages.texts import texts
from tasks.annotation.campaign import Campaign
from tests.slvmeval.cli.running import has, lacks
from tests.slvmeval.web.annotation.pages.films import EVIL
from tests.slvmeval.web.annotation.pieces import island

VIEW = {"id": "a1", "aspect": "color", "state": "opened", "preferred": None, "prompt": []}
VIEW |= {"look_share": 0.0, "least_seen": 0.9, "training": False}
REVEALED = {**VIEW, "state": "preferred", "preferred": "left", "intended": "right", "must_see": []}
EXPLAINED = {**REVEALED, "state": "rated", "training": True, "rating": "B"}
URLS = {"left": "/l", "right": "/r", "task": "/t"}


def campaign(**values: Any) -> Campaign:
    return Campaign.model_validate({"name": "study", "release": "demo", "version": 1, **values})


def page(name: PageName, language: str = "en", of: Campaign | None = None, **data: Any) -> str:
    return render(name, language, campaign=of or campaign(), csrf="x", **data)


def task(language: str = "en", of: Campaign | None = None, view: Any = VIEW, **data: Any) -> str:
    return page("task", language, of, view=view, urls=URLS, **data)


def every_page(language: str, of: Campaign, word: str = "x") -> dict[str, str]:
    view = {**REVEALED, "prompt": [{"start_s": 0, "end_s": 1, "caption": word, "translation": word}]}
    refused = {"reason": "expired", "message": word, "next_page": "/c/study/task"}
    made: dict[PageName, dict[str, Any]] = {
        **{"enter": {}, "consent": {}, "done": {"code": word, "answered": 3}, "refused": refused},
        "task": {"view": view, "urls": URLS},
        "question": {"question_id": "q", "aspect": "color", "tries": 1, "choices": [word, word], "pay": word},
    }
    return {name: render(name, language, campaign=of, csrf=word, **data) for name, data in made.items()}


class Elements(HTMLParser):
    """Collects what the pages' policy and a screen reader require."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, {name: value or "" for name, value in attrs}))


@pytest.mark.parametrize("language", ["en", "ja"])
def test_no_page_needs_anything_from_elsewhere(language: str) -> None:
    for name, html in every_page(language, campaign(organisation="Lab", contact="a@example.org")).items():
        assert f'<html lang="{language}">' in html
        assert not has(html, "http:", "https:", "//"), name
        seen = Elements(html).seen
        ids = [attributes["id"] for _, attributes in seen if "id" in attributes]
        assert len(ids) == len(set(ids)), name
        for tag, attributes in seen:
            assert not any(key == "style" or key.startswith("on") for key in attributes), (name, tag)
            assert tag != "style"
            if tag == "script" and attributes.get("type") != "application/json":
                assert attributes["src"].startswith(ASSETS_URL)
            for target in (attributes.get("src", ""), attributes.get("href", "")):
                assert not target.startswith(ASSETS_URL) or (ASSETS / target.rsplit("/", 1)[1]).is_file()


def test_what_comes_from_outside_stays_text() -> None:
    evil = EVIL + "{{7777777*7}}"
    pages = every_page("en", campaign(organisation=evil, contact=evil, consent={"en": evil}), evil)
    for name, html in pages.items():
        assert not has(html, "<img", "<script>", "54444439"), name
        assert html.count("<script") == html.count("</script>"), name
    assert island(pages["task"])["view"]["prompt"][0]["caption"] == evil


def test_what_was_done_is_not_in_the_page_before_the_preference() -> None:
    changed = texts("en", "color").aspect["changed"]
    before, after = task(), task(view=REVEALED)
    assert not any(text in before for text in (changed, "step-see", 'rating"'))
    assert changed in after
    assert "We made the left video worse" in after


def test_training_is_announced_and_explained() -> None:
    clear = texts("en", "color").aspect["clear"]
    for view in (VIEW, REVEALED):
        assert "Practice: this task does not count" not in task(view=view)
        assert "Practice: this task does not count" in task(view={**view, "training": True})
    assert clear not in task(view={**VIEW, "training": True})
    urls = {**URLS, "trained": "/t/trained"}
    wrong = page("task", view=EXPLAINED, urls=urls)
    right = page("task", view={**EXPLAINED, "preferred": "right", "rating": "A"}, urls=urls)
    assert not lacks(
        wrong,
        "so it is the better one. You chose the left video.",
        "Your rating is B. We expect A here",
        clear,
    )
    assert not lacks(
        right, "Your first answer is right: the right video is the original.", "as we expect", clear
    )
    for html in (wrong, right):
        assert 'action="/t/trained"' in html
        assert 'name="rating"' not in html


def test_consent_says_what_comes_before_the_first_task() -> None:
    assert "Before your first task" not in page("consent")
    first = campaign(comprehension=True, training=1, gold_pairs=("g",))
    html = page("consent", of=first, answer_pay="0.60 EUR")
    assert not lacks(
        html, "with two tries", "You are paid 0.60 EUR for the question", "You practise with a task"
    )
    assert "You are paid" not in page("consent", of=first)


def test_consent_has_our_words_or_the_campaigns_own() -> None:
    ours = page("consent", of=campaign(pay_per_task=1.5, currency="EUR"))
    assert not lacks(ours, "1.50 EUR", "voluntary")
    assert ours.index("Stop at any time") < ours.index("Please read this page")
    hourly = campaign(pay_per_hour=12, currency="EUR")
    for language in ("en", "ja"):
        html = page("consent", language, hourly, pay="3.10 EUR – 4.20 EUR")
        assert not lacks(html, "3.10 EUR – 4.20 EUR", "12.00 EUR")
        assert "3.10 EUR" in task(language, hourly, pay="3.10 EUR")
    assert texts("en").words["consent"]["pay_title"] not in page("consent")
    own = campaign(consent={"en": "First part.\n\nSecond part."})
    html = page("consent", of=own)
    assert not lacks(html, "<p>First part.</p>", "<p>Second part.</p>")
    assert "voluntary" not in html
    # a language for which the campaign has no texts of its own
    assert texts("ja").words["consent"]["free"] in page("consent", "ja", own)


def test_languages_are_offered_where_there_are_some_and_somebody_to_keep_them_for() -> None:
    assert "日本語" in render("consent", "en", campaign=campaign(), csrf="x")
    assert "日本語" not in render("consent", "en", campaign=campaign(languages=["en"]), csrf="x")
    assert "日本語" not in render("enter", "en", campaign=campaign())


def test_a_refusal_needs_no_campaign() -> None:
    html = render("refused", "ja", campaign=None, reason="wrong_host", message="", next_page=None)
    assert texts("ja").refused("wrong_host")["title"] in html
    assert '<a class="button' not in html


def test_data_that_is_forgotten_is_not_an_empty_page() -> None:
    with pytest.raises(jinja2.UndefinedError):
        render("done", "en", campaign=campaign(), csrf="x", code="c")


def test_only_speeds_that_count_are_offered() -> None:
    html = render("task", "en", campaign=campaign(most_speed=1.5), csrf="x", view=VIEW, urls=URLS)
    assert re.findall(r'<option value="([\d.]+)"', html) == ["0.5", "1", "1.5"]
