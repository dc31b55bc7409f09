"""From a text that a person approved to a prompt of the suite: events, expectations, questions, and more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from storage_schemas.judgement import Failure
from tasks.evaluators.base import NotJudged
from tasks.evaluators.vlm_answers import filled
from tasks.suites.base import SuitePrompt
from tasks.suites.locot2v.dimensions import HERD_NAMES
from tasks.suites.locot2v.events import FIELDS, read_events, told
from tasks.suites.locot2v.events import SCHEMA as EVENTS
from tasks.suites.locot2v.human_action import ACTIONS
from tasks.suites.locot2v.prompt_suite.attempts import Attempts
from tasks.suites.locot2v.prompt_suite.questions import agreed_questions
from tasks.suites.locot2v.roles import Step
from tasks.suites.locot2v.texts import instruction
from tasks.suites.video_bench.answers import objects, text_in, texts_in
from tasks.suites.video_bench.frames import Film

#: The three kinds of complexity of the paper's Table 1, each 0 to 10.
COMPLEXITIES = ("semantic", "structural", "control")
MOST_COMPLEX = 10
_TEXT: Mapping[str, Any] = {"type": "string"}
_RATED = objects({"reason": _TEXT, "score": {"type": "number", "minimum": 0, "maximum": MOST_COMPLEX}})
COMPLEXITY = objects(dict.fromkeys(COMPLEXITIES, _RATED))
EXPECTED = objects(dict.fromkeys(HERD_NAMES, _TEXT))


def finished_prompt(attempts: Attempts, prompt_id: str, theme: str, base: str, film: Film) -> SuitePrompt:
    """Return a prompt with all that the suite wants to know.

    Its text is the approved one and, after it, what a viewer expects in seven attributes. That this stands
    after it word for word is ours: the paper merges the two and does not say how.

    Raises
    ------
    NotJudged
        If a step has no answer that fits.
    """
    events = events_in(attempts, base)
    actions = actions_in(attempts, base)
    expected = expectations(attempts, base, film)
    questions = {
        name: [one.model_dump() for one in agreed_questions(attempts, name, text)]
        for name, text in expected.items()
    }
    text = f"{base}\n\n{' '.join(expected.values())}"
    return SuitePrompt(
        prompt_id=prompt_id,
        text=text,
        theme=theme,
        details={
            "base": base,
            "events": events,
            "actions": actions,
            "evaluation": expected,
            "questions": questions,
            "complexity": complexity_of(attempts, text),
        },
    )


def events_in(attempts: Attempts, text: str) -> list[dict[str, str]]:
    """Return the events of a text; the suite asks the same when it scores, so that this is not paid twice."""
    settings = attempts.settings

    def read(value: Any) -> list[dict[str, str]]:
        found = read_events(value.get("events") if isinstance(value, dict) else None, settings.most_events)
        if not found:
            raise NotJudged(Failure.NOT_UNDERSTOOD, "there is no event")
        return [one.model_dump() for one in found]

    assumed = {"events": [dict.fromkeys(FIELDS, "word " * 10)] * 6}
    return attempts.ask(
        _step("events", told(settings.of_suite()), f"The text:\n{text}", EVENTS, assumed), read
    )


def actions_in(attempts: Attempts, text: str) -> list[str]:
    """Return what people do in a text; there may be nothing."""
    settings = attempts.settings
    system = filled(instruction("actions", settings.prompts), most=str(settings.most_actions))

    def read(value: Any) -> list[str]:
        found = texts_in(value, "actions")
        if len(found) > settings.most_actions:
            raise NotJudged(
                Failure.NOT_UNDERSTOOD, f"there are {len(found)} actions, {settings.most_actions} at most"
            )
        return found

    assumed = {"actions": ["word " * 5] * 4}
    return attempts.ask(_step("actions", system, f"The text:\n{text}", ACTIONS, assumed), read)


def expectations(attempts: Attempts, base: str, film: Film) -> dict[str, str]:
    """Return what a viewer expects in each of the seven attributes, from the real video."""
    step = Step(
        name="expectations",
        role="multimodal",
        system=instruction("make_expectations", attempts.settings.prompts),
        text=f"The description:\n{base}",
        schema=EXPECTED,
        check=lambda value: value,
        assumed=dict.fromkeys(HERD_NAMES, "word " * 15),
        film=film,
    )
    return attempts.ask(
        step, lambda value: {name: " ".join(text_in(value, name).split()) for name in HERD_NAMES}
    )


def complexity_of(attempts: Attempts, text: str) -> dict[str, float]:
    """Return the complexity of a text by kind, each 0 to 10."""
    assumed = {name: {"reason": "word " * 25, "score": 8} for name in COMPLEXITIES}
    system = instruction("make_complexity", attempts.settings.prompts)
    return attempts.ask(
        _step("complexity", system, f"The text:\n{text}", COMPLEXITY, assumed), read_complexity
    )


def read_complexity(value: Any) -> dict[str, float]:
    """Return the three scores of an answer.

    Raises
    ------
    NotJudged
        `not_understood` if one is missing, no number, or outside 0 to 10.
    """
    found = {}
    for name in COMPLEXITIES:
        entry = value.get(name) if isinstance(value, dict) else None
        score = entry.get("score") if isinstance(entry, dict) else None
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise NotJudged(Failure.NOT_UNDERSTOOD, f"{name} has no number 'score' but {score!r:.60}")
        if not 0 <= score <= MOST_COMPLEX:
            raise NotJudged(
                Failure.NOT_UNDERSTOOD, f"{name} is {score}, outside the scale 0 to {MOST_COMPLEX}"
            )
        found[name] = float(score)
    return found


def _step(name: str, system: str, text: str, schema: Mapping[str, Any], assumed: Mapping[str, Any]) -> Step:
    return Step(
        name=name,
        role="language",
        system=system,
        text=text,
        schema=schema,
        check=lambda value: value,
        assumed=assumed,
    )
