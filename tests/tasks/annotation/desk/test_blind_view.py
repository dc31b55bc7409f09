"""Nothing reveals which side is degraded before the first answer is stored."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_schemas.votes import SideWord
from tasks.annotation.desk.desk import Desk
from tasks.annotation.desk.pair_assignment import PairAssignment
from tasks.annotation.pair_task import PairTask, Stretch
from tests.tasks.annotation.example_desk import (
    HandClock,
    confirm_all,
    example_campaign,
    example_task,
    sit,
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
assignments = st.builds(
    PairAssignment,
    id=st.just("0" * 32),
    campaign=st.just("autumn"),
    worker=st.just("1" * 32),
    task=tasks,
    first=st.sampled_from(["high", "low"]),
    language=st.just("en"),
    state=st.just("opened"),
    preferred=st.none(),
    rating=st.none(),
    seen=st.fixed_dictionaries({"left": played, "right": played}),
    confirmed=st.just(frozenset()),
    lease_until=st.just("2026-11-23T11:00:00.000000+00:00"),
    opened_at=st.just("2026-11-23T09:00:00.000000+00:00"),
    least_seen=st.just(0.9),
    look_share=st.sampled_from([0.0, 0.3, 1.0]),
    training=st.booleans(),
)
#: All that a browser is told before the first answer.
BLIND = {
    *("id", "campaign", "aspect", "language", "state", "preferred", "opened_at", "lease_until", "prompt"),
    *("seen", "look", "look_share", "least_seen", "can_prefer", "training"),
}


@given(assignments)
def test_view_is_the_same_for_swapped_sides_until_the_first_answer(assignment: PairAssignment) -> None:
    other = replace(assignment, task=swapped(assignment.task), first=OTHER[assignment.first])
    assert assignment.file_at("left") == other.file_at("left"), "the same two videos at the same places"
    assert assignment.side_at("left") != other.side_at("left")
    view = assignment.view()
    assert json.dumps(view) == json.dumps(other.view()), "in the same order, too"
    # no name, size or stretch is in it
    assert set(view) == BLIND
    text = json.dumps({key: value for key, value in view.items() if key != "prompt"})
    task = assignment.task
    for word in (task.pair_id, task.source_id, task.high_file, task.low_file, '"high"', '"low"', "gold"):
        assert word not in text
    # and the answer that is hidden before is told after
    after, before = (replace(one, state="preferred", preferred="left").view() for one in (assignment, other))
    assert after["intended"] == assignment.place_of("high") != before["intended"]
    places = [stretch["place"] for stretch in after["must_see"]]
    assert places == [assignment.place_of(stretch.video) for stretch in task.must_see]


@pytest.mark.parametrize("degraded", ["low", "high"])
def test_view_before_and_after_the_first_answer(desk: Desk, clock: HandClock, degraded: SideWord) -> None:
    task = example_task()
    desk.organiser.publish(example_campaign(), [task if degraded == "low" else swapped(task)])
    ann = sit(desk, clock)
    first, view = ann.task.view(), watch_all(desk, clock, ann.task).view()
    assert first == {
        **{"id": ann.task.id, "campaign": "autumn", "aspect": "color", "language": "en"},
        **{"state": "opened", "preferred": None, "can_prefer": False},
        "opened_at": "2026-11-23T09:00:00.000000+00:00",
        "lease_until": "2026-11-23T11:00:00.000000+00:00",
        "prompt": [clip.model_dump() for clip in task.prompt_clips],
        "seen": {"left": [], "right": []},
        "look": {"left": [[0.0, 30.0]], "right": [[0.0, 30.0]]},
        **{"look_share": 0.0, "least_seen": 0.9, "training": False},
    }
    assert view == {
        **first,
        "seen": {"left": [[0.0, 30.0]], "right": [[0.0, 30.0]]},
        "lease_until": "2026-11-23T11:00:30.000000+00:00",
        "can_prefer": True,
    }
    ann.prefer()
    view = confirm_all(desk, watch_all(desk, clock, ann.task)).view()
    low = ann.task.place_of(degraded)
    assert view["intended"] == ann.task.place_of("high") != ann.task.place_of("low")
    assert view["must_see"][0] == {
        **{"number": 0, "place": low, "start_s": 0.0, "end_s": 10.0, "kind": "degraded"},
        **{"note": "car: red → blue", "seen": True, "confirmed": True},
    }
    assert (view["state"], view["preferred"]) == ("preferred", "left")
    assert (view["missing"], view["can_rate"], view["rating"]) == ([], True, None)
    assert json.loads(json.dumps(view)) == view
