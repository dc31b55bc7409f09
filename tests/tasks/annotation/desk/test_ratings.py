"""Ratings of single videos at the desk: who rates what, what must be watched, who checks."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from storage_schemas.errors import UserInputError
from storage_schemas.votes import Standing
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.events import EventKind
from tasks.annotation.desk.ratings import Verdict
from tasks.annotation.desk.refusals import DeskRefusal, RefusalReason
from tests.tasks.annotation.example_desk import HandClock, come_in, example_task, refuses
from tests.tasks.annotation.example_ratings import next_task, rate, rating_task, ratings_campaign, watch


def begin(desk: Desk, tasks: int = 1, raters: int = 1, **settings: object) -> list[str]:
    """Publish tasks, and let raters come in."""
    desk.organiser.publish(ratings_campaign(**settings), [rating_task(number) for number in range(tasks)])
    return [come_in(desk, f"rater {number}", "rated") for number in range(raters)]


def said(desk: Desk, id_: str, value: int, note: str = "", by: str = "Anna") -> int:
    """Confirm a rating, or send it back with a note."""
    verdict = Verdict.SENT_BACK if note else Verdict.CONFIRMED
    return desk.ratings.check("rated", [(id_, value)], verdict, note, by)


def test_each_video_gets_its_ratings_from_different_people(desk: Desk, clock: HandClock) -> None:
    raters = begin(desk, tasks=3, raters=6)
    done = Counter[str]()
    for rater in raters * 3:
        try:
            done[rate(desk, clock, rater).pair_id] += 1
        except DeskRefusal as refusal:
            assert refusal.reason is RefusalReason.DONE
    assert sorted(done.values()) == [4, 4, 4]
    ratings = [one.given for one in desk.ratings.read("rated")]
    assert len({(one.pair_id, one.worker) for one in ratings}) == 12
    assert all(one.done for one in desk.organiser.progress("rated"))
    assert desk.votes.read("rated") == []


def test_a_level_needs_the_whole_video_and_must_be_on_the_scale(desk: Desk, clock: HandClock) -> None:
    (rater,) = begin(desk)
    task = next_task(desk, rater)
    # a rater sees neither the model nor its ids
    view = json.dumps(task.view())
    assert "A <b>red</b> ball" in view
    assert "generator" not in view
    assert "p0" not in view
    # what is claimed too fast does not count
    desk.viewing.serve("rated", task.id, "left", 0, task.task.size - 1)
    desk.viewing.play("rated", rater, task.id, "left", [(0.0, 5.0)], 1.0)
    assert next_task(desk, rater).seen_share < 0.1
    watch(desk, clock, task, 3.0)
    assert not next_task(desk, rater).view()["can_rate"]
    refuses(RefusalReason.NOT_SEEN, desk.answers.rate, "rated", rater, task.id, 3)
    watch(desk, clock, task)
    for value in (0, 6):
        refuses(RefusalReason.BAD_VALUE, desk.answers.rate, "rated", rater, task.id, value)
    refuses(RefusalReason.BAD_VALUE, desk.viewing.play, "rated", rater, task.id, "right", [], 1.0)
    refuses(RefusalReason.BAD_VALUE, desk.answers.prefer, "rated", rater, task.id, "left")
    assert next_task(desk, rater).view()["can_rate"]
    given = desk.answers.rate("rated", rater, task.id, 4, "fine")
    assert (given.rating, given.comment, given.aspect, given.watched_s) == (4, "fine", "look", 5.0)
    assert desk.answers.rate("rated", rater, task.id, 4, "fine") == given, "sent twice, stored once"
    refuses(RefusalReason.OTHER_ANSWER, desk.answers.rate, "rated", rater, task.id, 2)


def test_no_more_people_take_part_than_wanted(desk: Desk) -> None:
    begin(desk, raters=2, workers_per_pair=1, most_workers=2)
    late = desk.workers.enter("rated", "prolific", "late").worker
    refuses(RefusalReason.FULL, desk.workers.consent, "rated", late, "en")
    # who takes part may change the language
    assert desk.workers.consent("rated", come_in(desk, "rater 0", "rated"), "ja").language == "ja"


def test_a_rating_that_is_sent_back_is_given_again_by_its_rater(desk: Desk, clock: HandClock) -> None:
    (rater, other) = begin(desk, raters=2, workers_per_pair=1)
    first = rate(desk, clock, rater, 1)
    with pytest.raises(UserInputError, match="write what the rater should look at"):
        said(desk, first.vote_id, 1, " ")
    with pytest.raises(UserInputError, match="changed meanwhile"):
        said(desk, first.vote_id, 2)
    assert said(desk, first.vote_id, 1, "Look at it.") == 1
    assert desk.ratings.read("rated") == []
    refuses(RefusalReason.NO_TASKS, desk.queue.next, "rated", other)
    again = next_task(desk, rater)
    assert (again.id, again.note, again.seen_share) == (first.vote_id, "Look at it.", 0.0)
    refuses(RefusalReason.NOT_SEEN, desk.answers.rate, "rated", rater, again.id, 4)
    watch(desk, clock, again)
    desk.answers.rate("rated", rater, again.id, 4)
    (held,) = desk.ratings.read("rated")
    assert (held.given.rating, held.confirmed) == (4, False)
    assert [(one.verdict, one.given.rating) for one in held.checks] == [(Verdict.SENT_BACK, 1)]
    assert said(desk, first.vote_id, 4) == 1
    assert said(desk, first.vote_id, 4, by="Bert") == 0
    assert desk.ratings.read("rated")[0].confirmed
    kinds = [event.kind for event in desk.events.read("rated")]
    assert kinds.count(EventKind.SENT_BACK) == kinds.count(EventKind.CHECKED) == 1


def test_rater_who_stays_away_or_is_excluded_loses_the_place(desk: Desk, clock: HandClock) -> None:
    (rater, other) = begin(desk, raters=2, workers_per_pair=1, lease_minutes=60, drop_excluded=True)
    first = rate(desk, clock, rater)
    said(desk, first.vote_id, 3, "Look again.")
    clock.pass_s(2 * 3600)
    assert rate(desk, clock, other, 5).pair_id == first.pair_id
    refuses(RefusalReason.DONE, desk.queue.next, "rated", rater)
    desk.organiser.decide("rated", other, Standing.EXCLUDED, "all fives", "Anna")
    assert [one.votes for one in desk.organiser.progress("rated")] == [0]
    refuses(RefusalReason.EXCLUDED, desk.queue.next, "rated", other)
    # erasing a rater takes the checks along
    assert len(desk.ratings.checks("rated")) == 1
    for one in (rater, other):
        desk.organiser.erase("rated", one)
    assert desk.ratings.read("rated") == desk.ratings.checks("rated") == []


def test_a_video_prompt_or_scale_may_not_change_and_kinds_do_not_mix(desk: Desk) -> None:
    begin(desk)
    for change in ({"digest": "f" * 64}, {"prompt": "other"}, {"high": 3}):
        with pytest.raises(UserInputError, match=r"file, prompt or scale of rating .* have changed"):
            desk.organiser.publish(ratings_campaign(), [rating_task(**change)])
    with pytest.raises(UserInputError, match="shows suite video-bench, not release first version 1"):
        changed = {"kind": "pairs", "release": "first", "version": 1, "suite": ""}
        desk.organiser.publish(ratings_campaign().model_copy(update=changed), [example_task()])
    assert desk.campaigns.tasks("rated") == []
    assert desk.campaigns.rating_tasks("rated") == [rating_task()]
    with pytest.raises(UserInputError, match="has no video 'x' to rate"):
        desk.campaigns.rating_task("rated", "x")
