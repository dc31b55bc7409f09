"""A conversation with models: its steps, the models in their roles, and how steps are answered.

:class:`LiveAsker` sends steps to servers; :class:`DryRunAsker` sends nothing and estimates the requests. What
a step shows besides its text is an :class:`Exhibit`, so this module does not know videos.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from storage_schemas.ids import digest_text, digest_value
from storage_schemas.judgements import Failure
from tasks.llm.answer_store import AnswerStore
from tasks.llm.answers import discounted
from tasks.llm.chat import client_of
from tasks.llm.requests import AnswerNotStored, Calls, Check, Parts
from tasks.llm.servers import Servers, check_server
from tasks.llm.usage import Estimate, NotJudged, Usage, total_usage
from tasks.llm.vision_models import MARK_TOKENS, VlmModel

#: The part a model plays, such as ``multimodal`` or ``language``.
Role = str


class Shown(Protocol):
    """The part of an exhibit that one request shows to one model."""

    @property
    def frames(self) -> int:
        """Number of frames examined."""

    @property
    def images(self) -> int:
        """Number of images sent."""

    @property
    def tokens(self) -> int:
        """Approximate number of tokens of the images."""

    def key(self) -> Mapping[str, Any]:
        """Return what the images depend on besides the model's settings, JSON-serialisable.

        Raises NotJudged if that cannot be determined.
        """

    def parts(self) -> Parts:
        """Return the parts of a message; raise NotJudged if something cannot be read."""

    def details(self) -> dict[str, Any]:
        """Return a JSON-serialisable description of what was shown."""


class Exhibit(Protocol):
    """What a step shows besides its text."""

    def fit(self, model: VlmModel, text_tokens: int) -> Shown:
        """Return as much as fits beside a text of `text_tokens` tokens; raise NotJudged if nothing does."""


@dataclass(frozen=True)
class Step:
    """One request of a conversation.

    Parameters
    ----------
    name, role
        Name of the step in messages, and role of the model that answers.
    system, text
        System message and text of the user's message.
    schema
        JSON Schema of the answer.
    assumed
        An answer of typical length, for estimates.
    check
        Converts the JSON value of an answer; raises NotJudged if it is invalid. None accepts any value.
    exhibit
        What the model is shown; None for text only.
    what
        Further values that the answer depends on, JSON-serialisable, such as the repeat.
    temperature, seed
        Replace the model's own if a seed is given.
    """

    name: str
    role: Role
    system: str
    text: str
    schema: Mapping[str, Any]
    assumed: Mapping[str, Any]
    check: Check | None = None
    exhibit: Exhibit | None = None
    what: Mapping[str, Any] = field(default_factory=dict)
    temperature: float | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Roles:
    """The models in their roles; servers are looked up when a request is made.

    Parameters
    ----------
    name
        Name of the conversation; part of the key of every answer.
    models
        The model of each role.
    servers
        The model servers.
    answers
        The store of answers.
    """

    name: str
    models: Mapping[Role, VlmModel]
    servers: Servers
    answers: AnswerStore

    def model(self, role: Role) -> VlmModel:
        """Return the model of a role."""
        return self.models[role]

    def calls(self, role: Role) -> Calls:
        """Return the client of a role's model.

        Raises
        ------
        PrerequisiteError
            If the profile does not name the model's server.
        """
        model = self.models[role]
        return Calls(model, client_of(self.servers.find(model.server, model.model)), self.answers)

    def calls_of(self, step: Step) -> Calls:
        """Return the client for a step, with the step's temperature and seed."""
        calls = self.calls(step.role)
        if step.seed is None:
            return calls
        extra = {**calls.model.extra_body, "seed": step.seed}
        model = calls.model.model_copy(update={"temperature": step.temperature, "extra_body": extra})
        return replace(calls, model=model)

    def concurrency(self, role: Role) -> int:
        """Return the number of concurrent requests that the profile allows for a role's server."""
        return self.calls(role).client.server.concurrency

    def settings(self, roles: Iterable[Role]) -> dict[str, Any]:
        """Return the settings that the answers of some roles depend on, by role."""
        return {role: self.models[role].settings(partial(self._address, role)) for role in roles}

    def _address(self, role: Role) -> str:
        return self.calls(role).client.server.base

    def check(self, roles: Iterable[Role]) -> None:
        """Check that the servers of some roles are available and have their models.

        Raises
        ------
        PrerequisiteError
            If one does not answer, refuses the key, or lacks the model.
        """
        for server in dict.fromkeys(self.calls(role).client.server for role in roles):
            check_server(server)

    def fit(self, step: Step) -> tuple[Shown | None, int]:
        """Return what a step shows, and the approximate number of tokens of the whole request.

        Raises
        ------
        NotJudged
            `context_too_long` if the request does not fit, or what the exhibit raises.
        """
        model = self.models[step.role]
        tokens = model.text_tokens(step.system + step.text) + MARK_TOKENS + model.schema_tokens
        if step.exhibit is None:
            if tokens > model.request_tokens():
                raise NotJudged(
                    Failure.CONTEXT_TOO_LONG,
                    f"a text of about {tokens} tokens and an answer do not fit into {model.context_tokens}",
                )
            return None, tokens
        shown = step.exhibit.fit(model, tokens)
        return shown, tokens + shown.tokens

    def key_of(self, step: Step, shown: Shown | None) -> dict[str, Any]:
        """Return everything that a step's answer depends on besides model, system message and schema."""
        return {
            "conversation": self.name,
            "text": step.text,
            "shown": None if shown is None else dict(shown.key()),
            **step.what,
        }


class Asker(Protocol):
    """Answers steps."""

    def ask(self, step: Step) -> Any:
        """Return the answer, converted by the step's check; raise NotJudged if there is none."""


@dataclass
class LiveAsker:
    """Sends steps to servers, and records the conversation and its cost.

    Parameters
    ----------
    conversation
        All steps and answers, JSON-serialisable; invalid answers as raw text.
    shown
        What was shown last, JSON-serialisable.
    model
        The first model that was shown something; until then, the first that answered.
    calls
        Number of requests paid for; stored answers are free.
    """

    roles: Roles
    conversation: list[dict[str, Any]] = field(default_factory=list)
    shown: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    calls: int = 0
    _frames: int = 0
    _usages: list[tuple[str, Usage]] = field(default_factory=list)

    def ask(self, step: Step) -> Any:
        """Return a model's answer, stored or new.

        Raises
        ------
        NotJudged
            If there is none; it names the step, and has the conversation and its cost so far.
        AnswerNotStored
            If the answer cannot be stored.
        """
        calls, expected = self.roles.calls_of(step), 0
        try:
            shown, expected = self.roles.fit(step)
            answer = calls.ask(
                self.roles.key_of(step, shown),
                step.system,
                lambda: [{"type": "text", "text": step.text}, *(() if shown is None else shown.parts())],
                step.schema,
                step.check,
            )
        except NotJudged as problem:
            usage = problem.usage
            usage, paid = usage.expecting(expected), usage.paid
            self.add(calls.model.model, usage, int(paid))
            if problem.raw:
                self._note(step, calls.model.model, problem.raw, not paid, expected, usage)
                self.conversation[-1]["failure"] = problem.failure.value
            problem.message = f"{step.name}: {problem.message}"
            self.failed(problem)
            raise
        except AnswerNotStored as problem:
            self.add(calls.model.model, problem.usage.expecting(expected), 1)
            raise
        if shown is not None:
            self.model = self.model if self.shown else answer.stored.model
            self.shown, self._frames = shown.details(), shown.frames
        self.model = self.model or answer.stored.model
        self.add(answer.stored.model, answer.usage.expecting(expected), answer.calls)
        self._note(step, answer.stored.model, answer.value, not answer.calls, expected, answer.usage)
        if answer.found:
            self.conversation[-1]["found"] = answer.found
        return answer.value

    def _note(self, step: Step, model: str, answer: Any, kept: bool, expected: int, usage: Usage) -> None:
        self.conversation.append(
            {
                "step": step.name,
                "model": model,
                "system": digest_text(step.system),
                "answer": answer,
                "kept": kept,
                "tokens": {
                    "expected_in": expected,
                    "in": usage.tokens_in,
                    "out": usage.tokens_out,
                    **discounted(usage),
                },
            }
        )

    def add(self, model: str, usage: Usage, calls: int) -> None:
        """Count the cost of a request to a model."""
        self._usages.append((model, usage))
        self.calls += calls

    def usage(self) -> Usage:
        """Return the cost of all steps so far; models other than `model` are listed separately."""
        own = total_usage([usage for model, usage in self._usages if model == self.model])
        others = tuple(
            other
            for model, usage in self._usages
            if model != self.model
            for other in usage.by_model(model).others
        )
        return replace(
            own,
            frames=self._frames,
            seconds=sum(usage.seconds for _, usage in self._usages),
            tries=sum(usage.tries for _, usage in self._usages),
            others=others,
        )

    def failed(self, problem: NotJudged) -> NotJudged:
        """Add the conversation and its cost to the error of any step.

        Models are listed separately, because a failure does not name a model and each has its own price.
        """
        problem.usage = self.usage().by_model(self.model)
        problem.calls, problem.details = self.calls, self.details()
        return problem

    def details(self) -> dict[str, Any]:
        """Return the conversation and what was shown last, JSON-serialisable."""
        return {"conversation": self.conversation, "frames": self.shown}


@dataclass
class DryRunAsker:
    """Sends nothing: uses stored answers, assumes the others, and records those as estimates."""

    roles: Roles
    estimates: list[Estimate] = field(default_factory=list)
    _assumed: list[str] = field(default_factory=list)

    def ask(self, step: Step) -> Any:
        """Return the stored answer, or else the assumed one."""
        calls = self.roles.calls_of(step)
        shown, tokens_in = self.roles.fit(step)
        key = calls.key(self.roles.key_of(step, shown), step.system, step.schema)
        answer = calls.answers.find(key)
        if answer is not None:
            return calls.read(answer.text, step.schema, step.check)[0]
        assumed, model = dict(step.assumed), calls.model
        self.assume(
            Estimate(
                images=0 if shown is None else shown.images,
                tokens_in=tokens_in,
                tokens_out=model.thinking_tokens + model.text_tokens(str(assumed)),
                model=model.model,
                # the key includes what is shown; a text may contain assumed words, which all videos share
                once=key if shown is not None else self.once(key),
            ),
            key,
        )
        return assumed if step.check is None else step.check(assumed)

    def once(self, key: str) -> str:
        """Return the name of a text-only request; a unique one if it depends on assumed answers."""
        return digest_value([key, *self._assumed]) if self._assumed else key

    def assume(self, estimate: Estimate, key: str) -> None:
        """Record a request whose answer is assumed."""
        self.estimates.append(estimate)
        self._assumed.append(key)


AnyAsker = TypeVar("AnyAsker", bound=DryRunAsker)


def dry_run(asker: AnyAsker, talk: Callable[[AnyAsker], Any]) -> list[Estimate]:
    """Return estimates of the requests of a conversation that have no stored answer.

    A step that would fail ends the estimate: the requests before it are still made and paid for.
    """
    with suppress(NotJudged):
        talk(asker)
    return asker.estimates
