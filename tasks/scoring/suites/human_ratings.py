"""People's ratings of generated videos, read from CSV or JSON Lines.

A row is one rating (``model, prompt_id, dimension, rater, rating``, and ``sample`` where a prompt has several
videos of a model), or, in JSON Lines, all ratings of one video and dimension as a list ``ratings``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage_schemas.model import Frozen
from tasks.scoring.user_files import MALFORMED, UnusedLine, read_rows

#: A rating of 0 says that the person could not rate the video (Video-Bench's labels).
INVALID = "invalid_rating"
DUPLICATE = "duplicate_rating"
UNKNOWN = "unknown_dimension"

_COLUMNS = ("model", "prompt_id", "dimension", "rater", "rating")

#: Lowest and highest rating of each dimension.
Scales = Mapping[str, tuple[int, int]]


class VideoKey(Frozen):
    """Identity of a video."""

    model: str
    prompt_id: str
    sample: int = 0

    def __str__(self) -> str:
        return f"{self.model}/{self.prompt_id}#{self.sample}"


@dataclass(frozen=True)
class Rating:
    """One person's rating of one video in one dimension."""

    video: VideoKey
    dimension: str
    rater: str
    value: int


@dataclass(frozen=True)
class Ratings:
    """The ratings of a file, and what was left out."""

    rows: tuple[Rating, ...]
    left_out: tuple[UnusedLine, ...]


class _UnusableRating(Exception):
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def load_ratings(path: Path, scales: Scales) -> Ratings:
    """Read ratings from a CSV (``.csv``, ``.tsv``) or a JSON Lines file.

    Parameters
    ----------
    scales
        The ends of every dimension's scale; a rating outside is left out, as is one of an unknown dimension.

    Raises
    ------
    UserInputError
        If the file cannot be read, or lacks a column.
    """
    rows: dict[tuple[VideoKey, str, str], Rating] = {}
    left_out: list[UnusedLine] = []
    for where, row in read_rows(path, _COLUMNS):
        for rater, value in _values(row):
            try:
                rating = _rating(row, rater, value, scales)
                key = rating.video, rating.dimension, rating.rater
                if key in rows:
                    raise _UnusableRating(
                        DUPLICATE, f"{rater} rates {rating.video} in {rating.dimension} a second time"
                    )
            except _UnusableRating as problem:
                left_out.append(UnusedLine(where, problem.reason, problem.message))
                continue
            rows[key] = rating
    return Ratings(tuple(rows.values()), tuple(left_out))


def _values(row: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return rater and rating of each rating in a row."""
    many = row.get("ratings")
    if isinstance(many, list):
        return [(str(index), value) for index, value in enumerate(many, 1)]
    if isinstance(many, dict):
        return [(str(rater), value) for rater, value in many.items()]
    return [(str(row.get("rater") or ""), row.get("rating"))]


def _rating(row: Mapping[str, Any], rater: str, value: Any, scales: Scales) -> Rating:
    model, prompt_id = str(row.get("model") or ""), str(row.get("prompt_id") or "")
    if not (model and prompt_id and rater):
        raise _UnusableRating(MALFORMED, "a rating needs a model, a prompt_id and a rater")
    dimension = str(row.get("dimension") or "")
    if dimension not in scales:
        raise _UnusableRating(UNKNOWN, f"there is no dimension {dimension!r}: there are {', '.join(scales)}")
    sample, rated = _whole(row.get("sample") or 0), _whole(value)
    if sample is None or rated is None:
        raise _UnusableRating(
            MALFORMED, f"rating {value!r} and sample {row.get('sample')!r} have to be whole numbers"
        )
    low, high = scales[dimension]
    if not low <= rated <= high:
        raise _UnusableRating(INVALID, f"{rated} is outside the scale from {low} to {high}")
    return Rating(VideoKey(model=model, prompt_id=prompt_id, sample=sample), dimension, rater, rated)


def _whole(value: Any) -> int | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if number.is_integer() and not isinstance(value, bool) else None
