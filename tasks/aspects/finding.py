"""Operations that look for something in each frame, and change only the frames in which it is."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from pydantic import Field

from tasks.aspects.base import ClipContext, ClipNotDegradable, Parameters, PixelOperation


class FoundParameters(Parameters):
    """In how much of a clip it must be found.

    Parameters
    ----------
    least_frames
        Share of the clip's frames that must change.
    """

    least_frames: float = Field(default=0.5, gt=0, le=1)


F = TypeVar("F", bound=FoundParameters)


class FindingOperation(PixelOperation[F]):
    """Leaves frames as they are in which it finds nothing, and clips in which these are too many.

    Class attributes
    ----------------
    finds
        What was seen in too few frames, to go on "in 3 of 10 frames only".
    """

    finds: ClassVar[str]

    def settle(self, changed: int, frames: int, parameters: F, clip: ClipContext) -> dict[str, Any]:
        """Return what to record once all frames of the clip are done.

        Parameters
        ----------
        changed, frames
            How many frames of the clip differ at all, and how many it has.

        Raises
        ------
        ClipNotDegradable
            If less than the share `least_frames` was changed.
        """
        if changed < parameters.least_frames * frames:
            raise ClipNotDegradable(f"{self.finds} in {changed} of {frames} frames only")
        return {"changed_frames": changed, "frames": frames}
