"""The frames of videos that a model is shown, as single images or in grids."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from storage_schemas.errors import SetAside, StoreError
from storage_schemas.ids import digest_value
from storage_schemas.judgements import Failure
from storage_schemas.model import Frozen
from tasks.llm.prompt_files import filled
from tasks.llm.requests import Parts
from tasks.llm.usage import NotJudged
from tasks.llm.vision_models import LINE_TOKENS, VlmModel
from tasks.pairs.view import Side
from tasks.scoring.base import not_readable
from tasks.scoring.judges.frame_images import image_size, video_parts, with_times

#: Tolerance of time stamps, seconds: a frame at 0.49999 s counts as 0.5 s.
_SLACK_S = 1e-6


class Grid(Frozen):
    """Several frames side by side in one image (Video-Bench names a grid view without details).

    Parameters
    ----------
    rows, columns
        Frames of one image, in reading order; not from the paper.
    fps
        Frames per second in grids; not from the paper.
    cell_side
        Longer side of one frame in a grid, in pixels; not from the paper.
    dimensions
        Dimensions that use grids; not from the paper.
    """

    rows: int = Field(default=1, ge=1, le=16)
    columns: int = Field(default=4, ge=1, le=16)
    fps: float = Field(default=8.0, gt=0)
    cell_side: int = Field(default=256, ge=16, le=2048)
    dimensions: tuple[str, ...] = ("temporal_consistency", "motion_effects")

    @property
    def cells(self) -> int:
        """Frames of one image."""
        return self.rows * self.columns


@dataclass(frozen=True)
class SampledVideo:
    """A video with its file's checksum, which determines the order of a batch."""

    digest: str
    video: Side


class UnreadableVideo(NotJudged):
    """Frames of one video of a request cannot be read; no request was made.

    Parameters
    ----------
    number
        Which of the request's videos, from 0.
    """

    def __init__(self, number: int, message: str) -> None:
        super().__init__(Failure.VIDEO_UNREADABLE, message)
        self.number = number


@contextmanager
def readable(number: int | None = None) -> Iterator[None]:
    """Turn the errors of damaged videos and full stores into failures.

    Parameters
    ----------
    number
        Which of a request's videos is read, from 0: a damaged one raises :class:`UnreadableVideo`.
    """
    try:
        yield
    except (SetAside, StoreError, OSError) as problem:
        why = not_readable(problem)
        if number is not None and why.failure is Failure.VIDEO_UNREADABLE:
            raise UnreadableVideo(number, why.message) from problem
        raise why from problem


@dataclass(frozen=True)
class ShownFrames:
    """The frames of one video that are shown.

    Parameters
    ----------
    indices
        Which, in order.
    sampled
        Number of frames by the rate alone.
    grid
        Their grid; None for one image per frame.
    """

    film: SampledVideo
    indices: tuple[int, ...]
    sampled: int
    grid: Grid | None = None

    @property
    def images(self) -> int:
        """How many images are sent."""
        return len(self.indices) if self.grid is None else -(-len(self.indices) // self.grid.cells)

    def key(self) -> dict[str, Any]:
        """Return what the images depend on besides the model's sizes.

        The frames' identities distinguish a blurred or otherwise sampled video from the plain one; sides that
        know them read no frame.
        """
        video = self.film.video
        return {
            "frames": digest_value(video.frame_ids(self.indices)),
            "times": digest_value([round(float(at), 6) for at in video.times_s[list(self.indices)]]),
            "size": [video.width, video.height],
            "grid": None if self.grid is None else self.grid.model_dump(mode="json", exclude={"dimensions"}),
        }

    def details(self) -> dict[str, Any]:
        """Return counts and indices, JSON-serialisable."""
        return {
            "frames": len(self.indices),
            "images": self.images,
            "sampled": self.sampled,
            "places": list(self.indices),
        }


@dataclass(frozen=True)
class ImageLines:
    """The fixed lines around the images of a request.

    None says how many frames follow: that would tell a video from which some were cut.

    Parameters
    ----------
    video
        What stands before a video; may have ``{number}``, its place in the request from 1.
    time
        What stands before each image, with ``{seconds}`` for its time; empty for nothing. Not in grids.
    grid
        What follows `video` where images are grids; may have ``{cells}``, ``{rows}`` and ``{columns}``.
    """

    video: str
    time: str = ""
    grid: str = ""

    def before(self, number: int, grid: Grid | None) -> str:
        """Return the line before a video."""
        line = filled(self.video, number=str(number))
        if grid is None or not self.grid:
            return line
        sizes = {"cells": str(grid.cells), "rows": str(grid.rows), "columns": str(grid.columns)}
        return f"{line} {filled(self.grid, **sizes)}"


@dataclass(frozen=True)
class ShownVideos:
    """The frames of all videos of one request, as one model sees them."""

    videos: Mapping[str, ShownFrames]
    model: VlmModel
    lines: ImageLines

    @property
    def frames(self) -> int:
        """How many frames are looked at."""
        return sum(len(one.indices) for one in self.videos.values())

    @property
    def images(self) -> int:
        """How many images are sent."""
        return sum(one.images for one in self.videos.values())

    @property
    def tokens(self) -> int:
        """Approximate number of tokens of the images and the lines before them."""
        line = LINE_TOKENS if self.lines.time else 0
        return sum(
            LINE_TOKENS + one.images * (_image_tokens(one.film.video, one.grid, self.model) + line)
            for one in self.videos.values()
        )

    def key(self) -> dict[str, Any]:
        """Return what the images depend on besides the model's sizes.

        Raises
        ------
        UnreadableVideo
            If a video cannot be read.
        """
        videos = []
        for number, (name, one) in enumerate(self.videos.items()):
            with readable(number):
                videos.append([name, one.key()])
        return {"videos": videos, "lines": digest_value(self._lines())}

    def parts(self) -> Parts:
        """Return the images as parts of a message, each video's after its line.

        Raises
        ------
        UnreadableVideo
            If a video cannot be read.
        """
        parts: Parts = []
        for number, (line, one) in enumerate(zip(self._lines(), self.videos.values(), strict=True)):
            with readable(number):
                parts += _parts(line, one, self.model, self.lines.time)
        return parts

    def _lines(self) -> list[str]:
        return [self.lines.before(at, one.grid) for at, one in enumerate(self.videos.values(), 1)]

    def details(self) -> dict[str, Any]:
        """Return counts and indices of each video, JSON-serialisable."""
        return {name: one.details() for name, one in self.videos.items()}


@dataclass(frozen=True)
class VideoExhibit:
    """Videos that a step shows; they share the request's images and tokens equally.

    Parameters
    ----------
    videos
        Videos by their name in the request.
    fps
        Frames per second that are shown, besides the last frame; a grid has its own.
    most_frames
        Maximum frames of one video; longer ones are sampled evenly.
    lines
        The lines around the images.
    grid
        The grid of frames; None for one image per frame.
    """

    videos: Mapping[str, SampledVideo]
    fps: float
    most_frames: int
    lines: ImageLines
    grid: Grid | None = None

    def fit(self, model: VlmModel, text_tokens: int) -> ShownVideos:
        """Choose the frames that fit with a text of this number of tokens.

        Raises
        ------
        NotJudged
            `video_unreadable` for a video without frames, `context_too_long` where not one image of each
            fits.
        """
        fps = self.fps if self.grid is None else self.grid.fps
        lasting = {}
        for number, (name, film) in enumerate(self.videos.items()):
            if not len(film.video):
                raise UnreadableVideo(number, "the video has no frames")
            lasting[name] = sampled_indices(film.video.times_s, fps)
        largest = max(_image_tokens(film.video, self.grid, model) for film in self.videos.values())
        largest += LINE_TOKENS if self.lines.time else 0
        text_tokens += LINE_TOKENS * len(self.videos)
        fit = min(model.most_images, max(0, model.request_tokens() - text_tokens) // largest)
        share = fit // len(self.videos)
        if not share:
            raise NotJudged(
                Failure.CONTEXT_TOO_LONG,
                f"{fit} images fit with a text of about {text_tokens} tokens, "
                f"{len(self.videos)} are needed at least",
            )
        most = min(self.most_frames, share * (1 if self.grid is None else self.grid.cells))
        shown = {
            name: ShownFrames(self.videos[name], tuple(evenly(indices, most)), len(indices), self.grid)
            for name, indices in lasting.items()
        }
        return ShownVideos(shown, model, self.lines)


def sampled_indices(times_s: NDArray[np.float64], fps: float) -> list[int]:
    """Return the frames shown every 1/`fps` seconds, and the last one, each once.

    Parameters
    ----------
    times_s
        When each frame is shown, rising, seconds, shape (n,).
    """
    if not len(times_s):
        return []
    begin = times_s[0]
    count = int(np.floor((times_s[-1] - begin) * fps + _SLACK_S)) + 1
    instants = begin + np.arange(count) / fps
    indices = np.searchsorted(times_s, instants + _SLACK_S, side="right") - 1
    return sorted({*(int(index) for index in indices), len(times_s) - 1})


def evenly(indices: Sequence[int], most: int) -> list[int]:
    """Return at most `most` of some frames, evenly spread, including the first and the last."""
    if len(indices) <= most:
        return list(indices)
    return [indices[int(at)] for at in np.linspace(0, len(indices) - 1, most).round()]


def _image_tokens(video: Side, grid: Grid | None, model: VlmModel) -> int:
    if grid is None:
        return model.image_tokens(*image_size(video.width, video.height, model.image_side))
    width, height = image_size(video.width, video.height, grid.cell_side)
    return model.image_tokens(width * grid.columns, height * grid.rows)


def _parts(line: str, shown: ShownFrames, model: VlmModel, time_line: str) -> Parts:
    if shown.grid is None:
        first, *images = video_parts(line, shown.film.video, shown.indices, model)
    else:
        first, *images = _grid_parts(line, shown, shown.grid, model)
    if model.detail is not None:
        for image in images:
            image["image_url"]["detail"] = model.detail
    if not time_line:
        return [first, *images]
    times = shown.film.video.times_s
    return with_times([first, *images], (times[index] for index in shown.indices), time_line)


def _grid_parts(line: str, shown: ShownFrames, grid: Grid, model: VlmModel) -> Parts:
    parts: Parts = [{"type": "text", "text": line}]
    for start in range(0, len(shown.indices), grid.cells):
        picture = _grid_image(shown.film.video, shown.indices[start : start + grid.cells], grid)
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=model.jpeg_quality)
        address = "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")
        parts.append({"type": "image_url", "image_url": {"url": address}})
    return parts


def _grid_image(video: Side, indices: Sequence[int], grid: Grid) -> Image.Image:
    width, height = image_size(video.width, video.height, grid.cell_side)
    whole = Image.new("RGB", (width * grid.columns, height * grid.rows))
    for at, index in enumerate(indices):
        cell = Image.fromarray(video.rgb(index)).resize((width, height), Image.Resampling.LANCZOS)
        whole.paste(cell, (at % grid.columns * width, at // grid.columns * height))
    return whole
