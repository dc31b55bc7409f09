"""What captions must say: the example of each aspect makes its clip eligible; too few clips are counted."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from storage_schemas.pair import ClipCount
from storage_schemas.source import Clip, Source
from tasks.aspects.base import ANY_CAPTION, ClipSpan
from tasks.aspects.registry import BUILT_IN, aspect
from tasks.captions.rules import RulesAnalyser
from tasks.pairs.clip_counts import caption_advice, predicted_counts
from tasks.recipe import load_recipe


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_caption_that_follows_the_advice_makes_its_clip_eligible(name: str) -> None:
    advice, result = caption_advice(name), aspect(name)
    example = re.search('"(.*)"', advice)
    assert example is not None or (advice, result.needs) == (ANY_CAPTION, "nothing")
    (analysis,) = RulesAnalyser().analyse([example[1] if example else ""])
    clip = ClipSpan(0, 0, 5)
    assert result.takes(analysis, clip)
    for operation in result.operations.values():
        assert operation.takes(analysis, clip, operation.parameters())


def test_an_aspect_without_advice_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    without = replace(aspect("color"), caption_advice="")
    monkeypatch.setattr("tasks.pairs.clip_counts.find_aspect", {"color": without}.__getitem__)
    assert caption_advice("color") == "A caption must name: an object with a colour (`color`)."


def film(captions: list[str]) -> Source:
    clips = (Clip(index=k, start_s=3 * k, end_s=3 * k + 3, caption=text) for k, text in enumerate(captions))
    return Source(
        id="film",
        adapter="folder",
        title="film",
        video="film.mp4",
        content_sha256="0" * 64,
        clips=tuple(clips),
        licence="unknown",
        redistributable=False,
    )


def counts(captions: list[str]) -> dict[str, tuple[int, int]]:
    """Return eligible and needed clips by aspect."""
    analyses = tuple(RulesAnalyser().analyse(captions))
    found = predicted_counts(film(captions), 3.0 * len(captions), analyses, load_recipe("cpu-approx"))
    return {count.aspect: (count.eligible, count.needed) for count in found}


def test_plain_captions_are_too_few_in_three_aspects() -> None:
    plain = counts([f"A man walks to a woman, number {k}." for k in range(12)])
    few = {name: count for name, count in plain.items() if count[0] < count[1]}
    assert few == {"background_consistency": (0, 5), "spatial_relationship": (0, 5), "color": (0, 5)}
    assert plain["aesthetics"] == plain["dynamics_degree"] == (12, 5)
    # clips may be removed until half of them are left
    assert plain["comprehensiveness"] == (6, 5)


def test_a_film_with_too_few_clips_is_counted_by_all_of_them() -> None:
    short = counts(["A red boat lies on the beach."] * 8)
    assert short["temporal_flow"] == short["comprehensiveness"] == (8, 10)
    assert short["color"] == (8, 5)
    assert not ClipCount(aspect="temporal_flow", eligible=8, needed=10).enough
