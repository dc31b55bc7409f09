"""The videos on which a suite and people differ most, and what the model said (Video-Bench, figure 13)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storage_schemas.suite_score import SuiteScore
from tasks.scoring.suites.human_ratings import Rating, VideoKey


@dataclass(frozen=True)
class VideoDifference:
    """One video in one dimension.

    Parameters
    ----------
    score
        The suite's score, the mean of its repeats.
    ratings
        People's ratings of the video.
    rows
        The rows of the score, by repeat.
    """

    video: VideoKey
    dimension: str
    score: float
    ratings: tuple[int, ...]
    rows: tuple[SuiteScore, ...]

    @property
    def people(self) -> float:
        """The mean of people's ratings."""
        return sum(self.ratings) / len(self.ratings)

    @property
    def difference(self) -> float:
        """The suite's score less people's mean rating."""
        return self.score - self.people


def widest_differences(
    ratings: Iterable[Rating], rows: Iterable[SuiteScore], most: int
) -> dict[str, list[VideoDifference]]:
    """Return by dimension the videos whose score is farthest from people's mean rating, the widest first.

    Videos on which both agree are left out.

    Parameters
    ----------
    rows
        The suite's scores with the current settings; those without a score do not count.
    most
        Videos of each dimension.
    """
    scored: dict[tuple[str, VideoKey], list[SuiteScore]] = defaultdict(list)
    for row in rows:
        if row.score is not None:
            scored[row.dimension, _video(row)].append(row)
    rated: dict[tuple[str, VideoKey], list[int]] = defaultdict(list)
    for one in ratings:
        rated[one.dimension, one.video].append(one.value)
    by_dimension: dict[str, list[VideoDifference]] = defaultdict(list)
    for (dimension, video), values in rated.items():
        repeats = sorted(scored.get((dimension, video), ()), key=lambda row: row.repeat)
        if repeats:
            score = sum(row.score or 0.0 for row in repeats) / len(repeats)
            found = VideoDifference(video, dimension, score, tuple(values), tuple(repeats))
            if found.difference:
                by_dimension[dimension].append(found)
    return {
        dimension: sorted(some, key=lambda one: (-abs(one.difference), str(one.video)))[:most]
        for dimension, some in by_dimension.items()
    }


def _video(row: SuiteScore) -> VideoKey:
    return VideoKey(model=row.model, prompt_id=row.prompt_id, sample=row.sample)


@dataclass(frozen=True)
class Said:
    """What a model said in one step about one video, as titled texts."""

    step: str
    model: str
    texts: tuple[tuple[str, str], ...]


def reason_of(row: SuiteScore) -> str:
    """Return the reason that the model gave with its score; empty if it gave none."""
    for said in reversed(conversation_of(row)):
        for title, text in said.texts:
            if title == "reason" and text:
                return text
    return ""


def conversation_of(row: SuiteScore) -> list[Said]:
    """Return the steps of the conversation behind a score; empty for a score that was computed.

    Of an answer on several videos only what concerns this one is returned.
    """
    try:
        details = json.loads(row.details)
    except ValueError:
        return []
    steps = details.get("conversation") if isinstance(details, dict) else None
    if not isinstance(steps, list):
        return []
    return [
        Said(str(one.get("step", "")), str(one.get("model", "")), _texts(one.get("answer"), details))
        for one in steps
        if isinstance(one, dict)
    ]


def _texts(answer: Any, details: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    if not isinstance(answer, dict):
        return (("answer", _in_words(answer)),)
    scores = answer.get("scores")
    if isinstance(scores, list):
        own = [one for one in scores if isinstance(one, dict) and one.get("video") == details.get("video")]
        if own:
            answer = {name: value for name, value in own[0].items() if name != "video"}
    return tuple((str(name), text) for name, value in answer.items() if (text := _in_words(value)))


def _in_words(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence) and all(isinstance(one, str) for one in value):
        return "\n".join(f"{number}. {one}" for number, one in enumerate(value, 1))
    return json.dumps(value, ensure_ascii=False)
