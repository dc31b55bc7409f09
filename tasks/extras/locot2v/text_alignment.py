"""Text alignment: a video's description against its prompt, as a whole and event by event."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from storage_schemas.judgements import Failure
from tasks.extras.locot2v import events
from tasks.extras.locot2v.askers import Comparer
from tasks.extras.locot2v.events import events_of_prompt, extract_events
from tasks.extras.locot2v.measure import Measure, Value, base_of, instruction
from tasks.extras.locot2v.settings import Locot2vSettings, MatchSettings
from tasks.llm.answers import objects, text_in
from tasks.llm.conversation import Asker, Role, Step
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import SuitePrompt
from tasks.scoring.suites.shown_videos import SampledVideo

SCHEMA = objects({"description": {"type": "string"}})
#: Assumed answer, about 250 words.
_ASSUMED = {"description": "word " * 250}


def describe(asker: Asker, film: SampledVideo, settings: Locot2vSettings, repeat: int) -> str:
    """Return a model's description of a video.

    Raises
    ------
    NotJudged
        If there is none.
    """
    step = Step(
        name="describe",
        role="multimodal",
        system=instruction("describe", settings.prompts),
        text=instruction("describe_user", settings.prompts),
        schema=SCHEMA,
        check=lambda value: text_in(value, "description"),
        assumed=_ASSUMED,
        exhibit=settings.exhibit(film),
        what={"repeat": repeat},
    )
    return str(asker.ask(step))


class OverallAlignment(Measure):
    """Cosine of the embeddings of the description and of the prompt's base, at least 0."""

    roles: ClassVar[Sequence[Role]] = ("multimodal",)
    messages: ClassVar[Sequence[str]] = ("describe_user", "video_line")
    compares: ClassVar[bool] = True

    def instructions(self) -> Mapping[str, str]:
        """Return the instructions of the description."""
        return {"describe": instruction("describe", self.settings.prompts)}

    def value(self, asker: Comparer, prompt: SuitePrompt, film: SampledVideo, repeat: int) -> Value:
        """Return the similarity of the description and the prompt."""
        description = describe(asker, film, self.settings, repeat)
        cosine = float(asker.compare([([base_of(prompt)], [description])])[0][0, 0])
        details: dict[str, Any] = {"cosine": cosine}
        return Value(max(0.0, cosine), details)


#: The fields that are compared one by one; descriptions are compared separately.
FIELDS = ("subject", "setting", "action", "camera")

Similarities = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Match:
    """One event of the prompt and the event of the video that it was matched with."""

    prompt_event: int
    video_event: int
    description: float
    fields: float

    @property
    def score(self) -> float:
        """Similarity of the descriptions times the mean similarity of the fields."""
        return self.description * self.fields


@dataclass(frozen=True, slots=True)
class Matched:
    """The best matching, and its value.

    Parameters
    ----------
    inversions, most_inversions
        Pairs of matches in another order than in the prompt, and their maximum number.
    value
        Between 0 and 1; None if the prompt has no events.
    """

    matches: tuple[Match, ...]
    inversions: int
    most_inversions: int
    value: float | None


def match_events(
    description: Similarities, fields: Similarities, settings: MatchSettings | None = None
) -> Matched:
    """Return the matching of greatest weight and the score of event-level alignment.

    Parameters
    ----------
    description
        Similarity of descriptions, ``(prompt events, video events)``; negative values count as 0.
    fields
        Similarity of each field, ``(fields, prompt events, video events)``.

    Raises
    ------
    ValueError
        If the shapes do not match.
    """
    constants = settings or MatchSettings()
    if fields.ndim != 3 or fields.shape[1:] != description.shape:
        raise ValueError(f"fields of shape {fields.shape} do not fit descriptions of {description.shape}")
    if not description.shape[0]:
        return Matched((), 0, 0, None)
    similarity = np.clip(description, 0, 1)
    shared = np.clip(fields, 0, 1).mean(0)
    rows, columns = linear_sum_assignment(similarity * shared, maximize=True)
    matches = tuple(
        Match(int(row), int(column), float(similarity[row, column]), float(shared[row, column]))
        for row, column in zip(rows, columns, strict=True)
    )
    inverted = inversions([match.video_event for match in matches])
    most = len(matches) * (len(matches) - 1) // 2
    over = len(matches) if constants.over == "matched" else description.shape[0]
    mean = math.fsum(match.score for match in matches) / over if over else 0.0
    return Matched(
        matches, inverted, most, mean * (1 - constants.order_penalty * (inverted / most if most else 0.0))
    )


def inversions(order: Sequence[int]) -> int:
    """Return the number of pairs in the wrong order.

    Examples
    --------
    >>> inversions([0, 1, 2]), inversions([2, 1, 0]), inversions([1, 0, 2])
    (0, 3, 1)
    """
    return sum(order[first] > order[second] for second in range(len(order)) for first in range(second))


class EventAlignment(Measure):
    """Mean value of the matched events, less a penalty for their order; 0 if the video has no events."""

    roles: ClassVar[Sequence[Role]] = ("multimodal", "language")
    messages: ClassVar[Sequence[str]] = ("describe_user", "events_user", "video_line")
    compares: ClassVar[bool] = True
    uses: ClassVar[frozenset[str]] = Measure.uses | {"most_events", "matching"}

    def instructions(self) -> Mapping[str, str]:
        """Return the instructions of the description and of the events."""
        return {
            "describe": instruction("describe", self.settings.prompts),
            "events": events.events_instruction(self.settings),
        }

    def value(self, asker: Comparer, prompt: SuitePrompt, film: SampledVideo, repeat: int) -> Value:
        """Return how well the video's events match the prompt's."""
        wanted = events_of_prompt(asker, prompt, self.settings)
        description = describe(asker, film, self.settings, repeat)
        shown = extract_events(asker, "events of the video", description, self.settings, repeat)
        described, *fields = asker.compare(
            [
                ([getattr(one, name) for one in wanted], [getattr(one, name) for one in shown])
                for name in ("event", *FIELDS)
            ]
        )
        matched = match_events(described, np.stack(fields), self.settings.matching)
        if matched.value is None:
            raise NotJudged(Failure.NO_ANSWER, "the prompt has no events")
        matches = [
            {
                "prompt": wanted[match.prompt_event].event,
                "video": shown[match.video_event].event,
                "events": [match.prompt_event, match.video_event],
                "description": match.description,
                "fields": match.fields,
            }
            for match in matched.matches
        ]
        counts = {"prompt": len(wanted), "video": len(shown), "inversions": matched.inversions}
        return Value(matched.value, {"matches": matches, "counts": counts})
