"""VideoScore v1.1 as a scorer: one pass over a video gives five numbers, and each aspect uses one.

Its frames are the centres of the scenes, at most 48, drawn if there are more (SLVMEval, section 5.3).

The dimensions of the aspects are those of SLVMEval, table 10.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from storage_schemas.errors import UserInputError
from storage_schemas.frames import Planes
from storage_schemas.ids import digest_text
from storage_schemas.judgements import Failure
from storage_schemas.placement import Hardware
from tasks.llm.prompt_files import filled, prompt_text
from tasks.llm.usage import NotJudged, Usage
from tasks.media.planes import planes_to_rgb
from tasks.models.base import Models
from tasks.models.video_score import DIMENSIONS, FRAME_MARK, VideoScoreModel
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, Need, PointwiseScorer, Score, Sight
from tasks.scoring.features import FeatureCache, FrameFeature, Rows
from tasks.scoring.judges.frame_choice import VIDEOSCORE_LIMIT, FrameLimit, FramePolicy, choose_frames
from tasks.scoring.judges.local_models import HubSource
from tasks.scoring.judges.scenes import THRESHOLD

#: Dimension by aspect; aspects without a dimension of their own use the nearest one.
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
    """Return the mapping with a user's changes.

    Raises
    ------
    UserInputError
        For a dimension that VideoScore does not have.
    """
    for aspect, dimension in own.items():
        if dimension not in DIMENSIONS:
            raise UserInputError(
                f"dimensions.{aspect}: VideoScore has no {dimension!r}, only {', '.join(DIMENSIONS)}"
            )
    return {**DIMENSION_OF, **own}


#: The model of that name in a model folder.
MODEL = "videoscore-v1.1"
#: Tokens kept free, because joined texts may have more tokens than their parts.
_SEAMS = 8
_READ_AT_ONCE = 16


class VideoScoreSource(HubSource):
    """VideoScore's weights in a model folder."""

    kinds = ("video-score",)

    def model(self) -> VideoScoreModel:
        """Return the loaded model."""
        model: VideoScoreModel = self.loaded()
        return model


class VideoScore(PointwiseScorer):
    """Scores an aspect by a dimension of VideoScore.

    Parameters
    ----------
    source
        The model.
    cache
        Cache of a video's five numbers.
    wording
        The question, with ``{prompt}`` and ``{frames}``.
    dimensions
        Dimension by aspect.
    frames
        How frames are chosen.
    most_frames, most_tokens
        Most frames of a video, and tokens of the question with them; None for what the model has places for.
    """

    name = "videoscore"
    by_aspect = True
    hardware: ClassVar[Hardware] = "gpu"
    sees: ClassVar[tuple[Sight, ...]] = ("frames", "captions")
    needs: ClassVar[tuple[Need, ...]] = ("weights", "package")
    prompt_areas: ClassVar[tuple[str, ...]] = ("judges",)

    def __init__(
        self,
        source: VideoScoreSource,
        cache: FeatureCache,
        wording: str,
        dimensions: Mapping[str, str],
        frames: FramePolicy,
        most_frames: int,
        most_tokens: int | None,
    ) -> None:
        self.source, self.wording, self.most_tokens = source, wording, most_tokens
        self._cache, self._dimensions, self._frames = cache, dimensions, frames
        self._limit = FrameLimit(frames=most_frames)

    def settings(self) -> dict[str, Any]:
        """Return model, wording, mapping and frame policy."""
        return {
            **self.model_settings(),
            "dimensions": dict(self._dimensions),
            "frames": {**self._frames.model_dump(mode="json"), "most": self._limit.frames},
        }

    def model_settings(self) -> dict[str, Any]:
        """Return what the five numbers depend on besides the frames and the prompt."""
        return {
            **self.source.settings(),
            "wording": digest_text(self.wording),
            "most_tokens": self.most_tokens,
        }

    def check(self) -> None:
        """Check that the weights are there.

        Raises
        ------
        PrerequisiteError
            If they are missing, with the command that fetches them, or torch is not installed.
        """
        self.source.check()

    def score(self, prompt: str, video: Side, aspect: AspectText) -> Score:
        """Return the number for the aspect.

        Raises
        ------
        NotJudged
            `no_answer` for an aspect without a dimension, `video_unreadable` for a video without frames,
            `context_too_long` where the frames leave no room for a prompt.
        """
        start = time.perf_counter()
        dimension = self._dimensions.get(aspect.name)
        if dimension is None:
            raise NotJudged(
                Failure.NO_ANSWER,
                f"VideoScore has no dimension for {aspect.name}: name one in the setting dimensions",
            )
        choice = choose_frames((video,), self._frames, self._limit, self._cache)[0]
        features = self._cache.compute_missing(Look(video, choice.indices, prompt), [0], VideoNumbers(self))
        numbers, (tokens, words, words_read) = features.rows[0, :5], features.rows[0, 5:].astype(int).tolist()
        return Score(
            float(numbers[DIMENSIONS.index(dimension)]),
            model=self.source.name,
            usage=Usage(
                frames=len(choice.indices) if features.computed else 0, seconds=time.perf_counter() - start
            ),
            details={
                "dimension": dimension,
                "scores": dict(zip(DIMENSIONS, map(float, numbers), strict=True)),
                "frames": choice.details(),
                "prompt": {
                    "policy": "truncate",
                    "tokens": words,
                    "tokens_read": words_read,
                    "cut": words_read < words,
                },
                "tokens": tokens,
                "features": features.counts(),
                "libraries": self.source.libraries(),
            },
        )


class Look(Side):
    """Chosen frames of a video, and the prompt they are scored with."""

    def __init__(self, video: Side, frames: Sequence[int], prompt: str) -> None:
        self._video, self._frames, self.prompt = video, frames, prompt
        self.width, self.height, self.color, self.fps = video.width, video.height, video.color, video.fps

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._frames)

    def planes(self, indices: Sequence[int]) -> Planes:
        """Return frames by position among the chosen ones."""
        return self._video.planes([self._frames[index] for index in indices])

    @property
    def family(self) -> str:
        """The sharing group of the whole video."""
        return self._video.family

    def frame_ids(self, indices: Sequence[int]) -> list[str]:
        """Return the identity of frames by position among the chosen ones."""
        return self._video.frame_ids([self._frames[index] for index in indices])


class VideoNumbers(FrameFeature):
    """Row of a :class:`Look`: the five numbers, total tokens, and the prompt's tokens and those read.

    All aspects of a source share them.
    """

    name = "videoscore"
    dtype = "float32"
    width = len(DIMENSIONS) + 3

    def __init__(self, scorer: VideoScore) -> None:
        self._scorer = scorer

    def settings(self) -> dict[str, Any]:
        """Return model, dtype, wording and libraries."""
        return {**self._scorer.model_settings(), "libraries": self._scorer.source.libraries(), "version": 1}

    def ids(self, side: Side, indices: Sequence[int]) -> list[str]:
        """Return the identity of the frames in order, and of the prompt."""
        look = _look(side)
        return [digest_text("\n".join([*look.frame_ids(range(len(look))), look.prompt]))[:32]] * len(indices)

    def compute(self, side: Side, indices: Sequence[int]) -> Rows:
        """Return the numbers, shape (1, 8).

        Raises
        ------
        NotJudged
            `context_too_long` where the frames leave no room for a prompt.
        """
        look = _look(side)
        model = self._scorer.source.model()
        text, words, read = self._question(model, look)
        starts = range(0, len(look), _READ_AT_ONCE)
        batches = [range(at, min(at + _READ_AT_ONCE, len(look))) for at in starts]
        rgb = np.concatenate([planes_to_rgb(look.planes(batch), look.color) for batch in batches])
        numbers, tokens = model.scores(rgb, text)
        return np.array([[*numbers, tokens, words, read]], np.float32)

    def _question(self, model: VideoScoreModel, look: Look) -> tuple[str, int, int]:
        """Return the text with as much of the prompt as fits, the prompt's tokens, and those read."""
        marks = " ".join([FRAME_MARK] * len(look))
        empty = filled(self._scorer.wording, prompt="", frames=marks)
        most = min(self._scorer.most_tokens or model.positions, model.positions)
        taken = model.count(empty, len(look), look.height, look.width)
        prompt = model.plain(look.prompt)
        ends = model.ends(prompt)
        room = most - taken - _SEAMS
        if room < 1:
            raise NotJudged(
                Failure.CONTEXT_TOO_LONG,
                f"{len(look)} frames and the question use {taken} of {most} tokens: nothing is left for the "
                "prompt (settings most_frames, most_tokens)",
            )
        if len(ends) > room:
            prompt = prompt[: ends[room - 1]]
        return filled(self._scorer.wording, prompt=prompt, frames=marks), len(ends), min(len(ends), room)


def _look(side: Side) -> Look:
    if not isinstance(side, Look):
        raise TypeError(f"{type(side).__name__} has no prompt: VideoScore needs a Look")
    return side


def video_score(
    cache: FeatureCache,
    models: Models,
    model: str = MODEL,
    dtype: str = "bfloat16",
    prompts: str = "",
    dimensions: Mapping[str, str] | None = None,
    threshold: float = THRESHOLD,
    seed: int = 0,
    most_frames: int = VIDEOSCORE_LIMIT.frames or 48,
    most_tokens: int | None = None,
) -> VideoScore:
    """Make VideoScore.

    Parameters
    ----------
    model, dtype
        Weights of the kind ``video-score``, and the numbers in which they compute.
    prompts
        The user's folder of prompts; empty for ours. The published wording is on the model's own page.
    dimensions
        Dimension by aspect, for your own aspects or another mapping than the paper's.
    threshold, seed
        As for :class:`~tasks.scoring.judges.frame_choice.FramePolicy`.
    most_frames, most_tokens
        As for :class:`VideoScore`.
    """
    if most_frames < 1:
        raise UserInputError(f"most_frames is {most_frames}, it must be 1 or more")
    return VideoScore(
        VideoScoreSource(models, model, dtype),
        cache,
        _question(prompts),
        dimensions_with(dimensions or {}),
        FramePolicy(policy="clips", threshold=threshold, seed=seed),
        most_frames,
        most_tokens,
    )


def _question(prompts: str) -> str:
    text = prompt_text("judges/video_score", prompts)
    for field in ("{prompt}", "{frames}"):
        if text.count(field) != 1:
            raise UserInputError(f"judges/video_score.txt must contain {field} once")
    if FRAME_MARK in text:
        raise UserInputError(
            f"judges/video_score.txt contains {FRAME_MARK}: {{frames}} stands for all of them"
        )
    return text
