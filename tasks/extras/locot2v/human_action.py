"""Human action: do the actions of people in the prompt take place, and smoothly?

In the paper a language model extracts the actions and a multimodal one looks for them (appendix C.4). The
number is ours: the mean over actions, where a smooth action counts 1, one that is not smooth a setting (0.5),
and a missing one 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from storage_schemas.judgements import Failure
from tasks.extras.locot2v.askers import Comparer
from tasks.extras.locot2v.measure import (
    Measure,
    Value,
    base_of,
    entries_by_number,
    instruction,
    numbered,
    word_in,
)
from tasks.llm.answers import objects, texts_in
from tasks.llm.conversation import Asker, Role, Step
from tasks.llm.prompt_files import filled
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import SuitePrompt
from tasks.scoring.suites.shown_videos import SampledVideo

YES_NO = ("yes", "no")
_TEXT: Mapping[str, Any] = {"type": "string"}
_WORD: Mapping[str, Any] = {"type": "string", "enum": list(YES_NO)}
ACTIONS = objects({"actions": {"type": "array", "items": _TEXT}})
_SEEN = objects({"number": {"type": "integer"}, "reason": _TEXT, "present": _WORD, "smooth": _WORD})
LOOKED = objects({"actions": {"type": "array", "items": _SEEN}})


def action_value(observations: Sequence[Mapping[str, str]], unsmooth: float) -> float:
    """Return the mean over actions: 1 present and smooth, `unsmooth` present only, 0 absent.

    Examples
    --------
    >>> action_value([{"present": "yes", "smooth": "yes"}, {"present": "no", "smooth": "no"}], 0.5)
    0.5
    """
    worth = [
        (1.0 if one["smooth"] == "yes" else unsmooth) if one["present"] == "yes" else 0.0
        for one in observations
    ]
    return sum(worth) / len(worth)


class HumanAction(Measure):
    """Looks for the prompt's actions."""

    roles: ClassVar[Sequence[Role]] = ("multimodal", "language")
    messages: ClassVar[Sequence[str]] = ("actions_user", "look_for_actions_user", "video_line")
    uses: ClassVar[frozenset[str]] = Measure.uses | {"most_actions", "unsmooth_action"}

    def instructions(self) -> Mapping[str, str]:
        """Return the instructions of both steps."""
        actions = instruction("actions", self.settings.prompts)
        return {
            "actions": filled(actions, most=str(self.settings.most_actions)),
            "look": instruction("look_for_actions", self.settings.prompts),
        }

    def value(self, asker: Comparer, prompt: SuitePrompt, film: SampledVideo, repeat: int) -> Value:
        """Return the mean over the prompt's actions."""
        actions = self._actions(asker, prompt)
        if not actions:
            raise NotJudged(Failure.NO_ANSWER, "the prompt has no actions of people")
        observations = asker.ask(
            Step(
                name="look for actions",
                role="multimodal",
                system=self.instructions()["look"],
                text=filled(self.told("look_for_actions_user"), actions=numbered(actions)),
                schema=LOOKED,
                check=lambda value: _read_seen(value, len(actions)),
                assumed=_assumed(len(actions)),
                exhibit=self.settings.exhibit(film),
                what={"repeat": repeat},
            )
        )
        details = [{"action": action, **one} for action, one in zip(actions, observations, strict=True)]
        return Value(action_value(observations, self.settings.unsmooth_action), {"actions": details})

    def _actions(self, asker: Asker, prompt: SuitePrompt) -> list[str]:
        """Return the prompt's actions: its detail ``actions``, else those that the language model finds."""
        given = prompt.details.get("actions")
        if given is not None:
            try:
                return texts_in({"actions": list(given) if isinstance(given, tuple) else given}, "actions")
            except NotJudged as problem:
                message = "the prompt's actions must be a list of strings: fix `details`"
                raise NotJudged(problem.failure, message) from problem
        step = Step(
            name="actions of the prompt",
            role="language",
            system=self.instructions()["actions"],
            text=filled(self.told("actions_user"), text=base_of(prompt)),
            schema=ACTIONS,
            check=self._read_actions,
            assumed={"actions": ["word " * 5] * min(4, self.settings.most_actions)},
        )
        return list(asker.ask(step))

    def _read_actions(self, value: Any) -> list[str]:
        actions, most = texts_in(value, "actions"), self.settings.most_actions
        if len(actions) > most:
            raise NotJudged(
                Failure.NOT_UNDERSTOOD, f"there are {len(actions)} actions, {most} at most are taken"
            )
        return actions


def _read_seen(value: Any, count: int) -> list[dict[str, str]]:
    return [
        {name: word_in(entry, name, YES_NO) for name in ("present", "smooth")}
        for entry in entries_by_number(value, "actions", count)
    ]


def _assumed(count: int) -> dict[str, Any]:
    one = {"reason": "word " * 15, "present": "yes", "smooth": "yes"}
    return {"actions": [{"number": number, **one} for number in range(1, count + 1)]}
