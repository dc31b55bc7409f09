"""Events with five fields, taken from a text by a language model, and kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from storage_schemas.judgement import Failure, whole_characters
from storage_schemas.model import Frozen
from tasks.evaluators.base import NotJudged
from tasks.evaluators.vlm_answers import filled
from tasks.suites.base import SuitePrompt
from tasks.suites.locot2v.asking import Asker
from tasks.suites.locot2v.measure import base_of
from tasks.suites.locot2v.roles import Step
from tasks.suites.locot2v.settings import Locot2vSettings
from tasks.suites.locot2v.texts import instruction
from tasks.suites.video_bench.answers import objects

#: What a field holds of which the text says nothing: two such fields are alike.
UNSPECIFIED = "unspecified"
FIELDS = ("event", "subject", "setting", "action", "camera")
_TEXT: Mapping[str, Any] = {"type": "string"}
SCHEMA = objects({"events": {"type": "array", "items": objects(dict.fromkeys(FIELDS, _TEXT))}})
#: Six events of usual length, each field another text.
_ASSUMED = [{name: f"{'word ' * 10}{name} {number}" for name in FIELDS} for number in range(6)]


class Event(Frozen):
    """One event of a prompt or of a description."""

    event: str
    subject: str = UNSPECIFIED
    setting: str = UNSPECIFIED
    action: str = UNSPECIFIED
    camera: str = UNSPECIFIED


def read_events(value: Any, most: int) -> list[Event]:
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
    found = []
    for number, one in enumerate(value, 1):
        if not isinstance(one, Mapping):
            raise NotJudged(Failure.NOT_UNDERSTOOD, f"event {number} is no object")
        fields = {name: one.get(name, "") for name in FIELDS}
        for name, text in fields.items():
            if not isinstance(text, str) or (name == "event" and not text.strip()):
                raise NotJudged(Failure.NOT_UNDERSTOOD, f"event {number} has no text {name!r}")
        found.append(
            Event(**{name: whole_characters(text.strip()) or UNSPECIFIED for name, text in fields.items()})
        )
    return found


def extract_events(
    asker: Asker, name: str, text: str, settings: Locot2vSettings, repeat: int = 0
) -> list[Event]:
    """Return the events of a text, as the language model sees them.

    Parameters
    ----------
    name
        What messages call the step.
    repeat
        Another one asks anew.
    """

    def check(value: Any) -> list[dict[str, str]]:
        found = value.get("events") if isinstance(value, dict) else None
        return [one.model_dump() for one in read_events(found, settings.most_events)]

    step = Step(
        name=name,
        role="language",
        system=told(settings),
        text=f"The text:\n{text}",
        schema=SCHEMA,
        check=check,
        assumed={"events": _ASSUMED[: settings.most_events]},
        what={"repeat": repeat} if repeat else {},
    )
    return [Event(**one) for one in asker.ask(step)]


def told(settings: Locot2vSettings) -> str:
    """Return how the language model is asked."""
    return filled(instruction("events", settings.prompts), most=str(settings.most_events))


def events_of_prompt(asker: Asker, prompt: SuitePrompt, settings: Locot2vSettings) -> list[Event]:
    """Return the events of a prompt: its detail ``events``, else those that the language model finds.

    Raises
    ------
    NotJudged
        `no_answer` if it has none, `not_understood` if the detail does not fit.
    """
    given = prompt.details.get("events")
    if given is None:
        found = extract_events(asker, "events of the prompt", base_of(prompt), settings)
    else:
        try:
            found = read_events(list(given) if isinstance(given, tuple) else given, settings.most_events)
        except NotJudged as problem:
            raise NotJudged(problem.failure, f"the prompt's events: {problem.message}") from problem
    if not found:
        raise NotJudged(Failure.NO_ANSWER, "the prompt has no events")
    return found
