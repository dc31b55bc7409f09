"""Video-Bench as a judge of pairs: each aspect stands for one dimension (``aspects.toml``).

Quality dimensions: both videos are the batch of one few-shot request, in both orders; without few-shot
scoring each video is scored separately. Alignment dimensions: each video is scored separately against the
whole prompt by chain of query, once; the greater score is better, and the pair counts once, since the order
of the videos does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_value
from storage_schemas.judgements import Choice
from storage_schemas.model import Frozen
from tasks.extras.video_bench.dimensions import BY_NAME
from tasks.extras.video_bench.few_shot import VideoGroup
from tasks.extras.video_bench.scorers import PROMPT_AREAS, QualityScorer, VideoBenchScorer
from tasks.extras.video_bench.settings import VideoBenchSettings
from tasks.extras.video_bench.suite import VideoBench
from tasks.llm.usage import Estimate, NotJudged, total_usage
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, JudgeAnswer, PairwiseJudge
from tasks.scoring.judges.prompt_length import FittedPrompt
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import ScoredVideo
from tasks.scoring.suites.pairwise import (
    PROMPT_SHARE,
    SuiteJudge,
    aspect_mapping,
    mapping_of,
    prompt_of,
    video_of,
)
from tasks.scoring.suites.shown_videos import SampledVideo


class VideoBenchJudge(SuiteJudge, PairwiseJudge):
    """Judges pairs by the dimensions of Video-Bench.

    Parameters
    ----------
    setup
        The store and the model servers.
    mapping
        Aspects whose dimension differs from ours.
    dimension
        The only one, for all aspects; ``all`` stands for an evaluator for each.
    prompt_share
        Share of a model's request that a prompt may take; a longer prompt loses the end of each caption.
    repeat
        Another number asks the models again: equal requests have one kept answer.
    settings
        The suite's.
    """

    name = "video-bench"
    settings_model: ClassVar[type[Frozen] | None] = VideoBenchSettings
    prompt_areas: ClassVar[tuple[str, ...]] = PROMPT_AREAS

    def __init__(
        self,
        setup: Setup,
        mapping: Mapping[str, str] | None = None,
        dimension: str = "",
        prompt_share: float = PROMPT_SHARE,
        repeat: int = 0,
        **settings: Any,
    ) -> None:
        # both orders are asked, so nothing is drawn
        pair = {"order": "given", **({} if settings.get("single_request") else {"shots": 2})}
        suite = VideoBench(setup, **{**pair, **settings})
        if suite.settings.baselines:
            raise UserInputError("baselines appear only in the suite's tables: leave them out for the judge")
        if suite.settings.order != "given":
            raise UserInputError("the judge shows the videos of a pair in both orders: leave out order")
        whole, claims = mapping_of(aspect_dimensions, mapping, dimension)
        super().__init__(suite, whole, prompt_share, claims)
        self._repeat = repeat
        self._shown_together = suite.settings.shots > 1

    def settings(self) -> dict[str, Any]:
        """Return the mapping, the repeat and the settings of each dimension in use."""
        return {**super().settings(), "repeat": self._repeat}

    def asks_both_orders(self, aspect: AspectText) -> bool:
        """Return whether the order of the videos matters: it does where one request shows both."""
        return isinstance(self.scorer(aspect), QualityScorer) and self._shown_together

    def scorer(self, aspect: AspectText) -> VideoBenchScorer:
        """Return the scorer of the dimension that stands for an aspect.

        Raises
        ------
        UserInputError
            If no dimension does.
        """
        scorer = self.scorer_of(aspect.name)
        if scorer is None:
            raise UserInputError(
                f"no dimension of video-bench corresponds to {aspect.name}: name one in its setting mapping, "
                f'such as {{"{aspect.name}": "video_text_consistency"}}'
            )
        assert isinstance(scorer, VideoBenchScorer)
        return scorer

    def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
        """Return which video has the greater score; equal scores are a tie."""
        scorer = self.scorer(aspect)
        dimension = scorer.dimension.name
        details: dict[str, Any] = self.said(dimension)
        sent = self._sent_prompt(prompt, scorer)
        text = "" if sent is None else sent.text
        if sent is not None:
            details["prompt"] = sent.details()
        scores: Sequence[ScoredVideo | NotJudged]
        if isinstance(scorer, QualityScorer):
            by_index: dict[int, ScoredVideo | NotJudged] = {}
            for group in self._groups():
                by_index |= scorer.score_batch(text, _batch(first, second), group, self._repeat)
            scores = [by_index[0], by_index[1]]
        else:
            short = prompt_of(text)
            videos = [video_of(side, short) for side in (first, second)]
            scores = scorer.score(short, videos, self._repeat)
        # a request that shows both videos is one conversation
        conversations = ("first",) if self.asks_both_orders(aspect) else ("first", "second")
        details |= {which: dict(score.details) for which, score in zip(conversations, scores, strict=False)}
        for which, score in zip(("first", "second"), scores, strict=True):
            if isinstance(score, NotJudged):
                score.details = details
                score.message = f"{dimension} of the {which} video: {score.message}"
                # a failure names no model, so each model's usage stands apart
                score.usage = total_usage(
                    [one.usage.by_model("" if isinstance(one, NotJudged) else one.model) for one in scores]
                )
                raise score
        one, other = (score for score in scores if isinstance(score, ScoredVideo))
        choice: Choice = "tie"
        if one.value != other.value:
            choice = "first" if one.value > other.value else "second"
        return JudgeAnswer(
            choice=choice,
            model=one.model,
            prompt_digest=digest_value([dict(scorer.instructions()), prompt]),
            usage=total_usage([one.usage, other.usage]),
            details={
                **details,
                "scores": [one.value, other.value],
                "calls": one.calls + other.calls,
            },
        )

    def _groups(self) -> list[VideoGroup]:
        """Return the requests of a quality dimension."""
        return [VideoGroup((0, 1))] if self._shown_together else [VideoGroup((0,)), VideoGroup((1,))]

    def _sent_prompt(self, prompt: str, scorer: VideoBenchScorer) -> FittedPrompt | None:
        """Return the prompt as the models can read it; None if the dimension is scored without it."""
        if isinstance(scorer, QualityScorer) and not scorer.few_shot.sends_prompt:
            return None
        return self.fitted(prompt, [scorer.roles.model(role) for role in scorer.asked])

    def estimate(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> Sequence[Estimate]:
        """Return the requests of a comparison whose answers are not kept."""
        scorer = self.scorer(aspect)
        sent = self._sent_prompt(prompt, scorer)
        text = "" if sent is None else sent.text
        if isinstance(scorer, QualityScorer):
            batch = _batch(first, second)
            return [
                one
                for group in self._groups()
                for one in scorer.estimate_batch(text, [batch[at] for at in group.counted], self._repeat)
            ]
        short = prompt_of(text)
        return scorer.estimate(short, [video_of(side, short) for side in (first, second)], self._repeat)


def aspect_dimensions(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the dimension of each aspect; raises as :func:`aspect_mapping`."""
    return aspect_mapping("video-bench", "tasks.extras.video_bench", BY_NAME, changes)


def _batch(first: Side, second: Side) -> list[SampledVideo]:
    # no order is drawn, so the checksums of whole videos are not needed
    return [SampledVideo("", video) for video in (first, second)]
