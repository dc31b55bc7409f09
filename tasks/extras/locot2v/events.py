"""Events of a text, and the frames of a video that show each; models find both, and both are checked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage_schemas.judgements import Failure, whole_characters
from storage_schemas.model import Frozen
from tasks.extras.locot2v.measure import base_of, entries_by_number, instruction, numbered
from tasks.extras.locot2v.settings import Locot2vSettings
from tasks.llm.answers import objects
from tasks.llm.conversation import Asker, Step
from tasks.llm.prompt_files import filled
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import SuitePrompt
from tasks.scoring.suites.shown_videos import SampledVideo

#: Value of a field that the text does not mention; two such fields are equal.
UNSPECIFIED = "unspecified"
FIELDS = ("event", "subject", "setting", "action", "camera")
_TEXT: Mapping[str, Any] = {"type": "string"}
SCHEMA = objects({"events": {"type": "array", "items": objects(dict.fromkeys(FIELDS, _TEXT))}})
#: Six events of usual length, each field another text.
_ASSUMED = [{name: f"{'word ' * 10}{name} {number}" for name in FIELDS} for number in range(6)]


class PromptEvent(Frozen):
    """One event of a prompt or of a description."""

    event: str
    subject: str = UNSPECIFIED
    setting: str = UNSPECIFIED
    action: str = UNSPECIFIED
    camera: str = UNSPECIFIED


def read_events(value: Any, most: int) -> list[PromptEvent]:
    """Return the events of a list of objects; an empty field is `UNSPECIFIED`.

    Raises
    ------
    NotJudged
        `not_understood` for anything else, an event without its sentence, or more than `most`.
    """
    if not isinstance(value, list):
        raise NotJudged(Failure.NOT_UNDERSTOOD, "there is no list of events")
    if len(value) > most:
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"there are {len(value)} events, {most} at most are taken")
    events = []
    for number, one in enumerate(value, 1):
        if not isinstance(one, Mapping):
            raise NotJudged(Failure.NOT_UNDERSTOOD, f"event {number} is not an object")
        fields = {name: one.get(name, "") for name in FIELDS}
        for name, text in fields.items():
            if not isinstance(text, str) or (name == "event" and not text.strip()):
                raise NotJudged(Failure.NOT_UNDERSTOOD, f"event {number} has no text {name!r}")
        events.append(
            PromptEvent(
                **{name: whole_characters(text.strip()) or UNSPECIFIED for name, text in fields.items()}
            )
        )
    return events


def extract_events(
    asker: Asker, name: str, text: str, settings: Locot2vSettings, repeat: int = 0
) -> list[PromptEvent]:
    """Return the events of a text, as the language model sees them.

    Parameters
    ----------
    name
        What messages call the step.
    repeat
        Another number asks again.
    """

    def check(value: Any) -> list[dict[str, str]]:
        entries = value.get("events") if isinstance(value, dict) else None
        return [one.model_dump() for one in read_events(entries, settings.most_events)]

    step = Step(
        name=name,
        role="language",
        system=events_instruction(settings),
        text=filled(instruction("events_user", settings.prompts), text=text),
        schema=SCHEMA,
        check=check,
        assumed={"events": _ASSUMED[: settings.most_events]},
        what={"repeat": repeat} if repeat else {},
    )
    return [PromptEvent(**one) for one in asker.ask(step)]


def events_instruction(settings: Locot2vSettings) -> str:
    """Return the language model's instructions."""
    return filled(instruction("events", settings.prompts), most=str(settings.most_events))


def events_of_prompt(asker: Asker, prompt: SuitePrompt, settings: Locot2vSettings) -> list[PromptEvent]:
    """Return the events of a prompt: its detail ``events``, else those that the language model finds.

    Raises
    ------
    NotJudged
        `no_answer` if it has none, `not_understood` if the detail is invalid.
    """
    given = prompt.details.get("events")
    if given is None:
        events = extract_events(asker, "events of the prompt", base_of(prompt), settings)
    else:
        try:
            events = read_events(list(given) if isinstance(given, tuple) else given, settings.most_events)
        except NotJudged as problem:
            raise NotJudged(problem.failure, f"the prompt's events: {problem.message}") from problem
    if not events:
        raise NotJudged(Failure.NO_ANSWER, "the prompt has no events")
    return events


#: How far past the video's end an interval may reach, seconds: times are rounded (not from the paper).
SLACK_S = 0.5
_NUMBER: Mapping[str, Any] = {"type": "number"}
_FOUND = objects(
    {"number": {"type": "integer"}, "seen": {"type": "boolean"}, "start": _NUMBER, "end": _NUMBER}
)
CLIP_SCHEMA = objects({"events": {"type": "array", "items": _FOUND}})


@dataclass(frozen=True)
class EventClip:
    """The interval in which an event is visible.

    Parameters
    ----------
    number
        Index of the event among those of the prompt, from 0.
    start_s, end_s
        The interval, seconds of the video.
    first, end
        Its frames: from `first` up to, and without, `end`.
    """

    number: int
    event: PromptEvent
    start_s: float
    end_s: float
    first: int
    end: int


def event_clips(
    asker: Asker, prompt: SuitePrompt, film: SampledVideo, settings: Locot2vSettings, repeat: int = 0
) -> list[EventClip]:
    """Return the clips of the prompt's events that are visible in a video, in the prompt's order.

    Raises
    ------
    NotJudged
        If the prompt has no events, the video no frames, or the model no valid intervals.
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
        text=filled(
            instruction("locate_user", settings.prompts), events=numbered([one.event for one in wanted])
        ),
        schema=CLIP_SCHEMA,
        check=lambda value: read_intervals(value, len(wanted), length),
        assumed=_assumed(len(wanted), length),
        exhibit=settings.exhibit(film, timed=True),
        what={"repeat": repeat},
    )
    return clips_of(wanted, asker.ask(step), film.video.times_s)


def clip_instructions(settings: Locot2vSettings) -> Mapping[str, str]:
    """Return the models' instructions and messages."""
    names = ("locate", "events_user", "locate_user", "video_line", "time_line")
    return {
        "events": events_instruction(settings),
        **{name: instruction(name, settings.prompts) for name in names},
    }


def length_s(film: SampledVideo) -> float:
    """Return the duration of a video, seconds.

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
    """Return the interval of each event in seconds, None if it is not visible.

    Parameters
    ----------
    length
        Of the video, seconds; an interval that ends up to `SLACK_S` later is cut there.

    Raises
    ------
    NotJudged
        `not_understood` for another number of events, or an interval that is empty or outside the video.
    """
    intervals: list[list[float] | None] = []
    for entry in entries_by_number(value, "events", count):
        visible, number = entry.get("seen"), entry["number"]
        if not isinstance(visible, bool):
            raise NotJudged(
                Failure.NOT_UNDERSTOOD, f"event {number}: 'seen' is {visible!r:.40}, no truth value"
            )
        if not visible:
            intervals.append(None)
            continue
        start, end = (_seconds(entry.get(name), f"event {number}: {name!r}") for name in ("start", "end"))
        if not 0 <= start < end <= length + SLACK_S or start >= length:
            raise NotJudged(
                Failure.NOT_UNDERSTOOD,
                f"event {number} from {start:g} s to {end:g} s does not lie in a video of {length:.2f} s",
            )
        intervals.append([start, min(end, length)])
    return intervals


def _seconds(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"{what} is {value!r:.40}, no number of seconds")
    return float(value)


def clips_of(
    wanted: Sequence[PromptEvent], intervals: Sequence[Sequence[float] | None], times_s: NDArray[np.float64]
) -> list[EventClip]:
    """Return the frames of each interval, at least one for each visible event.

    Parameters
    ----------
    times_s
        When each frame is shown, rising, seconds, shape (n,).
    """
    clips = []
    for number, (event, interval) in enumerate(zip(wanted, intervals, strict=True)):
        if interval is None:
            continue
        start, end = interval
        first = max(0, int(np.searchsorted(times_s, start, side="right")) - 1)
        last = max(first + 1, int(np.searchsorted(times_s, end, side="left")))
        clips.append(EventClip(number, event, start, end, first, last))
    return clips


def _assumed(count: int, length: float) -> dict[str, Any]:
    one = {"seen": True, "start": 0.0, "end": length}
    return {"events": [{"number": number, **one} for number in range(1, count + 1)]}
