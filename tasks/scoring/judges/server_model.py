"""A model behind a server, as evaluators of other packages ask it: ``slvmeval.model_servers``."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from storage_schemas.errors import UserInputError
from storage_schemas.ids import canonical_json
from storage_schemas.judgements import Choice, Failure, Judgement
from storage_schemas.model import Frozen
from tasks.llm.answer_store import open_answers
from tasks.llm.answers import ask, complete, discounted, make_request, not_understood, usage_of
from tasks.llm.chat import client_of
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.json_answers import AnswerForm, value_in
from tasks.llm.requests import AnswerNotStored, Calls, Parts, read
from tasks.llm.servers import ChatServer, check_server
from tasks.llm.usage import Estimate, MeasuredTokens, NotJudged, Usage, of_judgements, total_usage
from tasks.llm.vision_models import MARK_TOKENS, VLM_MODELS, VlmModel
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, JudgeAnswer, Need, PairwiseJudge, Sight
from tasks.scoring.instructions import CHOICE_SCHEMA
from tasks.scoring.judges.frame_images import image_parts, image_size
from tasks.scoring.judges.vlm import vlm_model
from tasks.scoring.setup import Setup

#: Folder below the store of answers that several requests of packages' evaluators share.
SHARED_ANSWERS = "judgements/answers"


@dataclass(frozen=True)
class Frames:
    """Frames of a video in a question, each sent as an image.

    Parameters
    ----------
    indices
        Positions of the frames.
    """

    video: Side
    indices: Sequence[int]

    @classmethod
    def evenly(cls, video: Side, count: int) -> Frames:
        """Return at most `count` frames at equal distances, the first and the last among them."""
        indices = np.linspace(0, len(video) - 1, min(count, len(video)))
        return cls(video, [round(index) for index in indices])


@dataclass(frozen=True)
class ModelQuestion:
    """A question to a model.

    Parameters
    ----------
    content
        Texts and frames of the user's message, in order.
    schema
        JSON Schema of the answer, an object; by default ``{"better": "first"}`` or ``"second"``.
    system
        The system message; empty for none.
    read
        Converts the JSON value of an answer, and raises ValueError if that is not valid. By
        default the value itself.
    """

    content: Sequence[str | Frames]
    schema: Mapping[str, Any] = field(default_factory=lambda: CHOICE_SCHEMA)
    system: str = ""
    read: Callable[[Any], Any] | None = None

    @property
    def frames(self) -> int:
        """Number of frames."""
        return sum(len(part.indices) for part in self.content if isinstance(part, Frames))


@dataclass(frozen=True)
class ModelAnswer:
    """An answer.

    Parameters
    ----------
    value
        The JSON value, or what the question's `read` makes of it.
    text, reasoning, finish_reason
        As the model gave them.
    model
        The model that answered.
    usage
        Its usage, with that of the answers before it; none for a stored answer.
    details
        Estimated and counted tokens, for a row's details.
    """

    value: Any
    text: str
    model: str
    reasoning: str = ""
    finish_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    details: Mapping[str, Any] = field(default_factory=dict)

    def judged(self, choice: Choice, **details: Any) -> JudgeAnswer:
        """Return a judge's answer with the text and the cost of this one, and further `details`."""
        return JudgeAnswer(
            choice,
            raw=self.text,
            reasoning=self.reasoning,
            finish_reason=self.finish_reason,
            model=self.model,
            usage=self.usage,
            details={**self.details, **details},
        )


class ServerModel:
    """A model behind a server of the profile.

    Requests are retried within the server's patience and limited to its concurrency. Answers have their
    tokens, from which rows get dollars and the limits of a run are kept.

    Parameters
    ----------
    setup
        The parameter `setup` of the evaluator's class.
    model
        The model's id at its server, or a predefined one: ``gpt-5``, ``gpt-5-mini``, ``qwen3-vl``.
    server
        Name of the server in the profile's ``[model_servers]``, its address, or ``openai``, ``anthropic``,
        ``google``.
        Predefined models have one.
    settings
        Further fields of :class:`~tasks.llm.vision_models.VlmModel`, such as ``temperature=0.0``.

    Raises
    ------
    UserInputError
        For an unknown field, or one of the built-in judges.
    PrerequisiteError
        If the profile does not name the server.
    """

    def __init__(self, setup: Setup, model: str, server: str | None = None, **settings: Any) -> None:
        self.model = _model(model, server, settings)
        self._client = client_of(setup.servers.find(self.model.server, self.model.model))
        answers = open_answers(setup.store.root / SHARED_ANSWERS)
        self._calls = Calls(self.model, self._client, answers)
        self._measured = MeasuredTokens()

    @property
    def server(self) -> ChatServer:
        """The server."""
        return self._client.server

    @property
    def concurrency(self) -> int:
        """The profile's limit of concurrent requests."""
        return self.server.concurrency

    def settings(self) -> dict[str, Any]:
        """Return everything that answers depend on besides the question, JSON-serialisable."""
        return self.model.settings(lambda: self.server.base)

    def check(self) -> None:
        """Check that the server answers and has the model; raise PrerequisiteError if not."""
        check_server(self.server)

    def ask(self, question: ModelQuestion, after: Sequence[ModelAnswer] = ()) -> ModelAnswer:
        """Ask now, and return the answer, which is stored with the row that it becomes.

        Parameters
        ----------
        after
            Earlier answers for the same row, whose cost counts in it whether this one fails or not.

        Raises
        ------
        NotJudged
            If there is no valid answer; it has the cost of the request and of those before.
        """

        def asked(expected: int) -> ModelAnswer:
            parts = self._parts(question)
            answer = ask(self._client, self.model, question.system, parts, question.schema)
            return self._answer(question, answer, expected)

        return self._with_cost(question, after, asked)

    def ask_once(self, question: ModelQuestion, after: Sequence[ModelAnswer] = ()) -> ModelAnswer:
        """Return the stored answer to this very question, or ask and store it.

        It is for work that several rows share, such as the description of a video. An answer to a comparison
        is not shared: with ``--repeats`` it has to be asked again, by :meth:`ask`.

        Parameters
        ----------
        after
            As for :meth:`ask`.

        Raises
        ------
        NotJudged
            If there is no valid answer.
        """

        def asked(expected: int) -> ModelAnswer:
            got = self._calls.ask(
                _identity(question),
                question.system,
                lambda: self._parts(question),
                question.schema,
                lambda value: _read(question, value),
                lambda: {"expected_in": expected, "frames": question.frames},
            )
            usage = replace(got.usage, frames=question.frames if got.calls else 0).expecting(expected)
            return ModelAnswer(got.value, got.stored.text, got.stored.model, got.reasoning, usage=usage)

        return self._with_cost(question, after, asked)

    def request(self, question: ModelQuestion) -> ChatRequest:
        """Return the request of a question, for a batch; raise NotJudged if it does not fit."""
        self._require_room(question, self._tokens(question))
        return make_request(self.model, question.system, self._parts(question), question.schema)

    def answer_in(self, question: ModelQuestion, given: ChatAnswer) -> ModelAnswer:
        """Return the answer in what came back for :meth:`request`; raise NotJudged if there is none."""

        def read_given(expected: int) -> ModelAnswer:
            return self._answer(question, complete(given, self.model.answers), expected)

        return self._with_cost(question, (), read_given)

    def estimate(self, question: ModelQuestion, aspect: AspectText, once: bool = False) -> Estimate | None:
        """Return the estimated cost of a question, quickly and without a request.

        Parameters
        ----------
        aspect
            Lengths of answers are measured by aspect.
        once
            Whether it is for :meth:`ask_once`, which several requests share; None if that is answered.
        """
        key = self._calls.key(_identity(question), question.system, question.schema) if once else ""
        if once and self._calls.answers.find(key) is not None:
            return None
        assumed = self.model.thinking_tokens + self.model.text_tokens(canonical_json(question.schema)) // 2
        return Estimate(
            images=question.frames,
            tokens_in=self._measured.tokens_in(self._tokens(question)),
            tokens_out=self._measured.tokens_out(aspect.name, assumed),
            model=self.model.model,
            once=key,
        )

    def learn(self, rows: Sequence[Judgement]) -> str:
        """Base estimates on stored answers to :meth:`ask`; return in words what they rest on."""
        self._measured = of_judgements(rows)
        basis = self._measured.describe("answers") if self._measured.answers else self.model.assumes()
        return "; ".join(filter(None, (basis, self.model.borrowed())))

    def _with_cost(
        self, question: ModelQuestion, after: Sequence[ModelAnswer], asked: Callable[[int], ModelAnswer]
    ) -> ModelAnswer:
        """Return an answer with the cost of those before it, which a failure has, too."""
        expected = self._tokens(question)
        try:
            self._require_room(question, expected)
            answer = asked(expected)
        except (NotJudged, AnswerNotStored) as problem:
            failed = problem
            if isinstance(problem, AnswerNotStored):
                failed = NotJudged(Failure.INTERNAL_ERROR, str(problem), usage=problem.usage)
            own = replace(failed.usage, frames=question.frames).expecting(expected)
            failed.usage = _together(own, self.model.model, after)
            raise failed from problem
        return replace(answer, usage=_together(answer.usage, answer.model, after))

    def _answer(self, question: ModelQuestion, answer: ChatAnswer, expected: int) -> ModelAnswer:
        value, found = read(
            answer.text, answer, lambda value: _read(question, value), question.schema, self.model.answers
        )
        _require_agreement(answer, question.schema, self.model.answers)
        counted = {"expected_in": expected, "in": answer.tokens_in or 0, "out": answer.tokens_out or 0}
        how = ", ".join(filter(None, (answer.found, found)))
        return ModelAnswer(
            value,
            answer.text,
            answer.model or self.model.model,
            answer.reasoning,
            answer.finish_reason or "",
            usage_of(answer, frames=question.frames).expecting(expected),
            {"tokens": {**counted, **discounted(answer)}, **({"found": how} if how else {})},
        )

    def _parts(self, question: ModelQuestion) -> Parts:
        parts: Parts = []
        for part in question.content:
            if isinstance(part, str):
                parts.append({"type": "text", "text": part})
            else:
                parts += image_parts(part.video, part.indices, self.model)
        return parts

    def _tokens(self, question: ModelQuestion) -> int:
        """Return the approximate number of tokens of a question."""
        texts = [question.system, *(part for part in question.content if isinstance(part, str))]
        images = sum(
            len(part.indices)
            * self.model.image_tokens(*image_size(part.video.width, part.video.height, self.model.image_side))
            for part in question.content
            if isinstance(part, Frames)
        )
        return self.model.text_tokens("".join(texts)) + images + MARK_TOKENS + self.model.schema_tokens

    def _require_room(self, question: ModelQuestion, tokens: int) -> None:
        if tokens > self.model.request_tokens() or question.frames > self.model.most_images:
            raise NotJudged(
                Failure.CONTEXT_TOO_LONG,
                f"about {tokens:,} tokens with {question.frames:,} images: a request has at most "
                f"{self.model.request_tokens():,} (context_tokens less answer_tokens) and "
                f"{self.model.most_images:,} (most_images)",
            )


def _model(name: str, server: str | None, settings: Mapping[str, Any]) -> VlmModel:
    for field_ in _OF_BUILT_IN_JUDGES & set(settings):
        raise UserInputError(f"{field_} is a setting of the built-in judges: a package chooses what it sends")
    given = {**settings, **({} if server is None else {"server": server})}
    model = vlm_model(name, given if name in VLM_MODELS else {"model": name, **given})
    return model.model_copy(update={"frames": "all", "frames_as": "images"})


#: How the built-in judges choose and send frames, and what only they read of an answer.
_OF_BUILT_IN_JUDGES = {"frames", "frames_as", "video_pixels", "video_frame_tokens", "logprobs"}


def _identity(question: ModelQuestion) -> dict[str, Any]:
    """Return what a shared answer depends on besides model, system message and schema; no frame is read."""
    return {
        "content": [
            part if isinstance(part, str) else part.video.frame_ids(part.indices) for part in question.content
        ]
    }


def _read(question: ModelQuestion, value: Any) -> Any:
    """Return what a question makes of a JSON value.

    Raises
    ------
    NotJudged
        `not_understood` if it is not an object of its schema, as far as keys and words of an `enum` go.
    """
    fields = question.schema.get("properties", {})
    if not isinstance(value, dict):
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"the answer is not an object but {value!r:.60}")
    for name in question.schema.get("required", fields):
        if name not in value:
            raise NotJudged(Failure.NOT_UNDERSTOOD, f"the answer has no {name!r}")
    for name, one in value.items():
        if one not in fields.get(name, {}).get("enum", [one]):
            raise NotJudged(Failure.NOT_UNDERSTOOD, f"the answer has {name} = {one!r:.60}")
    try:
        return value if question.read is None else question.read(value)
    except ValueError as problem:
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"the answer is not valid: {problem}") from problem


def _require_agreement(answer: ChatAnswer, schema: Mapping[str, Any], form: AnswerForm) -> None:
    """Raise NotJudged if the words after an answer's object name another word of an `enum` than it does."""
    found = value_in(answer.text, schema, form)
    for name, one in found.value.items():
        for word in schema.get("properties", {}).get(name, {}).get("enum", ()):
            if word != one and re.search(rf"\b{re.escape(str(word))}\b", found.after, re.IGNORECASE):
                raise not_understood(answer, f"{one} and, after it, {word}")


def _together(usage: Usage, model: str, before: Sequence[ModelAnswer]) -> Usage:
    """Return the cost of a request with that of those before it, each by its own model's price."""
    usages = [one.usage if one.model == model else one.usage.by_model(one.model) for one in before]
    return total_usage([*usages, usage]) if before else usage


class ModelJudge(PairwiseJudge):
    """A judge whose comparison is one question to one model: it can be asked in batches.

    Subclasses write :meth:`question`, and add what it depends on to :meth:`settings`.

    Parameters
    ----------
    model
        The model.
    """

    sees: ClassVar[tuple[Sight, ...]] = ("frames", "captions")
    needs: ClassVar[tuple[Need, ...]] = ("server",)
    paid: ClassVar[bool] = True
    settings_model: ClassVar[type[Frozen] | None] = VlmModel

    def __init__(self, model: ServerModel) -> None:
        self.model = model

    @abstractmethod
    def question(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> ModelQuestion:
        """Return the question of a comparison, quickly: frames that it names are read later."""

    def choice(self, answer: ModelAnswer) -> Choice:
        """Return the choice in an answer; by default that of the default schema, ``better``."""
        choice: Choice = answer.value["better"]
        return choice

    def settings(self) -> dict[str, Any]:
        """Return the model with its sampling; subclasses add the texts of their question."""
        return {"model": self.model.settings()}

    def check(self) -> None:
        """Check that the server answers and has the model."""
        self.model.check()

    @property
    def concurrency(self) -> int:
        """The profile's limit of concurrent requests for the server."""
        return self.model.concurrency

    @property
    def server(self) -> ChatServer:
        """The model's server."""
        return self.model.server

    def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
        """Ask, and return the choice."""
        return self._judged(self.model.ask(self.question(prompt, first, second, aspect)))

    def make_request(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> ChatRequest:
        """Return the request of a comparison, for a batch."""
        return self.model.request(self.question(prompt, first, second, aspect))

    def read_answer(
        self, answer: ChatAnswer, prompt: str, first: Side, second: Side, aspect: AspectText
    ) -> JudgeAnswer:
        """Return the choice in the response to a request of :meth:`make_request`."""
        return self._judged(self.model.answer_in(self.question(prompt, first, second, aspect), answer))

    def estimate(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> Estimate | None:
        """Return the estimated cost of a comparison."""
        return self.model.estimate(self.question(prompt, first, second, aspect), aspect)

    def learn(self, rows: Sequence[Judgement]) -> str:
        """Base estimates on stored answers."""
        return self.model.learn(rows)

    def _judged(self, answer: ModelAnswer) -> JudgeAnswer:
        return answer.judged(self.choice(answer))
