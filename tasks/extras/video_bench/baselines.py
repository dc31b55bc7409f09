"""Metrics of Video-Bench's table 2 whose models the project has: dimensions of LoCoT2V-Bench.

Each takes the place of a dimension, on its own scale, so that its rank correlation with people is next to
that of the method. The paper does not say how it computes them; they are VBench's and EvalCrafter's, as
LoCoT2V-Bench takes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from storage_schemas.errors import PrerequisiteError
from tasks.extras.locot2v.dimensions import BY_NAME as INNER_BY_NAME
from tasks.extras.locot2v.dimensions import RAW_AESTHETICS
from tasks.extras.video_bench.dimensions import BY_NAME
from tasks.llm.usage import Estimate, NotJudged
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Dimension, ScoredVideo, Scorer, SuitePrompt, SuiteVideo

#: The dimensions of LoCoT2V-Bench that take the place of dimensions.
REPLACED_BY: Mapping[str, str] = {
    "aesthetic_quality": "aesthetic_quality",
    "temporal_consistency": "semantic_consistency",
    "motion_effects": "dynamic_degree",
}
_INNER = {**INNER_BY_NAME, RAW_AESTHETICS.name: RAW_AESTHETICS}

#: The dimensions that have a metric, on its scale.
BASELINES: tuple[Dimension, ...] = tuple(
    BY_NAME[name].model_copy(
        update={
            **{field: getattr(_INNER[metric], field) for field in ("low", "high", "about", "behind")},
            "source": "table 2",
        }
    )
    for name, metric in REPLACED_BY.items()
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
        self.hardware, self.batch = inner.hardware, inner.batch  # type: ignore[misc]

    @property
    def concurrency(self) -> int:
        """Maximum number of concurrent scores in one process."""
        return self._inner.concurrency

    def settings(self) -> dict[str, Any]:
        """Return the metric with its settings."""
        with _our_setting():
            return {"metric": self._inner.dimension.name, **self._inner.settings()}

    def check(self) -> None:
        """Check that the metric's models are present; raises PrerequisiteError if not."""
        with _our_setting():
            self._inner.check()

    def score(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[ScoredVideo | NotJudged]:
        """Return the metric of each video; its details name the metric and what computed it."""
        scores = self._inner.score(prompt, videos, repeat)
        return [
            replace(one, details={**one.details, "metric": self._named(one)})
            if isinstance(one, ScoredVideo)
            else one
            for one in scores
        ]

    def _named(self, score: ScoredVideo) -> str:
        flow = score.details.get("flow", {})
        return f"{self._inner.dimension.name} by {score.model or flow.get('model') or flow.get('method')}"

    def estimate(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[Estimate]:
        """Return the metric's requests."""
        return self._inner.estimate(prompt, videos, repeat)


@contextmanager
def _our_setting() -> Iterator[None]:
    """Map LoCoT2V-Bench's setting ``visual`` to its name here."""
    try:
        yield
    except PrerequisiteError as problem:
        raise PrerequisiteError(
            f"{problem} (what is called visual there is the setting baselines here)"
        ) from problem


def baseline_scorer(
    dimension: Dimension, setup: Setup, visual: str | Mapping[str, Any] | None
) -> BaselineScorer:
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
    from tasks.extras.locot2v.suite import Locot2vBench

    suite = Locot2vBench(setup, **({} if visual is None else {"visual": visual}))
    return BaselineScorer(dimension, suite.scorer(REPLACED_BY[dimension.name]))
