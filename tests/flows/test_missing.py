"""What a build still has to do follows from its state, without a store."""

from __future__ import annotations

import pytest

from flows.release.missing import missing_aspects
from flows.release.state import BuildState
from storage_schemas.errors import Reason
from storage_schemas.pair import PlannedPair, SourceReport
from storage_schemas.set_aside import SetAsideRow
from tasks.pairs.release_plan import Candidate
from tests.small_films import recipe_without_weights


def pair(aspect: str, done: bool = False) -> PlannedPair:
    return PlannedPair(
        pair_id=f"pair-{aspect}",
        aspect=aspect,
        operation="o",
        strength="s",
        clips=1,
        main=True,
        new_frames=1,
        hardware="cpu",
        done=done,
    )


def state(*pairs: PlannedPair, exact: bool = True) -> BuildState:
    """Return the state of a build in which one source was drawn for all its pairs."""
    report = SourceReport(
        source_id="s",
        title="s",
        duration_s=9,
        frames=9,
        width=16,
        height=16,
        exact=exact,
        has_frames=exact,
        spans=((0, 9),),
        frames_checksum="",
        pairs=pairs,
        no_pair=(),
    )
    made = BuildState(recipe_without_weights())
    made.reports = {"s": report}
    made.candidates = [Candidate(source_id="s", aspect=one.aspect, bin_s=0) for one in pairs]
    return made


@pytest.mark.parametrize(("done", "exact", "missing"), [(False, True, 1), (True, True, 0), (True, False, 1)])
def test_missing_aspects_are_those_without_a_pair_on_exact_frames(
    done: bool, exact: bool, missing: int
) -> None:
    assert len(missing_aspects(state(pair("color", done), exact=exact))) == missing


def test_missing_aspects_leave_out_what_cannot_be_built() -> None:
    both = state(pair("color"), pair("aesthetics"))
    assert missing_aspects(both) == {"s": ("color", "aesthetics")}
    row = SetAsideRow(
        source_id="s", stage="degrade", reason=Reason.INTERNAL_ERROR, message="-", aspect="color"
    )
    both.lose_pair(pair("color"), row)
    assert missing_aspects(both) == {"s": ("aesthetics",)}
    assert both.excluded == {("s", "color")}


def test_missing_aspects_leave_out_what_was_not_drawn() -> None:
    undrawn = state(pair("color"))
    undrawn.candidates = []
    assert missing_aspects(undrawn) == {}
