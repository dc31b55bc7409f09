"""A campaign of ratings over HTTP: a rater rates, a checker confirms or sends back, and sees nothing else."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from slvmeval.web.annotation.serve import checker_secret, organiser_secret
from storage_schemas.store import Store
from tasks.annotation.desk.desk import Desk
from tasks.annotation.installation import installation_key, media_folder
from tests.slvmeval.web.annotation.pieces import (
    PAGE,
    Browser,
    Hands,
    client,
    hidden,
    reason,
    running,
    serving_of,
)
from tests.tasks.annotation.example_ratings import SECONDS, rating_task, ratings_campaign

NAME = "rated"


class RatingStudy:
    """A campaign of two videos that is being served."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.clock, self._stack = Hands(), stack
        Store.create(root)
        folder = media_folder(root)
        folder.mkdir(parents=True)
        tasks = [rating_task(number) for number in range(2)]
        for task in tasks:
            (folder / task.file).write_bytes(random.Random(task.file).randbytes(task.size))
        self.key = installation_key(root)
        serving = serving_of(root, campaigns=(NAME,))
        with Desk.open(serving.database, self.key) as desk:
            desk.organiser.publish(ratings_campaign(workers_per_pair=1, most_workers=2), tasks)
            self.tokens = desk.organiser.invite(NAME, 3)
        self.address = stack.enter_context(running(serving, self.clock))

    def rater(self, link: int = 0, language: str = "en") -> Browser:
        browser = self._stack.enter_context(Browser(self.address, self.tokens[link], NAME))
        self.page = browser.enter(language)
        return browser

    def staff(self, secret: str, name: str = "Anna") -> httpx.Client:
        """Return somebody who has logged in with a secret."""
        http = self._stack.enter_context(client(self.address, follow_redirects=True, headers=PAGE))
        self.home = http.post("/organiser/login", data={"secret": secret, "name": name})
        assert self.home.status_code == 200
        return http


@pytest.fixture
def study(tmp_path: Path) -> Iterator[RatingStudy]:
    with ExitStack() as stack:
        yield RatingStudy(tmp_path / "store", stack)


def rate(study: RatingStudy, rater: Browser, value: int) -> dict[str, Any]:
    view = rater.task()
    assert rater.video("left", Range="bytes=0-").status_code == 206
    assert reason(rater.send("rate", rating=value), 409) == "not_seen"
    study.clock.on(SECONDS)
    assert rater.send_accepted("play", place="left", intervals=[[0, SECONDS]], speed=1)["can_rate"]
    assert reason(rater.send("rate", rating=9), 422) == "bad_value"
    rater.send_accepted("rate", rating=value, comment="<i>fine</i>")
    return view


def test_the_page_shows_the_guide_and_hides_the_model(study: RatingStudy) -> None:
    rater = study.rater(language="ja")
    page = study.page.text
    assert study.page.url.path.endswith("/task")
    assert "look in ja" in page
    assert page.count('type="radio" name="level"') == 5
    assert "A &lt;b&gt;red&lt;/b&gt; ball" in page
    assert "generator" not in page
    view = rater.task()
    assert set(rater.data["urls"]) == {"task", "play", "rate", "left"}
    assert view["dimension"] == "look"
    assert "評価" in rater.data["words"]["ready"]
    assert "動画" in rater.data["refused"]["not_seen"]["title"]
    # the third person is told that all places are taken
    study.rater(1)
    study.rater(2)
    assert study.page.url.path.endswith("/done")
    assert "No task was free for you" in study.page.text


def test_a_rating_is_checked_sent_back_and_confirmed_by_who_sees_only_checks(study: RatingStudy) -> None:
    rater = study.rater()
    first = rate(study, rater, 2)
    checker = study.staff(checker_secret(study.key))
    own = f"/organiser/c/{NAME}"
    assert study.home.url.path == f"{own}/checks"
    (task,) = re.findall(rf'{own}/checks/([0-9a-f]{{64}})"', study.home.text)
    where = f"{own}/checks/{task}"
    page = checker.get(where)
    assert "fine" not in page.text
    assert 'name="ratings"' not in page.text
    csrf = hidden(page.text)
    # who did not play the video can neither see nor confirm
    (started,) = re.findall(r'name="started" value="([^"]+)"', page.text)
    asked = {"csrf": csrf, "started": started}
    assert checker.post(f"{where}/seen", data=asked).status_code == 422
    blind = {"csrf": csrf, "ratings": f"{first['id']} 2", "verdict": "confirmed", "seen": started}
    assert checker.post(where, data=blind).status_code == 422
    study.clock.on(SECONDS)
    assert checker.post(f"{where}/seen", data={**asked, "started": f"{started}x"}).status_code == 422
    page = checker.post(f"{where}/seen", data=asked)
    (shown,) = set(re.findall(r'name="seen" value="([^"]+)"', page.text))
    assert "&lt;i&gt;fine&lt;/i&gt;" in page.text
    assert "generator" not in page.text
    video = checker.get(f"{own}/videos/{task}", headers={"Range": "bytes=0-9"})
    assert (video.status_code, len(video.content)) == (206, 10)
    # an organiser sees everything
    organiser = study.staff(organiser_secret(study.key))
    (worker,) = set(re.findall(r"/workers/([0-9a-f]{32})", organiser.get(f"{own}/workers").text))
    for path in ("", "/workers", f"/workers/{worker}", f"/workers/{worker}/erase", "/record"):
        page_of = organiser.get(f"{own}{path}")
        assert (page_of.url.path, page_of.status_code) == (f"{own}{path}", 200)
        assert checker.get(f"{own}{path}").url.path == f"{own}/checks"
    checker.post(f"{own}/workers/{worker}/decide", data={"csrf": "x", "standing": "excluded", "note": "no"})
    assert "excluded" not in checker.get(f"{own}/checks").text
    assert "1 of 2" in organiser.get(own).text
    assert "Ratings beside those of others" in organiser.get(f"{own}/workers/{worker}").text
    assert "1 ratings with their comments" in organiser.get(f"{own}/workers/{worker}/erase").text
    assert "A segment or video that was not played" in organiser.get(own).text
    assert worker not in organiser.get(f"{own}/workers?show=excluded").text
    assert organiser.get(f"{own}/checks/none").status_code == 404
    # verdicts
    (seen,) = set(re.findall(r'name="ratings" value="([^"]+)"', page.text))
    assert checker.post(where, data={"ratings": seen, "verdict": "confirmed", "csrf": "x"}).status_code == 403
    for wrong in (
        {"verdict": "sent_back"},
        {"verdict": "burn"},
        {"verdict": "confirmed", "ratings": "x 2"},
        {"verdict": "confirmed", "ratings": f"{seen.split()[0]} ²"},
    ):
        given = {"csrf": csrf, "ratings": seen, "seen": shown, **wrong}
        assert checker.post(where, data=given).status_code == 422
    data = {"csrf": csrf, "ratings": seen, "verdict": "sent_back", "seen": shown}
    data["note"] = "Look at the <end>."
    assert "No ratings are waiting" in checker.post(where, data=data).text
    assert "Look at the &lt;end&gt;." in rater.open("task").text
    assert rate(study, rater, 4)["id"] == first["id"]
    new = re.findall(r'name="ratings" value="([^"]+)"', checker.get(where, params={"seen": shown}).text)[0]
    assert new == f"{first['id']} 4"
    confirmed = checker.post(where, data={**data, "ratings": new, "verdict": "confirmed"})
    assert "No ratings are waiting" in confirmed.text
    assert "Anna sent an earlier 2 back" in checker.get(where, params={"seen": shown}).text
    assert "secret" in checker.post("/organiser/login", data={"secret": "wrong", "name": "X"}).text
