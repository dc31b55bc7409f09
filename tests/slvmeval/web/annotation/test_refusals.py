"""Forbidden requests: each is answered with a reason, as JSON for scripts and as a page for people."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from storage_schemas.votes import Standing
from tasks.annotation.desk.answers import Answers
from tasks.annotation.desk.campaigns import Campaigns
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.queue import Queue
from tasks.annotation.installation import installation_key
from tasks.annotation.pair_task import LONGEST_COMMENT, PairTask
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, PAGE, SECONDS, Browser, hidden, pair, reason


def test_a_cheat_who_answers_without_watching_is_refused(study: Study) -> None:
    study.begin(pairs=1, look_share=0.1)
    browser = study.worker()
    assert reason(browser.send("rate", rating="A"), 409) == "no_preference"
    assert reason(browser.send("prefer", place="left"), 409) == "not_looked"
    # claims to have played everything at once, without having fetched a byte
    browser.look()
    assert reason(browser.send("prefer", place="left"), 409) == "not_looked"
    # has fetched everything and claims to have played it, but no time has passed
    browser.fetch()
    browser.look()
    assert reason(browser.send("prefer", place="left"), 409) == "not_looked"
    # waits until the preference is allowed, and confirms what was not played
    study.clock.on(4)
    browser.look(4)
    view = browser.send_accepted("prefer", place="left")
    assert reason(browser.send("confirm", number=0), 409) == "not_seen"
    assert reason(browser.send("confirm", number=99), 422) == "bad_value"
    # playback that is too fast does not count
    study.clock.on(SECONDS)
    low = "right" if view["intended"] == "left" else "left"
    browser.send_accepted("play", place=low, intervals=[[0, SECONDS]], speed=16)
    assert reason(browser.send("confirm", number=0), 409) == "not_seen"
    assert reason(browser.send("rate", rating="A"), 409) == "not_seen"
    with Desk.open(study.serving.database, installation_key(study.root)) as desk:
        assert desk.votes.read(NAME) == []


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("play", {"place": "up", "intervals": [], "speed": 1}),
        ("play", {"place": "left", "intervals": [[0]], "speed": 1}),
        ("play", {"place": "left", "intervals": [[0, 1, 2]], "speed": 1}),
        ("play", {"place": "left", "intervals": [[0, "1"]], "speed": 1}),
        ("play", {"place": "left", "intervals": [[-1, 1]], "speed": 1}),
        ("play", {"place": "left", "intervals": [[0, 1]], "speed": 0}),
        ("play", {"place": "left", "intervals": [[0, 1]] * 501, "speed": 1}),
        ("play", {"place": "left", "intervals": [[0, 1]], "speed": 1, "more": 1}),
        ("prefer", {"place": None}),
        ("confirm", {"number": -1}),
        ("confirm", {"number": True}),
        ("rate", {"rating": "D"}),
        ("rate", {"rating": "A", "comment": "x" * (LONGEST_COMMENT + 1)}),
        ("rate", []),
    ],
)
def test_values_that_no_page_of_ours_sends(study: Study, name: str, body: Any) -> None:
    study.begin()
    browser = study.worker()
    token = {"X-CSRF": browser.data["csrf"]}
    reply = browser.http.post(browser.data["urls"][name], json=body, headers=token)
    assert reason(reply, 422) == "bad_value"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"place": "left", "intervals": [[0, NaN]], "speed": 1}',
        "\xff",
        "[" * 100_000,
        '{"a":' * 40_000,
    ],
)
def test_bodies_that_are_no_json_of_ours(study: Study, text: str) -> None:
    study.begin()
    browser = study.worker()
    headers = {"X-CSRF": browser.data["csrf"], "Content-Type": "application/json"}
    body = text.encode("latin-1")
    reply = browser.http.post(browser.data["urls"]["play"], content=body, headers=headers)
    assert reason(reply, 422) == "bad_value"


def test_a_body_may_not_be_endless(study: Study) -> None:
    study.begin()
    browser = study.worker()
    headers = {"X-CSRF": browser.data["csrf"], "Content-Type": "application/json"}
    url = browser.data["urls"]["play"]
    reply = browser.http.post(url, content=b" " * 300_000, headers=headers)
    assert reason(reply, 413) == "too_large"
    # without a content length
    reply = browser.http.post(url, content=(b" " * 10_000 for _ in range(30)), headers=headers)
    assert reason(reply, 413) == "too_large"
    # and a form, by which nobody has entered yet
    form = (b"x" * 10_000 for _ in range(30))
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    reply = browser.http.post(f"/c/{NAME}/consent", content=form, headers=kind)
    assert reason(reply, 413) == "too_large"


def test_only_the_workers_own_pages_can_post(study: Study) -> None:
    study.begin()
    browser = study.worker()
    own = browser.data["csrf"]
    play = {"place": "left", "intervals": [[0, 1]], "speed": 1}
    for headers in (
        {},
        {"X-CSRF": ""},
        {"X-CSRF": own[:-1]},
        {"X-CSRF": own + "x"},
        {"X-CSRF": study.worker(1).data["csrf"]},
        {"X-CSRF": own, "Origin": "https://elsewhere.example"},
        {"X-CSRF": own, "Origin": "http://127.0.0.1:1"},
        {"X-CSRF": own, "Sec-Fetch-Site": "cross-site"},
        {"X-CSRF": own, "Sec-Fetch-Site": "same-site"},
    ):
        assert reason(browser.send("play", headers=headers, **play), 403) == "forged", headers
    for headers in (
        {"X-CSRF": own, "Origin": study.address},
        # what browsers send from a form of a page without referrer
        {"X-CSRF": own, "Origin": "null", "Sec-Fetch-Site": "same-origin"},
    ):
        assert browser.send("play", headers=headers, **play).status_code == 200, headers
    form = {"agree": "yes", "language": "en"}
    for token in ({}, {"csrf": "x"}):
        assert reason(browser.http.post(f"/c/{NAME}/consent", data={**form, **token}), 403) == "forged"
        assert reason(browser.http.post(f"/c/{NAME}/language", data={**form, **token}), 403) == "forged"
    assert browser.http.get(browser.data["urls"]["play"]).status_code == 405


def test_a_changed_cookie_is_none(study: Study) -> None:
    study.begin()
    browser = study.worker()
    (cookie,) = browser.http.cookies.jar
    value = str(cookie.value)
    body, stamp, signature = value.split(".")
    flipped = "A" if signature[0] != "A" else "B"
    for changed in (
        "",
        "x",
        value[:-4],
        f"{body}.{stamp}.{flipped}{signature[1:]}",
        f"{body}x.{stamp}.{signature}",
    ):
        with Browser(study.address) as thief:
            thief.http.cookies.set(cookie.name, changed)
            assert reason(thief.http.get(f"/c/{NAME}/task"), 401) == "no_session", changed
    with Browser(study.address) as same:
        same.http.cookies.set(cookie.name, value)
        assert same.http.get(f"/c/{NAME}/task").status_code == 200


def test_another_workers_task_is_unknown(study: Study) -> None:
    study.begin(pairs=3)
    mine, theirs = study.worker(0), study.worker(1)
    assert mine.data["view"]["id"] != theirs.data["view"]["id"]
    mine.data["urls"] = theirs.data["urls"]
    for name, body in (
        ("play", {"place": "left", "intervals": [[0, 1]], "speed": 1}),
        ("prefer", {"place": "left"}),
        ("confirm", {"number": 0}),
        ("rate", {"rating": "A"}),
    ):
        assert reason(mine.send(name, **body), 404) == "unknown_assignment"
    assert mine.send("rate", rating="A").json()["go_on"] == f"/c/{NAME}/task"


def test_other_campaigns_are_not_there(study: Study) -> None:
    study.begin()
    browser = study.worker()
    for name in ("other", "..", "x" * 200, "%00", "study%2F.."):
        reply = browser.http.get(f"/c/{name}/task")
        assert reply.status_code in (404, 400), name
    assert reason(browser.http.get("/c/other/task"), 404) == "unknown_campaign"
    assert reason(browser.http.get("/nothing"), 404) == "not_found"
    page = browser.http.get("/nothing", headers=PAGE)
    assert page.status_code == 404
    assert "<h1>" in page.text


def test_a_database_that_goes_away_is_said_and_nobody_is_thrown_out(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    study.begin()
    browser = study.worker()
    monkeypatch.setattr("slvmeval.web.annotation.site._SETTINGS_S", 0)

    def away(*_: object) -> None:
        raise OperationalError("SELECT", {}, Exception("the server closed the connection"))

    with monkeypatch.context() as patched:
        for where, name in ((Queue, "next"), (Campaigns, "get"), (Campaigns, "all"), (Answers, "rate")):
            patched.setattr(where, name, away)
        reply = browser.http.get(f"/c/{NAME}/task")
        assert reason(reply, 503) == "away"
        assert int(reply.headers["retry-after"]) > 0
        page = browser.open("task")
        assert page.status_code == 503
        assert 'data-reason="away"' in page.text
        assert reason(browser.send("rate", rating="A"), 503) == "away"
        health = browser.http.get("/health")
        assert (health.status_code, health.json()) == (503, {"status": "away"})
    assert browser.task()["state"] == "opened"


def test_what_nobody_foresaw_is_said_and_logged(
    study: Study, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    study.begin()
    browser = study.worker()
    with monkeypatch.context() as patched:
        patched.setattr(Queue, "next", lambda *_: 1 / 0)
        reply = browser.http.get(f"/c/{NAME}/task")
        assert reason(reply, 500) == "broken"
        assert "ZeroDivisionError" not in reply.text
        page = browser.open("task")
        assert page.status_code == 500
        assert 'data-reason="broken"' in page.text
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert "ZeroDivisionError" in caplog.text
    assert browser.task()["state"] == "opened"


def test_a_worker_who_was_erased_is_asked_to_come_in_again(study: Study) -> None:
    study.begin()
    browser = study.worker()
    with Desk.open(study.serving.database, installation_key(study.root)) as desk:
        desk.organiser.erase(NAME, desk.organiser.workers(NAME)[0].worker)
    reply = browser.http.get(f"/c/{NAME}/task")
    assert reason(reply, 401) == "unknown_worker"
    assert reply.json()["go_on"] == f"/c/{NAME}/enter"


def test_an_excluded_worker_is_told_and_gets_nothing_more(study: Study) -> None:
    study.begin(pairs=3)
    browser = study.worker()
    with Desk.open(study.serving.database, installation_key(study.root)) as desk:
        (worker,) = desk.organiser.workers(NAME)
        desk.organiser.decide(NAME, worker.worker, Standing.EXCLUDED, "too fast", "me")
    assert reason(browser.http.get(f"/c/{NAME}/task"), 403) == "excluded"
    page = browser.open("task")
    assert page.status_code == 403
    assert 'data-reason="excluded"' in page.text


def test_there_is_no_code_for_nothing(study: Study) -> None:
    study.begin()
    browser = study.worker()
    reply = browser.http.get(f"/c/{NAME}/done")
    assert reason(reply, 409) == "nothing_done"
    assert reply.json()["go_on"] == f"/c/{NAME}/task"


def test_where_all_is_taken_a_worker_comes_back_later(study: Study) -> None:
    study.begin(pairs=1, workers_per_pair=1)
    study.worker(0)
    late = study.browser(1)
    page = late.enter()
    assert page.url.path.endswith("/task")
    assert 'data-reason="no_tasks"' in page.text


EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \"'{{7777777*7}}"


def test_texts_of_data_sets_and_workers_are_shown_as_text(study: Study) -> None:
    def evil(made: PairTask) -> PairTask:
        clips = tuple(
            clip.model_copy(update={"caption": EVIL, "translation": EVIL}) for clip in made.prompt_clips
        )
        stretches = tuple(one.model_copy(update={"note": EVIL}) for one in made.must_see)
        return made.model_copy(update={"prompt_clips": clips, "must_see": stretches})

    study.begin(
        pairs=[evil(pair(0))], contact=EVIL, organisation=EVIL, consent={"en": EVIL}, completion_code=EVIL
    )
    browser = study.browser()
    pages = [browser.open("enter", params={"token": study.tokens[0]}).text, browser.enter().text]
    browser.answer(study.clock.on, comment=EVIL)
    assert browser.data["view"]["prompt"][0]["caption"] == EVIL
    pages.append(browser.open("done").text)
    for page in pages:
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "54444439" not in page
        assert page.count("<script") == page.count("</script>")
    with Desk.open(study.serving.database, installation_key(study.root)) as desk:
        ((_, vote),) = desk.votes.read(NAME)
    assert vote.comment == EVIL
    # JSON responses are never treated as pages
    reply = browser.http.get(f"/c/{NAME}/enter", params={"token": EVIL})
    assert reply.headers["content-type"] == "application/json"
    assert json.loads(reply.text)


def test_what_a_form_sends_is_not_shown(study: Study) -> None:
    study.begin()
    browser = study.browser()
    page = browser.open("enter", params={"token": study.tokens[0]})
    form = {"csrf": hidden(page.text), "agree": "yes", "language": EVIL}
    reply = browser.http.post(f"/c/{NAME}/consent", data=form, headers=PAGE)
    assert reply.status_code == 422
    assert "alert(1)" not in reply.text
