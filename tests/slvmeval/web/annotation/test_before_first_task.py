"""The question and training before the first task, and who comes or answers too late, over real HTTP."""

from __future__ import annotations

import csv
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest

from slvmeval.web.annotation import pages
from slvmeval.web.annotation.pages.texts import check_texts, texts
from storage_schemas.errors import UserInputError
from tests.slvmeval.cli.running import Run, lacks
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.organising import Organiser
from tests.slvmeval.web.annotation.pieces import NAME, Browser, hidden, pair, reason

PAIRS = [pair(number) for number in range(5)]
GOLD = (PAIRS[3].pair_id,)
FIRST: dict[str, Any] = {
    **{"comprehension": True, "training": 1, "gold_pairs": GOLD, "pay_per_hour": 36, "currency": "EUR"},
    "rule": "paper",
}
#: Fifteen seconds are looked at first, ten are changed, and an answer takes a minute.
TASK, MINUTE = 0.85, 0.60


def choose(browser: Browser, page: httpx.Response, right: bool, language: str = "en") -> httpx.Response:
    """Answer the question on a page."""
    texts_of = texts(language).words["aspects"]
    (asked,) = (one for one in texts_of.values() if one["question"] in page.text)
    answers = re.findall(r'value="(\d)" required> <span>(.*?)</span>', page.text)
    choices = [choice for choice, text in answers if (text == asked["instruction"]) == right]
    assert len(answers) == 4 and len(choices) == (1 if right else 3)
    return browser.submit("question", csrf=hidden(page.text), question=shown(page), choice=choices[0])


def shown(page: httpx.Response) -> str:
    """Return the id of the question on a page."""
    (id_,) = re.findall(r'name="question" value="(\w+)"', page.text)
    return str(id_)


def practise(study: Study, browser: Browser, rating: str = "A") -> httpx.Response:
    """Answer the training task, and return the page that explains it."""
    answer = browser.answer(study.clock.on, rating)
    assert answer == {"next": f"/c/{NAME}/task"}
    return browser.open("task")


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_question_then_training_then_the_first_task(study: Study, language: str) -> None:
    study.begin(PAIRS, **FIRST)
    browser = study.browser()
    consent = browser.follow()
    assert "answer a short question" in consent.text
    page = browser.enter(language)
    assert page.url.path.endswith("/question")
    assert f"{MINUTE:.2f} EUR" in page.text
    again = texts(language).words["question"]["again"]
    assert again not in page.text
    # the pages of tasks lead back to the question, the code is not there yet
    assert browser.open("task").url.path.endswith("/question")
    assert reason(browser.get("done"), 409) == "nothing_done"
    second = choose(browser, page, right=False, language=language)
    assert second.url.path.endswith("/question")
    assert again in second.text
    # the same request again takes no try
    assert shown(choose(browser, page, right=False, language=language)) == shown(second) != shown(page)
    page = choose(browser, second, right=True, language=language)
    assert page.url.path.endswith("/task")
    brief = texts(language).words["training"]["brief"]
    assert not lacks(page.text, brief, f"0 {'done' * (language == 'en')}")
    view = browser.task()
    assert view["training"]
    page = practise(study, browser)
    assert texts(language).words["training"]["go"] in page.text
    assert browser.video("left").status_code == 200, "the parts can be played again"
    view = browser.task()
    assert (view["state"], view["rating"]) == ("rated", "A")
    trained = browser.data["urls"]["trained"].removeprefix(f"/c/{NAME}/")
    for _ in range(2):
        # pressed in two tabs
        page = browser.submit(trained, csrf=hidden(page.text))
        assert page.url.path.endswith("/task")
    assert not browser.task()["training"]
    assert study.votes(browser.token) == []
    browser.answer(study.clock.on)
    assert len(study.votes(browser.token)) == 1
    done = browser.open("done").text
    assert not lacks(done, f"{2 * TASK + MINUTE:.2f} EUR", f"{TASK:.2f} EUR", f"{MINUTE:.2f} EUR")


def test_who_fails_is_told_kindly_and_returned_to_the_platform(study: Study) -> None:
    codes = {"screen_out_code": "OUT-1", "completion_code": "DONE-1"}
    study.begin(PAIRS, {"platforms": ("prolific-unsigned",)}, **codes, **FIRST)
    worker = study.stranger()
    page = worker.open("enter", params={"PROLIFIC_PID": "p", "STUDY_ID": "s", "SESSION_ID": "t"})
    page = worker.submit("consent", csrf=hidden(page.text), agree="yes", language="en")
    for _ in range(2):
        page = choose(worker, page, right=False)
    assert page.url.path.endswith("/done")
    assert not lacks(page.text, "Thank you for your time", "0.60 EUR for 60 seconds", "cc=OUT-1")
    assert "DONE-1" not in page.text
    assert worker.open("task").url.path.endswith("/done")


def test_a_page_that_sends_nothing_or_too_much_is_refused(study: Study) -> None:
    study.begin(PAIRS, **FIRST)
    browser = study.browser()
    page = browser.enter()
    form = {"csrf": hidden(page.text), "question": shown(page)}
    url = f"/c/{NAME}/question"
    assert reason(browser.http.post(url, data=form), 422) == "bad_value"
    assert reason(browser.http.post(url, data={**form, "choice": "x"}), 422) == "bad_value"
    assert reason(browser.http.post(url, data={**form, "csrf": "", "choice": "0"}), 403) == "forged"
    assert reason(browser.http.post(url, data={**form, "question": "x" * 201}), 422) == "bad_value"
    assert shown(browser.open("question")) == shown(page)


def test_a_question_in_another_language_than_the_answered_one_is_asked_again(
    study: Study, tmp_path: Path
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "ja.toml").write_text('[aspects.color]\ninstruction = "色を見てください。"\n', encoding="utf-8")
    study.begin(PAIRS, {"texts": str(folder)}, **FIRST)
    browser = study.browser()
    page = browser.enter("en")
    browser.submit("language", csrf=hidden(page.text), language="ja")
    asked_again = choose(browser, page, right=True)
    assert asked_again.url.path.endswith("/question")
    assert texts("ja").words["question"]["again"] not in asked_again.text


def test_a_language_with_too_few_instructions_cannot_ask(study: Study, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    text = files(pages).joinpath("texts", "en.toml").read_text(encoding="utf-8")
    kept = text[: text.index("[aspects.")] + text[text.index("[aspects.color]") :].partition("\n\n")[0]
    (folder / "de.toml").write_text(kept, encoding="utf-8")
    check_texts(["de"], ["color"], folder)
    few = "comprehension needs 4 aspects with instructions, but in de only 1 have"
    with pytest.raises(UserInputError, match=few):
        check_texts(["de"], ["color"], folder, 4)


def test_a_latecomer_is_told_paid_once_and_listed(study: Study, tmp_path: Path, run: Run) -> None:
    study.begin(PAIRS[:1], workers_per_pair=1, pay_per_hour=36, currency="EUR", lease_minutes=10)
    slow, quick, late = study.worker(), study.browser(), study.browser()
    slow.fetch()
    study.clock.on(5)
    slow.send_accepted("play", place="left", intervals=[[0, 5]], speed=1)
    study.clock.on(3600)
    quick.enter()
    quick.answer(study.clock.on)
    # an answer that comes after others have completed the pair
    assert reason(slow.send("prefer", place="left"), 410) == "expired"
    told = slow.open("task")
    assert told.url.path.endswith("/done")
    assert not lacks(
        told.text,
        "Others completed your task before your answer",
        "others completed before your answer: 0.65 EUR for 65 seconds",
        "No task was free for you: 0.60 EUR for 60 seconds",
    )
    assert "You came" not in told.text and "others are doing the rest" not in told.text
    for _ in range(2):
        page = late.follow()
        assert page.url.path.endswith("/done")
        assert not lacks(
            page.text,
            "No task was free for you: the study",
            "0.60 EUR for 60 seconds",
            "You have earned 0.60 EUR",
        )
    at = ("--store", study.root)
    rows = csv.DictReader(run("annotate", "payments", NAME, *at).out.splitlines())
    paid = {row["pay"]: (row["answers"], row["also_for"]) for row in rows}
    assert paid == {"0.85": ("1", ""), "1.25": ("0", "late_task latecomer"), "0.60": ("0", "latecomer")}
    besides = "besides: 2 came too late for a task, 1 answered a task too late"
    said = run("annotate", "status", NAME, *at).out
    assert not lacks(said, besides, "cost: 2.70 EUR so far (1.85 EUR besides votes)")
    (values,) = run("annotate", "status", NAME, "--format", "json", *at).json
    assert (values["workers"]["latecomers"], values["cost"]["extras"]) == (2, pytest.approx(1.85))
    with Organiser(study) as organiser:
        organiser.log_in()
        assert not lacks(organiser.page().text, "1.85 EUR of it besides votes", "2 came too late for a task")
        row = organiser.page(f"/workers/{study.id_of(slow.token)}").text
        assert not lacks(row, "answered a task too late 0.65 EUR, came too late for a task 0.60 EUR")


def test_the_organiser_sees_who_understood_and_who_trained(study: Study) -> None:
    study.begin(PAIRS, **FIRST)
    good, bad = study.browser(), study.browser()
    choose(good, good.enter(), right=True)
    practise(study, good)
    choose(bad, choose(bad, bad.enter(), right=False), right=False)
    with Organiser(study) as organiser:
        organiser.log_in()
        page = organiser.page().text
        assert "1 answered the question correctly, 1 failed it twice, 1 trained" in page
        assert "training 0.85 EUR" in organiser.page(f"/workers/{study.id_of(good.token)}").text
        failed = organiser.page(f"/workers/{study.id_of(bad.token)}").text
        assert "not answered correctly in two tries" in failed
        # a worker without a vote is in no table of quality
        assert "No votes yet" in organiser.page(f"/workers/{study.id_of(good.token)}").text


def test_a_platform_s_export_pays_who_answered_nothing_but_not_whom_it_pays_itself(
    study: Study, tmp_path: Path, run: Run
) -> None:
    study.publish(PAIRS, **FIRST)
    with study.desk() as desk:
        for who in ("p1", "p2", "p4"):
            worker = desk.workers.enter(NAME, "prolific", who, session=f"s-{who}").worker
            desk.workers.consent(NAME, worker, "en")
            instructions = dict.fromkeys(("aesthetics", "color", "dynamics_degree", "temporal_flow"), "Look.")
            for _ in range(2):
                question = desk.workers.question(NAME, worker, instructions)
                assert question is not None
                wrong = (question.choices.index(question.aspect) + 1) % 4
                desk.workers.answer_question(NAME, worker, instructions, question.id, wrong)
    export = tmp_path / "export.csv"
    export.write_text(
        "Submission id,Participant id,Status\ns-p1,p1,RETURNED\ns-p2,p2,SCREENED OUT\ns-p3,p3,RETURNED\n"
        # the platform has paid the reward, which is more than is owed
        "s-p4,p4,APPROVED\n"
    )
    words = ("--export", export, "--reward", "1", "--out", tmp_path, "--store", study.root)
    run("annotate", "payments", NAME, *words)
    assert (tmp_path / "bonuses.csv").read_text() == "p1,0.60\n"
    assert (tmp_path / "approvals.csv").read_text() == ""
