"""Controls: drawn beside a pair, made, verified, and set aside alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from storage_schemas.analysis import AgentAction, CaptionAnalysis
from storage_schemas.errors import Reason
from storage_schemas.frames import Planes
from storage_schemas.ids import digest_value
from storage_schemas.pair import PairRecord
from storage_schemas.store import PAIR
from tasks.aspects.base import Control
from tasks.pairs.degrade import degrade_source, read_pair
from tasks.pairs.draw import PairJob, control_jobs, source_jobs
from tasks.pairs.verify import edit_list_problems, verify_deep, verify_pairs
from tasks.recipe import AspectRecipe, Recipe
from tests.tasks.pairs.synthetic import RECIPE, Made, NoModels, picture

#: The aspects whose controls need no weights.
CPU = {
    **RECIPE.aspects,
    "technical_quality": AspectRecipe(operation="lanczos-down-up", parameters={"long_side": 16}),
    "appearance_style": AspectRecipe(operation="opencv-style"),
}
#: No side, no writing, and one event.
PLAIN = CaptionAnalysis(subject=("dog",), dynamic_degree=(AgentAction(agent="dog", action="runs"),))


def with_controls(**changes: Any) -> Recipe:
    return RECIPE.model_copy(update={"aspects": CPU, "controls": True, **changes})


def jobs_of(source: Made) -> tuple[list[PairJob], dict[str, str]]:
    """The controls of a source, and the messages of those that are missing."""
    jobs, _ = source_jobs(source.facts, source.recipe, NoModels(), tuple(source.recipe.aspects))
    controls, reasons = control_jobs(source.facts, source.recipe, NoModels(), jobs)
    return controls, {name: reason.message for name, reason in reasons.items()}


@pytest.fixture
def plain(made: Callable[..., Made]) -> Made:
    source = made(analyses=(PLAIN,) * 12, recipe=with_controls())
    return replace(source, recipe=with_controls())


def made_controls(source: Made) -> dict[str, PairRecord]:
    controls, _ = jobs_of(source)
    result = degrade_source(source.store, source.facts, controls, NoModels())
    assert not result.set_aside, result.set_aside
    return {job.aspect.name: read_pair(source.store, job.pair_id) for job in controls}


def test_a_control_is_made_and_verified_like_a_pair(plain: Made) -> None:
    records = made_controls(plain)
    # no caption names a side, so there is no pair of spatial relationship and no control beside it
    assert set(records) == set(CPU) - {"spatial_relationship"}
    assert not verify_pairs(plain.store, [record.pair_id for record in records.values()])
    for record in records.values():
        assert record.control
        assert record.strength == "control"
        assert verify_deep(plain.store, record) == []


def test_a_control_changes_the_clips_of_its_pair_where_it_can(plain: Made) -> None:
    jobs, _ = source_jobs(plain.facts, plain.recipe, NoModels(), ("aesthetics", "dynamics_degree"))
    controls, _ = jobs_of(plain)
    for job in jobs:
        (control,) = [one for one in controls if one.aspect is job.aspect]
        assert control.draw == job.draw
        assert control.clips == job.clips


def test_a_trimmed_video_is_as_short_as_its_pair_and_has_every_clip(plain: Made) -> None:
    pair = plain.pair("comprehensiveness")
    control = made_controls(plain)["comprehensiveness"]
    assert control.low_frames == pair.low_frames < pair.high_frames
    owned = {span.index for span in plain.facts.clips_with_frames}
    assert {s.clip for s in control.segments if s.clip is not None} == owned
    assert set(control.drawn_clips) == {s.clip for s in control.segments if s.kind == "trimmed"}
    lost = sum(end - start for start, end in control.high_intervals)
    assert lost * control.fps == control.high_frames - control.low_frames


def test_verification_finds_a_trimmed_clip_that_is_whole(plain: Made) -> None:
    control = made_controls(plain)["comprehensiveness"]
    at = next(n for n, segment in enumerate(control.segments) if segment.kind == "trimmed")
    span = plain.facts.spans[control.segments[at].clip or 0]
    whole = control.segments[at].model_copy(update={"frame_count": span.frame_count})
    segments = (*control.segments[:at], whole, *control.segments[at + 1 :])
    more = span.frame_count - control.segments[at].frame_count
    forged = control.model_copy(update={"segments": segments, "low_frames": control.low_frames + more})
    assert "a trimmed clip has all of its frames" in edit_list_problems(forged)


def test_equal_statistics_of_a_mirrored_and_a_reversed_clip(plain: Made) -> None:
    records = made_controls(plain)
    reversed_clip = next(s for s in records["dynamics_degree"].segments if s.kind == "degraded")
    assert reversed_clip.frame_map is not None
    first, count = reversed_clip.first_frame, reversed_clip.frame_count
    assert list(reversed_clip.frame_map) == list(range(first + count - 1, first - 1, -1))


def test_no_room_sets_the_control_aside_alone(made: Callable[..., Made]) -> None:
    events = tuple(AgentAction(agent="dog", action=action) for action in ("runs", "sits"))
    busy = PLAIN.model_copy(update={"dynamic_degree": events, "subject": ("dog", "traffic sign")})
    source = replace(made(analyses=(busy,) * 12), recipe=with_controls())
    controls, missing = jobs_of(source)
    assert set(missing) == {"aesthetics", "appearance_style", "temporal_flow"}
    assert missing["temporal_flow"] == (
        "the control of temporal_flow needs 3 clips (a caption with one event at most, and a clip of two "
        "frames or more), one has 0 of 12"
    )
    assert {job.aspect.name for job in controls} == {
        "comprehensiveness",
        "dynamics_degree",
        "technical_quality",
    }


def test_a_control_that_changes_nothing_is_redrawn_then_set_aside(made: Callable[..., Made]) -> None:
    def still(number: int) -> Planes:
        # the clips from second 20 on show one grey, which a shift does not change
        return picture(number) if number < 20 else np.full_like(picture(0), 128)

    source = replace(made(still, analyses=(PLAIN,) * 12, recipe=RECIPE), recipe=with_controls())
    (job,) = [one for one in jobs_of(source)[0] if one.aspect.name == "technical_quality"]
    result = degrade_source(source.store, source.facts, [job], NoModels())
    passed = read_pair(source.store, job.pair_id).passed_over if not result.set_aside else {}
    moving = [span for span in job.draw if span.first_frame + span.frame_count <= 20]
    assert len(moving) >= job.clips
    assert all("is below" in why for why in passed.values())

    grey = made(lambda _: np.full_like(picture(0), 128), analyses=(PLAIN,) * 12, name="grey")
    grey = replace(grey, recipe=with_controls())
    (job,) = [one for one in jobs_of(grey)[0] if one.aspect.name == "technical_quality"]
    (why,) = degrade_source(grey.store, grey.facts, [job], NoModels()).set_aside.values()
    assert why.reason is Reason.NOT_DIFFERENT_ENOUGH
    assert why.message.startswith("the control of technical_quality: only 0 of the 12 eligible clips")


def test_a_control_that_changes_too_much_is_redrawn_then_set_aside(plain: Made) -> None:
    (job,) = [one for one in jobs_of(plain)[0] if one.aspect.name == "technical_quality"]
    assert job.control is not None
    narrow = replace(job, control=replace(job.control, max_difference=1.0))
    (why,) = degrade_source(plain.store, plain.facts, [narrow], NoModels()).set_aside.values()
    assert why.reason is Reason.NOTHING_FOUND
    assert "more than a control may change" in why.message
    assert isinstance(narrow.control, Control)


def test_a_share_of_pairs_gets_a_control_and_a_smaller_share_some_of_these() -> None:
    ids = [f"source{n}" for n in range(400)]
    drawn = {
        share: {id_ for id_ in ids if with_controls(controls=share).has_control("aesthetics", id_)}
        for share in (0.25, 0.5, True)
    }
    assert drawn[0.25] < drawn[0.5] < drawn[True] == set(ids)
    assert 70 <= len(drawn[0.25]) <= 130
    assert not with_controls(controls=False).has_control("aesthetics", "source0")


def test_without_controls_ids_and_content_are_as_before(made: Callable[..., Made]) -> None:
    """The checksum was computed with the program as it was before there were controls, that of temporal flow
    since its windows are drawn evenly.
    """
    source = made()
    source.degrade()
    contents = {job.aspect.name: source.store.manifest(PAIR, job.pair_id).content for job in source.jobs()}
    flow = contents.pop("temporal_flow")
    assert digest_value(flow) == "596868c191d7f6c5e9bbf713195b84b29abecfb50f7e1c1125458f4dec945b26"
    assert digest_value([*contents.values()]) == (
        "f296bf27554e7b073cdcb85cdc200cc40ab8c3a3e15c77fd959250e3abb383c9"
    )
    # with them, the pairs stay the same
    with_them = RECIPE.model_copy(update={"controls": True})
    jobs, _ = source_jobs(source.facts, with_them, NoModels(), tuple(RECIPE.aspects))
    assert [job.pair_id for job in jobs] == [job.pair_id for job in source.jobs()]
    assert RECIPE.digest() == "218697eec7a573a5953ed5b5b9bfa8125650d7903874cc77d7f52eee22efddbf"
    assert with_them.digest() != RECIPE.digest()
