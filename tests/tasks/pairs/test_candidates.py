from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.pairs.release_plan import Candidate, SourceSummary, draw_candidates, duration_bin

ASPECTS = ("color", "temporal_flow")

summaries = st.lists(
    st.builds(
        SourceSummary,
        source_id=st.integers(0, 60).map("s{}".format),
        duration_s=st.floats(0, 400),
        aspects=st.sets(st.sampled_from(ASPECTS)).map(lambda names: tuple(sorted(names))),
    ),
    unique_by=lambda summary: summary.source_id,
    max_size=40,
)


def draw(
    sources: list[SourceSummary],
    kept: list[Candidate] | None = None,
    excluded: set[tuple[str, str]] | None = None,
    most: int = 3,
    **more: Any,
) -> list[Candidate]:
    given: dict[str, Any] = {"seed": 5, "inherited": kept or (), "excluded": excluded or ()} | more
    return draw_candidates(sources, aspects=ASPECTS, bin_seconds=100, pairs_per_bin=most, **given)


@settings(max_examples=40)
@given(summaries, st.integers(1, 4))
def test_a_bin_is_never_over_full_and_never_has_room_left(sources: list[SourceSummary], most: int) -> None:
    chosen = draw(sources, most=most)
    counts = Counter((c.aspect, c.bin_s) for c in chosen)
    eligible = Counter((a, duration_bin(s.duration_s, 100)) for s in sources for a in s.aspects)
    assert counts == {key: min(count, most) for key, count in eligible.items()}
    bins = {s.source_id: duration_bin(s.duration_s, 100) for s in sources}
    assert all(c.bin_s == bins[c.source_id] for c in chosen)
    assert len(chosen) == len({(c.source_id, c.aspect) for c in chosen})


@settings(max_examples=40)
@given(summaries, summaries, st.randoms(use_true_random=False))
def test_neither_the_order_of_arrival_nor_new_or_lost_sources_matter_to_what_is_kept(
    sources: list[SourceSummary], more: list[SourceSummary], chance: random.Random
) -> None:
    before = draw(sources)
    shuffled = list(sources)
    chance.shuffle(shuffled)
    assert draw(shuffled) == before
    assert set(draw([], kept=before)) == set(before)
    known = {summary.source_id for summary in sources}
    after = draw([*sources, *(new for new in more if new.source_id not in known)], kept=before)
    assert set(before) <= set(after)
    assert max(Counter((c.aspect, c.bin_s) for c in after).values(), default=0) <= 3


@settings(max_examples=40)
@given(summaries, st.sets(st.integers(0, 60).map("s{}".format)))
def test_draw_lets_the_next_in_for_what_is_excluded(sources: list[SourceSummary], names: set[str]) -> None:
    excluded = {(name, "color") for name in names}
    chosen = draw(sources, excluded=excluded)
    assert not excluded & {(c.source_id, c.aspect) for c in chosen}
    left = {s.source_id: tuple(a for a in s.aspects if (s.source_id, a) not in excluded) for s in sources}
    assert chosen == draw([s.model_copy(update={"aspects": left[s.source_id]}) for s in sources])


@settings(max_examples=40)
@given(summaries, st.integers(1, 3))
def test_the_rank_is_stable(sources: list[SourceSummary], most: int) -> None:
    """Fewer places, or fewer sources, never bring in one that was ranked behind."""
    more = draw(sources, most=most + 1)
    assert set(draw(sources, most=most)) <= set(more)
    for gone in sources[:3]:
        without = draw([s for s in sources if s is not gone], most=most)
        stayed = {c for c in draw(sources, most=most) if c.source_id != gone.source_id}
        assert stayed <= set(without)


def test_aspects_and_seeds_draw_on_their_own() -> None:
    sources = [SourceSummary(source_id=f"s{n}", duration_s=50, aspects=ASPECTS) for n in range(60)]
    by_aspect = {a: {c.source_id for c in draw(sources, most=10) if c.aspect == a} for a in ASPECTS}
    assert by_aspect["color"] != by_aspect["temporal_flow"]
    other = draw(sources, most=10, seed=6)
    assert {c.source_id for c in other if c.aspect == "color"} != by_aspect["color"]


def test_golden_draw() -> None:
    """A change of this draw changes every release."""
    sources = [SourceSummary(source_id=f"s{n}", duration_s=50, aspects=("color",)) for n in range(8)]
    assert [c.source_id for c in draw(sources)] == ["s0", "s6", "s1"]


def test_bins_are_half_open() -> None:
    assert [duration_bin(s, 100) for s in (0, 99.99, 100, 199.5, 10486)] == [0, 0, 100, 100, 10400]


@settings(max_examples=40)
@given(summaries, st.sets(st.integers(0, 60).map("s{}".format)))
def test_draw_before_all_are_known_holds(sources: list[SourceSummary], later: set[str]) -> None:
    known = [source for source in sources if source.source_id not in later]
    early = draw(known, unknown=later)
    assert set(early) <= set(draw(sources)) & set(draw(known))
