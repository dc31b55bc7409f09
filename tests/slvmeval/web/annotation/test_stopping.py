"""Who stops early gets the code from every page, with the sum; also who gets no more tasks."""

from __future__ import annotations

import re
from html import unescape

import httpx

from storage_schemas.votes import Standing
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, hidden, reason

STOP = f'href="/c/{NAME}/done"'


def words(page: httpx.Response) -> str:
    """Return roughly the text that a reader sees."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.text)).split())


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
