"""A worker's complete path, over real HTTP."""

from __future__ import annotations

import math

import pytest

from tasks.annotation.desk.desk import Desk
from tasks.annotation.installation import installation_key
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, PAGE, SECONDS, Browser, hidden, island


def votes(study: Study) -> list[object]:
    with Desk.open(study.serving.database, installation_key(study.root)) as desk:
        return [vote for _, vote in desk.votes.read(NAME)]


def test_from_the_link_to_the_code(study: Study) -> None:
    # fifteen seconds of both videos are looked at: 30 s, and a minute, at 36 an hour
    study.begin(pairs=2, completion_code="C0DE", pay_per_hour=36, currency="JPY")
    pay = f"{math.ceil((2 * 15 + 60) / 100)} JPY"
    browser = study.browser()
    page = browser.open("enter", params={"token": study.tokens[0]})
    assert page.url.path == f"/c/{NAME}/consent"
    assert "token" not in str(page.url)
    assert study.tokens[0] not in page.text
    assert f"takes about {math.ceil((2 * 15 + 60) / 60)} minutes" in page.text
    assert f"you receive {pay}. The amount is 36 JPY for each hour" in page.text
    page = browser.enter()
    assert page.url.path == f"/c/{NAME}/task"
    assert f"You receive {pay} for this task." in page.text
    for rating in ("A", "C"):
        answer = browser.answer(study.clock.on, rating, f"I say {rating}")
        assert answer["next"] == f"/c/{NAME}/task"
    done = browser.open("task")
    assert done.url.path == f"/c/{NAME}/done"
    assert "C0DE" in done.text
    stored = votes(study)
    assert {vote.rating for vote in stored} == {"A", "C"}  # type: ignore[attr-defined]
    for vote in stored:
        assert vote.comment == f"I say {vote.rating}" and vote.language == "en"  # type: ignore[attr-defined]
        assert vote.watched_s == pytest.approx(2 * SECONDS)  # type: ignore[attr-defined]
        assert vote.total_s == pytest.approx(2 * SECONDS)  # type: ignore[attr-defined]


def test_each_step_opens_the_next_and_not_before(study: Study) -> None:
    study.begin(pairs=1)
    browser = study.worker()
    view = browser.data["view"]
    assert view["state"] == "opened"
    assert not view["can_prefer"]
    assert "must_see" not in view
    assert "intended" not in view
    refused = browser.send("prefer", place="left")
    assert (refused.status_code, refused.json()["reason"]) == (409, "not_looked")
    browser.fetch()
    study.clock.on(SECONDS)
    assert browser.look()["can_prefer"]
    view = browser.send_accepted("prefer", place="right")
    assert view["preferred"] == "right"
    assert view["intended"] in ("left", "right")
    assert [one["confirmed"] for one in view["must_see"]] == [False, False]
    refused = browser.send("rate", rating="A")
    assert (refused.status_code, refused.json()["reason"]) == (409, "not_confirmed")
    for stretch in view["must_see"]:
        view = browser.send_accepted("confirm", number=stretch["number"])
    assert view["can_rate"]
    assert browser.send_accepted("rate", rating="B")["next"]


def test_the_answers_of_the_page_leave_out_the_prompt_which_it_has(study: Study) -> None:
    study.begin(pairs=1)
    browser = study.worker()
    assert browser.data["view"]["prompt"]
    browser.fetch()
    study.clock.on(SECONDS)
    assert "prompt" not in browser.look()


def test_who_closes_the_page_comes_back_to_the_same_task(study: Study) -> None:
    study.begin(pairs=3, lease_minutes=60)
    browser = study.worker()
    first = browser.data["view"]["id"]
    browser.fetch()
    study.clock.on(20)
    browser.send_accepted("play", place="left", intervals=[[0, 10]], speed=1)
    study.clock.on(24 * 3600)
    # the browser was closed and its cookie is gone; the link is the same
    with Browser(study.address, study.tokens[0]) as again:
        again.enter()
        view = again.task()
    assert view["id"] == first
    assert view["seen"]["left"] == [[0, 10]]


def test_two_tabs_have_one_task_and_the_same_answer_twice_is_one_vote(study: Study) -> None:
    study.begin(pairs=3)
    one = study.worker()
    other = study.browser()
    other.http.cookies = one.http.cookies
    assert other.task()["id"] == one.data["view"]["id"]
    one.answer(study.clock.on)
    assert other.send("rate", rating="A").status_code == 200
    refused = other.send("rate", rating="C")
    assert (refused.status_code, refused.json()["reason"]) == (409, "other_answer")
    assert refused.json()["go_on"] == f"/c/{NAME}/task"
    assert len(votes(study)) == 1


def test_the_language_is_the_browsers_then_the_workers(study: Study) -> None:
    study.begin()
    browser = study.browser()
    page = browser.http.get(
        f"/c/{NAME}/enter",
        params={"token": study.tokens[0]},
        headers={**PAGE, "Accept-Language": "fr, ja;q=0.8, en;q=0.5"},
        follow_redirects=True,
    )
    assert '<html lang="ja">' in page.text
    chosen = {"csrf": hidden(page.text), "language": "en"}
    page = browser.http.post(f"/c/{NAME}/language", data=chosen, headers=PAGE, follow_redirects=True)
    assert page.url.path.endswith("/consent")
    assert '<html lang="en">' in page.text
    page = browser.http.post(
        f"/c/{NAME}/consent",
        data={"csrf": hidden(page.text), "agree": "yes", "language": "ja"},
        headers=PAGE,
        follow_redirects=True,
    )
    assert '<html lang="ja">' in page.text
    assert island(page.text)["view"]["language"] == "ja"
    chosen = {"csrf": hidden(page.text), "language": "en"}
    page = browser.http.post(f"/c/{NAME}/language", data=chosen, headers=PAGE, follow_redirects=True)
    assert '<html lang="en">' in page.text
    refused = browser.http.post(f"/c/{NAME}/language", data={**chosen, "language": "fr"})
    assert (refused.status_code, refused.json()["reason"]) == (422, "bad_value")


def test_without_consent_there_is_no_task(study: Study) -> None:
    study.begin()
    browser = study.browser()
    page = browser.open("enter", params={"token": study.tokens[0]})
    assert browser.open("task").url.path.endswith("/consent")
    refused = browser.http.post(f"/c/{NAME}/consent", data={"csrf": hidden(page.text), "language": "en"})
    assert (refused.status_code, refused.json()["reason"]) == (422, "no_consent")
    assert browser.open("task").url.path.endswith("/consent")


@pytest.mark.parametrize(
    ("platform", "parameters"),
    [
        ("prolific", {"PROLIFIC_PID": "p1", "STUDY_ID": "s1", "SESSION_ID": "x1"}),
        ("mturk", {"workerId": "W1", "assignmentId": "A1", "hitId": "H1"}),
    ],
)
def test_workers_of_platforms_come_by_parameters_where_that_is_allowed(
    study: Study, platform: str, parameters: dict[str, str]
) -> None:
    study.begin(serving={"platforms": (platform,)})
    with Browser(study.address) as browser:
        page = browser.open("enter", params=parameters)
        assert page.url.path.endswith("/consent")
        assert not page.url.query
    with Desk.open(study.serving.database, installation_key(study.root)) as desk:
        (worker,) = desk.organiser.workers(NAME)
        (entered,) = [event for event in desk.events.read(NAME) if event.kind == "entered"]
    assert worker.platform == platform
    # the database does not reveal who it was
    assert parameters[next(iter(parameters))] not in f"{worker}{entered}"


def test_parameters_of_platforms_are_not_taken_unasked(study: Study) -> None:
    study.begin(serving={"platforms": ("mturk",)})
    with Browser(study.address) as browser:
        reply = browser.http.get(f"/c/{NAME}/enter", params={"PROLIFIC_PID": "p1"})
        assert (reply.status_code, reply.json()["reason"]) == (403, "no_platform")
        preview = {"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE", "hitId": "H1"}
        for request in (preview, {**preview, "workerId": "W1"}):
            reply = browser.http.get(f"/c/{NAME}/enter", params=request)
            assert (reply.status_code, reply.json()["reason"]) == (403, "preview")


def test_who_has_a_session_needs_no_link_and_who_has_none_is_asked_for_one(study: Study) -> None:
    study.begin()
    browser = study.worker()
    assert browser.open("enter").url.path.endswith("/task")
    with Browser(study.address) as stranger:
        page = stranger.open("enter")
        assert page.status_code == 200
        assert 'name="token"' in page.text


def test_health_says_whether_the_database_answers(study: Study) -> None:
    study.begin()
    with Browser(study.address) as anybody:
        reply = anybody.http.get("/health")
        assert (reply.status_code, reply.json()) == (200, {"status": "ok"})
