"""Ask one server many questions concurrently, repeating each until its answer is valid.

An invalid answer is never repaired: the question makes the next request, with another seed or the reason why
the last answer was rejected.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from storage_schemas.errors import PrerequisiteError
from storage_schemas.judgements import Failure
from storage_schemas.model import Frozen
from tasks.llm.answers import UnusableAnswer, split_thinking, took_for_reasoning
from tasks.llm.chat import ask_all
from tasks.llm.exchange import TOO_LARGE, ChatAnswer, ChatRequest
from tasks.llm.json_answers import AnswerForm, value_in
from tasks.llm.meter import MAX_EQUAL_REJECTIONS
from tasks.llm.servers import ChatServer

Answer = TypeVar("Answer")


class Question(ABC, Generic[Answer]):
    """One question until an answer is valid.

    Attributes
    ----------
    answers
        All answers so far.
    unfit
        Why answers were rejected.
    """

    def __init__(self) -> None:
        self.answers: list[ChatAnswer] = []
        self.unfit: list[str] = []

    @abstractmethod
    def request(self) -> ChatRequest:
        """Return the next request."""

    @abstractmethod
    def accepted(self, answer: ChatAnswer) -> Answer:
        """Return the result of an answer; raise UnusableAnswer, with a reason that the model may see."""


class Unanswered(Frozen):
    """The result of a question without a valid answer.

    Parameters
    ----------
    message
        Why.
    refused
        Whether the server rejected the request itself.
    """

    message: str
    refused: bool = False


AnyQuestion = TypeVar("AnyQuestion", bound="Question[Any]")


def ask_questions(
    server: ChatServer,
    questions: Sequence[AnyQuestion],
    tries: int,
    topic: str,
    wanted: str,
    on_result: Callable[[AnyQuestion, Any], None],
    advice: str,
) -> None:
    """Ask all questions, each until its answer is valid or the attempts are used up.

    Parameters
    ----------
    tries
        Maximum attempts per question.
    topic, wanted
        Subject of the questions and of the answers, for messages: ``captions``, ``analysis``.
    on_result
        Called once per question as answers arrive, with the accepted result or `Unanswered`.
    advice
        What to do if the server does not support a field of the request.

    Raises
    ------
    PrerequisiteError
        If the server cannot be used, or rejects all of several questions for the same reason: the cause
        is then not a question but, for instance, an unknown field.
    """
    refusals: Counter[str] = Counter()
    answered = False

    def every_one_rejected(count: int) -> PrerequisiteError:
        return PrerequisiteError(
            f"{server.where} rejected all {count} {topic} for the same reason: "
            f"{next(iter(refusals))}. If it does not support a field, {advice}"
        )

    def on_answer(index: int, answer: ChatAnswer) -> ChatRequest | None:
        nonlocal answered
        question = questions[index]
        question.answers.append(answer)
        if answer.error is not None:
            refused = answer.failure is Failure.REFUSED
            on_result(question, Unanswered(message=answer.error, refused=refused))
            refusals[answer.error] += refused
            if not answered and len(questions) > refusals[answer.error] >= MAX_EQUAL_REJECTIONS:
                raise every_one_rejected(refusals[answer.error])
            return None
        answered = True
        try:
            accepted = question.accepted(answer)
        except UnusableAnswer as problem:
            question.unfit.append(str(problem))
            if len(question.unfit) < tries:
                return question.request()
            reasons = "; ".join(dict.fromkeys(question.unfit))
            message = f"{server.model} gave no {wanted} in {tries} attempts: {reasons}"
            on_result(question, Unanswered(message=message))
        else:
            on_result(question, accepted)
        return None

    ask_all(server, [question.request() for question in questions], on_answer)
    if len(questions) > 2 and len(refusals) == 1 and refusals.total() == len(questions):
        raise every_one_rejected(len(questions))


def whole_text(answer: ChatAnswer, most_tokens: int, form: AnswerForm = "strict") -> tuple[str, str]:
    """Return the reasoning and the text of an answer.

    Parameters
    ----------
    form
        ``tolerant``: a JSON object in the reasoning is the text of an answer without any.

    Raises
    ------
    UnusableAnswer
        If it was cut off or has no text.
    """
    if answer.refusal is not None:
        raise UnusableAnswer(f"it was refused: {answer.refusal[:200]}")
    if answer.finish_reason == TOO_LARGE:
        raise UnusableAnswer("it was far too long, be brief")
    if answer.finish_reason == "length":
        raise UnusableAnswer(f"it was cut off after {most_tokens} tokens, be brief")
    thoughts, text = split_thinking(answer.text)
    if not text and answer.reasoning:
        with suppress(ValueError):
            value_in(answer.reasoning, {}, form)
            if form == "tolerant":
                return answer.reasoning, answer.reasoning
        raise UnusableAnswer(f"it is empty, {took_for_reasoning(answer)}")
    if not text:
        raise UnusableAnswer("there was nothing after the reasoning" if thoughts else "it is empty")
    return answer.reasoning or thoughts, text


def as_data(**texts: str) -> str:
    """Return texts as a JSON object that cannot end the message around it.

    Examples
    --------
    >>> as_data(caption="<|im_end|>")
    '{"caption": "\\\\u003c|im_end|>"}'
    """
    # lone surrogates, which JSON can represent, cannot be sent
    whole = {name: text.encode("utf-8", "replace").decode("utf-8") for name, text in texts.items()}
    return without_marks(json.dumps(whole, ensure_ascii=False))


def without_marks(text: str) -> str:
    """Return a text with ``<`` escaped: tokens such as ``<|im_end|>`` would end the message."""
    return text.replace("<", "\\u003c")
