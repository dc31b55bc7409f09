from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from storage_schemas.votes import Vote
from tasks.annotation.campaign import Campaign, money
from tasks.annotation.desk.organiser import TaskProgress
from tasks.annotation.progress import added_up, by_aspect, campaign_progress

NOW = datetime(2026, 3, 6, 12, 30, tzinfo=UTC)


def task(
    aspect: str, votes: int, leases: int = 0, gold: bool = False, wanted: int = 5, watch_s: float = 60.0
) -> TaskProgress:
    return TaskProgress(f"{aspect}-{votes}-{leases}", aspect, gold, votes, leases, wanted, wanted, watch_s)


def vote(number: int, hours_ago: float, gold: bool = False, origin: str = "web") -> Vote:
    at = "" if origin == "file" else (NOW - timedelta(hours=hours_ago)).isoformat()
    return Vote.model_validate(
        {
            "vote_id": f"vote-{number}",
            "campaign": "spring",
            "release": "demo",
            "version": 1,
            "pair_id": "p",
            "source_id": "s",
            "aspect": "color",
            "worker": "w" * 32,
            "first": "high",
            "preferred": "high",
            "rating": "A",
            "pair_duration_s": 60.0,
            "gold": gold,
            "origin": origin,
            "at": at,
        }
    )


def campaign(**values: object) -> Campaign:
    return Campaign.model_validate(
        {
            "name": "spring",
            "release": "demo",
            "version": 1,
            "rule": "paper",
            "pay_per_task": 0.5,
            "currency": "EUR",
            **values,
        }
    )


def test_an_aspect_counts_what_is_wanted_and_no_more() -> None:
    rows = by_aspect(
        [
            task("color", 5),
            task("color", 7),
            task("color", 2, leases=2),
            task("aesthetics", 0),
            task("x", 9, gold=True),
        ]
    )
    assert [row.aspect for row in rows] == ["aesthetics", "color"], "gold pairs are in none"
    color = rows[1]
    assert (color.pairs, color.done, color.votes, color.wanted, color.more, color.leases) == (
        3,
        2,
        12,
        15,
        2,
        2,
    )
    assert (color.left, color.share) == (3, pytest.approx(0.8))
    total = added_up(rows)
    assert (total.pairs, total.votes, total.wanted, total.left) == (4, 12, 20, 8)


def test_votes_beyond_the_number_do_not_hide_a_pair_that_has_none() -> None:
    total = added_up(by_aspect([task("color", 10), task("color", 0)]))
    assert (total.votes, total.left, total.more) == (5, 5, 5)


def test_all_answers_cost_also_gold_ones_and_those_beyond_the_number() -> None:
    votes = [vote(1, 5), vote(2, 4, gold=True), vote(3, 3), vote(4, 0, origin="file")]
    settings = campaign(gold_pairs=("g",), gold_share=0.2)
    progress = campaign_progress(settings, [task("color", 3), task("color", 0)], votes, NOW)
    assert progress.cost.so_far == pytest.approx(4 * 0.5)
    # 7 votes are needed, and a fifth of all tasks is gold
    assert progress.tasks_left == pytest.approx(7 / 0.8)
    assert progress.cost.to_end == pytest.approx(7 / 0.8 * 0.5)
    assert progress.cost.total == pytest.approx(progress.cost.so_far + progress.cost.to_end)
    assert (progress.answered, progress.gold_votes, progress.from_files) == (4, 1, 1)
    other = campaign_progress(settings, [task("color", 3)], votes, NOW, rate=2.0)
    assert (other.cost.so_far, other.cost.rate) == (8.0, 2.0)


def test_pay_by_the_hour_follows_the_length_of_the_videos() -> None:
    hourly = {"pay_per_task": 0, "pay_per_hour": 12, "expected_share": 0.5, "expected_answer_s": 30}
    settings = campaign(**hourly, gold_pairs=("g",), gold_share=0.2)
    # 60 s of video: a minute of work; 3600 s: half an hour and 30 s
    assert (settings.pay_for(60), settings.pay_for(3600)) == (0.20, 6.10)
    # rounded up, in units that the currency has
    assert settings.pay_for(61) == 0.21
    yen = settings.model_copy(update={"currency": "JPY", "pay_per_hour": 1100.0})
    assert (yen.pay_for(60), money(yen.pay_for(60), "JPY")) == (19.0, "19 JPY")
    progress = campaign_progress(
        settings, [task("color", 3), task("color", 1, watch_s=3600.0)], [vote(1, 5), vote(2, 4)], NOW
    )
    assert (progress.cost.rate, progress.cost.per) == (12.0, "hour")
    assert progress.cost.so_far == pytest.approx(2 * 0.20)
    assert progress.cost.to_end == pytest.approx((2 * 0.20 + 4 * 6.10) / 0.8)
    by_task = campaign_progress(settings, [task("color", 3)], [vote(1, 5)], NOW, rate=2.0)
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
    def left(**values: object) -> float:
        return campaign_progress(campaign(rule="strict", **values), [task("color", 0)], [], NOW).tasks_left

    # 6 of the first 8 tasks are checks, and a tenth of the other 12
    assert left(tasks_per_worker=20, check_share=0.1) == pytest.approx(5 * 20 / (2 + 12 * 0.9))
    assert left(tasks_per_worker=8) == pytest.approx(5 * 8 / 2)
    assert left() < left(tasks_per_worker=20) < left(tasks_per_worker=8)
    assert left(check_share=0) == 5


def test_a_gold_share_without_gold_pairs_costs_nothing() -> None:
    progress = campaign_progress(campaign(gold_share=0.5), [task("color", 0)], [], NOW)
    assert progress.tasks_left == 5


def test_files_do_not_count_for_the_pace() -> None:
    votes = [vote(number, hours_ago=number / 6) for number in range(1, 61)]
    files = [vote(100 + number, 0, origin="file") for number in range(500)]
    tasks = [task("color", 5), task("color", 0)]
    progress = campaign_progress(campaign(), tasks, [*votes, *files], NOW)
    assert progress.pace is not None
    assert progress.pace.per_hour == pytest.approx(6, rel=0.15)
    assert sum(bar.count for bar in progress.days) == 60
    assert progress.last_vote == NOW - timedelta(minutes=10)
    assert progress.end is not None
    assert (progress.end.at - NOW).total_seconds() / 3600 == pytest.approx(5 / progress.pace.per_hour)


def test_what_is_done_has_no_end_to_come() -> None:
    votes = [vote(number, hours_ago=number) for number in range(1, 11)]
    progress = campaign_progress(campaign(), [task("color", 5), task("color", 6)], votes, NOW)
    assert progress.done
    assert progress.end is None
    assert progress.tasks_left == 0
    assert progress.cost.to_end == 0


def test_an_empty_campaign_is_not_done() -> None:
    progress = campaign_progress(campaign(), [], [], NOW)
    assert not progress.done
    assert progress.aspects == ()
    assert progress.last_vote is None
    assert progress.pace is None
