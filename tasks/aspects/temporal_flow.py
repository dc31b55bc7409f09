"""Temporal flow: consecutive clips are reordered (SLVMEval, 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.errors import Reason, SetAside
from storage_schemas.rng import keyed_rng
from tasks.aspects.base import (
    ANY_CAPTION,
    Arrangement,
    Aspect,
    ClipSpan,
    Control,
    FrameMapOperation,
    OrderOperation,
    Parameters,
    any_clip,
)

#: Number of failed draws after which a source counts as having no arrangement. If any arrangement exists, a
#: third or more of all draws succeed.
MAX_TRIES = 1000


class ReinsertParameters(Parameters):
    """How the clips of the window are moved.

    Parameters
    ----------
    mode
        ``reinsert`` inserts each clip at a random place in the video. ``shuffle`` only changes the order
        within the window (the wording of the paper's Japanese version).
    """

    mode: Literal["reinsert", "shuffle"] = "reinsert"


def window(clips: int, count: int, rng: np.random.Generator) -> range:
    """Return the indices of `count` consecutive clips out of `clips`.

    All windows of the same size are equally likely. With the same generator a smaller one is part of a larger
    one: one more clip moves the first place by none or by one.
    """
    first = int(rng.random() * (clips - count + 1))
    return range(first, first + count)


class ReinsertWindow(OrderOperation[ReinsertParameters]):
    """Removes a window of consecutive clips and reinserts them at random places.

    None of these clips keeps its index. The other clips keep their relative order.
    """

    name = "reinsert-window"
    version = 2
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
        indices = window(len(clips), count, keyed_rng(*seed, "window"))
        rng = keyed_rng(*seed, "places", count)
        for _ in range(MAX_TRIES):
            if parameters.mode == "shuffle":
                order = list(range(len(clips)))
                order[indices.start : indices.stop] = [int(index) for index in rng.permutation(indices)]
            else:
                order = [index for index in range(len(clips)) if index not in indices]
                for index in indices:
                    order.insert(int(rng.integers(len(order) + 1)), index)
            if all(order[index] != index for index in indices):
                return Arrangement(
                    order=tuple(clips[index].index for index in order),
                    drawn=tuple(clips[index].index for index in indices),
                )
        raise SetAside(
            Reason.NO_ARRANGEMENT,
            f"no order of {len(clips)} clips was found in which none of {count} moved clips keeps its "
            f"place (mode {parameters.mode}); use another number of clips or the mode reinsert",
        )


class HalvesParameters(Parameters):
    """No parameters."""


class ExchangedHalves(FrameMapOperation[HalvesParameters]):
    """The second half of a clip is shown before the first; the clips stay in order.

    The threshold is that of :class:`~tasks.aspects.dynamics_degree.MiddleFrame`: a still clip has no halves.
    """

    name = "exchanged-halves"
    parameters_type = HalvesParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {"control": {}}
    default_strength: ClassVar[str] = "control"

    def frame_map(self, count: int, parameters: HalvesParameters) -> list[int]:
        """Return the indices of the second half, then those of the first."""
        middle = (count + 1) // 2
        return [*range(middle, count), *range(middle)]


def names_one_event(analysis: CaptionAnalysis, clip: ClipSpan) -> bool:
    """Return whether the caption names at most one event, so that it implies no order within the clip."""
    events = {(one.agent, one.action) for one in (*analysis.dynamic_degree, *analysis.human_action)}
    return clip.frame_count >= 2 and len(events) <= 1


ASPECT = Aspect(
    name="temporal_flow",
    dimension="move_scene",
    category="consistency",
    needs="nothing",
    takes=any_clip,
    operations={ReinsertWindow.name: ReinsertWindow()},
    least_clips=2,
    control=Control(
        operation=ExchangedHalves(),
        takes=names_one_event,
        needs="a caption with one event at most, and a clip of two frames or more",
        reason="the clips are in the order of the captions, and no caption tells an order within its clip",
    ),
    caption_advice=ANY_CAPTION,
)
