"""One step of a conversation with a model: asked for real, or reckoned with for a dry run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from storage_schemas.errors import SetAside, StoreError
from storage_schemas.ids import digest_text, digest_value
from storage_schemas.judgements import Failure
from tasks.llm.requests import Calls, Check, NotKept, Parts, read
from tasks.llm.usage import Estimate, ModelUsage, NotJudged, Usage
from tasks.llm.vision_models import LINE_TOKENS, MARK_TOKENS, SuiteModel
from tasks.scoring.suites.video_bench.frames import (
    SampledVideo,
    ShownFrames,
    images_tokens,
    shown_frames,
    shown_parts,
)
from tasks.scoring.suites.video_bench.settings import VideoBenchSettings

Role = Literal["multimodal", "language"]


@dataclass(frozen=True)
class Step:
    """A request before it is made.

    Parameters
    ----------
    name, role
        What messages call it, and which model answers.
    system, text
        What the model is told.
    films
        The videos it sees, by what the request calls them.
    schema, check
        What its answer looks like.
    assumed
        An answer of usual length, for estimates.
    what
        What else the answer depends on: the repeat.
    """

    name: str
    role: Role
    system: str
    text: str
    films: Mapping[str, SampledVideo]
    schema: Mapping[str, Any]
    check: Check
    assumed: Mapping[str, Any]
    what: Mapping[str, Any]


class UnreadableVideo(NotJudged):
    """Frames of one video of a request cannot be read; nothing was asked.

    Parameters
    ----------
    number
        Which of the request's videos, from 0.
    """

    def __init__(self, number: int, message: str, usage: Usage | None = None) -> None:
        super().__init__(Failure.VIDEO_UNREADABLE, message, usage=usage)
        self.number = number


@contextmanager
def readable(number: int) -> Iterator[None]:
    """Turn what a damaged video raises into a failure of that video alone."""
    try:
        yield
    except (SetAside, StoreError, OSError) as problem:
        raise UnreadableVideo(number, f"{type(problem).__name__}: {problem}") from problem


@dataclass(frozen=True)
class Roles:
    """Both models, and how frames are chosen for one dimension."""

    dimension: str
    settings: VideoBenchSettings
    multimodal: Calls
    language: Calls

    def calls(self, role: Role) -> Calls:
        """Return who answers."""
        return self.multimodal if role == "multimodal" else self.language

    def model(self, role: Role) -> SuiteModel:
        """Return the model of a role."""
        model = self.calls(role).model
        if not isinstance(model, SuiteModel):
            raise TypeError(f"{model!r} is no SuiteModel")
        return model

    def shown(self, step: Step) -> tuple[list[ShownFrames], int]:
        """Return the frames of a step's videos, and the tokens of the whole request, about.

        Raises
        ------
        NotJudged
            As :func:`~tasks.scoring.suites.video_bench.frames.shown_frames`, or
            `context_too_long` for a text alone.
        """
        model = self.model(step.role)
        tokens = model.text_tokens(step.system + step.text) + MARK_TOKENS + model.schema_tokens
        tokens += LINE_TOKENS * len(step.films)
        if not step.films:
            if tokens > model.request_tokens():
                raise NotJudged(
                    Failure.CONTEXT_TOO_LONG,
                    f"a text of about {tokens} tokens and an answer do not fit into {model.context_tokens}",
                )
            return [], tokens
        films = list(step.films.values())
        shown = shown_frames(films, self.dimension, self.settings, model, tokens)
        return shown, tokens + images_tokens(shown, model)

    def key_of(self, step: Step, shown: Sequence[ShownFrames]) -> dict[str, Any]:
        """Return all that the answer to a step depends on, JSON-able.

        Raises
        ------
        Unreadable
            If a video cannot be read.
        """
        videos = []
        for number, (name, one) in enumerate(zip(step.films, shown, strict=True)):
            with readable(number):
                videos.append([name, one.key()])
        return {"suite": "video-bench", "text": step.text, "videos": videos, **step.what}


class Asker(Protocol):
    """Gives the answer to a step, as its check returns it."""

    def ask(self, step: Step) -> Any:
        """Return the answer.

        Raises
        ------
        NotJudged
            If there is none.
        """


@dataclass
class Asking:
    """Asks for real, and notes what was said and what it took."""

    roles: Roles
    conversation: list[dict[str, Any]] = field(default_factory=list)
    frames: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    calls: int = 0
    _usages: list[tuple[Role, str, Usage]] = field(default_factory=list)

    def ask(self, step: Step) -> Any:
        """Return a model's answer, kept or new; what was paid until a failure is in the failure."""
        calls, expected = self.roles.calls(step.role), 0
        try:
            shown, expected = self.roles.shown(step)

            def parts() -> Parts:
                images = self._images(step, shown)
                return [{"type": "text", "text": step.text}, *images]

            answer = calls.ask(self.roles.key_of(step, shown), step.system, parts, step.schema, step.check)
        except UnreadableVideo as problem:
            raise UnreadableVideo(problem.number, problem.message, self.usage()) from problem
        except NotJudged as problem:
            self._note(step.role, calls.model.model, problem.usage)
            paid = bool(problem.usage.tokens_in or problem.usage.tokens_out)
            self.calls += int(paid)
            if problem.raw:
                self._said(step, calls.model.model, problem.raw, paid, expected, problem.usage)
            raise NotJudged(
                problem.failure,
                f"{step.name}: {problem.message}",
                raw=problem.raw,
                finish_reason=problem.finish_reason,
                usage=self.usage(),
            ) from problem
        except NotKept as problem:
            self._note(step.role, calls.model.model, problem.usage)
            self.calls += 1
            raise
        self.calls += answer.calls
        self._note(step.role, answer.model, answer.usage)
        if shown:
            self.frames = {name: one.details() for name, one in zip(step.films, shown, strict=True)}
        self._said(step, answer.model, answer.value, bool(answer.calls), expected, answer.usage)
        return answer.value

    def _said(self, step: Step, model: str, answer: Any, paid: bool, expected: int, usage: Usage) -> None:
        if step.role == "multimodal":
            self.model = model
        self.conversation.append(
            {
                "step": step.name,
                "model": model,
                "told": digest_text(step.system),
                "answer": answer,
                "kept": not paid,
                "tokens": {"expected_in": expected, "in": usage.tokens_in, "out": usage.tokens_out},
            }
        )

    def _images(self, step: Step, shown: Sequence[ShownFrames]) -> Parts:
        parts: Parts = []
        for number, (name, one) in enumerate(zip(step.films, shown, strict=True)):
            with readable(number):
                parts += shown_parts(name, one, self.roles.model(step.role))
        return parts

    def _note(self, role: Role, model: str, usage: Usage) -> None:
        self._usages.append((role, model, usage))

    def usage(self) -> Usage:
        """Return what all steps took until now; the language model's share stands apart."""
        own = [usage for role, _, usage in self._usages if role == "multimodal"]
        others = tuple(
            ModelUsage(model, usage.tokens_in, usage.tokens_out)
            for role, model, usage in self._usages
            if role == "language" and (usage.tokens_in or usage.tokens_out)
        )
        return Usage(
            frames=sum(one["frames"] for one in self.frames.values()),
            tokens_in=sum(usage.tokens_in for usage in own),
            tokens_out=sum(usage.tokens_out for usage in own),
            seconds=sum(usage.seconds for *_, usage in self._usages),
            tries=sum(usage.tries for *_, usage in self._usages),
            others=others,
        )

    def details(self) -> dict[str, Any]:
        """Return the conversation and the frames, JSON-able."""
        return {"conversation": self.conversation, "frames": self.frames}


@dataclass
class Reckoning:
    """Asks nobody: answers that are kept are taken, others assumed, and noted as estimates."""

    roles: Roles
    estimates: list[Estimate] = field(default_factory=list)
    _rests_on: str = ""

    def ask(self, step: Step) -> Any:
        """Return the kept answer, else one of usual length."""
        calls, model = self.roles.calls(step.role), self.roles.model(step.role)
        shown, tokens_in = self.roles.shown(step)
        key = calls.key(self.roles.key_of(step, shown), step.system, step.schema)
        kept = calls.kept.find(key)
        if kept is not None:
            return read(kept.text, None, step.check)
        # what rests on an assumed answer rests on that video, though the words are those of all videos
        self._rests_on = digest_value([self._rests_on, key]) if self._rests_on else key
        texts = model.text_tokens(str(dict(step.assumed)))
        self.estimates.append(
            Estimate(
                images=sum(one.images for one in shown),
                tokens_in=tokens_in,
                tokens_out=model.thinking_tokens + texts,
                model=model.model,
                once=self._rests_on,
            )
        )
        return step.check(dict(step.assumed))
