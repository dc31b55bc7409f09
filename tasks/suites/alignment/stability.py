"""How far a suite agrees with itself: the same request again, a blurred video (Video-Bench, 6.4, 6.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from storage_schemas.frames import Planes
from tasks.media.planes import split_planes
from tasks.pairs.view import Side
from tasks.statistics.krippendorff import Alpha, Answer, alpha_of
from tasks.suites.alignment.people import Scores, whole
from tasks.suites.alignment.ratings import VideoKey


@dataclass(frozen=True, slots=True)
class Stability:
    """One dimension scored several times over.

    Parameters
    ----------
    runs, videos
        Runs, and videos that have a score in each of them.
    total_agreement
        Share of videos with the same score in all runs: TARA@runs.
    alpha
        Krippendorff's α, ordinal, the runs as raters.
    """

    runs: int
    videos: int
    total_agreement: float | None
    alpha: Alpha


def stability(scale: tuple[int, int], runs: Sequence[Scores]) -> Stability:
    """Return how stable repeated scores are; scores are rounded to the scale's whole numbers.

    Raises
    ------
    ValueError
        If there are fewer than two runs.
    """
    if len(runs) < 2:
        raise ValueError("stability needs two runs or more")
    shared = sorted(set.intersection(*(set(run) for run in runs)), key=str)
    given = {video: [whole(run[video]) for run in runs] for video in shared}
    answers = [
        Answer(str(video), f"run {number}", str(value))
        for video, values in given.items()
        for number, value in enumerate(values)
    ]
    same = sum(len(set(values)) == 1 for values in given.values())
    low, high = scale
    return Stability(
        runs=len(runs),
        videos=len(shared),
        total_agreement=same / len(shared) if shared else None,
        alpha=alpha_of(answers, [str(value) for value in range(low, high + 1)], "ordinal"),
    )


@dataclass(frozen=True, slots=True)
class Robustness:
    """Scores of videos and of the same videos slightly changed.

    Parameters
    ----------
    mean_error
        Mean of |changed − plain| / plain over videos.
    error_of_means
        The same of the two means.
    """

    videos: int
    mean_error: float | None
    error_of_means: float | None


def robustness(plain: Scores, changed: Scores) -> Robustness:
    """Return how far a small change moves the scores; the paper finds less than 5 % (Video-Bench, 6.5).

    Raises
    ------
    ValueError
        If a plain score is not above 0: there is no relative error then.
    """
    shared = sorted(_both(plain, changed), key=str)
    if any(plain[video] <= 0 for video in shared):
        raise ValueError("relative errors need scores above 0")
    if not shared:
        return Robustness(0, None, None)
    before = np.array([plain[video] for video in shared])
    after = np.array([changed[video] for video in shared])
    return Robustness(
        videos=len(shared),
        mean_error=float(np.mean(np.abs(after - before) / before)),
        error_of_means=float(abs(after.mean() - before.mean()) / before.mean()),
    )


def _both(first: Mapping[VideoKey, float], second: Mapping[VideoKey, float]) -> set[VideoKey]:
    return set(first) & set(second)


#: Standard deviation of the blur in pixels (not from the paper, which names none).
BLUR_SIGMA = 1.0


class BlurredSide(Side):
    """A video whose pictures are slightly blurred; frames are read and blurred where they are touched.

    Parameters
    ----------
    plain
        The video.
    sigma
        Standard deviation of the Gaussian in pixels of the luma; the chroma planes have half.
    """

    def __init__(self, plain: Side, sigma: float = BLUR_SIGMA) -> None:
        if sigma <= 0:
            raise ValueError("a blur has a sigma above 0")
        self._plain, self._sigma = plain, sigma
        self.width, self.height, self.color, self.fps = plain.width, plain.height, plain.color, plain.fps

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._plain)

    @property
    def family(self) -> str:
        """That of the plain video: they share no frames, but what is kept of them lies together."""
        return self._plain.family

    def planes(self, places: Sequence[int]) -> Planes:
        """Return blurred frames by place as ``(n, H·3/2, W)`` uint8."""
        frames = self._plain.planes(places).copy()
        for frame in frames:
            y, u, v = split_planes(frame)
            for plane, sigma in ((y, self._sigma), (u, self._sigma / 2), (v, self._sigma / 2)):
                plane[...] = cv2.GaussianBlur(plane, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE)
        return frames

    def frame_ids(self, places: Sequence[int]) -> list[str]:
        """Return the identity of frames: that of the plain ones and the blur."""
        return [f"{id_}:blur{self._sigma!r}" for id_ in self._plain.frame_ids(places)]
