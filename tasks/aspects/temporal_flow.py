"""Temporal flow: consecutive clips are reordered (SLVMEval, 4.3 and appendix E.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from storage_schemas.errors import Reason, SetAside
from storage_schemas.rng import keyed_rng
from tasks.aspects.base import Arrangement, Aspect, ClipSpan, OrderOperation, Parameters, any_clip

#: Number of failed draws after which a source counts as having no arrangement. If any arrangement exists, a
#: third or more of all draws succeed.
MOST_TRIES = 1000


class ReinsertParameters(Parameters):
    """How the clips of the window are moved.

    Parameters
    ----------
    mode
        ``reinsert`` inserts each clip at a random place of the video. ``shuffle`` only changes the order
        within the window (the wording of the paper's Japanese version).
    """

    mode: Literal["reinsert", "shuffle"] = "reinsert"


def window(clips: int, count: int, rng: np.random.Generator) -> range:
    """Return the places of `count` consecutive clips out of `clips`.

    The window grows from one clip by steps to the left or right, so that with the same generator a smaller
    window is part of a larger one.
    """
    first = int(rng.integers(clips))
    last = first
    while last - first + 1 < count:
        go_left = bool(rng.integers(2))
        if first == 0 or (last < clips - 1 and not go_left):
            last += 1
        else:
            first -= 1
    return range(first, last + 1)


class ReinsertWindow(OrderOperation[ReinsertParameters]):
    """Removes a window of consecutive clips and reinserts them at random places.

    None of these clips keeps its index. The other clips keep their relative order.
    """

    name = "reinsert-window"
    parameters_type = ReinsertParameters

    def most(self, clips: int, parameters: ReinsertParameters) -> int:
        """Return half of the clips, rounded down."""
        return clips // 2

    def rearrange(
        self,
        clips: Sequence[ClipSpan],
        count: int,
        seed: tuple[str | int, ...],
        parameters: ReinsertParameters,
    ) -> Arrangement:
        """Return an order in which no clip of the window keeps its index.

        Raises
        ------
        SetAside
            `too_few_clips` if more than half would move; `no_arrangement` if no draw succeeded.
        """
        if not 0 < count <= self.most(len(clips), parameters):
            raise SetAside(
                Reason.TOO_FEW_CLIPS,
                f"{count} of {len(clips)} clips cannot be moved: at least one must move and at least half "
                "must stay; lower clips_per_pair or use a source with more clips",
            )
        places = window(len(clips), count, keyed_rng(*seed, "window"))
        rng = keyed_rng(*seed, "places", count)
        for _ in range(MOST_TRIES):
            if parameters.mode == "shuffle":
                order = list(range(len(clips)))
                order[places.start : places.stop] = [int(place) for place in rng.permutation(places)]
            else:
                order = [place for place in range(len(clips)) if place not in places]
                for place in places:
                    order.insert(int(rng.integers(len(order) + 1)), place)
            if all(order[place] != place for place in places):
                return Arrangement(
                    order=tuple(clips[place].index for place in order),
                    drawn=tuple(clips[place].index for place in places),
                )
        raise SetAside(
            Reason.NO_ARRANGEMENT,
            f"no order of {len(clips)} clips was found in which none of {count} moved clips keeps its "
            f"place (mode {parameters.mode}); use another number of clips or the mode reinsert",
        )


ASPECT = Aspect(
    name="temporal_flow",
    dimension="move_scene",
    category="consistency",
    needs="nothing",
    takes=any_clip,
    operations={ReinsertWindow.name: ReinsertWindow()},
    least_clips=2,
)
