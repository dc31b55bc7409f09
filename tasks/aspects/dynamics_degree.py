"""Dynamics degree: the clip is frozen (SLVMEval, 4.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from storage_schemas.analysis import CaptionAnalysis
from tasks.aspects.base import Aspect, ClipSpan, Control, FrameMapOperation, Parameters, Scale


class MiddleFrameParameters(Parameters):
    """How long each picture is shown.

    Parameters
    ----------
    run
        Every run of this many frames shows its middle frame; None means one run for the whole clip.
    human_actions
        Whether clips whose caption names only a human action, and no other motion, are eligible. The paper
        uses
        `dynamic_degree` only.
    """

    run: int | None = Field(default=None, ge=2)
    human_actions: bool = False


#: A run of this many frames is as strong as one run for the whole clip.
_WHOLE = 16


def _run_of(strength: float) -> int | None:
    """Return the run for a strength: each doubling of the run adds a quarter; the whole clip is 1."""
    return None if strength >= 1 else max(2, round(_WHOLE**strength))


def _strength_of_run(run: int | None) -> float:
    return 1.0 if run is None else min(1.0, math.log(run, _WHOLE))


class MiddleFrame(FrameMapOperation[MiddleFrameParameters]):
    """Every frame of a run becomes the run's middle frame, ``n // 2``.

    At one frame per second, `weak` halves the frame rate and `medium` shows each picture for four seconds.
    The threshold of 0.5 steps corresponds to noise plus a blink; over eight-second segments of an animated
    film the minimum difference was 0.97 at `weak` and 4.7 at `paper`. `human-actions` produces the same
    pictures as `paper` but accepts more clips.
    """

    name = "middle-frame"
    parameters_type = MiddleFrameParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "weak": {"run": 2},
        "medium": {"run": 4},
        "human-actions": {"human_actions": True},
        "paper": {},
    }
    scale: ClassVar[Scale | None] = Scale("run", _run_of, _strength_of_run)
    threshold = 0.5

    def takes(self, analysis: CaptionAnalysis, clip: ClipSpan, parameters: MiddleFrameParameters) -> bool:
        """Return whether the caption names motion accepted by these parameters."""
        return bool(analysis.dynamic_degree or (parameters.human_actions and analysis.human_action))

    def frame_map(self, count: int, parameters: MiddleFrameParameters) -> list[int]:
        """Return the frame shown at each of the clip's `count` positions."""
        run = parameters.run or count
        shown: list[int] = []
        for start in range(0, count, run):
            length = min(run, count - start)
            shown += [start + length // 2] * length
        return shown


class ReversedParameters(Parameters):
    """No parameters."""


class ReversedClip(FrameMapOperation[ReversedParameters]):
    """The clip is played backwards: its frames differ from their neighbours by as much as before.

    The threshold is that of :class:`MiddleFrame`: a clip without motion is not changed.
    """

    name = "reversed-clip"
    parameters_type = ReversedParameters
    strengths: ClassVar[Mapping[str, Mapping[str, Any]]] = {"control": {}}
    default_strength: ClassVar[str] = "control"

    def frame_map(self, count: int, parameters: ReversedParameters) -> list[int]:
        """Return the indices from the last to the first."""
        return list(range(count - 1, -1, -1))


def moves(analysis: CaptionAnalysis, clip: ClipSpan) -> bool:
    """Return whether the clip names a motion or human action and has two frames to show it.

    The operation's parameter `human_actions` decides whether a human action suffices.
    """
    return clip.frame_count >= 2 and bool(analysis.dynamic_degree or analysis.human_action)


ASPECT = Aspect(
    name="dynamics_degree",
    dimension="dynamics_degree",
    category="consistency",
    needs="motion (`dynamic_degree`), and a clip of two frames or more",
    takes=moves,
    operations={MiddleFrame.name: MiddleFrame()},
    control=Control(
        operation=ReversedClip(),
        takes=moves,
        needs="a motion or an action, and a clip of two frames or more",
        reason="the same amount of motion, only reversed",
    ),
    caption_advice='State what moves, and how: "A ball rolls quickly across the floor."',
)
