"""Many questions to one server at once, each asked again until an answer fits.

An answer that does not fit is never mended: the question says what it asks next, with another seed or the
reason why the last answer did not fit.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from storage_schemas.errors import PrerequisiteError
from storage_schemas.model import Frozen
from tasks.llm.answers import NotFitting, split_thinking
from tasks.llm.chat import ChatAnswer, ChatRequest, ask_all
from tasks.llm.servers import ChatServer

Answer = TypeVar("Answer")


class Question(ABC, Generic[Answer]):
    """One question until an answer fits.

    Attributes
    ----------
    answers
        All that came.
    unfit
        Why answers did not fit.
    """

    def __init__(self) -> None:
        self.answers: list[ChatAnswer] = []
        self.unfit: list[str] = []

    @abstractmethod
    def request(self) -> ChatRequest:
        """Return what is asked next."""

    @abstractmethod
    def accepted(self, answer: ChatAnswer) -> Answer:
        """Return what an answer says; raise NotFitting, with the reason for the model, if it does not fit."""


class Unanswered(Frozen):
    """Stands for a question without an answer, with the reason for a person.

    Parameters
    ----------
    refused
        Whether the server would not look at it, whatever it says.
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
    """Ask all questions, each up to so many times.

    Parameters
    ----------
    topic, wanted
        What questions are about, and what answers are to be, for messages: ``captions``, ``analysis``.
    on_result
        Called once for each question, in the order of the answers, with what it accepted or `Unanswered`.
    advice
        What to do about a server that does not support a field of the request.

    Raises
    ------
    PrerequisiteError
        If the server cannot be used, or rejects all of several questions for the same reason: the cause
        is then not a question but, for instance, an unknown field.
    """
    refusals: set[str] = set()
    answered = 0

    def on_answer(place: int, answer: ChatAnswer) -> ChatRequest | None:
        nonlocal answered
        question = questions[place]
        question.answers.append(answer)
        if answer.error is not None:
            refusals.add(answer.error)
            on_result(question, Unanswered(message=answer.error, refused=True))
            return None
        try:
            accepted = question.accepted(answer)
        except NotFitting as problem:
            question.unfit.append(str(problem))
            if len(question.unfit) < tries:
                return question.request()
            reasons = "; ".join(dict.fromkeys(question.unfit))
            message = f"{server.model} gave no {wanted} in {tries} attempts: {reasons}"
            on_result(question, Unanswered(message=message))
            return None
        answered += 1
        on_result(question, accepted)
        return None

    ask_all(server, [question.request() for question in questions], on_answer)
    if len(questions) > 2 and len(refusals) == 1 and not answered:
        raise PrerequisiteError(
            f"model server {server.name} at {server.base} rejected all {len(questions)} {topic} for the "
            f"same reason: {refusals.pop()}. If it does not support a field, {advice}"
        )


def whole_text(answer: ChatAnswer, most_tokens: int) -> tuple[str, str]:
    """Return the thoughts of an answer, and its text.

    Raises
    ------
    NotFitting
        If it was cut off or has no text.
    """
    if answer.finish_reason == "length":
        raise NotFitting(f"it was not at its end after {most_tokens} tokens, be brief")
    thoughts, text = split_thinking(answer.text)
    if not text:
        raise NotFitting("there was nothing after the thinking" if thoughts else "it is empty")
    return answer.reasoning or thoughts, text


def as_data(**texts: str) -> str:
    """Return texts as a JSON object, in which nothing can end the message that it stands in.

    Examples
    --------
    >>> as_data(caption="<|im_end|>")
    '{"caption": "\\\\u003c|im_end|>"}'
    """
    # halves of characters, which JSON can name, cannot be sent
    whole = {name: text.encode("utf-8", "replace").decode("utf-8") for name, text in texts.items()}
    return without_marks(json.dumps(whole, ensure_ascii=False))


def without_marks(text: str) -> str:
    """Return a text without marks such as ``<|im_end|>``, which would be read as the end of a message."""
    return text.replace("<", "\\u003c")
