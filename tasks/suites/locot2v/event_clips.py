"""Which frames of a video belong to which event of the prompt: a model gives intervals, which are checked.

That is Time-R1-7B's role in the paper. Consistency within and between events is measured on these frames.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.judgement import Failure
from tasks.evaluators.base import NotJudged
from tasks.evaluators.vlm_answers import filled
from tasks.suites.base import SuitePrompt
from tasks.suites.locot2v import events
from tasks.suites.locot2v.asking import Asker
from tasks.suites.locot2v.events import Event, events_of_prompt
from tasks.suites.locot2v.measure import entries_by_number, numbered
from tasks.suites.locot2v.roles import Step
from tasks.suites.locot2v.settings import Locot2vSettings
from tasks.suites.locot2v.texts import instruction
from tasks.suites.video_bench.answers import objects
from tasks.suites.video_bench.frames import Film

#: How far past the video's end an interval may reach, seconds: times are rounded (not from the paper).
SLACK_S = 0.5
_NUMBER: Mapping[str, Any] = {"type": "number"}
_FOUND = objects(
    {"number": {"type": "integer"}, "seen": {"type": "boolean"}, "start": _NUMBER, "end": _NUMBER}
)
SCHEMA = objects({"events": {"type": "array", "items": _FOUND}})


@dataclass(frozen=True)
class EventClip:
    """Where an event is seen.

    Parameters
    ----------
    number
        Place of the event among those of the prompt, from 0.
    start_s, end_s
        The interval, seconds of the video.
    first, end
        Its frames: from `first` up to, and without, `end`.
    """

    number: int
    event: Event
    start_s: float
    end_s: float
    first: int
    end: int


def event_clips(
    asker: Asker, prompt: SuitePrompt, film: Film, settings: Locot2vSettings, repeat: int = 0
) -> list[EventClip]:
    """Return the clips of the prompt's events that are seen in a video, in the prompt's order.

    Raises
    ------
    NotJudged
        If the prompt has no events, the video no frames, or the model gives no intervals that fit.
    """
    wanted = events_of_prompt(asker, prompt, settings)
    length = length_s(film)
    step = Step(
        name="locate events",
        role="locating",
        system=filled(
            instruction("locate", settings.prompts),
            length=f"{length:.1f}" if length >= 1 else f"{length:.2f}",
        ),
        text=f"The events:\n{numbered([one.event for one in wanted])}",
        schema=SCHEMA,
        check=lambda value: read_intervals(value, len(wanted), length),
        assumed=_assumed(len(wanted), length),
        film=film,
        timed=True,
        what={"repeat": repeat},
    )
    return clips_of(wanted, asker.ask(step), film.video.times_s)


def told(settings: Locot2vSettings) -> Mapping[str, str]:
    """Return how the models are asked."""
    return {"events": events.told(settings), "locate": instruction("locate", settings.prompts)}


def length_s(film: Film) -> float:
    """Return how long a video lasts, in seconds.

    Raises
    ------
    NotJudged
        `video_unreadable` if it has no frames.
    """
    times = film.video.times_s
    if not len(times):
        raise NotJudged(Failure.VIDEO_UNREADABLE, "the video has no frames")
    return float(times[-1] + 1 / film.video.fps)


def read_intervals(value: Any, count: int, length: float) -> list[list[float] | None]:
    """Return the interval of each event in seconds, None where it is not seen.

    Parameters
    ----------
    length
        Of the video, seconds; an interval that ends up to `SLACK_S` later is cut there.

    Raises
    ------
    NotJudged
        `not_understood` for another number of events, or an interval that is empty or outside the video.
    """
    found: list[list[float] | None] = []
    for entry in entries_by_number(value, "events", count):
        seen, number = entry.get("seen"), entry["number"]
        if not isinstance(seen, bool):
            raise NotJudged(Failure.NOT_UNDERSTOOD, f"event {number}: 'seen' is {seen!r:.40}, no truth value")
        if not seen:
            found.append(None)
            continue
        start, end = (_seconds(entry.get(name), f"event {number}: {name!r}") for name in ("start", "end"))
        if not 0 <= start < end <= length + SLACK_S or start >= length:
            raise NotJudged(
                Failure.NOT_UNDERSTOOD,
                f"event {number} from {start:g} s to {end:g} s does not lie in a video of {length:.2f} s",
            )
        found.append([start, min(end, length)])
    return found


def _seconds(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"{what} is {value!r:.40}, no number of seconds")
    return float(value)


def clips_of(
    wanted: Sequence[Event], intervals: Sequence[Sequence[float] | None], times_s: NDArray[np.float64]
) -> list[EventClip]:
    """Return the frames that are on the screen in each interval; at least one for each that is seen.

    Parameters
    ----------
    times_s
        When each frame is shown, rising, seconds, shape (n,).
    """
    found = []
    for number, (event, interval) in enumerate(zip(wanted, intervals, strict=True)):
        if interval is None:
            continue
        start, end = interval
        first = max(0, int(np.searchsorted(times_s, start, side="right")) - 1)
        last = max(first + 1, int(np.searchsorted(times_s, end, side="left")))
        found.append(EventClip(number, event, start, end, first, last))
    return found


def _assumed(count: int, length: float) -> dict[str, Any]:
    one = {"seen": True, "start": 0.0, "end": length}
    return {"events": [{"number": number, **one} for number in range(1, count + 1)]}
