"""Human expectation realization degree: binary questions about a video, whose good answer is known.

The number is the share of good answers among those that are yes or no; unclear answers are ignored. The model
knows neither the prompt nor the good answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import ValidationError

from storage_schemas.judgements import Failure
from storage_schemas.model import Frozen
from storage_schemas.value_problems import first_error
from tasks.extras.locot2v.askers import Comparer
from tasks.extras.locot2v.measure import (
    Measure,
    Value,
    entries_by_number,
    instruction,
    numbered,
    word_in,
)
from tasks.llm.answers import objects
from tasks.llm.conversation import Role, Step
from tasks.llm.prompt_files import filled
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import SuitePrompt
from tasks.scoring.suites.shown_videos import SampledVideo

ANSWERS = ("yes", "no", "unclear")
_TEXT: Mapping[str, Any] = {"type": "string"}
_ANSWER = objects(
    {
        "number": {"type": "integer"},
        "reason": _TEXT,
        "answer": {"type": "string", "enum": list(ANSWERS)},
    }
)
SCHEMA = objects({"answers": {"type": "array", "items": _ANSWER}})


class HerdQuestion(Frozen):
    """A question of which ``yes`` (positive) or ``no`` (negative) is the good answer."""

    question: str
    polarity: Literal["positive", "negative"]


def questions_of(prompt: SuitePrompt, attribute: str) -> list[HerdQuestion]:
    """Return the questions of an attribute from the prompt's details.

    Raises
    ------
    NotJudged
        `no_answer` if there are none, `not_understood` if one is invalid.
    """
    by_attribute = prompt.details.get("questions")
    given = by_attribute.get(attribute) if isinstance(by_attribute, Mapping) else None
    if not given:
        raise NotJudged(Failure.NO_ANSWER, f"the prompt has no questions on {attribute}")
    if not isinstance(given, list | tuple):
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"the prompt's questions on {attribute} are not a list")
    questions = []
    for number, one in enumerate(given, 1):
        try:
            questions.append(HerdQuestion.model_validate(one))
        except ValidationError as problem:
            why = f"question {number} on {attribute}: {first_error(problem)}"
            raise NotJudged(Failure.NOT_UNDERSTOOD, why) from problem
        if not questions[-1].question.strip():
            raise NotJudged(Failure.NOT_UNDERSTOOD, f"question {number} on {attribute} is empty")
    return questions


def consistent_share(questions: Sequence[HerdQuestion], answers: Sequence[str]) -> float | None:
    """Return the share of good answers among yes and no; None if all are unclear.

    Examples
    --------
    >>> good, bad = (Question(question="?", polarity=polarity) for polarity in ("positive", "negative"))
    >>> consistent_share([good, bad, bad, good], ["yes", "no", "yes", "unclear"])
    0.6666666666666666
    """
    good = {"positive": "yes", "negative": "no"}
    decided = [
        answer == good[question.polarity]
        for question, answer in zip(questions, answers, strict=True)
        if answer != "unclear"
    ]
    return sum(decided) / len(decided) if decided else None


class Herd(Measure):
    """One of the seven attributes."""

    roles: ClassVar[Sequence[Role]] = ("multimodal",)
    messages: ClassVar[Sequence[str]] = ("questions_user", "video_line")
    uses: ClassVar[frozenset[str]] = Measure.uses | {"questions_at_once"}

    def instructions(self) -> Mapping[str, str]:
        """Return the instructions for answering questions."""
        return {"questions": instruction("questions", self.settings.prompts)}

    def value(self, asker: Comparer, prompt: SuitePrompt, film: SampledVideo, repeat: int) -> Value:
        """Return the share of good answers."""
        questions = questions_of(prompt, self.dimension.name)
        answers: list[str] = []
        at_once = self.settings.questions_at_once
        for first in range(0, len(questions), at_once):
            answers += asker.ask(self._step(film, questions[first : first + at_once], repeat))
        share = consistent_share(questions, answers)
        if share is None:
            raise NotJudged(Failure.NO_ANSWER, f"all {len(questions)} questions were left unclear")
        details = [
            {"question": question.question, "polarity": question.polarity, "answer": answer}
            for question, answer in zip(questions, answers, strict=True)
        ]
        return Value(share, {"questions": details, "unclear": answers.count("unclear")})

    def _step(self, film: SampledVideo, questions: Sequence[HerdQuestion], repeat: int) -> Step:
        count = len(questions)
        one = {"reason": "word " * 15, "answer": "yes"}
        return Step(
            name=f"questions on {self.dimension.name}",
            role="multimodal",
            system=self.instructions()["questions"],
            text=filled(
                self.told("questions_user"),
                questions=numbered([question.question for question in questions]),
            ),
            schema=SCHEMA,
            check=lambda value: [
                word_in(entry, "answer", ANSWERS) for entry in entries_by_number(value, "answers", count)
            ],
            assumed={"answers": [{"number": number, **one} for number in range(1, count + 1)]},
            exhibit=self.settings.exhibit(film),
            what={"repeat": repeat},
        )
