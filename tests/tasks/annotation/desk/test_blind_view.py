"""Nothing reveals which side is degraded before the first answer is stored."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.votes import SideWord
from tasks.annotation.desk.assignments import Assignment
from tasks.annotation.pair_task import PairTask, Stretch
from tests.tasks.annotation.example_desk import (
    HandClock,
    come_in,
    example_campaign,
    example_task,
    open_desk,
    ready_to_rate,
    watch_all,
)

OTHER: dict[SideWord, SideWord] = {"high": "low", "low": "high"}


def swapped(task: PairTask) -> PairTask:
    """The same two videos with the sides swapped."""
    values: dict[str, Any] = {}
    for end in ("s", "file", "bytes", "index"):
        values[f"high_{end}"] = getattr(task, f"low_{end}")
        values[f"low_{end}"] = getattr(task, f"high_{end}")
    stretches = tuple(s.model_copy(update={"video": OTHER[s.video]}) for s in task.must_see)
    return task.model_copy(update={**values, "must_see": stretches})


removed = Stretch(video="high", start_s=3, end_s=9, kind="removed")
join = Stretch(video="low", start_s=1, end_s=5, kind="join")
tasks = st.builds(
    example_task,
    aspect=st.sampled_from(["color", "comprehensiveness"]),
    high_s=st.floats(10, 60),
    low_s=st.floats(10, 60),
    high_bytes=st.integers(1, 10**6),
    low_bytes=st.integers(1, 10**6),
    high_index=st.sampled_from([(), ((0.0, 100),)]),
    must_see=st.lists(st.sampled_from([removed, join]), min_size=1, max_size=4).map(tuple),
    gold=st.booleans(),
)
played = st.lists(st.tuples(st.floats(0, 4), st.floats(5, 10)), max_size=1).map(tuple)


@st.composite
def assignments(draw: st.DrawFn) -> Assignment:
    return Assignment(
        id="0" * 32,
        campaign="autumn",
        worker="1" * 32,
        task=draw(tasks),
        first=draw(st.sampled_from(["high", "low"])),
        language="en",
        state="opened",
        preferred=None,
        rating=None,
        seen={"left": draw(played), "right": draw(played)},
        confirmed=frozenset(),
        lease_until="2026-11-23T11:00:00.000000+00:00",
        opened_at="2026-11-23T09:00:00.000000+00:00",
        least_seen=0.9,
        look_share=draw(st.sampled_from([0.0, 0.3, 1.0])),
    )


@given(assignments())
def test_before_the_first_answer_the_view_is_the_same_if_the_other_side_is_degraded(
    assignment: Assignment,
) -> None:
    other = replace(assignment, task=swapped(assignment.task), first=OTHER[assignment.first])
    assert assignment.file_at("left") == other.file_at("left"), "the same two videos at the same places"
    assert assignment.side_at("left") != other.side_at("left")
    assert json.dumps(assignment.view()) == json.dumps(other.view()), "in the same order, too"


@given(assignments())
def test_the_answer_that_is_hidden_before_is_told_after(assignment: Assignment) -> None:
    after = replace(assignment, state="preferred", preferred="left").view()
    other = replace(
        assignment,
        state="preferred",
        preferred="left",
        task=swapped(assignment.task),
        first=OTHER[assignment.first],
    ).view()
    assert after["intended"] == assignment.place_of("high") != other["intended"]
    places = [stretch["place"] for stretch in after["must_see"]]
    assert places == [assignment.place_of(stretch.video) for stretch in assignment.task.must_see]


@given(assignments())
def test_no_name_size_or_stretch_is_in_the_view_before(assignment: Assignment) -> None:
    view = assignment.view()
    assert set(view) == {
        "id",
        "campaign",
        "aspect",
        "language",
        "state",
        "preferred",
        "opened_at",
        "lease_until",
        "prompt",
        "seen",
        "look",
        "look_share",
        "least_seen",
        "can_prefer",
    }
    text = json.dumps({key: value for key, value in view.items() if key != "prompt"})
    task = assignment.task
    for word in (task.pair_id, task.source_id, task.high_file, task.low_file, '"high"', '"low"', "gold"):
        assert word not in text


@pytest.mark.parametrize("degraded", ["as it is", "swapped"])
def test_a_worker_is_shown_the_same_by_the_desk_whichever_side_is_degraded(
    tmp_path: Path, degraded: str
) -> None:
    clock = HandClock()
    task = example_task()
    with open_desk(tmp_path, clock) as desk:
        desk.organiser.publish(example_campaign(), [task if degraded == "as it is" else swapped(task)])
        assignment = desk.queue.next("autumn", come_in(desk, "ann"))
        seen = watch_all(desk, clock, assignment)
        first, view = assignment.view(), seen.view()
        assert first.pop("id") == view.pop("id") == assignment.id
    assert first == {
        "campaign": "autumn",
        "aspect": "color",
        "language": "en",
        "state": "opened",
        "preferred": None,
        "opened_at": "2026-11-23T09:00:00.000000+00:00",
        "lease_until": "2026-11-23T11:00:00.000000+00:00",
        "prompt": [clip.model_dump() for clip in task.prompt_clips],
        "seen": {"left": [], "right": []},
        "look": {"left": [[0.0, 30.0]], "right": [[0.0, 30.0]]},
        "look_share": 0.0,
        "least_seen": 0.9,
        "can_prefer": False,
    }
    assert view == {
        **first,
        "seen": {"left": [[0.0, 30.0]], "right": [[0.0, 30.0]]},
        "lease_until": "2026-11-23T11:00:30.000000+00:00",
        "can_prefer": True,
    }


def test_after_the_first_answer_the_view_says_what_has_to_be_seen(tmp_path: Path) -> None:
    clock = HandClock()
    with open_desk(tmp_path, clock) as desk:
        desk.organiser.publish(example_campaign(), [example_task()])
        assignment = ready_to_rate(desk, clock, desk.queue.next("autumn", come_in(desk, "ann")))
    view = assignment.view()
    low = assignment.place_of("low")
    assert view["intended"] == assignment.place_of("high") != low
    assert view["must_see"][0] == {
        "number": 0,
        "place": low,
        "start_s": 0.0,
        "end_s": 10.0,
        "kind": "degraded",
        "note": "car: red → blue",
        "seen": True,
        "confirmed": True,
    }
    assert (view["state"], view["preferred"], view["missing"], view["can_rate"], view["rating"]) == (
        "preferred",
        "left",
        [],
        True,
        None,
    )
    assert json.loads(json.dumps(view)) == view
