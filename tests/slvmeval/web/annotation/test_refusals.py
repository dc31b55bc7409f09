"""Forbidden requests are answered with a reason, as JSON or as a page; headers that every response has."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import httpx
import pytest
from sqlalchemy.exc import OperationalError

from slvmeval.web.annotation import app
from slvmeval.web.annotation.security import HEADERS
from storage_schemas.votes import Standing
from tasks.annotation.desk.answers import Answers
from tasks.annotation.desk.campaigns import Campaigns
from tasks.annotation.desk.database import Database
from tasks.annotation.desk.queue import Queue
from tasks.annotation.installation import sqlite_file
from tasks.annotation.pair_task import MAX_COMMENT_LENGTH
from tests.slvmeval.cli.running import lacks
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, PAGE, hidden, pair, reason

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


def test_locked_database_is_reported_soon_by_pages_and_health(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a request may wait once for a thread, and once for another process
    assert 2 * app.PATIENCE_S <= 10
    monkeypatch.setattr(app, "PATIENCE_S", 0.1)
    study.begin(1)
    worker = study.worker()
    with closing(sqlite3.connect(sqlite_file(study.root), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert reason(worker.get("task"), 503) == "away"
        health = worker.http.get("/health")
        assert (health.status_code, health.json()) == (503, {"status": "away"})
    assert worker.http.get("/health").status_code == 200
    assert worker.task()["state"] == "opened"


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


# -- headers ---------------------------------------------------------------------------------------------


def answers(study: Study) -> dict[str, httpx.Response]:
    """Return a response of each kind."""
    browser = study.browser()
    http = browser.http
    responses = {
        "enter": study.stranger().open("enter"),
        "redirect": browser.get("enter", params={"token": browser.token}),
        "consent": browser.open("consent"),
    }
    browser.enter()
    browser.task()
    urls = browser.data["urls"]
    forged = {"Origin": "https://x.example"}
    return responses | {
        "task": browser.open("task"),
        "refused page": browser.open("done"),
        "refused JSON": browser.get("done"),
        "forged": http.post(urls["prefer"], json={"place": "left"}, headers=forged),
        "media": browser.video("left"),
        "range": browser.video("left", Range="bytes=0-9"),
        "no range": browser.video("left", Range="bytes=9999999-"),
        "play": browser.send("play", place="left", intervals=[[0, 1]], speed=1),
        "unfit": browser.send("play"),
        "method": http.delete(urls["play"]),
        "asset": http.get("/assets/base.css"),
        "health": http.get("/health"),
        "nothing": http.get("/nothing", headers=PAGE),
        "organiser": http.get("/organiser/login", headers=PAGE),
        "host": http.get("/nothing", headers={"Host": "x.example"}),
    }


KEPT = {"asset": "no-cache", **dict.fromkeys(("media", "range", "no range"), "private, no-cache")}


def test_headers_are_on_every_response(shared: Study) -> None:
    for name, reply in answers(shared).items():
        assert set(reply.headers) >= {header.lower() for header in HEADERS}, name
        policy = reply.headers["content-security-policy"]
        assert "unsafe" not in policy, name
        assert not lacks(policy, "frame-ancestors 'none'", "default-src 'none'"), name
        assert reply.headers["x-content-type-options"] == "nosniff"
        allowed = ("no-referrer", "same-origin") if name == "organiser" else ("no-referrer",)
        assert reply.headers["referrer-policy"] in allowed, name
        assert "server" not in reply.headers, name
        assert name == "organiser" or reply.headers["cache-control"] == KEPT.get(name, "no-store"), name


def test_cookies_are_the_sessions_only_and_kept_from_scripts(shared: Study) -> None:
    browser = shared.browser()
    reply = browser.get("enter", params={"token": browser.token})
    (cookie,) = reply.headers.get_list("set-cookie")
    pieces = (part.strip().partition("=") for part in cookie.split(";"))
    parts = {name.lower(): value for name, _, value in pieces}
    assert (parts["path"], parts["samesite"]) == (f"/c/{NAME}", "lax")
    assert "httponly" in parts
    # gone when the browser is closed; for plain http on this machine it cannot be limited to https
    assert not {"expires", "max-age", "domain", "secure"} & set(parts)
    assert browser.token not in cookie


@pytest.mark.parametrize("name", ["base.css", "task.js"])
def test_assets_are_packed_and_asked_for_again_cheaply(shared: Study, name: str) -> None:
    http = shared.stranger().http
    packed = http.get(f"/assets/{name}")
    plain = http.get(f"/assets/{name}", headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.content == plain.content
    assert packed.headers["etag"] == plain.headers["etag"]
    again = http.get(f"/assets/{name}", headers={"If-None-Match": packed.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    for other in ("..%2Frender.py", "%2e%2e/render.py", "nothing.js", ""):
        assert http.get(f"/assets/{other}").status_code == 404, other


def test_prompts_that_are_long_travel_packed(study: Study) -> None:
    caption = "A red ball rolls over the green lawn while a man in a blue coat looks on. " * 200
    clips = tuple(clip.model_copy(update={"caption": caption}) for clip in pair(0).prompt_clips)
    study.begin([pair(0, prompt_clips=clips)])
    reply = study.worker().open("task")
    assert reply.headers["content-encoding"] == "gzip"
    assert len(reply.text) > 40_000
    assert reply.num_bytes_downloaded < 12_000
