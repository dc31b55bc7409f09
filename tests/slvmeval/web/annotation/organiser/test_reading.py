"""What the organiser's pages cache from the desk and show of a worker, and the descriptions of events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slvmeval.web.annotation.organiser import campaign_state
from slvmeval.web.annotation.organiser.campaign_state import OTHER, REFUSED, Reading, described
from slvmeval.web.annotation.organiser.pages import alpha, duration, money, share
from slvmeval.web.annotation.organiser.rating_state import read_state
from slvmeval.web.annotation.organiser.worker_record import beside, indicators
from storage_schemas.votes import Vote
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.refusals import RefusalReason
from tasks.votes.quality import Flag, QualityRule, WorkerQuality
from tasks.votes.worker_model import WorkerKind
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, pair
from tests.tasks.annotation.example_desk import HandClock, come_in, example_campaign, file_vote, open_desk
from tests.tasks.annotation.example_ratings import rate, rating_task, ratings_campaign


@pytest.fixture
def desk(study: Study) -> Iterator[Desk]:
    study.publish(4)
    with study.desk() as opened:
        yield opened


def vote(number: int, worker: str) -> Vote:
    campaign = example_campaign(NAME, release="demo")
    return file_vote(pair(number), worker, campaign, vote_id=f"{number}-{worker[:4]}")


def refused(desk: Desk, identity: str) -> str:
    """Let a worker prefer too early, and return who it is."""
    worker = desk.workers.enter(NAME, "prolific", identity).worker
    desk.workers.consent(NAME, worker, "en")
    with pytest.raises(Exception, match="not_looked"):
        desk.answers.prefer(NAME, worker, desk.queue.next(NAME, worker).id, "left")
    return worker


def test_only_what_is_new_is_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[tuple[str, int]] = []
    for name, log in (("votes", desk.votes), ("events", desk.events)):

        def noted(campaign: str, after: int = 0, *, _n=name, _w=log.read, **more: int) -> object:  # type: ignore[no-untyped-def]
            requests.append((_n, after))
            return _w(campaign, after=after, **more)

        monkeypatch.setattr(log, "read", noted)
    known = Reading(desk, NAME)
    desk.votes.add(NAME, [vote(0, "a" * 32)])
    assert [one.worker[0] for one in known.renewed()[0]] == ["a"]
    desk.votes.add(NAME, [vote(0, "b" * 32), vote(1, "a" * 32)])
    assert [one.worker[0] for one in known.renewed()[0]] == ["a", "b", "a"]
    assert [after for name, after in requests if name == "votes"] == [0, 1]
    events = [after for name, after in requests if name == "events"]
    assert events[0] == 0
    assert events[1] > 0


def test_who_is_erased_is_forgotten_here_too(desk: Desk) -> None:
    worker = refused(desk, "somebody")
    desk.votes.add(NAME, [vote(3, "b" * 32)])
    known = Reading(desk, NAME)
    _, tallies = known.renewed()
    assert tallies.counts == {"refused: not_looked": 1}
    assert tallies.by_worker == {worker: {"refused: not_looked": 1}}
    desk.organiser.erase(NAME, worker)
    votes, tallies = known.renewed()
    assert [one.worker for one in votes] == ["b" * 32]
    assert not tallies.counts
    assert not tallies.by_worker
    desk.organiser.erase(NAME, "b" * 32)
    assert known.renewed()[0] == []


def test_many_events_are_read_in_pieces(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign_state, "_EVENTS_AT_ONCE", 2)
    for number in range(5):
        refused(desk, f"{number}")
    known = Reading(desk, NAME)
    votes, tallies = known.renewed()
    assert tallies.counts == {"refused: not_looked": 5}
    # what was given is not changed by what is read next
    desk.votes.add(NAME, [vote(0, "a" * 32)])
    refused(desk, "another")
    known.renewed()
    assert (votes, tallies.counts) == ([], {"refused: not_looked": 5})


def test_everything_that_can_happen_has_words() -> None:
    assert set(REFUSED) == set(RefusalReason)
    assert [described(f"refused: {reason.value}") for reason in REFUSED] == list(REFUSED.values())
    assert described("expired") == OTHER["expired"]
    assert described("claim_cut") == OTHER["claim_cut"]
    assert described("refused: of_a_newer_version") == ("Of a newer version", "")


def test_numbers_are_written_for_people() -> None:
    shares = [share(value) for value in (0, 0.1234, 0.99999, 1, 2)]
    assert shares == ["0.0 %", "12.3 %", "99.9 %", "100 %", "100 %"]
    durations = [duration(value) for value in (None, 0, 59.6, 3599, 3725)]
    assert durations == ["–", "0:00", "1:00", "59:59", "1:02:05"]
    assert [money(1234.5, currency) for currency in ("EUR", "JPY")] == ["1,234.50 EUR", "1,234 JPY"]
    assert [alpha(value) for value in (None, -0.001, -0.5, 0.456)] == ["–", "0.00", "−0.50", "0.46"]


PAPER = WorkerQuality(
    campaign="spring", worker="w", votes=9, timed=9, fast=0, easy=4, disagreed=0, solvable=4, solved=4,
    gold=0, gold_solved=0, flags=(), decision=None, review=False,
)  # fmt: skip


def test_the_model_is_shown_where_it_was_asked() -> None:
    assert [one.name for one in indicators(PAPER, QualityRule())][-1] != "Careless"
    strict = QualityRule(name="strict")
    found = replace(
        PAPER, flags=(Flag.CARELESS,), review=True, careful=0.031, kind=WorkerKind.PREFERS_BY_HABIT
    )
    *paper, careless = indicators(found, strict)
    assert [one.flagged for one in paper] == [False] * 3
    assert (careless.name, careless.count, careless.flagged) == ("Careless", None, True)
    assert "careless now is 97%" in careless.counted
    assert "prefers by habit" in careless.counted
    cleared = replace(PAPER, careful=0.98, kind=WorkerKind.CAREFUL)
    assert not indicators(cleared, strict)[-1].flagged
    # nobody is called certainly careless, and nobody after a few tasks
    assert "careless now is over 99%" in indicators(replace(found, careful=0.001), strict)[-1].counted
    assert "careless now is under 1%" in indicators(replace(found, careful=0.999), strict)[-1].counted
    few = indicators(replace(PAPER, votes=4, careful=0.001), strict)[-1].counted
    assert few == "Nothing to say yet: 4 of the 8 tasks that an estimate needs"


def checked(number: int, check: str, **more: object) -> Vote:
    one = vote(number, "w")
    return one.model_copy(update={"pair_id": f"{one.pair_id}{check}", "gold": True, **more})


def test_check_tasks_are_shown_as_what_they_are() -> None:
    given = [
        vote(1, "w"),
        checked(1, "~again", preferred="low"),
        checked(2, "~again"),
        checked(3, "~equal"),
        checked(4, ""),
    ]
    given = [one.model_copy(update={"vote_id": f"{n}"}) for n, one in enumerate(given)]
    shown = beside(given, "w", QualityRule(name="strict"))
    said = {one.vote.vote_id: (one.checks, one.same) for one in shown}
    again = "repeated, sides swapped"
    assert said == {
        "0": ("", None),
        "1": (again, False),
        "2": (again, None),
        "3": ("equal videos", None),
        "4": ("known answer", None),
    }


def test_there_is_no_alpha_of_one_rated_video(tmp_path: Path) -> None:
    clock = HandClock()
    with open_desk(tmp_path, clock) as opened:
        said = []
        for videos, values in ((1, (1, 2)), (2, (5, 5))):
            opened.organiser.publish(ratings_campaign(), [rating_task(number) for number in range(videos)])
            for rater, value in zip(("ann", "bob"), values, strict=True):
                rate(opened, clock, come_in(opened, rater, "rated"), value)
            said.append(read_state(opened, opened.campaigns.get("rated"), clock.now).alphas["look"])
    assert said[0] is None
    assert alpha(said[0]) == "–"
    assert said[1] is not None and said[1] > 0.8
