"""A worker does a task in a real browser, against the real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from slvmeval.web.annotation.pages.texts import texts
from tasks.annotation.desk.tables import ASSIGNMENTS
from tasks.annotation.pair_task import Stretch
from tests.slvmeval.web.annotation.pages.conftest import Served
from tests.slvmeval.web.annotation.pages.films import DAMAGED, EVIL
from tests.slvmeval.web.annotation.pages.visitor import FOCUSED, Visitor
from tests.slvmeval.web.annotation.pieces import NAME

pytestmark = pytest.mark.browser

Visit = Callable[..., Visitor]


def side_of(visitor: Visitor, place: str) -> str:
    """Return the side at a place, from what the page reveals after the preference."""
    intended = visitor.page.evaluate("document.querySelector('.stretch-text b').textContent")
    low = "left" if intended in ("left video", "左の動画") else "right"
    return "low" if place == low else "high"


def test_with_the_keyboard_alone(visit: Visit, own: Served) -> None:
    own.open(completion_code="C0DE-7")
    visitor = visit(own)
    visitor.enter()
    visitor.tab_to("at.name === 'agree'")
    visitor.press("Space", "Tab", "Enter")
    visitor.settled()
    visitor.press("]", "]", "]", "]", "]")
    assert visitor.page.locator("#speed").input_value() == "4"
    visitor.press("Space")
    visitor.wait("!document.querySelector('[data-prefer]').disabled")
    visitor.press("Space")
    visitor.tab_to("at.dataset.prefer === 'left'")
    visitor.press("Enter")
    assert visitor.page.evaluate(f"{FOCUSED}.id") == "sure-yes"
    visitor.press("Enter")
    visitor.wait(f"{FOCUSED}.id === 'see-title'")
    preferred = side_of(visitor, "left")
    visitor.see_all()
    visitor.tab_to("at.name === 'rating'")
    visitor.press("Space", "ArrowDown", "Tab")
    visitor.page.keyboard.type("n p c / ? are letters here")
    visitor.press("Tab", "Enter")
    visitor.page.wait_for_url("**/done")
    assert visitor.text(".code") == "C0DE-7"
    (vote,) = own.votes(visitor.token)
    assert (vote.rating, vote.preferred, vote.language) == ("B", preferred, "en")
    assert vote.comment == "n p c / ? are letters here"
    assert vote.watched_s is not None
    assert vote.watched_s >= 2 * 2 + sum(end - start for start, end in DAMAGED)


WIDTH = "document.documentElement.scrollWidth"


@pytest.mark.parametrize(
    ("language", "phone", "dark"), [("ja", False, False), ("en", True, True), ("ja", True, False)]
)
def test_with_mouse_or_finger(visit: Visit, own: Served, language: str, phone: bool, dark: bool) -> None:
    own.open(own.pair(aspect="color"))
    visitor = visit(own, language=language, phone=phone, dark=dark)
    words = texts(language, "color")
    visitor.agree()
    assert visitor.text("h1") == words.aspect["name"]
    assert words.aspect["changed"] not in visitor.page.content()
    assert visitor.page.evaluate(WIDTH) == (360 if phone else 1280)
    left, right = (visitor.page.locator(f"#{place}").bounding_box() for place in ("left", "right"))
    assert (right["y"] > left["y"] + left["height"]) if phone else (right["x"] > left["x"] + left["width"])
    visitor.look()
    visitor.prefer("right")
    assert words.aspect["changed"] in visitor.text("#step-see")
    preferred = side_of(visitor, "right")
    visitor.see(0)
    visitor.tap("#part-on")
    visitor.wait("!document.getElementById('part-seen').disabled")
    visitor.tap("#part-seen")
    visitor.tap("#part-rate")
    assert visitor.page.evaluate(WIDTH) == (360 if phone else 1280)
    visitor.finish(0)
    visitor.page.wait_for_url("**/done")
    assert visitor.text("h1") == words.words["done"]["title"]
    (vote,) = own.votes(visitor.token)
    assert (vote.rating, vote.preferred, vote.language, vote.comment) == ("A", preferred, language, "")


@pytest.mark.parametrize(("language", "phone"), [("en", False), ("ja", True)])
def test_the_rest_of_the_first_look_is_played(visit: Visit, own: Served, language: str, phone: bool) -> None:
    own.open(look_share=0.0, languages=(language,))
    visitor = visit(own, language=language, phone=phone)
    words = texts(language, "aesthetics").words
    visitor.agree()
    marked = [(place, *part) for place in ("left", "right") for part in DAMAGED]
    assert visitor.page.locator(".wanted").count() == len(marked)
    left = words["script"]["prefer_more"].format(left="0:06", right="0:06")
    assert visitor.text("#prefer-state") == left
    time = words["script"]["look_on"].format(time="0:06")
    assert visitor.text("#look-on") == f"▶ {time}"
    # the picture is that of the first marked part
    visitor.both(f"document.getElementById(id).currentTime === {DAMAGED[0][0]}")
    visitor.fastest()
    # half of the first part, of one video alone
    visitor.page.locator("#linked").click()
    visitor.page.evaluate("document.getElementById('right').currentTime = 12")
    visitor.page.evaluate("document.getElementById('right').play()")
    visitor.wait(f"document.getElementById('prefer-state').textContent !== {json.dumps(left)}")
    visitor.page.evaluate("document.getElementById('right').pause()")
    visitor.page.locator("#linked").click()
    assert visitor.page.locator("[data-prefer=left]").is_disabled()
    assert visitor.page.evaluate(WIDTH) == (360 if phone else 1280)
    visitor.tap("#look-on")
    visitor.wait("!document.querySelector('[data-prefer]').disabled")
    assert visitor.page.locator("#look-on").is_hidden()
    assert visitor.page.locator(".wanted.done").count() == len(marked)
    visitor.prefer("left")
    # little else was played: a linked video runs beside the one that lacks a part, and players run on
    with own.desk() as desk, desk.database.read() as connection:
        (row,) = connection.execute(ASSIGNMENTS.select()).all()
    assert row.watched_s <= 2 * (6 + 4)
    # what was seen at the first look is watched by who did not know what to look for
    assert (row.seen_left, row.seen_right) == ("[]", "[]")
    assert visitor.page.locator("#stretches li").count() == len(DAMAGED)
    assert visitor.page.locator(".stretches .seen").count() == 0


def test_each_way_of_drawn_viewing_asks_for_its_own_and_is_in_the_vote(visit: Visit, own: Served) -> None:
    own.open(links=60, viewing="drawn", look_share=0.0, rule="paper", workers_per_pair=5)
    with own.desk() as desk:
        campaign = desk.campaigns.get(NAME)
    drawn = {campaign.shown_to(own.id_of(token)).protocol: token for token in own.tokens}
    asks = {
        "rule paper, marked viewing, 5 votes": ("prefer_hint", False),
        "rule paper, free viewing, 5 votes": ("prefer_hint_free", False),
        "paper": ("prefer_hint_free", True),
    }
    assert drawn.keys() == asks.keys()
    words = texts("en", "aesthetics").words["task"]
    for protocol, (hint, playhead) in asks.items():
        visitor = visit(own, drawn[protocol])
        visitor.agree()
        assert visitor.text(".lead .hint") == words[hint]
        marked = hint == "prefer_hint"
        assert bool(visitor.page.locator(".wanted").count()) == marked
        assert visitor.page.locator("#look-on").is_visible() == marked
        assert visitor.page.locator("[data-prefer=left]").is_disabled() == marked
        if marked:
            visitor.fastest()
            visitor.tap("#look-on")
            visitor.wait("!document.querySelector('[data-prefer]').disabled")
        visitor.prefer("left")
        assert visitor.text("#step-see .hint").startswith(words["see_playhead" if playhead else "see"])
        # half speed: a part is begun, and not played
        visitor.page.locator("#speed").select_option("0.5")
        visitor.tap("[data-number='0'] button >> nth=0")
        begun = ".tick:not([disabled])" if playhead else ".state"
        wait = f"document.querySelector('[data-number=\"0\"] {begun}')"
        visitor.wait(wait if playhead else f"{wait}.textContent.includes('%')")
        visitor.press("Space")
        assert visitor.page.locator("#stretches .tick:not([disabled])").count() == int(playhead)
        visitor.fastest()
        for number in range(len(DAMAGED)):
            visitor.see(number)
        visitor.finish(0)
        visitor.page.wait_for_url("**/done")
        (vote,) = own.votes(visitor.token)
        assert (vote.protocol, vote.rating) == (protocol, "A")


def test_nothing_tells_the_side_before_the_answer_and_what_is_skipped_does_not_count(visit: Visit) -> None:
    visitor = visit()
    visitor.agree()
    visitor.look()
    page = visitor.page.content()
    island = json.loads(visitor.page.locator("#island").inner_text())
    assert not {"must_see", "intended", "missing"} & set(island["view"])
    assert "step-see" not in page
    assert texts("en", "aesthetics").aspect["changed"] not in page
    assert visitor.page.locator(".wanted").count() == 0
    assert visitor.page.locator("#part-bar").count() == 0
    # keys of the later steps do nothing yet
    visitor.press("n", "p", "c")
    visitor.prefer("left")
    assert visitor.page.locator(".wanted").count() == len(DAMAGED)
    assert visitor.page.locator("#part-bar").is_visible()
    for _ in range(12):
        visitor.press("ArrowRight")
        visitor.page.wait_for_timeout(50)
    visitor.page.wait_for_timeout(1500)
    assert visitor.page.locator(".tick:not([disabled])").count() == 0
    assert visitor.page.locator("#send").is_disabled()
    assert "not yet played" in visitor.text("#stretches li >> nth=0")
    # a stretch that is left in the middle is not played
    visitor.page.locator("#speed").select_option("0.5")
    visitor.tap("#stretches button >> nth=0")
    visitor.wait("document.querySelector('[data-number=\"0\"] .state').textContent.includes('%')")
    visitor.press("Space")
    assert visitor.page.locator(".tick:not([disabled])").count() == 0
    # the language can be changed in the middle
    visitor.page.get_by_role("button", name="日本語").click()
    visitor.wait("document.documentElement.lang === 'ja'")
    visitor.settled()
    # what was played of a part is kept
    visitor.both("document.querySelector(`#${id}-track .played`)")
    assert visitor.text("#see-title").endswith(texts("ja").words["task"]["see_title"])


def test_moving_the_videos_together_and_alone(visit: Visit) -> None:
    visitor = visit()
    visitor.agree()
    visitor.press("ArrowRight", "Shift+ArrowRight", "ArrowLeft")
    visitor.wait("Math.abs(document.getElementById('right').currentTime - 54.95) < 0.2")
    assert visitor.time("left") == pytest.approx(visitor.time("right"), abs=0.1)
    visitor.press("l", "2", "ArrowLeft")
    visitor.wait("Math.abs(document.getElementById('right').currentTime - 49.95) < 0.2")
    assert visitor.time("left") == pytest.approx(54.95, abs=0.2)
    assert "chosen" in visitor.page.locator("#side-right").get_attribute("class")
    # linked again, they keep the offset at which they were aligned
    visitor.press("l", "1")
    assert visitor.page.locator("#level").is_visible()
    visitor.page.locator("#left-seek").focus()
    visitor.press("ArrowLeft")
    visitor.wait("Math.abs(document.getElementById('right').currentTime - 44.95) < 0.2")
    visitor.tap("#level")
    visitor.wait("Math.abs(document.getElementById('right').currentTime - 49.95) < 0.2")
    assert visitor.page.locator("#level").is_hidden()
    assert visitor.page.locator("#left-seek").get_attribute("aria-valuetext") == "0:49 of 1:00"
    visitor.press("f")
    visitor.wait("document.fullscreenElement?.id === 'main'")
    visitor.press("f")
    visitor.wait("!document.fullscreenElement")


def test_a_removed_clip_stands_beside_the_place_where_it_is_missing(visit: Visit, own: Served) -> None:
    # two clips of 6 s are missing from the low side: the second join is 12 s earlier there
    must_see = (
        *(Stretch(video="high", start_s=start, end_s=start + 6, kind="removed") for start in (6, 30)),
        *(Stretch(video="low", start_s=start, end_s=start + 4, kind="join") for start in (4, 22)),
    )
    own.open(own.pair(aspect="comprehensiveness", must_see=must_see))
    visitor = visit(own)
    visitor.decided()
    low = "left" if side_of(visitor, "left") == "high" else "right"  # the list begins with the high side
    high = "right" if low == "left" else "left"
    for number, (at_high, at_low) in enumerate([(6, 6), (30, 24), (4, 4), (28, 22)]):
        visitor.tap(f"[data-number='{number}'] button >> nth=0")
        visitor.wait(f"document.getElementById('{high}').currentTime >= {at_high}")
        visitor.wait(f"!document.getElementById('{low}').seeking")
        # both at the same moment: they play, and on a busy machine one may begin late
        apart = " - ".join(f"document.getElementById('{video}').currentTime" for video in (high, low))
        visitor.wait(f"Math.abs({apart} - {at_high - at_low}) < 0.8")
    assert "missing" in visitor.text("[data-number='0']")


def test_the_prompt(visit: Visit) -> None:
    visitor = visit(language="ja")
    visitor.agree()
    assert "owned" not in visitor.page.title()
    assert visitor.page.locator("#prompt").is_hidden()
    assert visitor.text("#now").strip() == EVIL.strip()
    visitor.tap("#prompt-open")
    clips = visitor.page.locator("#clips li")
    assert clips.nth(0).locator(".caption").inner_text().strip() == EVIL.strip()
    assert clips.nth(0).get_attribute("aria-current") == "true"
    clips.nth(3).get_by_role("button").click()
    visitor.wait("document.querySelectorAll('#clips li')[3].getAttribute('aria-current')")
    assert visitor.time("left") == visitor.time("right") == pytest.approx(18, abs=0.1)
    visitor.press("/")
    visitor.page.keyboard.type("SECOND 12")
    assert clips.filter(visible=True).count() == 1
    assert visitor.text("#clips mark") == "second 12"
    assert visitor.text("#matches") == "1か所見つかりました"
    visitor.press("Escape")
    assert clips.filter(visible=True).count() == 10
    visitor.page.locator("#search").fill("赤いボール")
    assert clips.filter(visible=True).count() == 9
    visitor.page.locator("#search").fill("")
    assert visitor.page.locator(".translation").nth(0).is_visible()
    visitor.page.locator("#translation").uncheck()
    assert visitor.page.locator(".translation").nth(0).is_hidden()
    visitor.tap("#prompt-close")
    assert visitor.page.locator("#prompt").is_hidden()
    visitor.press("/", "Escape", "Escape")
    assert visitor.page.locator("#prompt").is_hidden()


def test_everything_has_a_name_and_the_focus_is_seen(visit: Visit) -> None:
    visitor = visit()
    visitor.decided()
    unnamed = visitor.page.evaluate(
        "[...document.querySelectorAll('button, a, select, input:not([type=hidden]), textarea, video')]"
        ".filter((e) => !(e.getAttribute('aria-label') || e.getAttribute('aria-labelledby')"
        " || e.textContent.trim() || e.labels?.length)).map((e) => e.outerHTML)"
    )
    assert unnamed == []
    order: list[Any] = []
    visitor.page.reload()
    visitor.settled()
    visitor.press("Tab")
    assert visitor.page.evaluate(f"{FOCUSED}.className") == "skip"
    assert visitor.page.locator(".skip").bounding_box()["x"] >= 0
    visitor.press("Enter")
    assert visitor.page.evaluate(f"{FOCUSED}.id") == "main"
    visitor.page.locator("h1").click()
    for _ in range(40):
        visitor.press("Tab")
        order.append(visitor.page.evaluate(f"{FOCUSED}.id || {FOCUSED}.dataset.full || {FOCUSED}.className"))
        if visitor.page.evaluate(f"{FOCUSED}.matches('button, a, select, textarea')"):
            assert visitor.page.evaluate(f"getComputedStyle({FOCUSED}).outlineStyle") == "solid"
    wanted = ["left-seek", "right-seek", "play", "speed", "linked", "prompt-open", "part-on"]
    assert [name for name in order if name in wanted][: len(wanted)] == wanted
    visitor.press("?")
    assert visitor.page.get_by_role("dialog").is_visible()
    assert visitor.page.locator(".key-list div").count() == 12
    visitor.press("Escape")
    assert visitor.page.get_by_role("dialog").is_hidden()


@pytest.mark.parametrize("size", [(1366, 768), (390, 844)])
def test_question_state_and_answers_are_in_view(visit: Visit, own: Served, size: tuple[int, int]) -> None:
    parts = tuple((4.0 + 5 * number, 6.0 + 5 * number) for number in range(10))
    must_see = tuple(Stretch(video="low", start_s=a, end_s=b, kind="degraded") for a, b in parts)
    own.open(own.pair(first_look=parts, must_see=must_see), look_share=0.0)
    visitor = visit(own)
    visitor.page.set_viewport_size({"width": size[0], "height": size[1]})
    visitor.agree()
    for selector in ("h1", ".question", "#look-on", "[data-prefer=left]", "[data-prefer=right]"):
        box: Any = visitor.page.locator(selector).bounding_box()
        assert 0 <= box["y"] <= box["y"] + box["height"] <= size[1], selector
    assert visitor.page.evaluate("document.getElementById('left').clientHeight") <= 0.45 * size[1]
    # all parts one after the other, at a speed at which much is played between two looks at the playheads
    visitor.fastest()
    visitor.tap("#look-on")
    visitor.wait("!document.querySelector('[data-prefer]').disabled")
    visitor.prefer("left")
    assert visitor.page.evaluate("document.documentElement.scrollHeight") < 2000
    shown = 10 if size[0] > 720 else 1
    assert visitor.page.locator("#stretches li").filter(visible=True).count() == shown
    for selector in ("#part-on", "#part-seen"):
        box = visitor.page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= size[1]


@pytest.mark.parametrize("language", ["en", "ja"])
def test_header_is_one_line_and_an_enlarged_page_hides_nothing(
    visit: Visit, own: Served, language: str
) -> None:
    own.open(own.pair(1), own.pair(2, "spatial_relationship"), pay_per_hour=15, currency="EUR")
    worker = own.worker(language)
    worker.answer(own.clock.on, seconds=60.0)
    visitor = visit(own, worker.token, language=language)
    visitor.page.set_viewport_size({"width": 1366, "height": 768})
    visitor.enter()
    visitor.settled()
    for selector in ("h1", ".question", ".pays", ".stop a"):
        box: Any = visitor.page.locator(selector).bounding_box()
        assert box["height"] < 40, selector
        assert box["y"] + box["height"] < 60, selector
    # 200 %
    visitor.page.set_viewport_size({"width": 683, "height": 384})
    visitor.look()
    for selector in ("[data-prefer=left]", ".stop a", "#play", "#prompt-open"):
        uncovered(visitor, selector)
    visitor.prefer("left")
    visitor.page.locator("#speed").select_option("1")
    for number in range(len(DAMAGED)):
        visitor.tap("#part-on")
        visitor.wait("!document.getElementById('part-seen').disabled")
        visitor.tap("#part-seen")
        visitor.wait(f"document.querySelector('[data-number=\"{number}\"].confirmed')")
    for selector in ("#rating .rating >> nth=0", "#send", "#part-rate"):
        uncovered(visitor, selector)
    assert visitor.page.evaluate(WIDTH) == 683


def uncovered(visitor: Visitor, selector: str) -> None:
    """Scroll to an element, and check that nothing lies above its middle."""
    element = visitor.page.locator(selector)
    element.scroll_into_view_if_needed()
    assert element.evaluate(
        "(one) => { const box = one.getBoundingClientRect();"
        " const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);"
        " return one === top || one.contains(top); }"
    ), selector
