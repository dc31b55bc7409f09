"""What the organiser's pages cache from the desk, and the descriptions of events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slvmeval.web.annotation.organiser import campaign_state
from slvmeval.web.annotation.organiser.campaign_state import OTHER, REFUSED, Reading, described
from slvmeval.web.annotation.organiser.pages import alpha, duration, money, share
from storage_schemas.votes import Vote
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.refusals import RefusalReason
from tests.slvmeval.web.annotation.pieces import NAME, pair, put_up

KEY = b"k" * 32


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    serving, _ = put_up(tmp_path / "store", [pair(number) for number in range(4)], 1)
    from tasks.annotation.installation import installation_key

    with Desk.open(serving.database, installation_key(serving.root)) as opened:
        yield opened


def vote(desk: Desk, number: int, worker: str) -> Vote:
    task = desk.campaigns.tasks(NAME)[number]
    return Vote(
        vote_id=f"{number}-{worker[:4]}",
        campaign=NAME,
        release="demo",
        version=1,
        pair_id=task.pair_id,
        source_id=task.source_id,
        aspect=task.aspect,
        worker=worker,
        first="high",
        preferred="high",
        rating="A",
        pair_duration_s=60.0,
    )


def test_only_what_is_new_is_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[tuple[str, int]] = []
    for name, log in (("votes", desk.votes), ("events", desk.events)):

        def noted(campaign: str, after: int = 0, *, _n=name, _w=log.read, **more: int) -> object:  # type: ignore[no-untyped-def]
            requests.append((_n, after))
            return _w(campaign, after=after, **more)

        monkeypatch.setattr(log, "read", noted)
    known = Reading(desk, NAME)
    desk.votes.add(NAME, [vote(desk, 0, "a" * 32)])
    assert [one.worker[0] for one in known.renewed()[0]] == ["a"]
    desk.votes.add(NAME, [vote(desk, 0, "b" * 32), vote(desk, 1, "a" * 32)])
    assert [one.worker[0] for one in known.renewed()[0]] == ["a", "b", "a"]
    assert [after for name, after in requests if name == "votes"] == [0, 1]
    events = [after for name, after in requests if name == "events"]
    assert events[0] == 0
    assert events[1] > 0


def test_who_is_erased_is_forgotten_here_too(desk: Desk) -> None:
    worker = desk.workers.enter(NAME, "prolific", "somebody").worker
    desk.workers.consent(NAME, worker, "en")
    with pytest.raises(Exception, match="not_looked"):
        desk.answers.prefer(NAME, worker, desk.queue.next(NAME, worker).id, "left")
    desk.votes.add(NAME, [vote(desk, 3, "b" * 32)])
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
        worker = desk.workers.enter(NAME, "prolific", f"{number}").worker
        desk.workers.consent(NAME, worker, "en")
        assignment = desk.queue.next(NAME, worker)
        with pytest.raises(Exception, match="not_looked"):
            desk.answers.prefer(NAME, worker, assignment.id, "left")
    assert Reading(desk, NAME).renewed()[1].counts == {"refused: not_looked": 5}


def test_what_was_given_is_not_changed_by_what_is_read_next(desk: Desk) -> None:
    known = Reading(desk, NAME)
    votes, tallies = known.renewed()
    desk.votes.add(NAME, [vote(desk, 0, "a" * 32)])
    known.renewed()
    assert votes == []
    assert not tallies.counts


def test_everything_that_can_happen_has_words() -> None:
    assert set(REFUSED) == set(RefusalReason)
    assert [described(f"refused: {reason.value}") for reason in REFUSED] == list(REFUSED.values())
    assert described("expired") == OTHER["expired"]
    assert described("claim_cut") == OTHER["claim_cut"]
    assert described("refused: of_a_newer_version") == ("Of a newer version", "")


def test_numbers_are_written_for_people() -> None:
    assert [share(value) for value in (0, 0.1234, 0.99999, 1, 2)] == [
        "0.0 %",
        "12.3 %",
        "99.9 %",
        "100 %",
        "100 %",
    ]
    assert [duration(value) for value in (None, 0, 59.6, 3599, 3725)] == [
        "–",
        "0:00",
        "1:00",
        "59:59",
        "1:02:05",
    ]
    assert [money(1234.5, currency) for currency in ("EUR", "JPY")] == ["1,234.50 EUR", "1,234 JPY"]
    assert [alpha(value) for value in (None, -0.001, -0.5, 0.456)] == ["–", "0.00", "−0.50", "0.46"]
