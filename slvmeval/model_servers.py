"""The public interface for evaluators of packages that ask a model; see ``docs/adding-an-evaluator.md``.

:class:`ModelJudge` is a judge with one question for each comparison, :class:`ServerModel` the model for any
other evaluator. Every protocol of :class:`~storage_schemas.model.ModelServer` is asked in the same way.
"""

from __future__ import annotations

from tasks.scoring.judges.server_model import Frames, ModelAnswer, ModelJudge, ModelQuestion, ServerModel
from tasks.scoring.setup import Setup

__all__ = [
    "Frames",
    "ModelAnswer",
    "ModelJudge",
    "ModelQuestion",
    "ServerModel",
    "Setup",
]
