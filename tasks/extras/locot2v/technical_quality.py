"""Technical quality: DOVER++ on pieces of a video (LoCoT2V-Bench, method, static quality).

DOVER sees a piece of video as reduced frames, and as fragments in full resolution.

The sampling follows DOVER's (``dover/datasets/fusion_datasets.py`` and ``dover.yml`` of
github.com/VQAssessment/DOVER): 32 frames over the whole piece for aesthetics; for technical quality clips of
32 frames, every second one, with a grid of 7×7 windows of 32×32 pixels, the same in all frames of a clip.
Draws are keyed by the video and the piece, so that scores are reproducible.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from storage_schemas.ids import digest_text
from tasks.extras.locot2v.picture_models import VisualModel
from tasks.extras.locot2v.pixel_metrics import Measured
from tasks.extras.locot2v.pixel_scorers import Measurement, VisualScorer
from tasks.extras.locot2v.visual_settings import TechnicalSettings
from tasks.models.base import Models
from tasks.models.dover import FRAMES, SIDE, Dover, Views
from tasks.pairs.view import Side
from tasks.scoring.suites.base import Dimension, SuitePrompt, SuiteVideo

_MEAN = np.array([123.675, 116.28, 103.53], np.float32)
_DEVIATION = np.array([58.395, 57.12, 57.375], np.float32)
#: Windows of a frame along each side, their size in pixels, and the step between frames.
GRID, WINDOW, EVERY = 7, 32, 2


def pieces(count: int, fps: float, piece_s: float) -> list[range]:
    """Return the indices of pieces of about equal length, all shorter than `piece_s`.

    A longer frame is a piece of its own.

    Examples
    --------
    >>> pieces(20, 1.0, 10.0)
    [range(0, 6), range(6, 13), range(13, 20)]
    """
    # a piece of exactly `piece_s` is too long
    most = max(1, math.ceil(piece_s * fps) - 1)
    number = math.ceil(count / most)
    edges = [count * n // number for n in range(number + 1)]
    return [range(start, end) for start, end in itertools.pairwise(edges)]


def spread_indices(count: int, parts: int, length: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return indices of `length` frames, every second one, from each of equal parts; they wrap around."""
    part = count // parts
    room = part - length * EVERY
    starts = [part * n + (int(rng.integers(room)) if room > 0 else 0) for n in range(parts)]
    return np.concatenate([start + np.arange(length) * EVERY for start in starts]) % count


@dataclass(frozen=True)
class Windows:
    """Positions of a clip's windows: upper left corners ``(7, 7, 2)``, row before column."""

    corners: NDArray[np.intp]

    @classmethod
    def drawn(cls, height: int, width: int, rng: np.random.Generator) -> Windows:
        """Draw one window in each cell of the grid; in small frames windows overlap."""
        rows, columns = (_corners(extent, rng) for extent in (height, width))
        return cls(np.stack([rows, columns.T], axis=-1))

    def cut(self, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the windows of a frame side by side, ``(224, 224, 3)``."""
        made = np.empty((GRID * WINDOW, GRID * WINDOW, 3), np.uint8)
        for i in range(GRID):
            for j in range(GRID):
                top, left = self.corners[i, j]
                window = frame[top : top + WINDOW, left : left + WINDOW]
                made[i * WINDOW : (i + 1) * WINDOW, j * WINDOW : (j + 1) * WINDOW] = window
        return made


def _corners(extent: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the starts of windows along one side, shape (7, 7): along the side before across it."""
    cell = extent // GRID
    starts = np.minimum(cell * np.arange(GRID), extent - WINDOW)
    offsets = rng.integers(0, max(1, cell - WINDOW), (GRID, GRID))
    corners: NDArray[np.intp] = np.minimum(starts[:, None] + offsets, extent - WINDOW)
    return corners


def views(video: Side, piece: range, clips: int, seed: int) -> tuple[Views, Views]:
    """Return the input of DOVER's two branches for a piece; frames are read once, one at a time.

    Parameters
    ----------
    piece
        Its frames.
    clips
        Clips of the technical view.
    seed
        Seed of the frames and windows.

    Returns
    -------
    tuple
        ``(1, 3, 32, 224, 224)`` and ``(clips, 3, 32, 224, 224)`` float32, normalised.
    """
    rng = np.random.default_rng(seed)
    small_at = spread_indices(len(piece), FRAMES, 1, rng)
    clips_at = spread_indices(len(piece), clips, FRAMES, rng)
    height, width = _enough(video.height, video.width)
    windows = [Windows.drawn(height, width, rng) for _ in range(clips)]
    small = np.empty((FRAMES, SIDE, SIDE, 3), np.uint8)
    fragments = np.empty((clips * FRAMES, SIDE, SIDE, 3), np.uint8)
    for index in sorted({*small_at.tolist(), *clips_at.tolist()}):
        frame = video.rgb(piece[index])
        if index in small_at:
            small[small_at == index] = _resized(frame, SIDE, SIDE)
        full = frame if frame.shape[:2] == (height, width) else _resized(frame, height, width)
        for at in np.flatnonzero(clips_at == index):
            fragments[at] = windows[int(at) // FRAMES].cut(full)
    return _ready(small, 1), _ready(fragments, clips)


def _enough(height: int, width: int) -> tuple[int, int]:
    """Return the size at which the windows fit side by side: the frame's, unless it is too small."""
    ratio = min(height, width) / (GRID * WINDOW)
    return (height, width) if ratio >= 1 else (_grown(height, ratio), _grown(width, ratio))


def _grown(extent: int, ratio: float) -> int:
    return max(GRID * WINDOW, int(extent / ratio))


def _resized(frame: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    return np.asarray(Image.fromarray(frame).resize((width, height), Image.Resampling.BILINEAR))


def _ready(frames: NDArray[np.uint8], clips: int) -> Views:
    normal = (frames.astype(np.float32) - _MEAN) / _DEVIATION
    parted = normal.reshape(clips, FRAMES, SIDE, SIDE, 3)
    return np.ascontiguousarray(parted.transpose(0, 4, 1, 2, 3))


class TechnicalQuality(VisualScorer):
    """DOVER++ on pieces under 10 s, the mean over pieces; on a CPU, by onnxruntime."""

    def __init__(self, dimension: Dimension, models: Models, settings: TechnicalSettings) -> None:
        super().__init__(dimension)
        self._settings = settings
        self._model = VisualModel(models, settings.model, ("dover",), libraries=("onnxruntime",), gpu=False)

    def settings(self) -> dict[str, Any]:
        """Return the model and the constants."""
        return {
            **self._model.settings(),
            **self._settings.model_dump(mode="json", exclude={"model"}),
            "version": 2,
        }

    def check(self) -> None:
        """Check that the model is present.

        Raises
        ------
        PrerequisiteError
            If not, with the remedy.
        """
        self._model.check()

    def measure(self, prompt: SuitePrompt, video: SuiteVideo) -> Measurement:
        """Return the mean over pieces."""
        settings, side = self._settings, video.video
        scores: list[float] = []
        raw: list[list[float]] = []
        for number, piece in enumerate(pieces(len(side), side.fps, settings.piece_s)):
            model: Dover = self._model.loaded()
            # keyed by the video's content, not by its name
            seed = int(digest_text(f"{video.digest}\n{number}")[:16], 16)
            beauty, technique = model.scores(*views(side, piece, model.clips or settings.clips, seed))
            scores.append(technical_score(beauty, technique, settings))
            raw.append([beauty, technique])
        measured = Measured(math.fsum(scores) / len(scores), len(scores))
        details = {"pieces": scores, "aesthetic_and_technical": raw}
        return Measurement(measured, details, self._model.name)


def technical_score(beauty: float, technique: float, settings: TechnicalSettings) -> float:
    """Return a piece's score from 0 to 1 from the raw numbers of both branches."""
    technical = (technique - settings.technical_mean) / settings.technical_deviation
    if settings.score == "technical":
        return logistic(technical)
    aesthetic = (beauty - settings.aesthetic_mean) / settings.aesthetic_deviation
    share = settings.technical_weight
    return logistic(share * technical + (1 - share) * aesthetic)


def logistic(value: float) -> float:
    """Return 1 / (1 + e^−x), without overflow."""
    return 0.5 * (1 + math.tanh(value / 2))
