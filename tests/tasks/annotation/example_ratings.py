"""A campaign of ratings with small tasks, and raters who do everything a task requires."""

from __future__ import annotations

from typing import Any

from tasks.annotation.campaign import Campaign
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.rating_assignment import RatingAssignment
from tasks.annotation.rating_task import RatingTask, VideoRating
from tasks.scoring.suites.guide import Guide
from tests.tasks.annotation.example_desk import HandClock

SECONDS = 5.0


def guide(dimension: str, language: str, high: int = 5) -> Guide:
    return Guide(
        dimension=dimension,
        language=language,
        title=f"{dimension} in {language}",
        meaning="How well it looks.",
        look_at=("Edges.",),
        levels=tuple((level, f"Level {level}.") for level in range(1, high + 1)),
        notes=("A watermark does not count.",),
    )


def ratings_campaign(name: str = "rated", dimensions: tuple[str, ...] = ("look",), **other: Any) -> Campaign:
    guides = tuple(guide(one, language) for one in dimensions for language in ("en", "ja"))
    values = {"kind": "ratings", "suite": "video-bench", "workers_per_pair": 4, "most_workers": 10}
    return Campaign(name=name, guides=guides, **{**values, **other})


def rating_task(number: int = 0, dimension: str = "look", **other: Any) -> RatingTask:
    values: dict[str, Any] = {
        "dimension": dimension,
        "model": "generator",
        "prompt_id": f"p{number}",
        "prompt": f"A <b>red</b> ball, number {number}.",
        "low": 1,
        "high": 5,
        "digest": f"{number:064x}",
        "file": f"{number}.mp4",
        "size": 50_000,
        "seconds": SECONDS,
    }
    return RatingTask(**{**values, **other})


def watch(desk: Desk, clock: HandClock, open_task: RatingAssignment, seconds: float = SECONDS) -> None:
    """Send the video, let the time pass, and report that it was played."""
    campaign, worker = open_task.campaign, open_task.worker
    desk.viewing.serve(campaign, open_task.id, "left", 0, open_task.task.size - 1)
    desk.viewing.play(campaign, worker, open_task.id, "left", [], 1.0)
    clock.pass_s(seconds)
    desk.viewing.play(campaign, worker, open_task.id, "left", [(0.0, seconds)], 1.0)


def next_task(desk: Desk, worker: str, campaign: str = "rated") -> RatingAssignment:
    open_task = desk.queue.next(campaign, worker)
    assert isinstance(open_task, RatingAssignment)
    return open_task


def rate(desk: Desk, clock: HandClock, worker: str, value: int = 3, comment: str = "") -> VideoRating:
    """Let a rater get a task and rate it."""
    open_task = next_task(desk, worker)
    watch(desk, clock, open_task)
    return desk.answers.rate("rated", worker, open_task.id, value, comment)
