"""The public interface for packages that add an evaluator; see ``docs/adding-an-evaluator.md``."""

from __future__ import annotations

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.judgements import Choice, Failure
from tasks.llm.usage import Estimate, ModelUsage, NotJudged, Usage
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, Evaluator, JudgeAnswer, PairwiseJudge, PointwiseScorer, Score
from tasks.scoring.features import FeatureCache, FrameFeature

__all__ = [
    "AspectText",
    "Choice",
    "Estimate",
    "Evaluator",
    "Failure",
    "FeatureCache",
    "FrameFeature",
    "JudgeAnswer",
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
