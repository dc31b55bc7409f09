"""Comprehensiveness: parts of the story are missing (SLVMEval, 4.3 and appendix E.2)."""

from __future__ import annotations

from collections.abc import Sequence

from storage_schemas.errors import Reason, SetAside
from storage_schemas.rng import shuffled
from tasks.aspects.base import Arrangement, Aspect, ClipSpan, OrderOperation, Parameters, any_clip


class RemoveParameters(Parameters):
    """No parameters: the recipe sets the number of clips."""


class RemoveClips(OrderOperation[RemoveParameters]):
    """Removes random clips; at least half of the clips remain."""

    name = "remove-clips"
    parameters_type = RemoveParameters

    def most(self, clips: int, parameters: RemoveParameters) -> int:
        """Return half of the clips, rounded down."""
        return clips // 2

    def rearrange(
        self, clips: Sequence[ClipSpan], count: int, seed: tuple[str | int, ...], parameters: RemoveParameters
    ) -> Arrangement:
        """Return the order without the first `count` clips of a keyed shuffle.

        Raises
        ------
        SetAside
            `too_few_clips` if more than half would be removed.
        """
        if count > self.most(len(clips), parameters):
            raise SetAside(
                Reason.TOO_FEW_CLIPS,
                f"{count} of {len(clips)} clips cannot be removed: at least half must remain; "
                "lower clips_per_pair or use a source with more clips",
            )
        drawn = shuffled([clip.index for clip in clips], *seed, "removed")[:count]
        gone = set(drawn)
        return Arrangement(
            order=tuple(clip.index for clip in clips if clip.index not in gone), drawn=tuple(sorted(drawn))
        )


ASPECT = Aspect(
    name="comprehensiveness",
    dimension="scene",
    category="consistency",
    needs="nothing",
    takes=any_clip,
    operations={RemoveClips.name: RemoveClips()},
    least_clips=2,
)
