"""A worker's complete path, over real HTTP, and the code for who stops early."""

from __future__ import annotations

import pytest

from storage_schemas.votes import Standing
from tests.slvmeval.cli.running import lacks
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, PAGE, SECONDS, hidden, island, pair, reason, words


def test_worker_goes_from_the_link_to_the_code(study: Study) -> None:
    # both videos play together: fifteen seconds first, ten that are changed, and a minute for the answer
    study.begin([pair(0), pair(1, control=True)], completion_code="C0DE", pay_per_hour=3600, currency="JPY")
    pay = "85 JPY"
    browser = study.browser()
    page = browser.follow()
    assert page.url.path == f"/c/{NAME}/consent"
    assert "token" not in str(page.url)
    assert browser.token not in page.text
    assert not lacks(
        page.text,
        "takes about 2 minutes",
        f"you receive {pay}. The amount is 3,600 JPY for each hour",
    )
    page = browser.enter()
    assert page.url.path == f"/c/{NAME}/task"
    assert f"Pays {pay}" in page.text
    for rating in ("A", "C"):
        answer = browser.answer(study.clock.on, rating, f"I say {rating}")
        assert answer["next"] == f"/c/{NAME}/task"
    done = browser.open("task")
    assert done.url.path == f"/c/{NAME}/done"
    assert "C0DE" in done.text
    stored = study.votes(browser.token)
    assert {vote.rating for vote in stored} == {"A", "C"}
    controls = {one.pair_id: one.control for one in study.pairs}
    assert {vote.pair_id: vote.control for vote in stored} == controls
    for vote in stored:
        assert (vote.comment, vote.language) == (f"I say {vote.rating}", "en")
        # both videos before the first answer, and again after it
        assert vote.watched_s == pytest.approx(4 * SECONDS)
        assert vote.total_s == pytest.approx(2 * SECONDS)


def test_step_opens_the_next_and_not_before(shared: Study) -> None:
    browser = shared.worker()
    view = browser.data["view"]
    assert view["prompt"]
    assert (view["state"], view["can_prefer"]) == ("opened", False)
    assert not {"must_see", "intended"} & set(view)
    assert reason(browser.send("rate", rating="A"), 409) == "no_preference"
    assert reason(browser.send("prefer", place="left"), 409) == "not_looked"
    assert reason(browser.get("done"), 409) == "nothing_done", "there is no code for nothing"
    assert browser.get("done").json()["next_page"] == f"/c/{NAME}/task"
    browser.fetch()
    shared.clock.on(SECONDS)
    view = browser.look()
    assert view["can_prefer"]
    assert "prompt" not in view, "the page has it"
    view = browser.send_accepted("prefer", place="right")
    assert view["preferred"] == "right"
    assert view["intended"] in ("left", "right")
    assert [one["confirmed"] for one in view["must_see"]] == [False, False]
    assert view["seen"] == {"left": [], "right": []}, "what was played before counts no more"
    assert reason(browser.send("confirm", number=0), 409) == "not_seen"
    assert reason(browser.send("confirm", number=99), 422) == "bad_value"
    shared.clock.on(SECONDS)
    view = browser.look()
    assert reason(browser.send("rate", rating="A"), 409) == "not_confirmed"
    for stretch in view["must_see"]:
        view = browser.send_accepted("confirm", number=stretch["number"])
    assert view["can_rate"]
    assert browser.send_accepted("rate", rating="B")["next"]


def test_tabs_have_one_task_and_the_same_answer_twice_is_one_vote(shared: Study) -> None:
    one, other = shared.worker(), shared.stranger()
    other.http.cookies = one.http.cookies
    assert other.task()["id"] == one.data["view"]["id"]
    one.answer(shared.clock.on)
    assert other.send("rate", rating="A").status_code == 200
    refused = other.send("rate", rating="C")
    assert reason(refused, 409) == "other_answer"
    assert refused.json()["next_page"] == f"/c/{NAME}/task"
    assert len(shared.votes(one.token)) == 1


def test_language_is_the_browsers_then_the_workers(shared: Study) -> None:
    browser = shared.browser()
    accepts = {**PAGE, "Accept-Language": "fr, ja;q=0.8, en;q=0.5"}
    page = browser.get("enter", params={"token": browser.token}, headers=accepts, follow_redirects=True)
    assert '<html lang="ja">' in page.text
    csrf = hidden(page.text)
    page = browser.submit("language", csrf=csrf, language="en")
    assert page.url.path.endswith("/consent")
    assert '<html lang="en">' in page.text
    page = browser.submit("consent", csrf=csrf, agree="yes", language="ja")
    assert '<html lang="ja">' in page.text
    assert island(page.text)["view"]["language"] == "ja"
    assert '<html lang="en">' in browser.submit("language", csrf=csrf, language="en").text
    refused = browser.http.post(f"/c/{NAME}/language", data={"csrf": csrf, "language": "fr"})
    assert reason(refused, 422) == "bad_value"


def test_task_needs_consent(shared: Study) -> None:
    browser = shared.browser()
    page = browser.follow()
    assert browser.open("task").url.path.endswith("/consent")
    form = {"csrf": hidden(page.text), "language": "en"}
    assert reason(browser.http.post(f"/c/{NAME}/consent", data=form), 422) == "no_consent"
    assert browser.open("task").url.path.endswith("/consent")


PLATFORMS = {
    "prolific": {"PROLIFIC_PID": "p1", "STUDY_ID": "s1", "SESSION_ID": "x1"},
    "mturk": {"workerId": "W1", "assignmentId": "A1", "hitId": "H1"},
}


def test_workers_of_platforms_come_by_parameters_where_that_is_allowed(study: Study) -> None:
    study.publish()
    both = (("prolific-unsigned", "prolific", "mturk"), ("mturk", "mturk", "prolific"))
    for served, platform, other in both:
        study.serve(platforms=(served,))
        page = study.stranger().open("enter", params=PLATFORMS[platform])
        assert page.url.path.endswith("/consent")
        assert not page.url.query
        assert reason(study.stranger().get("enter", params=PLATFORMS[other]), 403) == "no_platform"
    with study.desk() as desk:
        workers = {one.platform: one for one in desk.organiser.workers(NAME)}
        entered = [event for event in desk.events.read(NAME) if event.kind == "entered"]
    assert set(workers) == set(PLATFORMS)
    assert len(entered) == 2
    # the database does not reveal who it was
    assert not any(identity in f"{workers}{entered}" for identity in ("p1", "W1"))
    preview = {"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE", "hitId": "H1"}
    for request in (preview, {**preview, "workerId": "W1"}):
        assert reason(study.stranger().get("enter", params=request), 403) == "preview"


def test_session_needs_no_link_and_a_stranger_is_asked_for_one(shared: Study) -> None:
    assert shared.worker().open("enter").url.path.endswith("/task")
    page = shared.stranger().open("enter")
    assert page.status_code == 200
    assert 'name="token"' in page.text


# -- who stops early -------------------------------------------------------------------------------------

STOP = f'href="/c/{NAME}/done"'


def test_the_page_of_each_task_leads_to_the_code_once_something_is_done(study: Study) -> None:
    study.begin(3, pay_per_task=1.08, currency="EUR")
    worker = study.worker()
    assert STOP not in worker.open("task").text
    for done in (1, 2):
        worker.answer(study.clock.on)
        page = worker.open("task")
        assert STOP in page.text
        assert f"{done} done · {1.08 * done:.2f} EUR Stop and get my code" in words(page)
    last = worker.open("done")
    assert "Tasks that you answered: 2. You have earned 2.16 EUR." in words(last)
    assert "Return to the platform" not in last.text
    # and nothing ends by it
    assert worker.task()["state"] == "opened"


def test_every_page_leads_to_the_code_once_something_is_done(study: Study) -> None:
    study.begin(2)
    worker, other = study.worker(), study.worker()
    worker.answer(study.clock.on)
    pages = {"task": 200, "consent": 200, "media/x": 403}
    for path, status in pages.items():
        page = worker.open(path)
        assert page.status_code == status
        assert page.text.count(STOP) == 1, path
        assert "1 done Stop and get my code" in words(page), path
        assert STOP not in other.open(path).text
    assert STOP not in worker.open("done").text


def test_an_excluded_worker_gets_the_code_for_what_was_done(study: Study) -> None:
    study.begin(3)
    worker, other = study.worker(), study.worker()
    worker.answer(study.clock.on)
    with study.desk() as desk:
        for one in desk.organiser.workers(NAME):
            desk.organiser.decide(NAME, one.worker, Standing.EXCLUDED, "a robot", "me")
    page = worker.open("task")
    assert page.status_code == 403
    # in the header, and as the only button
    assert words(page).count("Stop and get my code") == page.text.count(STOP) == 2
    assert "1 done Stop" in words(page)
    done = worker.open("done")
    assert done.status_code == 200
    assert "Tasks that you answered: 1." in words(done)
    assert "EUR" not in words(done), "nothing is paid in this campaign"
    # who has done nothing has no code
    assert STOP not in other.open("task").text
    assert reason(other.get("done"), 409) == "nothing_done"


def test_prolific_takes_the_code_from_a_link(study: Study) -> None:
    study.begin(2, {"platforms": ("prolific-unsigned",)}, completion_code="C0DE")
    worker = study.stranger()
    come = {"PROLIFIC_PID": "somebody", "STUDY_ID": "s", "SESSION_ID": "t"}
    page = worker.open("enter", params=come)
    worker.submit("consent", csrf=hidden(page.text), agree="yes", language="en")
    worker.answer(study.clock.on)
    done = worker.open("done").text
    assert 'href="https://app.prolific.com/submissions/complete?cc=C0DE"' in done
