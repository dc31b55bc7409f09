"""The two kinds of scorers: one video by chain of query, all videos of a prompt by few-shot scoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from storage_schemas.judgements import Failure
from storage_schemas.rng import shuffled
from tasks.extras.video_bench.chain_of_query import ChainOfQuery
from tasks.extras.video_bench.direct_scoring import DirectScoring
from tasks.extras.video_bench.few_shot import FewShot, VideoGroup, video_groups
from tasks.extras.video_bench.settings import VideoBenchSettings
from tasks.llm.conversation import DryRunAsker, LiveAsker, Role, Roles, dry_run
from tasks.llm.usage import Estimate, ModelUsage, NotJudged, Usage
from tasks.scoring.suites.base import Dimension, ScoredVideo, SuitePrompt, SuiteVideo, VideoScorer
from tasks.scoring.suites.conversation_scorer import ConversationScorer, sampled
from tasks.scoring.suites.shown_videos import SampledVideo, UnreadableVideo, readable

#: Areas of prompts of which both kinds send some.
PROMPT_AREAS = ("video-bench", "video-bench-criteria", "video-bench-steps")


class VideoBenchScorer(ConversationScorer):
    """What both kinds share.

    Class attributes
    ----------------
    uses
        Settings that its scores depend on.
    """

    prompt_areas = PROMPT_AREAS
    uses: ClassVar[frozenset[str]] = frozenset({"fps", "most_frames"})

    def __init__(
        self,
        dimension: Dimension,
        settings: VideoBenchSettings,
        roles: Roles,
        asked: Sequence[Role] = ("multimodal",),
    ) -> None:
        super().__init__(dimension, roles, asked)
        self._settings = settings

    def settings(self) -> dict[str, Any]:
        """Return models, frames, batches and the checksum of the instructions."""
        grid = self._settings.grid_of(self.dimension.name)
        return {
            **super().settings(),
            "grid": None if grid is None else grid.model_dump(mode="json", exclude={"dimensions"}),
            **self._settings.model_dump(mode="json", include=set(self.uses)),
        }


class AlignmentScorer(VideoScorer, VideoBenchScorer):
    """Scores one video against its prompt by chain of query, or by a single request."""

    uses = VideoBenchScorer.uses | {"chain_of_query", "questions", "chained_questions"}

    def __init__(self, dimension: Dimension, settings: VideoBenchSettings, roles: Roles) -> None:
        chained = settings.chain_of_query
        super().__init__(
            dimension, settings, roles, ("multimodal", "language") if chained else ("multimodal",)
        )
        self._method = (ChainOfQuery if chained else DirectScoring)(dimension, settings)

    def instructions(self) -> Mapping[str, str]:
        """Return the instructions of each step, and the messages around them."""
        return {**self._method.systems, **self._method.messages}

    def score_video(self, prompt: SuitePrompt, video: SuiteVideo, repeat: int = 0) -> ScoredVideo | NotJudged:
        """Return the score of one video with the whole conversation, or why there is none."""
        asker = LiveAsker(self.roles)
        try:
            with readable():
                value = self._method.score(asker, prompt.text, sampled(video), repeat)
        except NotJudged as problem:
            return asker.failed(problem)
        return ScoredVideo(value, asker.usage(), asker.calls, asker.model, asker.details())

    def estimate_video(self, prompt: SuitePrompt, video: SuiteVideo, repeat: int = 0) -> Sequence[Estimate]:
        """Return the requests about one video whose answers are not kept."""
        return dry_run(
            DryRunAsker(self.roles),
            lambda asker: self._method.score(asker, prompt.text, sampled(video), repeat),
        )


class QualityScorer(VideoBenchScorer):
    """Scores all videos of a prompt together by few-shot scoring."""

    batch: ClassVar[Literal["video", "prompt"]] = "prompt"
    uses = VideoBenchScorer.uses | {"shots", "rest", "order"}

    def __init__(self, dimension: Dimension, settings: VideoBenchSettings, roles: Roles) -> None:
        super().__init__(dimension, settings, roles)
        self.few_shot = FewShot(dimension, settings)

    def settings(self) -> dict[str, Any]:
        """Return also whether the prompt is sent."""
        return {**super().settings(), "prompt_sent": self.few_shot.sends_prompt}

    def instructions(self) -> Mapping[str, str]:
        """Return the instructions of the one step, and the messages around them."""
        return {"few-shot": self.few_shot.system, **self.few_shot.messages}

    def score(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[ScoredVideo | NotJudged]:
        """Return the scores of all videos; the videos of a request share its cost."""
        films = [sampled(video) for video in videos]
        scores: dict[int, ScoredVideo | NotJudged] = {}
        usable = []
        for index, film in enumerate(films):
            try:
                with readable():
                    if not len(film.video):
                        raise NotJudged(Failure.VIDEO_UNREADABLE, "the video has no frames")
                usable.append(index)
            except NotJudged as problem:
                scores[index] = problem
        order = self._order(usable, films)
        for batch in video_groups(len(order), self._settings.shots, self._settings.rest):
            indices = VideoGroup(
                tuple(order[at] for at in batch.counted), tuple(order[at] for at in batch.measures)
            )
            scores |= self._score_readable(prompt.text, films, indices, repeat)
        return [scores[index] for index in range(len(films))]

    def _score_readable(
        self, prompt: str, films: Sequence[SampledVideo], batch: VideoGroup, repeat: int
    ) -> dict[int, ScoredVideo | NotJudged]:
        """Return the scores of a batch without damaged videos."""
        scores: dict[int, ScoredVideo | NotJudged] = {}
        while batch.counted:
            try:
                return scores | self.score_batch(prompt, films, batch, repeat)
            except UnreadableVideo as problem:
                index = batch.shown[problem.number]
                if index in batch.counted:
                    scores[index] = problem
                batch = VideoGroup(
                    tuple(one for one in batch.counted if one != index),
                    tuple(one for one in batch.measures if one != index),
                )
        return scores

    def score_batch(
        self, prompt: str, films: Sequence[SampledVideo], batch: VideoGroup, repeat: int = 0
    ) -> dict[int, ScoredVideo | NotJudged]:
        """Return the scores of the counted videos of one request, by index.

        Raises
        ------
        UnreadableVideo
            If frames of one of them cannot be read; no request was made.
        """
        asker, shown = LiveAsker(self.roles), batch.shown
        values: Sequence[int | NotJudged]
        try:
            with readable():
                values = self.few_shot.score(asker, prompt, [films[index] for index in shown], repeat)
        except UnreadableVideo:
            raise
        except NotJudged as problem:
            values = [problem] * len(shown)
        usages = _shared(asker.usage(), len(batch.counted))
        scores: dict[int, ScoredVideo | NotJudged] = {}
        for at, (index, usage) in enumerate(zip(batch.counted, usages, strict=True)):
            value = values[at]
            details = {
                **asker.details(),
                "video": at + 1,
                "videos": len(shown),
                "measures": len(batch.measures),
            }
            calls = asker.calls if at == 0 else 0
            if isinstance(value, NotJudged):
                scores[index] = NotJudged(
                    value.failure,
                    f"few-shot: {value.message.removeprefix('few-shot: ')}",
                    value.raw,
                    value.finish_reason,
                    usage.by_model(asker.model),
                    calls,
                    details,
                )
                continue
            scores[index] = ScoredVideo(value, usage, calls, asker.model, details)
        return scores

    def _order(self, indices: Sequence[int], films: Sequence[SampledVideo]) -> list[int]:
        if self._settings.order == "given":
            return list(indices)
        # by content alone, independent of the models' names and their order in the manifest
        ranked = sorted(indices, key=lambda index: films[index].digest)
        return shuffled(ranked, "video-bench", *(films[index].digest for index in ranked))

    def estimate(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[Estimate]:
        """Return the requests whose answers are not kept."""
        films = [sampled(video) for video in videos]
        order = self._order(range(len(films)), films)
        estimates: list[Estimate] = []
        for batch in video_groups(len(order), self._settings.shots, self._settings.rest):
            estimates += self.estimate_batch(prompt.text, [films[order[at]] for at in batch.shown], repeat)
        return estimates

    def estimate_batch(self, prompt: str, films: Sequence[SampledVideo], repeat: int = 0) -> list[Estimate]:
        """Return the request for one batch, if its answer is not kept."""
        return dry_run(
            DryRunAsker(self.roles), lambda asker: self.few_shot.score(asker, prompt, films, repeat)
        )


def _shared(usage: Usage, count: int) -> list[Usage]:
    """Return a request's usage in `count` parts, as equal as whole tokens allow."""

    def part(total: int, at: int) -> int:
        return total * (at + 1) // count - total * at // count

    return [
        replace(
            usage,
            frames=part(usage.frames, at),
            tokens_in=part(usage.tokens_in, at),
            tokens_out=part(usage.tokens_out, at),
            seconds=usage.seconds / count,
            others=tuple(
                ModelUsage(one.model, part(one.tokens_in, at), part(one.tokens_out, at))
                for one in usage.others
            ),
        )
        for at in range(count)
    ]
