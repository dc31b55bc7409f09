"""A conversation with models: its steps, the models in their roles, and who answers.

A step is answered by servers (:class:`LiveAsker`), or by nobody, to estimate what servers would take
(:class:`DryRunAsker`). What a step shows besides its text is an :class:`Exhibit`: this module knows no video.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from storage_schemas.ids import digest_text, digest_value
from storage_schemas.judgements import Failure
from tasks.llm.answer_store import AnswerStore
from tasks.llm.chat import client_of
from tasks.llm.requests import Calls, Check, NotKept, Parts, read
from tasks.llm.servers import Servers, check_server
from tasks.llm.usage import Estimate, ModelUsage, NotJudged, Usage
from tasks.llm.vision_models import MARK_TOKENS, VlmModel

#: What a model is asked for, such as ``multimodal`` or ``language``.
Role = str


class Shown(Protocol):
    """What one request shows of an exhibit, chosen for one model."""

    @property
    def frames(self) -> int:
        """How many frames are looked at."""

    @property
    def images(self) -> int:
        """How many images are sent."""

    @property
    def tokens(self) -> int:
        """How many tokens they take, about."""

    def key(self) -> Mapping[str, Any]:
        """Return what the images depend on besides the model's settings, JSON-able; raise NotJudged."""

    def parts(self) -> Parts:
        """Return the parts of a message; raise NotJudged where something cannot be read."""

    def details(self) -> dict[str, Any]:
        """Return what was shown, JSON-able."""


class Exhibit(Protocol):
    """What a step shows besides its text."""

    def fit(self, model: VlmModel, text_tokens: int) -> Shown:
        """Choose as much as fits beside a text of so many tokens; raise NotJudged where nothing does."""


@dataclass(frozen=True)
class Step:
    """A request before it is made.

    Parameters
    ----------
    name, role
        What messages call it, and which model answers.
    system, text
        What the model is told.
    schema
        JSON Schema of the answer.
    assumed
        An answer of usual length, for estimates.
    check
        Takes the JSON value of an answer and returns what stands for it; raises NotJudged if it does not fit.
        None takes any.
    exhibit
        What the model is shown; None for a text alone.
    what
        What else the answer depends on, JSON-able: the repeat.
    temperature, seed
        In place of the model's own, where there is a seed.
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
    """The models in their roles; a model's server is looked up when it is asked.

    Parameters
    ----------
    name
        Whose conversation it is; part of the key of every answer.
    models
        The model of each role.
    servers
        Where their servers are found.
    kept
        Where answers are kept.
    """

    name: str
    models: Mapping[Role, VlmModel]
    servers: Servers
    kept: AnswerStore

    def model(self, role: Role) -> VlmModel:
        """Return the model of a role."""
        return self.models[role]

    def calls(self, role: Role) -> Calls:
        """Return who answers.

        Raises
        ------
        PrerequisiteError
            If the profile does not name the model's server.
        """
        model = self.models[role]
        return Calls(model, client_of(self.servers.find(model.server, model.model)), self.kept)

    def calls_of(self, step: Step) -> Calls:
        """Return who answers a step, with its temperature and seed."""
        calls = self.calls(step.role)
        if step.seed is None:
            return calls
        extra = {**calls.model.extra_body, "seed": step.seed}
        model = calls.model.model_copy(update={"temperature": step.temperature, "extra_body": extra})
        return replace(calls, model=model)

    def concurrency(self, role: Role) -> int:
        """Return how many requests the profile allows at once for a role's server."""
        return self.calls(role).client.server.concurrency

    def settings(self, roles: Iterable[Role]) -> dict[str, Any]:
        """Return what the answers of some roles depend on, by role."""
        return {role: self.models[role].settings() for role in roles}

    def check(self, roles: Iterable[Role]) -> None:
        """Ask the servers of some roles whether they have their models.

        Raises
        ------
        PrerequisiteError
            If one does not answer, refuses the key, or has other models only.
        """
        for server in dict.fromkeys(self.calls(role).client.server for role in roles):
            check_server(server)

    def fit(self, step: Step) -> tuple[Shown | None, int]:
        """Return what a step shows, and the tokens of the whole request, about.

        Raises
        ------
        NotJudged
            `context_too_long` where the request does not fit, or what the exhibit raises.
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
        """Return all that the answer to a step depends on besides model, system text and schema."""
        return {
            "conversation": self.name,
            "text": step.text,
            "shown": None if shown is None else dict(shown.key()),
            **step.what,
        }


class Asker(Protocol):
    """Gives the answer to a step."""

    def ask(self, step: Step) -> Any:
        """Return the answer as the step's check returns it; raise NotJudged where there is none."""


@dataclass
class LiveAsker:
    """Asks servers, and notes what was said and what it took.

    Parameters
    ----------
    conversation
        What was said, step by step, JSON-able; also answers that did not fit, as they came.
    shown
        What was shown last, JSON-able.
    model
        The first model that was shown something; until then the first that answered.
    calls
        Requests that were paid for; kept answers count nothing.
    """

    roles: Roles
    conversation: list[dict[str, Any]] = field(default_factory=list)
    shown: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    calls: int = 0
    _frames: int = 0
    _usages: list[tuple[str, Usage]] = field(default_factory=list)

    def ask(self, step: Step) -> Any:
        """Return a model's answer, kept or new.

        Raises
        ------
        NotJudged
            If there is none; its message names the step, and it holds what was paid and said until then.
        NotKept
            If it cannot be kept.
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
            paid = bool(usage.tokens_in or usage.tokens_out)
            self.add(calls.model.model, usage, int(paid))
            if problem.raw:
                self._note(step, calls.model.model, problem.raw, not paid, expected, usage)
                self.conversation[-1]["failure"] = problem.failure.value
            problem.message = f"{step.name}: {problem.message}"
            self.failed(problem)
            raise
        except NotKept as problem:
            self.add(calls.model.model, problem.usage, 1)
            raise
        if shown is not None:
            self.model = self.model if self.shown else answer.kept.model
            self.shown, self._frames = shown.details(), shown.frames
        self.model = self.model or answer.kept.model
        self.add(answer.kept.model, answer.usage, answer.calls)
        self._note(step, answer.kept.model, answer.value, not answer.calls, expected, answer.usage)
        return answer.value

    def _note(self, step: Step, model: str, answer: Any, kept: bool, expected: int, usage: Usage) -> None:
        self.conversation.append(
            {
                "step": step.name,
                "model": model,
                "told": digest_text(step.system),
                "answer": answer,
                "kept": kept,
                "tokens": {"expected_in": expected, "in": usage.tokens_in, "out": usage.tokens_out},
            }
        )

    def add(self, model: str, usage: Usage, calls: int) -> None:
        """Count what a request to a model took."""
        self._usages.append((model, usage))
        self.calls += calls

    def usage(self) -> Usage:
        """Return what all steps took until now; models other than `model` stand apart."""
        own = [usage for model, usage in self._usages if model == self.model]
        others = tuple(
            ModelUsage(model, usage.tokens_in, usage.tokens_out)
            for model, usage in self._usages
            if model != self.model and (usage.tokens_in or usage.tokens_out)
        )
        return Usage(
            frames=self._frames,
            tokens_in=sum(usage.tokens_in for usage in own),
            tokens_out=sum(usage.tokens_out for usage in own),
            seconds=sum(usage.seconds for _, usage in self._usages),
            tries=sum(usage.tries for _, usage in self._usages),
            others=others,
        )

    def failed(self, problem: NotJudged) -> NotJudged:
        """Return why there is no result, whatever step it lies with, with all that was paid and said.

        Every model stands apart, each with a price of its own: what failed names no model.
        """
        problem.usage = self.usage().by_model(self.model)
        problem.calls, problem.details = self.calls, self.details()
        return problem

    def details(self) -> dict[str, Any]:
        """Return the conversation and what was shown last, JSON-able."""
        return {"conversation": self.conversation, "frames": self.shown}


@dataclass
class DryRunAsker:
    """Asks nobody: takes answers that are kept, assumes the others, and notes those as estimates."""

    roles: Roles
    estimates: list[Estimate] = field(default_factory=list)
    _assumed: list[str] = field(default_factory=list)

    def ask(self, step: Step) -> Any:
        """Return the kept answer, else one of usual length."""
        calls = self.roles.calls_of(step)
        shown, tokens_in = self.roles.fit(step)
        key = calls.key(self.roles.key_of(step, shown), step.system, step.schema)
        kept = calls.kept.find(key)
        if kept is not None:
            return read(kept.text, None, step.check)
        assumed, model = dict(step.assumed), calls.model
        self.assume(
            Estimate(
                images=0 if shown is None else shown.images,
                tokens_in=tokens_in,
                tokens_out=model.thinking_tokens + model.text_tokens(str(assumed)),
                model=model.model,
                # what is shown is in the key; a text may hold assumed words, which are those of all videos
                once=key if shown is not None else self.once(key),
            ),
            key,
        )
        return assumed if step.check is None else step.check(assumed)

    def once(self, key: str) -> str:
        """Return a name of work on texts alone: what rests on assumed answers is not another video's."""
        return digest_value([key, *self._assumed]) if self._assumed else key

    def assume(self, estimate: Estimate, key: str) -> None:
        """Note a request whose answer is assumed."""
        self.estimates.append(estimate)
        self._assumed.append(key)


AnyAsker = TypeVar("AnyAsker", bound=DryRunAsker)


def dry_run(asker: AnyAsker, talk: Callable[[AnyAsker], Any]) -> list[Estimate]:
    """Return the requests of a conversation whose answers are not kept.

    What is wrong with it is said when it is held; what is asked until then is paid for all the same.
    """
    with suppress(NotJudged):
        talk(asker)
    return asker.estimates
