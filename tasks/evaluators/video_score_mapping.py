"""Which of VideoScore's five dimensions stands for an aspect (SLVMEval, table 10)."""

from __future__ import annotations

from collections.abc import Mapping

from storage_schemas.errors import UserInputError
from tasks.models.video_score import DIMENSIONS

#: Dimension by aspect; VideoScore has no dimension for some of them, so that the nearest stands for it.
DIMENSION_OF: Mapping[str, str] = {
    "aesthetics": "visual quality",
    "technical_quality": "visual quality",
    "appearance_style": "visual quality",
    "background_consistency": "factual consistency",
    "object_integrity": "text-to-video alignment",
    "color": "visual quality",
    "dynamics_degree": "dynamic degree",
    "comprehensiveness": "text-to-video alignment",
    "spatial_relationship": "text-to-video alignment",
    "temporal_flow": "text-to-video alignment",
}


def dimensions_with(own: Mapping[str, str]) -> dict[str, str]:
    """Return the mapping with a user's own lines.

    Raises
    ------
    UserInputError
        For a dimension that VideoScore does not have.
    """
    for aspect, dimension in own.items():
        if dimension not in DIMENSIONS:
            raise UserInputError(
                f"dimensions.{aspect}: VideoScore has no {dimension!r}, it has {', '.join(DIMENSIONS)}"
            )
    return {**DIMENSION_OF, **own}
