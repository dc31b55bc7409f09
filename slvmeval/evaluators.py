"""What a package that adds an evaluator imports; see ``docs/adding-an-evaluator.md``."""

from __future__ import annotations

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.judgement import Choice, Failure
from tasks.evaluators.base import (
    AspectText,
    Comparison,
    Estimate,
    Evaluator,
    ModelUsage,
    NotJudged,
    PairwiseJudge,
    PointwiseScorer,
    Score,
    Usage,
)
from tasks.evaluators.features import FeatureCache, FrameFeature
from tasks.pairs.view import Side

__all__ = [
    "AspectText",
    "Choice",
    "Comparison",
    "Estimate",
    "Evaluator",
    "Failure",
    "FeatureCache",
    "FrameFeature",
    "ModelUsage",
    "NotJudged",
    "PairwiseJudge",
    "PointwiseScorer",
    "PrerequisiteError",
    "Score",
    "Side",
    "Usage",
    "UserInputError",
]
