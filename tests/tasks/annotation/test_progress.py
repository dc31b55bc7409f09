"""How far a campaign is, what it has cost, and what it will."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from storage_schemas.votes import Vote
from tasks.annotation.campaign import Campaign, money
from tasks.annotation.desk.organiser import TaskProgress
from tasks.annotation.progress import CampaignProgress, added_up, by_aspect, campaign_progress
from tests.tasks.annotation.example_desk import example_task, file_vote

NOW = datetime(2026, 3, 6, 12, 30, tzinfo=UTC)


def task(
    aspect: str, votes: int, leases: int = 0, gold: bool = False, wanted: int = 5, watch_s: float = 60.0
) -> TaskProgress:
    return TaskProgress(f"{aspect}-{votes}-{leases}", aspect, gold, votes, leases, wanted, wanted, watch_s)


def vote(hours_ago: float, gold: bool = False, origin: str = "web") -> Vote:
    at = "" if origin == "file" else (NOW - timedelta(hours=hours_ago)).isoformat()
    return file_vote(example_task(), "w" * 32, gold=gold, origin=origin, at=at)


def campaign(**values: object) -> Campaign:
    usual = {"name": "spring", "release": "demo", "version": 1, "rule": "paper"}
    return Campaign.model_validate({**usual, "pay_per_task": 0.5, "currency": "EUR", **values})


def progressed(
    settings: Campaign, tasks: list[TaskProgress], *votes: Vote, rate: float | None = None
) -> CampaignProgress:
    return campaign_progress(settings, tasks, votes, NOW, rate=rate)


def test_an_aspect_counts_what_is_wanted_and_no_more() -> None:
    tasks = [task("color", 5), task("color", 7), task("color", 2, leases=2), task("aesthetics", 0)]
    rows = by_aspect([*tasks, task("x", 9, gold=True)])
    assert [row.aspect for row in rows] == ["aesthetics", "color"], "gold pairs are in none"
    color = rows[1]
    assert (color.pairs, color.done, color.votes, color.wanted, color.more) == (3, 2, 12, 15, 2)
    assert (color.leases, color.left, color.share) == (2, 3, pytest.approx(0.8))
    total = added_up(rows)
    assert (total.pairs, total.votes, total.wanted, total.left) == (4, 12, 20, 8)
    # votes beyond the number do not hide a pair that has none
    total = added_up(by_aspect([task("color", 10), task("color", 0)]))
    assert (total.votes, total.left, total.more) == (5, 5, 5)


def test_all_answers_cost_also_gold_ones_and_those_beyond_the_number() -> None:
    votes = [vote(5), vote(4, gold=True), vote(3), vote(0, origin="file")]
    settings = campaign(gold_pairs=("g",), gold_share=0.2)
    progress = progressed(settings, [task("color", 3), task("color", 0)], *votes)
    assert progress.cost.so_far == pytest.approx(4 * 0.5)
    # 7 votes are needed, and a fifth of all tasks is gold
    assert progress.tasks_left == pytest.approx(7 / 0.8)
    assert progress.cost.to_end == pytest.approx(7 / 0.8 * 0.5)
    assert progress.cost.total == pytest.approx(progress.cost.so_far + progress.cost.to_end)
    assert (progress.answered, progress.gold_votes, progress.from_files) == (4, 1, 1)
    other = progressed(settings, [task("color", 3)], *votes, rate=2.0)
    assert (other.cost.so_far, other.cost.rate) == (8.0, 2.0)


def test_pay_by_the_hour_follows_the_length_of_the_videos() -> None:
    hourly = {"pay_per_task": 0, "pay_per_hour": 12, "expected_share": 0.5, "expected_answer_s": 30}
    settings = campaign(**hourly, gold_pairs=("g",), gold_share=0.2)
    # 60 s of video: a minute of work; 3600 s: half an hour and 30 s; rounded up, in units of the currency
    assert (settings.pay_for(60), settings.pay_for(3600), settings.pay_for(61)) == (0.20, 6.10, 0.21)
    yen = settings.model_copy(update={"currency": "JPY", "pay_per_hour": 1100.0})
    assert (yen.pay_for(60), money(yen.pay_for(60), "JPY")) == (19.0, "19 JPY")
    progress = progressed(settings, [task("color", 3), task("color", 1, watch_s=3600.0)], vote(5), vote(4))
    assert (progress.cost.rate, progress.cost.per) == (12.0, "hour")
    assert progress.cost.so_far == pytest.approx(2 * 0.20)
    assert progress.cost.to_end == pytest.approx((2 * 0.20 + 4 * 6.10) / 0.8)
    by_task = progressed(settings, [task("color", 3)], vote(5), rate=2.0)
    assert (by_task.cost.per, by_task.cost.so_far) == ("task", 2.0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"pay_per_hour": 12}, "give pay_per_task or pay_per_hour, not both"),
        ({"pay_per_task": 0, "pay_per_hour": -1}, "pay_per_hour"),
        ({"expected_share": 0}, "expected_share"),
        ({"pay_per_task": float("inf")}, "pay_per_task"),
        ({"pay_per_task": 0.605}, "EUR has 2 decimals"),
        ({"public_url": "pairs.example"}, "pages: https://HOST"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        campaign(**values)


def test_check_tasks_cost_most_where_workers_do_few_tasks() -> None:
    def left(rule: str = "strict", **values: object) -> float:
        return progressed(campaign(rule=rule, **values), [task("color", 0)]).tasks_left

    # 6 of the first 8 tasks are checks, and a tenth of the other 12
    assert left(tasks_per_worker=20, check_share=0.1) == pytest.approx(5 * 20 / (2 + 12 * 0.9))
    assert left(tasks_per_worker=8) == pytest.approx(5 * 8 / 2)
    assert left() < left(tasks_per_worker=20) < left(tasks_per_worker=8)
    assert left(check_share=0) == left("paper", gold_share=0.5) == 5, "there are no gold pairs"


def test_files_do_not_count_for_the_pace() -> None:
    votes = [*(vote(number / 6) for number in range(1, 61)), *[vote(0, origin="file")] * 500]
    progress = progressed(campaign(), [task("color", 5), task("color", 0)], *votes)
    assert progress.pace is not None and progress.end is not None
    assert progress.pace.per_hour == pytest.approx(6, rel=0.15)
    assert sum(bar.count for bar in progress.days) == 60
    assert progress.last_vote == NOW - timedelta(minutes=10)
    assert (progress.end.at - NOW).total_seconds() / 3600 == pytest.approx(5 / progress.pace.per_hour)


def test_what_is_done_has_no_end_to_come_and_an_empty_campaign_is_not_done() -> None:
    votes = [vote(number) for number in range(1, 11)]
    progress = progressed(campaign(), [task("color", 5), task("color", 6)], *votes)
    assert (progress.done, progress.end, progress.tasks_left, progress.cost.to_end) == (True, None, 0, 0)
    empty = progressed(campaign(), [])
    assert (empty.done, empty.aspects, empty.last_vote, empty.pace) == (False, (), None, None)
