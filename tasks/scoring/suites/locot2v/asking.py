"""The steps of a measurement by models: asked for real, or reckoned with for a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from storage_schemas.errors import SetAside
from storage_schemas.ids import digest_text, digest_value
from tasks.llm.requests import NotKept, read
from tasks.llm.usage import Estimate, ModelUsage, NotJudged, Usage
from tasks.scoring.suites.base import not_readable
from tasks.scoring.suites.locot2v.roles import Roles, Step, parts_of
from tasks.scoring.suites.locot2v.text_similarity import Group, Rows


class Asker(Protocol):
    """Gives the answers to steps, and compares texts."""

    def ask(self, step: Step) -> Any:
        """Return the answer as the step's check returns it; raise NotJudged where there is none."""

    def compare(self, groups: Sequence[Group]) -> tuple[Rows, ...]:
        """Return the cosines of texts, see :class:`TextSimilarity`; raise NotJudged where there are none."""


@dataclass
class Asking:
    """Asks for real, and notes what was said and what it took."""

    roles: Roles
    conversation: list[dict[str, Any]] = field(default_factory=list)
    frames: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    calls: int = 0
    _usages: list[tuple[str, Usage]] = field(default_factory=list)

    def ask(self, step: Step) -> Any:
        """Return a model's answer, kept or new; what was paid until a failure is in the failure."""
        calls = self.roles.calls_of(step)
        try:
            shown, expected = self.roles.shown(step)
            answer = calls.ask(
                self.roles.key_of(step, shown),
                step.system,
                lambda: parts_of(step, shown, self.roles.model(step.role)),
                step.schema,
                step.check,
            )
        except NotJudged as problem:
            self._usages.append((calls.model.model, problem.usage))
            self.calls += int(bool(problem.usage.tokens_in or problem.usage.tokens_out))
            raise self._named(problem, step.name) from problem
        except NotKept as problem:
            self._usages.append((calls.model.model, problem.usage))
            self.calls += 1
            raise
        self.calls += answer.calls
        self._usages.append((answer.model, answer.usage))
        self.model = self.model or answer.model
        if shown is not None:
            self.frames = shown.details()
        self.conversation.append(
            {
                "step": step.name,
                "model": answer.model,
                "told": digest_text(step.system),
                "answer": answer.value,
                "kept": not answer.calls,
                "tokens": {
                    "expected_in": expected,
                    "in": answer.usage.tokens_in,
                    "out": answer.usage.tokens_out,
                },
            }
        )
        return answer.value

    def compare(self, groups: Sequence[Group]) -> tuple[Rows, ...]:
        """Return cosines, kept or new."""
        try:
            found = self.roles.similarity().compare(groups)
        except NotJudged as problem:
            raise self._named(problem, "compare texts") from problem
        self.calls += found.requests
        self._usages.append((found.model, found.usage))
        self.model = self.model or found.model
        return found.values

    def _named(self, problem: NotJudged, step: str) -> NotJudged:
        return NotJudged(
            problem.failure,
            f"{step}: {problem.message}",
            raw=problem.raw,
            finish_reason=problem.finish_reason,
            usage=self.paid(),
        )

    def usage(self) -> Usage:
        """Return what all steps took until now; other models than the first stand apart."""
        own = [usage for model, usage in self._usages if model == self.model]
        others = tuple(
            ModelUsage(model, usage.tokens_in, usage.tokens_out)
            for model, usage in self._usages
            if model != self.model and (usage.tokens_in or usage.tokens_out)
        )
        return Usage(
            frames=self.frames.get("frames", 0),
            tokens_in=sum(usage.tokens_in for usage in own),
            tokens_out=sum(usage.tokens_out for usage in own),
            seconds=sum(usage.seconds for _, usage in self._usages),
            tries=sum(usage.tries for _, usage in self._usages),
            others=others,
        )

    def paid(self) -> Usage:
        """Return the same with every model apart, each with a price of its own: for what failed."""
        whole = self.usage()
        own = (ModelUsage(self.model, whole.tokens_in, whole.tokens_out),) if whole.tokens_in else ()
        return replace(whole, tokens_in=0, tokens_out=0, others=(*own, *whole.others))

    def failed(self, problem: NotJudged | SetAside) -> NotJudged:
        """Return why there is no score, whatever step it lies with, with all that was paid and said."""
        found = problem if isinstance(problem, NotJudged) else not_readable(problem)
        found.usage, found.calls, found.details = self.paid(), self.calls, self.details()
        return found

    def details(self) -> dict[str, Any]:
        """Return the conversation and the frames, JSON-able."""
        return {"conversation": self.conversation, "frames": self.frames}


@dataclass
class Reckoning:
    """Asks nobody: answers that are kept are taken, others assumed, and noted as estimates."""

    roles: Roles
    estimates: list[Estimate] = field(default_factory=list)
    _guessed: list[str] = field(default_factory=list)

    def _once(self, key: str) -> str:
        """Return a name of work on texts: what rests on a guess at one video is not another video's."""
        return digest_value([key, *self._guessed]) if self._guessed else key

    def ask(self, step: Step) -> Any:
        """Return the kept answer, else one of usual length."""
        calls, model = self.roles.calls_of(step), self.roles.model(step.role)
        shown, tokens_in = self.roles.shown(step)
        key = calls.key(self.roles.key_of(step, shown), step.system, step.schema)
        kept = calls.kept.find(key)
        if kept is not None:
            return read(kept.text, None, step.check)
        once = key if shown is not None else self._once(key)
        if shown is not None:
            self._guessed.append(key)
        self.estimates.append(
            Estimate(
                images=0 if shown is None else shown.images,
                tokens_in=tokens_in,
                tokens_out=model.thinking_tokens + model.text_tokens(str(dict(step.assumed))),
                model=model.model,
                once=once,
            )
        )
        return step.check(dict(step.assumed))

    def compare(self, groups: Sequence[Group]) -> tuple[Rows, ...]:
        """Return zeros, and note the request."""
        estimate = self.roles.similarity().estimate(groups)
        if estimate is not None:
            self.estimates.append(replace(estimate, once=self._once(estimate.once)))
        return tuple(np.zeros((len(left), len(right))) for left, right in groups)
