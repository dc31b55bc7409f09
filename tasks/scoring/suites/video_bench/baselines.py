"""Metrics of Video-Bench's table 2 whose models the project has: dimensions of LoCoT2V-Bench.

Each takes the place of a dimension, on its own scale, so that its rank correlation with people stands beside
that of the method. The paper does not say how it computes them; they are VBench's and EvalCrafter's, as
LoCoT2V-Bench takes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.llm.usage import Estimate, NotJudged
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Dimension, ScoredVideo, Scorer, SuitePrompt, SuiteVideo
from tasks.scoring.suites.video_bench.dimensions import BY_NAME

#: What takes the place of a dimension: names of metrics, and the dimensions of LoCoT2V-Bench that they are.
METRICS: Mapping[str, str] = {
    "aesthetic_quality": "aesthetic head: mean over frames",
    "temporal_consistency": "CLIP: cosine of neighbouring frames",
    "motion_effects": "optical flow: does anything move",
}
REPLACED_BY: Mapping[str, str] = {
    "aesthetic_quality": "aesthetic_quality",
    "temporal_consistency": "semantic_consistency",
    "motion_effects": "dynamic_degree",
}

#: The dimensions that have a metric, on its scale.
BASELINES: tuple[Dimension, ...] = tuple(
    BY_NAME[name].model_copy(update={"low": 0.0, "high": 1.0, "behind": metric, "source": "table 2"})
    for name, metric in METRICS.items()
)


class BaselineScorer(Scorer):
    """Scores videos in a dimension by another suite's scorer.

    Parameters
    ----------
    inner
        The other suite's scorer.
    """

    def __init__(self, dimension: Dimension, inner: Scorer) -> None:
        super().__init__(dimension)
        self._inner = inner
        self.pool, self.batch = inner.pool, inner.batch  # type: ignore[misc]

    @property
    def concurrency(self) -> int:
        """Maximum number of concurrent scores in one process."""
        return self._inner.concurrency

    def settings(self) -> dict[str, Any]:
        """Return the metric with its settings."""
        return {"metric": self._inner.dimension.name, **self._inner.settings()}

    def check(self) -> None:
        """Check that the metric's models are present; raises PrerequisiteError if not."""
        self._inner.check()

    def score(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[ScoredVideo | NotJudged]:
        """Return the metric of each video."""
        return self._inner.score(prompt, videos, repeat)

    def estimate(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[Estimate]:
        """Return the metric's requests."""
        return self._inner.estimate(prompt, videos, repeat)


def baseline_scorer(dimension: Dimension, setup: Setup, visual: Mapping[str, Any] | None) -> BaselineScorer:
    """Return the metric of a dimension of `BASELINES`; nothing is loaded yet.

    Parameters
    ----------
    visual
        Settings of the metrics' models, those of ``visual`` of LoCoT2V-Bench; None for its defaults.

    Raises
    ------
    UserInputError
        If a setting is invalid.
    """
    # only baselines need OpenCV and SciPy
    from tasks.scoring.suites.locot2v.suite import Locot2vBench

    suite = Locot2vBench(setup, **({} if visual is None else {"visual": visual}))
    return BaselineScorer(dimension, suite.scorer(REPLACED_BY[dimension.name]))
