"""Clips of a source that are eligible for each aspect, and what captions must say where they are too few."""

from __future__ import annotations

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.frames import ColorSpec
from storage_schemas.pair import ClipCount
from storage_schemas.source import Source, Timeline
from tasks.aspects.base import OrderOperation
from tasks.aspects.registry import aspect as find_aspect
from tasks.pairs.facts import SourceFacts, clip_spans
from tasks.recipe import Recipe


def clip_count(facts: SourceFacts, recipe: Recipe, name: str) -> ClipCount:
    """Return how many clips an aspect can use for its main pair, and how many it needs.

    Where the aspect needs more clips in the source than it changes, and there are fewer, all of the source's
    clips are counted.
    """
    aspect, operation = find_aspect(name), recipe.operation(name)
    parameters = recipe.parameters(name, recipe.points(name)[0].strength)
    have, least = len(facts.clips_with_frames), aspect.least_clips * recipe.clips_per_pair
    if have < least:
        return ClipCount(aspect=name, eligible=have, needed=least)
    eligible = len(facts.eligible(aspect, operation, parameters))
    if isinstance(operation, OrderOperation):
        eligible = min(eligible, operation.most(have, parameters))
    return ClipCount(aspect=name, eligible=eligible, needed=recipe.clips_per_pair)


def predicted_counts(
    source: Source, duration_s: float, analyses: tuple[CaptionAnalysis, ...], recipe: Recipe
) -> tuple[ClipCount, ...]:
    """Return the counts of all aspects for a source whose frames are not known: evenly spaced ones are taken.

    Parameters
    ----------
    duration_s
        Length of the video.
    analyses
        Analysis of each clip's caption.
    """
    times = tuple(float(index / recipe.fps) for index in range(max(1, round(duration_s * recipe.fps))))
    timeline = Timeline(width=0, height=0, color=ColorSpec(), duration_s=duration_s, pts_s=times, exact=False)
    facts = SourceFacts(source, timeline, clip_spans(source, timeline), analyses)
    return tuple(clip_count(facts, recipe, name) for name in recipe.aspects)


def caption_advice(name: str) -> str:
    """Return what a caption must say for an aspect, in words."""
    aspect = find_aspect(name)
    return aspect.caption_advice or f"A caption must name: {aspect.needs}."
