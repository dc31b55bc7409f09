"""Complete an approved text to a prompt of the suite: events, actions, assessments, questions, complexity.

Questions are binary, on one attribute each, and two requests have to agree on the good answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from storage_schemas.judgements import Failure
from tasks.extras.locot2v.dimensions import HERD_NAMES
from tasks.extras.locot2v.events import FIELDS, events_instruction, read_events
from tasks.extras.locot2v.events import SCHEMA as EVENTS
from tasks.extras.locot2v.herd import HerdQuestion
from tasks.extras.locot2v.human_action import ACTIONS
from tasks.extras.locot2v.measure import entries_by_number, instruction, numbered, word_in
from tasks.extras.prompt_suite.requests import Attempts
from tasks.llm.answers import objects, text_in, texts_in
from tasks.llm.conversation import Step
from tasks.llm.prompt_files import filled, prompt_text
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import SuitePrompt
from tasks.scoring.suites.shown_videos import SampledVideo

YES_NO = ("yes", "no")
POLARITY = {"yes": "positive", "no": "negative"}
_WORD: Mapping[str, Any] = {"type": "string", "enum": list(YES_NO)}
_QUESTION = objects({"question": {"type": "string"}, "good_answer": _WORD})
ASKED = objects({"questions": {"type": "array", "items": _QUESTION}})
_CHECKED = objects({"number": {"type": "integer"}, "reason": {"type": "string"}, "good_answer": _WORD})
CHECKED = objects({"questions": {"type": "array", "items": _CHECKED}})


def agreed_questions(attempts: Attempts, attribute: str, assessment: str) -> list[HerdQuestion]:
    """Return questions whose polarity a second request confirms without knowing the first answer.

    Questions on which the two differ are dropped and replaced.

    Parameters
    ----------
    assessment
        Behaviour of the real video in that attribute, which the questions check in another one.

    Raises
    ------
    NotJudged
        `not_understood` if there are too few after all attempts.
    """
    wanted, tries = attempts.settings.questions, attempts.settings.tries
    agreed: list[HerdQuestion] = []
    dropped: list[str] = []
    for number in range(1, tries + 1):
        earlier = [one.question for one in agreed] + dropped
        made = _made(attempts, attribute, assessment, wanted - len(agreed), earlier, number)
        checked = _good_answers(attempts, attribute, assessment, [one.question for one in made])
        for question, answer in zip(made, checked, strict=True):
            if POLARITY[answer] == question.polarity:
                agreed.append(question)
            else:
                dropped.append(question.question)
        if len(agreed) == wanted:
            return agreed
    raise NotJudged(
        Failure.NOT_UNDERSTOOD,
        f"questions on {attribute}: after {tries} attempts, two requests agree on the good answer of "
        f"{len(agreed)} questions instead of {wanted}",
    )


def _made(
    attempts: Attempts, attribute: str, assessment: str, count: int, earlier: Sequence[str], number: int
) -> list[HerdQuestion]:
    settings = attempts.settings
    system = filled(prompt_text("prompt-suite/make_questions", settings.prompts), attribute=_words(attribute))
    text = _told(attempts, "make_questions_user", count=str(count), assessment=assessment)
    if earlier:
        text += f"\n\n{_told(attempts, 'make_questions_known', questions=numbered(earlier))}"
    name = f"questions on {attribute}" + (f", round {number}" if number > 1 else "")
    one = {"question": "word " * 15, "good_answer": "yes"}
    step = Step(
        name=name,
        role="language",
        system=system,
        text=text,
        schema=ASKED,
        assumed={"questions": [{**one, "question": f"{at} {one['question']}"} for at in range(count)]},
    )
    return attempts.ask(step, lambda value: read_questions(value, count, earlier))


def read_questions(value: Any, count: int, earlier: Sequence[str] = ()) -> list[HerdQuestion]:
    """Return the questions of an answer.

    Raises
    ------
    NotJudged
        `not_understood` for a wrong number of questions, a repeated one, or no list of questions.
    """
    entries = value.get("questions") if isinstance(value, dict) else None
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise NotJudged(Failure.NOT_UNDERSTOOD, "the answer has no list of objects 'questions'")
    if len(entries) != count:
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"the answer has {len(entries)} questions instead of {count}")
    made = [
        HerdQuestion.model_validate(
            {"question": text_in(one, "question"), "polarity": POLARITY[word_in(one, "good_answer", YES_NO)]}
        )
        for one in entries
    ]
    seen = {text.casefold() for text in earlier}
    for question in made:
        if question.question.casefold() in seen:
            raise NotJudged(Failure.NOT_UNDERSTOOD, f"the question {question.question[:80]!r} occurs twice")
        seen.add(question.question.casefold())
    return made


def _good_answers(attempts: Attempts, attribute: str, assessment: str, questions: Sequence[str]) -> list[str]:
    count = len(questions)
    one = {"reason": "word " * 15, "good_answer": "yes"}
    step = Step(
        name=f"polarity of questions on {attribute}",
        role="language",
        system=prompt_text("prompt-suite/make_polarity", attempts.settings.prompts),
        text=_told(attempts, "make_polarity_user", assessment=assessment, questions=numbered(questions)),
        schema=CHECKED,
        assumed={"questions": [{"number": number, **one} for number in range(1, count + 1)]},
    )
    return attempts.ask(
        step,
        lambda value: [
            word_in(entry, "good_answer", YES_NO) for entry in entries_by_number(value, "questions", count)
        ],
    )


def _told(attempts: Attempts, name: str, **words: str) -> str:
    return filled(prompt_text(f"prompt-suite/{name}", attempts.settings.prompts), **words)


def _words(attribute: str) -> str:
    return attribute.replace("_", " ")


#: The three kinds of complexity of the paper's Table 1, each 0 to 10.
COMPLEXITIES = ("semantic", "structural", "control")
MAX_COMPLEXITY = 10
_TEXT: Mapping[str, Any] = {"type": "string"}
_RATED = objects({"reason": _TEXT, "score": {"type": "number", "minimum": 0, "maximum": MAX_COMPLEXITY}})
COMPLEXITY = objects(dict.fromkeys(COMPLEXITIES, _RATED))
ASSESSED = objects(dict.fromkeys(HERD_NAMES, _TEXT))


def finished_prompt(
    attempts: Attempts, prompt_id: str, theme: str, base: str, film: SampledVideo
) -> SuitePrompt:
    """Return a prompt with all details that the suite uses.

    Its text is the approved text, followed by the assessments of the real video in seven attributes. The
    paper merges the two in a way that it does not describe; here they are joined verbatim.

    Raises
    ------
    NotJudged
        If a step has no valid answer.
    """
    events = events_in(attempts, base)
    actions = actions_in(attempts, base)
    assessed = assessments(attempts, base, film)
    questions = {
        name: [one.model_dump() for one in agreed_questions(attempts, name, text)]
        for name, text in assessed.items()
    }
    text = f"{base}\n\n{' '.join(assessed.values())}"
    return SuitePrompt(
        prompt_id=prompt_id,
        text=text,
        theme=theme,
        details={
            "base": base,
            "events": events,
            "actions": actions,
            "evaluation": assessed,
            "questions": questions,
            "complexity": complexity_of(attempts, text),
        },
    )


def events_in(attempts: Attempts, text: str) -> list[dict[str, str]]:
    """Return the events of a text; the suite's scorers use the same request, so it is paid for once."""
    settings = attempts.settings

    def read(value: Any) -> list[dict[str, str]]:
        events = read_events(value.get("events") if isinstance(value, dict) else None, settings.most_events)
        if not events:
            raise NotJudged(Failure.NOT_UNDERSTOOD, "there is no event")
        return [one.model_dump() for one in events]

    assumed = {"events": [dict.fromkeys(FIELDS, "word " * 10)] * 6}
    message = filled(instruction("events_user", settings.prompts), text=text)
    return attempts.ask(
        _step("events", events_instruction(settings.of_suite()), message, EVENTS, assumed), read
    )


def actions_in(attempts: Attempts, text: str) -> list[str]:
    """Return the human actions in a text; possibly none."""
    settings = attempts.settings
    system = filled(instruction("actions", settings.prompts), most=str(settings.most_actions))

    def read(value: Any) -> list[str]:
        actions = texts_in(value, "actions")
        if len(actions) > settings.most_actions:
            raise NotJudged(
                Failure.NOT_UNDERSTOOD,
                f"there are {len(actions)} actions, more than the maximum of {settings.most_actions}",
            )
        return actions

    assumed = {"actions": ["word " * 5] * 4}
    message = filled(instruction("actions_user", settings.prompts), text=text)
    return attempts.ask(_step("actions", system, message, ACTIONS, assumed), read)


def assessments(attempts: Attempts, base: str, film: SampledVideo) -> dict[str, str]:
    """Return the assessment of the real video in each of the seven attributes (appendix B.8)."""
    step = Step(
        name="assessments",
        role="multimodal",
        system=prompt_text("prompt-suite/make_assessments", attempts.settings.prompts),
        text=_told(attempts, "make_assessments_user", description=base),
        schema=ASSESSED,
        assumed=dict.fromkeys(HERD_NAMES, "word " * 15),
        exhibit=attempts.settings.of_suite().exhibit(film),
    )
    return attempts.ask(
        step, lambda value: {name: " ".join(text_in(value, name).split()) for name in HERD_NAMES}
    )


def complexity_of(attempts: Attempts, text: str) -> dict[str, float]:
    """Return the complexity of a text by kind, each 0 to 10."""
    assumed = {name: {"reason": "word " * 25, "score": 8} for name in COMPLEXITIES}
    system = prompt_text("prompt-suite/make_complexity", attempts.settings.prompts)
    message = _told(attempts, "make_complexity_user", text=text)
    return attempts.ask(_step("complexity", system, message, COMPLEXITY, assumed), read_complexity)


def read_complexity(value: Any) -> dict[str, float]:
    """Return the three scores of an answer.

    Raises
    ------
    NotJudged
        `not_understood` if one is missing, not a number, or outside 0 to 10.
    """
    scores = {}
    for name in COMPLEXITIES:
        entry = value.get(name) if isinstance(value, dict) else None
        score = entry.get("score") if isinstance(entry, dict) else None
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            raise NotJudged(Failure.NOT_UNDERSTOOD, f"{name} has no number 'score' but {score!r:.60}")
        if not 0 <= score <= MAX_COMPLEXITY:
            raise NotJudged(
                Failure.NOT_UNDERSTOOD, f"{name} is {score}, outside the scale 0 to {MAX_COMPLEXITY}"
            )
        scores[name] = float(score)
    return scores


def _step(name: str, system: str, text: str, schema: Mapping[str, Any], assumed: Mapping[str, Any]) -> Step:
    return Step(
        name=name,
        role="language",
        system=system,
        text=text,
        schema=schema,
        assumed=assumed,
    )
