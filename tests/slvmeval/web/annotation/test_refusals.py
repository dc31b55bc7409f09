"""Forbidden requests: each is answered with a reason, as JSON for scripts and as a page for people."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from storage_schemas.votes import Standing
from tasks.annotation.desk.answers import Answers
from tasks.annotation.desk.campaigns import Campaigns
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.queue import Queue
from tasks.annotation.pair_task import MAX_COMMENT_LENGTH
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, PAGE, hidden, reason

PLAY = {"place": "left", "intervals": [[0, 1]], "speed": 1}


#: Bodies that no page of ours sends, by the request.
UNFIT: dict[str, list[Any]] = {
    "play": [
        {**PLAY, "place": "up"},
        *({**PLAY, "intervals": intervals} for intervals in ([[0]], [[0, 1, 2]], [[0, "1"]], [[-1, 1]])),
        {**PLAY, "intervals": [[0, 1]] * 501},
        {**PLAY, "speed": 0},
        {**PLAY, "more": 1},
    ],
    "prefer": [{"place": None}],
    "confirm": [{"number": -1}, {"number": True}],
    "rate": [{"rating": "D"}, {"rating": "A", "comment": "x" * (MAX_COMMENT_LENGTH + 1)}, []],
}
NOT_JSON = ["", "{", '{"place": "left", "intervals": [[0, NaN]], "speed": 1}', "\xff"]


def test_bodies_that_no_page_sends_are_refused(shared: Study) -> None:
    browser = shared.worker()
    headers = {"X-CSRF": browser.data["csrf"], "Content-Type": "application/json"}
    for name, bodies in UNFIT.items():
        for body in bodies:
            reply = browser.http.post(browser.data["urls"][name], json=body, headers=headers)
            assert reason(reply, 422) == "bad_value", body
    url = browser.data["urls"]["play"]
    for text in (*NOT_JSON, "[" * 100_000, '{"a":' * 40_000):
        reply = browser.http.post(url, content=text.encode("latin-1"), headers=headers)
        assert reason(reply, 422) == "bad_value", text[:60]


def test_bodies_may_not_be_endless(shared: Study) -> None:
    browser = shared.worker()
    headers = {"X-CSRF": browser.data["csrf"], "Content-Type": "application/json"}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for url, content, kind in (
        (browser.data["urls"]["play"], b" " * 300_000, headers),
        # without a content length
        (browser.data["urls"]["play"], (b" " * 10_000 for _ in range(30)), headers),
        # and a form, by which nobody has entered yet
        (f"/c/{NAME}/consent", (b"x" * 10_000 for _ in range(30)), form),
    ):
        assert reason(browser.http.post(url, content=content, headers=kind), 413) == "too_large"


def test_post_is_for_the_workers_own_pages(shared: Study) -> None:
    browser = shared.worker()
    own = browser.data["csrf"]
    for headers in (
        {},
        {"X-CSRF": ""},
        {"X-CSRF": own[:-1]},
        {"X-CSRF": own + "x"},
        {"X-CSRF": shared.worker().data["csrf"]},
        {"X-CSRF": own, "Origin": "https://elsewhere.example"},
        {"X-CSRF": own, "Origin": "http://127.0.0.1:1"},
        {"X-CSRF": own, "Sec-Fetch-Site": "cross-site"},
        {"X-CSRF": own, "Sec-Fetch-Site": "same-site"},
    ):
        assert reason(browser.send("play", headers=headers, **PLAY), 403) == "forged", headers
    for headers in (
        {"X-CSRF": own, "Origin": shared.address},
        # what browsers send from a form of a page without referrer
        {"X-CSRF": own, "Origin": "null", "Sec-Fetch-Site": "same-origin"},
    ):
        assert browser.send("play", headers=headers, **PLAY).status_code == 200, headers
    for token in ({}, {"csrf": "x"}):
        for path in ("consent", "language"):
            reply = browser.http.post(f"/c/{NAME}/{path}", data={"agree": "yes", "language": "en", **token})
            assert reason(reply, 403) == "forged"
    assert browser.http.get(browser.data["urls"]["play"]).status_code == 405


def test_cookie_that_was_changed_is_none(shared: Study) -> None:
    (cookie,) = shared.worker().http.cookies.jar
    value = str(cookie.value)
    # a body that is compressed begins with a point
    body, stamp, signature = value.rsplit(".", 2)
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    thief = shared.stranger()
    for changed in ("", "x", value[:-4], f"{body}.{stamp}.{flipped}", f"{body}x.{stamp}.{signature}", value):
        reply = thief.get("task", headers={"Cookie": f"{cookie.name}={changed}"})
        if changed == value:
            assert reply.status_code == 200
        else:
            assert reason(reply, 401) == "no_session", changed


def test_task_of_another_worker_is_unknown(shared: Study) -> None:
    mine, theirs = shared.worker(), shared.worker()
    assert mine.data["view"]["id"] != theirs.data["view"]["id"]
    mine.data["urls"] = theirs.data["urls"]
    sent = {"play": PLAY, "prefer": {"place": "left"}, "confirm": {"number": 0}, "rate": {"rating": "A"}}
    for name, body in sent.items():
        refused = mine.send(name, **body)
        assert reason(refused, 404) == "unknown_assignment"
        assert refused.json()["next_page"] == f"/c/{NAME}/task"


def test_campaigns_that_are_not_served_are_not_there(shared: Study) -> None:
    browser = shared.worker()
    for name in ("other", "..", "x" * 200, "%00", "study%2F.."):
        assert browser.http.get(f"/c/{name}/task").status_code in (404, 400), name
    assert reason(browser.http.get("/c/other/task"), 404) == "unknown_campaign"
    assert reason(browser.http.get("/nothing"), 404) == "not_found"
    page = browser.http.get("/nothing", headers=PAGE)
    assert page.status_code == 404
    assert "<h1>" in page.text


def test_database_that_goes_away_is_reported_and_throws_out_no_worker(
    shared: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = shared.worker()
    monkeypatch.setattr("slvmeval.web.annotation.site._SETTINGS_S", 0)

    def away(*_: object) -> None:
        raise OperationalError("SELECT", {}, Exception("the server closed the connection"))

    with monkeypatch.context() as patched:
        patched.setattr(Database, "check_writing", away)
        for where, name in ((Queue, "next"), (Campaigns, "get"), (Answers, "rate")):
            patched.setattr(where, name, away)
        reply = browser.get("task")
        assert reason(reply, 503) == "away"
        assert int(reply.headers["retry-after"]) > 0
        page = browser.open("task")
        assert page.status_code == 503
        assert 'data-reason="away"' in page.text
        assert reason(browser.send("rate", rating="A"), 503) == "away"
        health = browser.http.get("/health")
        assert (health.status_code, health.json()) == (503, {"status": "away"})
    health = browser.http.get("/health")
    assert (health.status_code, health.json()) == (200, {"status": "ok"})
    assert browser.task()["state"] == "opened"


def test_unforeseen_error_is_reported_and_logged(
    shared: Study, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    browser = shared.worker()
    with monkeypatch.context() as patched:
        patched.setattr(Queue, "next", lambda *_: 1 / 0)
        reply = browser.get("task")
        assert reason(reply, 500) == "broken"
        assert "ZeroDivisionError" not in reply.text
        page = browser.open("task")
        assert page.status_code == 500
        assert 'data-reason="broken"' in page.text
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert "ZeroDivisionError" in caplog.text
    assert browser.task()["state"] == "opened"


def test_excluded_or_erased_worker_is_told_and_gets_nothing_more(shared: Study) -> None:
    browser = shared.worker()
    worker = shared.id_of(browser.token)
    with shared.desk() as desk:
        desk.organiser.decide(NAME, worker, Standing.EXCLUDED, "too fast", "me")
        assert reason(browser.get("task"), 403) == "excluded"
        page = browser.open("task")
        assert page.status_code == 403
        assert 'data-reason="excluded"' in page.text
        desk.organiser.erase(NAME, worker)
    reply = browser.get("task")
    assert reason(reply, 401) == "unknown_worker"
    assert reply.json()["next_page"] == f"/c/{NAME}/enter", "they are asked to come in again"


def test_form_is_not_shown_again(shared: Study) -> None:
    browser = shared.browser()
    form = {"csrf": hidden(browser.follow().text), "agree": "yes", "language": "<script>alert(1)"}
    reply = browser.http.post(f"/c/{NAME}/consent", data=form, headers=PAGE)
    assert reply.status_code == 422
    assert "alert(1)" not in reply.text
