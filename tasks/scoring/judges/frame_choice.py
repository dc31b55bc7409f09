"""Choice of the frames that an evaluator sees.

``clips``: the centre frame of each scene (:mod:`tasks.scoring.judges.scenes`), and, beyond a limit, a random
subset of them, determined by the video's content and the settings. ``all``: every
frame, or the policy ``clips`` if not all of them fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from storage_schemas.ids import canonical_json
from storage_schemas.judgements import Failure
from storage_schemas.model import Frozen
from storage_schemas.rng import shuffled
from tasks.llm.usage import NotJudged
from tasks.pairs.view import Side
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.scenes import THRESHOLD, Scenes, find_scenes

Policy = Literal["clips", "all"]


class FrameLimit(Frozen):
    """The maximum number of frames in one request, over all of its videos.

    Parameters
    ----------
    frames
        Most frames; None for no such limit.
    tokens
        Tokens left for frames; None for no limit.
    tokens_per_frame
        Tokens per frame; required with a limit of tokens.
    """

    frames: int | None = Field(default=None, ge=0)
    tokens: int | None = None
    tokens_per_frame: int = Field(default=1, ge=1)

    @property
    def most(self) -> int | None:
        """How many frames fit; None for no limit."""
        limits = [] if self.frames is None else [self.frames]
        if self.tokens is not None:
            limits.append(max(self.tokens, 0) // self.tokens_per_frame)
        return min(limits, default=None)


#: VideoScore takes at most 48 frames of a video (SLVMEval, section 5.3).
VIDEOSCORE_LIMIT = FrameLimit(frames=48)


class FramePolicy(Frozen):
    """How frames are chosen; part of the settings of every evaluator that uses frames.

    Parameters
    ----------
    policy
        ``clips`` for the centre frames of scenes, ``all`` for all frames where they fit.
    threshold
        What FFmpeg's scene score must exceed at a cut.
    seed
        Seed of the random subset.
    """

    policy: Policy = "clips"
    threshold: float = Field(default=THRESHOLD, ge=0, le=1)
    seed: int = 0


@dataclass(frozen=True)
class FrameChoice:
    """The chosen frames of one video.

    Parameters
    ----------
    indices
        Which, in order.
    available
        Number of frames of the video.
    candidates
        Frames to draw from: the video's scenes, or all frames.
    asked, used
        The requested policy, and the one applied.
    most
        How many frames of this request's videos fit together; None for any number.
    scenes
        The scenes, where they were looked for.
    """

    indices: tuple[int, ...]
    available: int
    candidates: int
    asked: FramePolicy
    used: Policy
    most: int | None
    scenes: Scenes | None = None

    @property
    def fell_back(self) -> bool:
        """Whether all frames were requested and did not fit."""
        return self.used != self.asked.policy

    def details(self) -> dict[str, Any]:
        """Return settings, counts and the frames, JSON-compatible, for a judgement's details."""
        return {
            **self.asked.model_dump(mode="json"),
            "used": self.used,
            "fell_back": self.fell_back,
            "most": self.most,
            "available": self.available,
            "candidates": self.candidates,
            "chosen": len(self.indices),
            "places": "all" if len(self.indices) == self.available else list(self.indices),
            "scenes": None if self.scenes is None else self.scenes.details(),
        }


def choose_frames(
    videos: Sequence[Side], policy: FramePolicy, limit: FrameLimit, cache: FeatureCache
) -> list[FrameChoice]:
    """Choose the frames of one request's videos, which share its limit, without reading pictures.

    (For scenes the changes between frames are, where `cache` does not know them.) Where a subset is drawn,
    each video gets the share of the limit that it has of the candidates, so that both are shown equally
    densely. The choice is the same for the same videos in either order.

    Parameters
    ----------
    videos
        One video, or the two of a pair.
    policy
        How frames are chosen.
    limit
        The most frames over all these videos.
    cache
        Where changes between frames are kept.

    Raises
    ------
    NotJudged
        `video_unreadable` for a video without frames, `context_too_long` where not even a frame of each fits.
    """
    if not all(len(video) for video in videos):
        raise NotJudged(Failure.VIDEO_UNREADABLE, "the video has no frames")
    most = limit.most
    if most is not None and most < len(videos):
        raise NotJudged(Failure.CONTEXT_TOO_LONG, f"{most} frames fit, at least {len(videos)} are needed")
    lengths = [len(video) for video in videos]
    if policy.policy == "all" and (most is None or sum(lengths) <= most):
        return [FrameChoice(tuple(range(n)), n, n, policy, "all", most) for n in lengths]
    scenes = [find_scenes(video, cache, policy.threshold) for video in videos]
    shares = _shares([len(detected) for detected in scenes], most)
    return [
        FrameChoice(
            _subset(video, detected.centres, share, policy),
            len(video),
            len(detected),
            policy,
            "clips",
            most,
            detected,
        )
        for video, detected, share in zip(videos, scenes, shares, strict=True)
    ]


def _shares(counts: Sequence[int], most: int | None) -> list[int]:
    total = sum(counts)
    if most is None or total <= most:
        return list(counts)
    # rounded down, so that the result does not depend on the order of the videos; each gets at least one
    return [max(1, most * count // total) for count in counts]


def _subset(video: Side, indices: Sequence[int], most: int, policy: FramePolicy) -> tuple[int, ...]:
    if len(indices) <= most:
        return tuple(indices)
    drawn = shuffled(indices, "frame_choice", canonical_json(policy), video.identity())[:most]
    return tuple(sorted(drawn))
