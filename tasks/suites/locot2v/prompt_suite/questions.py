"""Binary questions on one attribute whose good answer two requests agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from storage_schemas.judgement import Failure
from tasks.evaluators.base import NotJudged
from tasks.evaluators.vlm_answers import filled
from tasks.suites.locot2v.herd import Question
from tasks.suites.locot2v.measure import entries_by_number, numbered, word_in
from tasks.suites.locot2v.prompt_suite.attempts import Attempts
from tasks.suites.locot2v.roles import Step
from tasks.suites.locot2v.texts import instruction
from tasks.suites.video_bench.answers import objects, text_in

YES_NO = ("yes", "no")
POLARITY = {"yes": "positive", "no": "negative"}
_WORD: Mapping[str, Any] = {"type": "string", "enum": list(YES_NO)}
_QUESTION = objects({"question": {"type": "string"}, "good_answer": _WORD})
ASKED = objects({"questions": {"type": "array", "items": _QUESTION}})
_CHECKED = objects({"number": {"type": "integer"}, "reason": {"type": "string"}, "good_answer": _WORD})
CHECKED = objects({"questions": {"type": "array", "items": _CHECKED}})


def agreed_questions(attempts: Attempts, attribute: str, expectation: str) -> list[Question]:
    """Return questions whose polarity a second request confirms; it is not told what the first one said.

    Questions on which the two differ are dropped, and others asked for in their place.

    Parameters
    ----------
    expectation
        What a viewer expects, as the questions are to find out.

    Raises
    ------
    NotJudged
        `not_understood` if there are too few after all tries.
    """
    wanted, tries = attempts.settings.questions, attempts.settings.tries
    agreed: list[Question] = []
    dropped: list[str] = []
    for number in range(1, tries + 1):
        there = [one.question for one in agreed] + dropped
        made = _made(attempts, attribute, expectation, wanted - len(agreed), there, number)
        checked = _good_answers(attempts, attribute, expectation, [one.question for one in made])
        for question, answer in zip(made, checked, strict=True):
            if POLARITY[answer] == question.polarity:
                agreed.append(question)
            else:
                dropped.append(question.question)
        if len(agreed) == wanted:
            return agreed
    raise NotJudged(
        Failure.NOT_UNDERSTOOD,
        f"questions on {attribute}: after {tries} tries two requests agree on the good answer of "
        f"{len(agreed)} questions, {wanted} are wanted",
    )


def _made(
    attempts: Attempts, attribute: str, expectation: str, count: int, there: Sequence[str], number: int
) -> list[Question]:
    settings = attempts.settings
    system = filled(instruction("make_questions", settings.prompts), attribute=_words(attribute))
    text = f"Questions wanted: {count}\nThe expectation: {expectation}"
    if there:
        text += f"\n\nThese have been asked and are not to come again:\n{numbered(there)}"
    name = f"questions on {attribute}" + (f", round {number}" if number > 1 else "")
    one = {"question": "word " * 15, "good_answer": "yes"}
    step = Step(
        name=name,
        role="language",
        system=system,
        text=text,
        schema=ASKED,
        check=lambda value: value,
        assumed={"questions": [{**one, "question": f"{at} {one['question']}"} for at in range(count)]},
    )
    return attempts.ask(step, lambda value: read_questions(value, count, there))


def read_questions(value: Any, count: int, there: Sequence[str] = ()) -> list[Question]:
    """Return the questions of an answer.

    Raises
    ------
    NotJudged
        `not_understood` for another number of them, one that is there twice, or none at all.
    """
    found = value.get("questions") if isinstance(value, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise NotJudged(Failure.NOT_UNDERSTOOD, "the answer has no list of objects 'questions'")
    if len(found) != count:
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"the answer has {len(found)} questions, {count} are wanted")
    made = [
        Question.model_validate(
            {"question": text_in(one, "question"), "polarity": POLARITY[word_in(one, "good_answer", YES_NO)]}
        )
        for one in found
    ]
    seen = {text.casefold() for text in there}
    for question in made:
        if question.question.casefold() in seen:
            raise NotJudged(Failure.NOT_UNDERSTOOD, f"the question {question.question[:80]!r} is there twice")
        seen.add(question.question.casefold())
    return made


def _good_answers(
    attempts: Attempts, attribute: str, expectation: str, questions: Sequence[str]
) -> list[str]:
    count = len(questions)
    one = {"reason": "word " * 15, "good_answer": "yes"}
    step = Step(
        name=f"polarity of questions on {attribute}",
        role="language",
        system=instruction("make_polarity", attempts.settings.prompts),
        text=f"The expectation: {expectation}\n\nThe questions:\n{numbered(questions)}",
        schema=CHECKED,
        check=lambda value: value,
        assumed={"questions": [{"number": number, **one} for number in range(1, count + 1)]},
    )
    return attempts.ask(
        step,
        lambda value: [
            word_in(entry, "good_answer", YES_NO) for entry in entries_by_number(value, "questions", count)
        ],
    )


def _words(attribute: str) -> str:
    return attribute.replace("_", " ")
