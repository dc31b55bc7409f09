"""One whole task of a campaign of ratings in a real browser."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slvmeval.web.annotation.serve import checker_secret
from storage_schemas.store import Store
from tasks.annotation.desk.database import utc
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.ratings import Verdict
from tasks.annotation.installation import database_url, installation_key, media_folder
from tasks.annotation.media import byte_index
from tests.slvmeval.web.annotation.pages.visitor import Visitor
from tests.slvmeval.web.annotation.pieces import running, serving_of
from tests.tasks.annotation.example_ratings import rating_task, ratings_campaign

pytestmark = pytest.mark.browser
#: Length of the video; it is played at fourfold speed.
SECONDS = 4.0


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    root = Store.create(tmp_path / "store").root
    with Desk.open(database_url(root), installation_key(root)) as opened:
        yield opened


@pytest.fixture
def address(desk: Desk, tmp_path: Path, ffmpeg: str) -> Iterator[str]:
    """Give a campaign of one video that is being served."""
    root = tmp_path / "store"
    video = media_folder(root) / "one.mp4"
    video.parent.mkdir(parents=True)
    source = ["-f", "lavfi", "-i", f"testsrc2=size=160x90:rate=5:duration={SECONDS}"]
    subprocess.run([ffmpeg, "-v", "error", *source, "-pix_fmt", "yuv420p", str(video)], check=True)
    size, index = video.stat().st_size, byte_index(video)
    task = rating_task(file=video.name, size=size, seconds=SECONDS, index=index)
    desk.organiser.publish(ratings_campaign(workers_per_pair=1, most_speed=4), [task])
    with running(serving_of(root, campaigns=("rated",)), utc) as served:
        yield served


def rate(rater: Visitor, level: str) -> None:
    """Watch the video and choose a level by its key."""
    page = rater.page
    # the script runs, and the video can be played
    page.wait_for_selector("#rate-state:not(:empty)")
    rater.wait("document.getElementById('left').readyState >= 2")
    assert page.locator("[name=level]").first.is_disabled()
    page.keyboard.press(level)
    assert page.locator("[name=level]:checked").count() == 0, "not before the video was seen"
    page.select_option("#speed", "4")
    page.click("#play")
    page.wait_for_selector("[name=level]:enabled")
    page.locator("h1").click()
    page.keyboard.press(level)
    page.click("#send")


def check(chromium: Any, address: str, folder: Path) -> None:
    """See the ratings of a video after it was played, not before."""
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{address}/organiser/login")
    page.fill("[name=secret]", checker_secret(installation_key(folder / "store")))
    page.fill("[name=name]", "Anna")
    page.keyboard.press("Enter")
    page.locator("a[href*='/checks/']").first.click()
    assert page.locator("#show-ratings").is_disabled()
    assert page.locator(".one-rating").count() == 0
    page.evaluate("document.getElementById('rated-video').play()")
    page.locator("#show-ratings:enabled").click()
    page.locator(".one-rating").wait_for()
    assert page.locator("[value=confirmed]").count() == 1
    context.close()


def test_a_rater_watches_rates_and_looks_again_when_the_rating_is_sent_back(
    chromium: Any, address: str, desk: Desk, tmp_path: Path
) -> None:
    (token,) = desk.organiser.invite("rated", 1)
    rater = Visitor(chromium, address, token)
    page = rater.page
    page.goto(f"{address}/c/rated/enter?token={token}")
    assert "one short video" in page.inner_text("main")
    rater.consent()
    rate(rater, "2")
    page.wait_for_url("**/done")
    (held,) = desk.ratings.read("rated")
    assert held.given.rating == 2
    check(chromium, address, tmp_path)
    desk.ratings.check("rated", [(held.given.vote_id, 2)], Verdict.SENT_BACK, "Look at <b>it</b>.", "Anna")
    page.goto(f"{address}/c/rated/task")
    assert "Look at <b>it</b>." in page.inner_text(".again")
    rate(rater, "5")
    page.wait_for_url("**/done")
    assert [one.given.rating for one in desk.ratings.read("rated")] == [5]
    rater.context.close()
    assert rater.problems == []
