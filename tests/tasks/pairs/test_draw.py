from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from storage_schemas.analysis import AgentAction, CaptionAnalysis
from storage_schemas.errors import Reason, SetAside
from tasks.aspects.base import OrderOperation
from tasks.pairs.draw import PairJob, draw_pair, source_jobs
from tasks.recipe import AspectRecipe, Recipe, Severity, SeverityPoint
from tests.tasks.pairs.synthetic import ASPECTS, EVERYTHING, RECIPE, Made, NoModels


def concerned(source: Made, job: PairJob) -> set[int]:
    """The clips that a pair degrades where every eligible clip can be."""
    if isinstance(job.operation, OrderOperation):
        clips = source.facts.clips_with_frames
        return set(job.operation.rearrange(clips, job.clips, job.seed, job.parameters).drawn)
    return {span.index for span in job.draw[: job.clips]}


def draw(source: Made, aspect: str, clips: int | str, recipe: Recipe = RECIPE) -> PairJob:
    point = SeverityPoint.model_validate({"strength": "paper", "clips": clips})
    return draw_pair(source.facts, recipe, aspect, point, NoModels())


def test_a_smaller_draw_lies_within_a_larger_one(source: Made) -> None:
    for aspect in ASPECTS:
        drawn = [concerned(source, draw(source, aspect, clips)) for clips in (1, 2, 3, 5, 6)]
        assert [len(clips) for clips in drawn] == [1, 2, 3, 5, 6], aspect
        assert all(small < large for small, large in pairwise(drawn)), aspect


def test_all_means_as_many_as_may_be(source: Made) -> None:
    clips = len(source.facts.clips_with_frames)
    every = draw(source, "aesthetics", "all")
    assert (every.clips, every.least) == (clips, RECIPE.clips_per_pair)
    assert draw(source, "comprehensiveness", "all").clips == clips // 2
    assert draw(source, "temporal_flow", "all").clips == clips // 2


def order_of(job: PairJob) -> list[int]:
    return [span.index for span in job.draw]


def test_a_draw_depends_on_seed_source_and_aspect_alone(source: Made, made: Callable[..., Made]) -> None:
    order = order_of(draw(source, "aesthetics", 3))
    stronger = RECIPE.model_copy(update={"clips_per_pair": 2, "name": "other"})
    other_seed = RECIPE.model_copy(update={"seed": 4})
    assert order_of(draw(source, "aesthetics", 5)) == order
    assert order_of(draw(source, "aesthetics", 3, stronger)) == order
    assert order_of(draw(source, "aesthetics", 3, other_seed)) != order
    assert order_of(draw(source, "spatial_relationship", 3)) != order
    assert order_of(draw(made(name="two"), "aesthetics", 3)) != order


def test_pair_id_follows_what_the_pair_is_made_of(source: Made, made: Callable[..., Made]) -> None:
    def id_(aspect: str = "aesthetics", clips: int = 3, of: Made = source, **changes: Any) -> str:
        return draw(of, aspect, clips, RECIPE.model_copy(update=changes)).pair_id

    weaker = ASPECTS | {"aesthetics": AspectRecipe(operation="ffmpeg-eq", parameters={"contrast": 0.5})}
    assert id_() == id_() == id_(name="other", pairs_per_bin=1)
    assert id_("spatial_relationship", aspects=weaker) == id_("spatial_relationship")
    others = [id_(aspects=weaker), id_(clips=2), id_(seed=4), id_(of=made(name="two"))]
    assert len({id_(), *others}) == 5


def test_only_eligible_clips_are_drawn(made: Callable[..., Made]) -> None:
    silent = CaptionAnalysis()
    moving = CaptionAnalysis(dynamic_degree=(AgentAction(agent="dog", action="runs"),))
    source = made(analyses=tuple(moving if n in (1, 4, 8, 9) else silent for n in range(12)))
    # clip 8 has one frame, which cannot stand still
    assert {span.index for span in draw(source, "dynamics_degree", 3).draw} == {1, 4, 9}
    with pytest.raises(SetAside, match=r"needs 4 clips .* has 3 of 12") as caught:
        draw(source, "dynamics_degree", 4)
    assert caught.value.reason is Reason.TOO_FEW_ELIGIBLE_CLIPS


def test_too_few_clips_is_its_own_reason(source: Made) -> None:
    many = RECIPE.model_copy(update={"clips_per_pair": 7})
    with pytest.raises(SetAside, match="needs 14 clips, one has 12") as caught:
        draw(source, "temporal_flow", 7, many)
    assert caught.value.reason is Reason.TOO_FEW_CLIPS
    assert draw(source, "aesthetics", 7, many).clips == 7


def test_a_source_that_lacks_one_aspect_keeps_the_others(made: Callable[..., Made]) -> None:
    still = EVERYTHING.model_copy(update={"dynamic_degree": ()})
    source = made(analyses=(still,) * 12)
    jobs, reasons = source_jobs(source.facts, RECIPE, NoModels(), tuple(ASPECTS))
    assert set(reasons) == {"dynamics_degree"}
    assert {job.aspect.name for job in jobs} == set(ASPECTS) - {"dynamics_degree"}


def test_severity_points_give_a_pair_each_and_impossible_ones_none(source: Made) -> None:
    severity = Severity.model_validate({"clips": (1, 5, 99), "strengths": ("weak",)})
    recipe = RECIPE.model_copy(update={"severity": severity})
    jobs, reasons = source_jobs(source.facts, recipe, NoModels(), ("aesthetics", "temporal_flow"))
    assert not reasons
    points = {(job.aspect.name, job.strength, job.clips, job.main) for job in jobs}
    assert points == {
        ("aesthetics", "weak", 3, False),
        *(
            (name, "paper", clips, clips == 3)
            for name in ("aesthetics", "temporal_flow")
            for clips in (1, 3, 5)
        ),
    }
    assert len({job.pair_id for job in jobs}) == len(jobs)
    assert all(job.least == job.clips for job in jobs)
