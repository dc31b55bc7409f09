"""Publishing, votes from files, decisions and erasing."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import event

from storage_schemas.errors import UserInputError
from storage_schemas.votes import Standing
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.events import EventKind
from tasks.annotation.desk.organiser import ErasedRows, PublishedTasks
from tasks.annotation.desk.refusals import RefusalReason
from tasks.annotation.desk.votes import ImportedVotes
from tests.tasks.annotation.example_desk import (
    HandClock,
    come_in,
    do_task,
    example_campaign,
    example_task,
    example_tasks,
    file_vote,
    open_desk,
    refuses,
    sit,
)


def votes_of(desk: Desk) -> dict[str, int]:
    return {row.pair_id: row.votes for row in desk.organiser.progress("autumn")}


def test_publishing_again_keeps_what_is_known_and_adds_what_is_new(desk: Desk, clock: HandClock) -> None:
    tasks, publish = example_tasks(3), desk.organiser.publish
    assert publish(example_campaign(), tasks[:2]) == PublishedTasks(new=2, known=0, retired=0)
    vote = do_task(desk, clock, come_in(desk, "ann"))
    assert publish(example_campaign(), tasks[:2]) == PublishedTasks(new=0, known=2, retired=0)
    assert publish(example_campaign(lease_minutes=5), tasks[1:]) == PublishedTasks(new=1, known=1, retired=1)
    assert [task.pair_id for task in desk.campaigns.tasks("autumn")] == ["color-001", "color-002"]
    assert desk.campaigns.task("autumn", "color-000") == tasks[0], "still known, for its votes"
    assert desk.campaigns.get("autumn").lease_minutes == 5
    assert [one for _, one in desk.votes.read("autumn")] == [vote]
    assert publish(example_campaign(), tasks) == PublishedTasks(new=0, known=3, retired=0)
    assert votes_of(desk)[vote.pair_id] == 1
    assert desk.campaigns.all() == [example_campaign()]


def test_a_retired_task_is_given_to_nobody_and_who_has_it_may_finish(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(), [example_task("a")])
    held = sit(desk, clock)
    desk.organiser.publish(example_campaign(), [example_task("b")])
    assert sit(desk, clock, "bob").task.task.pair_id == "b"
    assert do_task(desk, clock, held.task.worker).pair_id == held.task.task.pair_id == "a"


def test_publish_refuses_changes_and_changes_nothing(desk: Desk) -> None:
    tasks = example_tasks(2)
    desk.organiser.publish(example_campaign(), tasks)
    other = tasks[0].model_copy(update={"must_see": tasks[0].must_see[:1]})
    changed = "stretches to watch of pair color-000 in campaign autumn have changed"
    cases = [
        (example_campaign(version=2), tasks, "shows release first version 1, not release first version 2"),
        (example_campaign(gold_pairs=("x",)), tasks, "gold_pairs: x is not among"),
        (
            example_campaign(gold_pairs=("color-000",)),
            [tasks[0].model_copy(update={"control": True}), tasks[1]],
            "gold_pairs: color-000 is a control",
        ),
        (example_campaign(), [tasks[0], tasks[0]], "color-000 appears 2 times"),
        (example_campaign(), [example_task("new"), other], changed),
    ]
    for campaign, given, message in cases:
        with pytest.raises(UserInputError, match=message):
            desk.organiser.publish(campaign, given)
    assert desk.campaigns.tasks("autumn") == tasks
    assert desk.campaigns.get("autumn") == example_campaign()
    with pytest.raises(UserInputError, match="has no pair 'new'"):
        desk.campaigns.task("autumn", "new")
    # new words of a known pair are shown
    clips = tuple(clip.model_copy(update={"translation": "赤い車"}) for clip in tasks[0].prompt_clips)
    desk.organiser.publish(
        example_campaign(), [task.model_copy(update={"prompt_clips": clips}) for task in tasks]
    )
    view = desk.queue.next("autumn", come_in(desk, "ann", language="ja")).view()
    assert [clip["translation"] for clip in view["prompt"]] == ["赤い車"] * 3


def test_campaigns_do_not_see_each_other(desk: Desk, clock: HandClock) -> None:
    for name in ("autumn", "winter"):
        desk.organiser.publish(example_campaign(name), [example_task()])
    worker = come_in(desk, "ann")
    do_task(desk, clock, worker)
    assert desk.votes.read("winter") == []
    refuses(RefusalReason.UNKNOWN_WORKER, desk.queue.next, "winter", worker)
    assert come_in(desk, "ann", "winter") == worker, "the same person in both"
    assert do_task(desk, clock, worker, campaign="winter").campaign == "winter"
    assert [number for number, _ in desk.votes.read("winter")] == [1]


def test_votes_from_files_count_once_each(desk: Desk, clock: HandClock) -> None:
    tasks = example_tasks(2)
    desk.organiser.publish(example_campaign(workers_per_pair=3), tasks)
    web = do_task(desk, clock, come_in(desk, "ann"))
    one, two = file_vote(tasks[0], "w1"), file_vote(tasks[0], "w2", rating="C")
    stranger = file_vote(example_task("unknown"), "w1")
    changed = one.model_copy(update={"vote_id": "again", "rating": "B"})
    same = one.model_copy(update={"vote_id": "a-second-file"})
    given = [one, two, web, stranger, changed, same]
    assert desk.votes.add("autumn", given) == ImportedVotes(2, 2, (stranger.vote_id,), ("again",))
    assert desk.votes.add("autumn", given) == ImportedVotes(0, 4, (stranger.vote_id,), ("again",))
    assert desk.votes.read("autumn") == [(1, web), (2, one), (3, two)]
    assert desk.votes.read("autumn", after=2) == [(3, two)]
    assert sum(votes_of(desk).values()) == 3
    assert votes_of(desk)["color-000"] >= 2
    last = desk.events.read("autumn")[-1]
    assert last.kind is EventKind.IMPORTED
    assert last.detail == {"accepted": 0, "known": 4, "unknown_pairs": 1, "refused": 1}
    # votes of another campaign are refused as a whole
    for other in ({"campaign": "winter"}, {"version": 2}, {"release": "second"}):
        with pytest.raises(UserInputError, match="not to autumn, first version 1"):
            desk.votes.add("autumn", [file_vote(tasks[1], "w1"), file_vote(tasks[1], "w2", **other)])
    assert len(desk.votes.read("autumn")) == 3


def test_many_pairs_and_votes_take_few_statements(desk: Desk) -> None:
    """Workers wait meanwhile, and a schedule may publish every hour."""
    tasks = example_tasks(200)
    campaign = example_campaign()
    desk.organiser.publish(campaign, tasks)
    ran: list[str] = []
    event.listen(desk.database._engine, "before_cursor_execute", lambda *event: ran.append(event[2]))
    assert desk.organiser.publish(campaign, tasks).known == 200
    other = [task.model_copy(update={"high_bytes": task.high_bytes + 1}) for task in tasks[:150]]
    assert desk.organiser.publish(campaign, other).retired == 50
    assert [task.high_bytes for task in desk.campaigns.tasks("autumn")] == [task.high_bytes for task in other]
    votes = [file_vote(task, f"{number:032x}", campaign) for task in other for number in range(3)]
    assert desk.votes.add("autumn", votes).accepted == 450
    assert [one.votes for one in desk.organiser.progress("autumn")] == [3] * 150
    assert len(ran) < 80


def test_votes_over_the_number_are_kept(desk: Desk) -> None:
    (task,) = example_tasks(1)
    desk.organiser.publish(example_campaign(workers_per_pair=1), [task])
    assert desk.votes.add("autumn", [file_vote(task, f"w{n}") for n in range(3)]).accepted == 3
    assert votes_of(desk) == {task.pair_id: 3}
    assert desk.organiser.progress("autumn")[0].done
    refuses(RefusalReason.DONE, desk.queue.next, "autumn", come_in(desk, "ann"))


def test_queue_does_not_repeat_a_pair_voted_on_in_a_file(desk: Desk) -> None:
    desk.organiser.publish(example_campaign(), example_tasks(1))
    worker = come_in(desk, "ann")
    desk.votes.add("autumn", [file_vote(desk.campaigns.tasks("autumn")[0], worker)])
    refuses(RefusalReason.DONE, desk.queue.next, "autumn", worker)


@pytest.mark.parametrize("drop", [False, True])
def test_exclusion_keeps_votes_unless_it_drops_them(desk: Desk, clock: HandClock, drop: bool) -> None:
    campaign = example_campaign(workers_per_pair=1, drop_excluded=drop)
    desk.organiser.publish(campaign, example_tasks(1))
    bad, good = come_in(desk, "bad"), come_in(desk, "good")
    vote = do_task(desk, clock, bad)
    made = desk.organiser.decide("autumn", bad, Standing.EXCLUDED, " too fast ", "Ann")
    assert (made.note, made.by, made.decision) == ("too fast", "Ann", Standing.EXCLUDED)
    assert desk.votes.read("autumn") == [(1, vote)], "on record in any case"
    if drop:
        assert do_task(desk, clock, good).pair_id == vote.pair_id
        desk.organiser.decide("autumn", bad, Standing.CLEARED, "it was the network", "Ann")
        assert votes_of(desk) == {vote.pair_id: 2}, "both count, none is thrown away"
    else:
        refuses(RefusalReason.DONE, desk.queue.next, "autumn", good)
        desk.organiser.publish(campaign.model_copy(update={"drop_excluded": True}), example_tasks(1))
        assert votes_of(desk) == {vote.pair_id: 0}, "the new settings count at once"
    assert desk.organiser.workers("autumn")[0].standing == ("cleared" if drop else "excluded")
    decided = [event.kind for event in desk.events.read("autumn") if "by" in event.detail and event.worker]
    assert [str(kind) for kind in decided] == [str(one.decision) for one in desk.decisions.read("autumn")]


def test_a_decision_needs_a_note_and_a_worker_who_is_known(desk: Desk) -> None:
    desk.organiser.publish(example_campaign(), example_tasks(1))
    decide, worker = desk.organiser.decide, come_in(desk, "ann")
    with pytest.raises(UserInputError, match="give the reason in a note"):
        decide("autumn", worker, Standing.EXCLUDED, " \x00 ", "me")
    for unknown in ("0" * 32, "", "\x00", "\ud800"):
        with pytest.raises(UserInputError, match="there is no worker"):
            decide("autumn", unknown, Standing.EXCLUDED, "note", "me")
        with pytest.raises(UserInputError, match="there is no worker"):
            desk.organiser.erase("autumn", unknown)
    desk.votes.add("autumn", [file_vote(desk.campaigns.tasks("autumn")[0], "of a file")])
    assert decide("autumn", "of a file", Standing.EXCLUDED, "note", "me").worker == "of a file"
    assert [row.standing for row in desk.organiser.workers("autumn")] == ["", "excluded"]


def test_erasing_takes_all_of_a_worker_out_and_leaves_counts(tmp_path: Path, clock: HandClock) -> None:
    with open_desk(tmp_path, clock) as desk:
        desk.organiser.publish(example_campaign(workers_per_pair=2), example_tasks(3))
        (token,) = desk.organiser.invite("autumn", 1)
        gone, stays = (desk.workers.enter("autumn", "link", token, token).worker, come_in(desk, "known-one"))
        desk.workers.consent("autumn", gone, "en")
        votes = [do_task(desk, clock, gone) for _ in range(2)]
        others = [do_task(desk, clock, stays)]
        desk.queue.next("autumn", gone)
        desk.organiser.decide("autumn", gone, Standing.CLEARED, "asked for it", "me")
        held = [event for event in desk.events.read("autumn") if event.worker == gone]
        erased = desk.organiser.erase("autumn", gone, by="Ann")
        row = ErasedRows("autumn", erased.at, 2, 3, len(held), 1, tuple(vote.vote_id for vote in votes))
        assert erased == row
        assert desk.organiser.erased("autumn") == [ErasedRows("autumn", erased.at, 2, 3, len(held), 1)]
        assert desk.votes.read("autumn") == [(3, others[0])], "numbers are not given twice"
        assert sum(votes_of(desk).values()) == 1
        assert [row.worker for row in desk.organiser.workers("autumn")] == [stays]
        assert desk.decisions.read("autumn") == []
        refuses(RefusalReason.BAD_LINK, desk.workers.enter, "autumn", "link", token, token)
        last = desk.events.read("autumn")[-1]
        assert (last.kind, last.worker, last.detail["votes"]) == (EventKind.ERASED, "", 2)
        stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert stays.encode() in stored
    assert gone.encode() not in stored, "not even in what SQLite leaves behind"
    assert token.encode() not in stored and b"known-one" not in stored


def test_progress_and_workers_say_what_was_done(desk: Desk, clock: HandClock) -> None:
    desk.organiser.publish(example_campaign(gold_pairs=("color-000",)), example_tasks(3))
    ann = come_in(desk, "ann")
    vote = do_task(desk, clock, ann)
    desk.workers.finish("autumn", ann)
    busy = desk.queue.next("autumn", come_in(desk, "bob", language="ja"))
    rows = {row.pair_id: row for row in desk.organiser.progress("autumn")}
    assert [row.gold for row in rows.values()] == [True, False, False]
    assert (rows[vote.pair_id].votes, rows[busy.task.pair_id].leases) == (1, 1)
    assert all(row.wanted == 5 and not row.done for row in rows.values())
    first, second = desk.organiser.workers("autumn")
    assert (first.worker, first.votes, first.open, first.language) == (ann, 1, 0, "en")
    assert first.finished_at > first.consented_at >= first.entered_at
    assert (second.votes, second.open, second.language, second.finished_at) == (0, 1, "ja", "")
