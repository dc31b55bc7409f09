"""Problems on a worker's side: lost connections, closed pages, two tabs, videos that do not play."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tasks.annotation.installation import media_folder
from tests.slvmeval.cli.running import lacks
from tests.slvmeval.web.annotation.pages.conftest import Served
from tests.slvmeval.web.annotation.pages.visitor import Visitor
from tests.slvmeval.web.annotation.pieces import NAME

pytestmark = pytest.mark.browser

Visit = Callable[..., Visitor]
LOST = ("ERR_INTERNET_DISCONNECTED", "net::ERR_")


def test_a_lost_connection_loses_nothing(visit: Visit) -> None:
    visitor = visit(expected=LOST)
    visitor.agree()
    visitor.look()
    visitor.context.set_offline(True)
    visitor.tap("[data-prefer=right]")
    visitor.tap("#sure-yes")
    visitor.wait("!document.getElementById('line').hidden")
    assert "No connection" in visitor.text("#line")
    visitor.context.set_offline(False)
    visitor.wait("document.getElementById('stretches')")
    assert "The right video" in visitor.text(".your-answer")
    visitor.wait("document.getElementById('line').dataset.state === 'online'")
    # what is played without a connection is reported when there is one
    loaded = "const b = document.getElementById(id).buffered; return b.length && b.end(b.length - 1) > 45"
    visitor.both(f"{{ {loaded}; }}")
    visitor.context.set_offline(True)
    visitor.tap("[data-number='0'] button >> nth=0")
    visitor.wait("document.getElementById('line').dataset.state === 'offline'")
    assert visitor.page.locator(".tick:not([disabled])").count() == 0
    visitor.context.set_offline(False)
    visitor.wait("document.querySelector('[data-number=\"0\"].seen')", 30)


def test_a_busy_server_is_asked_again(visit: Visit) -> None:
    visitor = visit(expected=("503",))
    visitor.agree()
    visitor.look()
    times = []

    def away(route: Any) -> None:
        times.append(1)
        if len(times) < 3:
            route.fulfill(status=503, json={"reason": "away", "message": "", "next_page": None})
        else:
            route.continue_()

    visitor.page.route("**/prefer", away)
    visitor.tap("[data-prefer=left]")
    visitor.tap("#sure-yes")
    visitor.wait("document.getElementById('line').dataset.state === 'busy'")
    visitor.wait("document.getElementById('stretches')")
    assert len(times) == 3


def test_an_answer_that_comes_late_takes_nothing_back(visit: Visit) -> None:
    """The browser receives the answers to a report and to a confirmation in reverse order."""
    visitor = visit()
    visitor.decided()
    visitor.see(1)
    visitor.tap("[data-number='0'] button >> nth=0")
    visitor.wait("document.querySelector('[data-number=\"0\"].seen')")
    held: list[tuple[Any, Any]] = []
    visitor.page.route("**/play", lambda route: held.append((route, route.fetch())))
    visitor.tap("#play")
    deadline = time.monotonic() + 20
    while not held:
        assert time.monotonic() < deadline, "no report of what is played"
        visitor.page.wait_for_timeout(50)
    visitor.tap("[data-number='0'] .tick")
    visitor.wait("document.querySelector('[data-number=\"0\"].confirmed')")
    visitor.wait("!document.getElementById('rating').disabled")
    for route, response in list(held):
        stale = response.json()
        assert not next(one for one in stale["must_see"] if one["number"] == 0)["confirmed"]
        route.fulfill(response=response)
    visitor.page.wait_for_timeout(300)
    assert visitor.page.locator("[data-number='0'].confirmed").count() == 1
    assert not visitor.page.evaluate("document.getElementById('rating').disabled")


def test_an_answer_of_an_old_session_can_be_repeated(visit: Visit, served: Served) -> None:
    visitor = visit(expected=("403", *LOST))
    visitor.agree()
    visitor.look()
    # the first request after the link was opened again is the answer, not a report of what was played
    visitor.page.route("**/play", lambda route: route.abort())
    # the link was opened again: the token of the open page is no longer valid
    visitor.context.request.get(f"{served.address}/c/{NAME}/enter?token={visitor.token}")
    visitor.tap("[data-prefer=left]")
    with visitor.page.expect_response("**/task") as renewed:
        visitor.tap("#sure-yes")
    assert renewed.value.ok
    assert "repeat" in visitor.text("#alert")
    visitor.tap("#sure-yes")
    visitor.wait("document.getElementById('stretches')")
    assert "The left video" in visitor.text(".your-answer")


def test_who_closes_the_page_continues_tomorrow(visit: Visit, own: Served) -> None:
    own.open(lease_minutes=60 * 48)
    today = visit(own)
    today.decided()
    today.see(1)
    today.context.close()
    own.clock.on(24 * 3600)
    tomorrow = visit(own, today.token)
    tomorrow.enter()
    tomorrow.settled()
    assert tomorrow.page.locator("[data-number='1'].confirmed").count() == 1
    assert tomorrow.page.locator("[data-number='0'].confirmed").count() == 0
    tomorrow.both("document.querySelector(`#${id}-track .played`)")
    tomorrow.fastest()
    tomorrow.see(0)
    tomorrow.finish(2)
    tomorrow.page.wait_for_url("**/done")
    assert [vote.rating for vote in own.votes(today.token)] == ["C"]


def test_leaving_in_the_middle_keeps_what_was_played(visit: Visit, served: Served) -> None:
    visitor = visit()
    visitor.agree()
    visitor.fastest()
    visitor.tap("#play")
    visitor.wait("document.getElementById('left').currentTime > 1")
    # earlier than the page's next report
    visitor.page.goto(f"{served.address}/c/{NAME}/consent")
    visitor.page.goto(f"{served.address}/c/{NAME}/task")
    visitor.settled()
    visitor.both("document.querySelector(`#${id}-track .played`)")


def test_two_tabs(visit: Visit, own: Served) -> None:
    own.open(own.pair(1), own.pair(2, "color"))
    visitor = visit(own)
    visitor.agree()
    first = visitor.page
    visitor.look()
    visitor.page = second = visitor.open_tab()
    second.goto(f"{own.address}/c/{NAME}/task")
    visitor.settled()
    visitor.wait("!document.getElementById('alert').hidden")
    assert "another tab" in second.locator("#alert").inner_text()
    visitor.wait("!document.getElementById('alert').hidden", page=first)
    # the second tab may answer what the first has opened; the first continues with it
    visitor.prefer("left")
    visitor.wait("document.getElementById('stretches')", page=first)
    assert "continued this task in another tab" in first.locator("#alert").inner_text()
    visitor.fastest()
    visitor.see(0)
    visitor.see(1)
    visitor.finish(0)
    visitor.wait("document.getElementById('step-see') === null")
    first.bring_to_front()
    visitor.wait("document.getElementById('step-see') === null", page=first)
    assert first.locator("h1").inner_text() == second.locator("h1").inner_text()
    assert len(own.votes(visitor.token)) == 1


def test_a_task_that_was_given_to_somebody_else(visit: Visit, own: Served) -> None:
    own.open(workers_per_pair=1, lease_minutes=30)
    slow = visit(own, expected=("410", "409"))
    slow.agree()
    slow.look()
    own.clock.on(2 * 3600)
    quick = visit(own)
    quick.agree()
    slow.page.bring_to_front()
    slow.tap("[data-prefer=left]")
    slow.tap("#sure-yes")
    slow.wait("document.querySelector('#alert a')")
    assert not lacks(slow.text("#alert"), "has expired", "does not count against you")


def test_a_video_that_the_browser_cannot_play(visit: Visit, own: Served) -> None:
    own.open()
    for video in own.filmed:
        (media_folder(own.root) / video.name).write_bytes(b"\x00\x00\x00\x18ftypisom" + bytes(50_000))
    visitor = visit(own)
    visitor.enter()
    visitor.consent()
    visitor.wait("document.querySelector('#left-veil b') && document.querySelector('#right-veil b')")
    veil = visitor.text("#left-veil")
    assert not lacks(veil, "cannot play this video", "current Chrome, Edge, Firefox or Safari")
    # the organiser repairs it; the worker retries without losing the page
    for video in own.filmed:
        (media_folder(own.root) / video.name).write_bytes(video.read_bytes())
    for place in ("left", "right"):
        visitor.tap(f"#{place}-veil button")
    visitor.settled()
    assert visitor.page.locator(".veil:visible").count() == 0
    visitor.look()


def test_a_video_that_breaks_off_is_loaded_again_where_it_stood(visit: Visit) -> None:
    visitor = visit(expected=(*LOST, "403"))
    visitor.agree()
    visitor.press("ArrowRight", "ArrowRight")
    visitor.wait("document.getElementById('left').currentTime === 10")
    visitor.page.evaluate(
        "(() => { const v = document.getElementById('left'); v.src = '/c/study/media/broken'; v.load(); })()"
    )
    visitor.wait("document.getElementById('left').currentTime === 10")
    assert visitor.page.locator("#left-veil").is_hidden()
