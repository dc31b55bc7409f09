"""The frames that a request shows, and the form in which they are sent: as images, or as videos."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Failure
from storage_schemas.model import ProviderName
from storage_schemas.sizes import size_text
from tasks.llm.servers import ChatServer, require_videos
from tasks.llm.usage import NotJudged
from tasks.llm.vision_models import FramesAs, VlmModel
from tasks.pairs.view import Side
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.frame_choice import FrameChoice, FrameLimit, FramePolicy, choose_frames
from tasks.scoring.judges.frame_images import image_size, video_parts, whole_video_parts, with_times

#: Gemini takes requests below 100 MB; the rest is for the texts.
MAX_INLINE_BYTES = 95_000_000


@dataclass(frozen=True)
class SentFrames:
    """The frames of one request.

    Parameters
    ----------
    choices
        Those of each video.
    frames_as
        The form in which they are sent.
    tokens
        Estimated tokens of all of them.
    fps
        Frames per second of the videos, where they are sent as such.
    """

    choices: Sequence[FrameChoice]
    frames_as: FramesAs
    tokens: int
    fps: float | None = None

    @property
    def count(self) -> int:
        """Number of frames."""
        return sum(len(choice.indices) for choice in self.choices)


def check_form(model: VlmModel, server: ChatServer) -> None:
    """Check that a server takes frames in the form of the model's settings.

    Raises
    ------
    UserInputError
        If it takes images only, or not every frame is to be shown.
    """
    if model.frames_as == "images":
        return
    require_videos(server)
    if model.frames != "all":
        raise UserInputError(
            f"{model.model}: frames_as=video shows all frames at their rate, and frames={model.frames} a "
            "choice of them: write frames=all too, or frames_as=images"
        )


def choose_sent(
    videos: Sequence[Side],
    policy: FramePolicy,
    model: VlmModel,
    tokens: int,
    cache: FeatureCache,
    tokens_of_time: int = 0,
) -> SentFrames:
    """Choose the frames of one request's videos, and their form, without reading pictures.

    Videos are sent where the settings say so and all frames fit, unreduced; otherwise images, since a choice
    of frames has no rate. A video has two frames at least, and all videos of a request have the same rate.

    Parameters
    ----------
    tokens
        Tokens left for frames.
    tokens_of_time
        Tokens of the time before each image, if there is one.

    Raises
    ------
    NotJudged
        As :func:`~tasks.scoring.judges.frame_choice.choose_frames`.
    """
    side = model.image_side
    sizes = [image_size(video.width, video.height, side) for video in videos]
    if model.frames_as == "video" and policy.policy == "all" and _one_rate(videos):
        sized = [(len(video), *size) for video, size in zip(videos, sizes, strict=True)]
        most = model.video_pixels
        unreduced = most is None or all(math.prod(one) <= most for one in sized)
        needed = sum(model.video_tokens(*one) for one in sized)
        if unreduced and needed <= tokens:
            total = sum(len(video) for video in videos)
            choices = choose_frames(videos, policy, FrameLimit(frames=total * tokens // needed), cache)
            return SentFrames(choices, "video", needed, videos[0].fps)
    each = model.image_tokens(*sizes[0]) + tokens_of_time
    limit = FrameLimit(frames=model.most_images, tokens=tokens, tokens_per_frame=each)
    return choose_images(videos, policy, limit, cache)


def choose_images(
    videos: Sequence[Side], policy: FramePolicy, limit: FrameLimit, cache: FeatureCache
) -> SentFrames:
    """Choose the frames of a request that are sent as images.

    Raises
    ------
    NotJudged
        As :func:`~tasks.scoring.judges.frame_choice.choose_frames`.
    """
    choices = choose_frames(videos, policy, limit, cache)
    count = sum(len(choice.indices) for choice in choices)
    return SentFrames(choices, "images", limit.tokens_per_frame * count)


def _one_rate(videos: Sequence[Side]) -> bool:
    return min(len(video) for video in videos) > 1 and len({video.fps for video in videos}) == 1


def sent_parts(
    lines: Sequence[str],
    videos: Sequence[Side],
    sent: SentFrames,
    model: VlmModel,
    provider: ProviderName,
    time_line: str = "",
) -> list[dict[str, Any]]:
    """Return the frames of a request as parts of its message, each video after a line that names it.

    Parameters
    ----------
    lines
        The lines; they must not say how many frames follow, which would tell a cut video.
    time_line
        What stands before each image, with ``{seconds}`` for its time; empty for nothing. A model that takes
        videos knows the times of their frames.

    Raises
    ------
    NotJudged
        `context_too_long` for videos that are too large for a request.
    """
    parts: list[dict[str, Any]] = []
    for line, video, choice in zip(lines, videos, sent.choices, strict=True):
        if sent.frames_as == "video":
            parts += whole_video_parts(line, video, model, provider)
            continue
        of_video = video_parts(line, video, choice.indices, model)
        if time_line:
            times = (float(video.times_s[at]) for at in choice.indices)
            of_video = with_times(of_video, times, time_line)
        parts += of_video
    if provider == "google":
        _check_size(_addresses(parts))
    return parts


def _addresses(parts: Iterable[dict[str, Any]]) -> list[str]:
    return [part["video_url"]["url"] for part in parts if part["type"] == "video_url"]


def _check_size(addresses: Sequence[str]) -> None:
    size = sum(len(address) for address in addresses)
    if size > MAX_INLINE_BYTES:
        raise NotJudged(
            Failure.CONTEXT_TOO_LONG,
            f"the videos are {size_text(size)} in base64, and a request to Gemini takes at most "
            f"{size_text(MAX_INLINE_BYTES)}: reduce image_side, or set frames_as=images",
        )
