"""Which frames of a video are shown, and how: one image each, or in grids."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from storage_schemas.ids import digest_value
from storage_schemas.judgements import Failure
from tasks.llm.usage import NotJudged
from tasks.llm.vision_models import SuiteModel
from tasks.pairs.view import Side
from tasks.scoring.judges.frame_images import image_size, video_parts
from tasks.scoring.suites.video_bench.settings import Grid, VideoBenchSettings

#: Slack of time stamps, seconds: 0.5 s is reached by a frame at 0.49999 s.
_SLACK_S = 1e-6


@dataclass(frozen=True)
class SampledVideo:
    """A video with a checksum of its file, by which the order of a batch is drawn."""

    digest: str
    video: Side


@dataclass(frozen=True)
class ShownFrames:
    """The frames of one video that are shown.

    Parameters
    ----------
    places
        Which, in order.
    sampled
        How many the rate alone would give.
    grid
        How they are laid out; None for one image a frame.
    """

    film: SampledVideo
    places: tuple[int, ...]
    sampled: int
    fps: float
    grid: Grid | None = None

    @property
    def images(self) -> int:
        """How many images are sent."""
        return len(self.places) if self.grid is None else -(-len(self.places) // self.grid.cells)

    def key(self) -> dict[str, Any]:
        """Return what the images depend on besides the model's sizes.

        The frames' own identities tell a blurred or otherwise sampled video from the plain one; sides that
        know them read no frame for that.
        """
        video = self.film.video
        return {
            "frames": digest_value(video.frame_ids(self.places)),
            "times": digest_value([round(float(at), 6) for at in video.times_s[list(self.places)]]),
            "size": [video.width, video.height],
            "grid": None if self.grid is None else self.grid.model_dump(mode="json", exclude={"dimensions"}),
        }

    def details(self) -> dict[str, Any]:
        """Return counts and places, JSON-able."""
        return {
            "frames": len(self.places),
            "images": self.images,
            "sampled": self.sampled,
            "places": list(self.places),
        }


def sampled_places(times_s: NDArray[np.float64], fps: float) -> list[int]:
    """Return the frames that are on the screen every 1/`fps` seconds, and the last one; each once.

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
    places = np.searchsorted(times_s, instants + _SLACK_S, side="right") - 1
    return sorted({*(int(place) for place in places), len(times_s) - 1})


def evenly(places: Sequence[int], most: int) -> list[int]:
    """Return at most `most` of some frames, evenly spread, the first and the last among them."""
    if len(places) <= most:
        return list(places)
    return [places[int(at)] for at in np.linspace(0, len(places) - 1, most).round()]


def shown_frames(
    films: Sequence[SampledVideo],
    dimension: str,
    settings: VideoBenchSettings,
    model: SuiteModel,
    text_tokens: int,
) -> list[ShownFrames]:
    """Choose the frames of the videos of one request, which share its images and tokens evenly.

    Parameters
    ----------
    text_tokens
        What the request's text takes.

    Raises
    ------
    NotJudged
        `video_unreadable` for a video without frames, `context_too_long` where not one image of each fits.
    """
    grid = settings.grid_of(dimension)
    fps = settings.fps if grid is None else grid.fps
    lasting = []
    for film in films:
        if not len(film.video):
            raise NotJudged(Failure.VIDEO_UNREADABLE, "the video has no frames")
        lasting.append(sampled_places(film.video.times_s, fps))
    largest = max(_image_tokens(film.video, grid, model) for film in films)
    fit = min(model.most_images, max(0, model.request_tokens() - text_tokens) // largest)
    share = fit // len(films)
    if not share:
        raise NotJudged(
            Failure.CONTEXT_TOO_LONG,
            f"{fit} images fit beside a text of about {text_tokens} tokens, {len(films)} are needed at least",
        )
    most = min(settings.most_frames, share * (1 if grid is None else grid.cells))
    return [
        ShownFrames(film, tuple(evenly(places, most)), len(places), fps, grid)
        for film, places in zip(films, lasting, strict=True)
    ]


def images_tokens(shown: Sequence[ShownFrames], model: SuiteModel) -> int:
    """Return what the images of a request count, in tokens."""
    return sum(one.images * _image_tokens(one.film.video, one.grid, model) for one in shown)


def _image_tokens(video: Side, grid: Grid | None, model: SuiteModel) -> int:
    if grid is None:
        return model.image_tokens(*image_size(video.width, video.height, model.image_side))
    width, height = image_size(video.width, video.height, grid.cell_side)
    return model.image_tokens(width * grid.columns, height * grid.rows)


def shown_parts(name: str, shown: ShownFrames, model: SuiteModel) -> list[dict[str, Any]]:
    """Return the images of a video as parts of a message, after a line that says whose they are."""
    if shown.grid is None:
        parts = video_parts(name, shown.film.video, shown.places, model)
    else:
        parts = _grid_parts(name, shown, shown.grid, model)
    if model.detail is not None:
        for part in parts:
            if part["type"] == "image_url":
                part["image_url"]["detail"] = model.detail
    return parts


def _grid_parts(name: str, shown: ShownFrames, grid: Grid, model: SuiteModel) -> list[dict[str, Any]]:
    line = (
        f"The {name}, {len(shown.places)} frames in {shown.images} images. Each image has up to {grid.cells} "
        f"frames in {grid.rows} rows and {grid.columns} columns, in reading order; black places are empty:"
    )
    parts: list[dict[str, Any]] = [{"type": "text", "text": line}]
    for start in range(0, len(shown.places), grid.cells):
        picture = _grid_image(shown.film.video, shown.places[start : start + grid.cells], grid)
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=model.jpeg_quality)
        address = "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode("ascii")
        parts.append({"type": "image_url", "image_url": {"url": address}})
    return parts


def _grid_image(video: Side, places: Sequence[int], grid: Grid) -> Image.Image:
    width, height = image_size(video.width, video.height, grid.cell_side)
    whole = Image.new("RGB", (width * grid.columns, height * grid.rows))
    for at, place in enumerate(places):
        cell = Image.fromarray(video.rgb(place)).resize((width, height), Image.Resampling.LANCZOS)
        whole.paste(cell, (at % grid.columns * width, at // grid.columns * height))
    return whole
