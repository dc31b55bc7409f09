"""Base class of measurements by text: instructions, steps, and one number between 0 and 1."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from storage_schemas.judgements import Failure
from tasks.extras.locot2v.askers import Comparer
from tasks.extras.locot2v.settings import Locot2vSettings
from tasks.llm.conversation import Role
from tasks.llm.prompt_files import prompt_text
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import Dimension, SuitePrompt
from tasks.scoring.suites.shown_videos import SampledVideo


@dataclass(frozen=True)
class Value:
    """A number with details."""

    value: float
    details: Mapping[str, Any] = field(default_factory=dict)


class Measure(ABC):
    """Measures one dimension.

    Class attributes
    ----------------
    roles
        The models that it asks.
    messages
        Names of the prompts that it sends besides its instructions.
    compares
        Whether it compares texts by embeddings.
    uses
        Settings that its numbers depend on, besides models and instructions.
    """

    roles: ClassVar[Sequence[Role]]
    messages: ClassVar[Sequence[str]]
    compares: ClassVar[bool] = False
    uses: ClassVar[frozenset[str]] = frozenset({"fps", "most_frames"})

    def __init__(self, dimension: Dimension, settings: Locot2vSettings) -> None:
        self.dimension, self.settings = dimension, settings

    @abstractmethod
    def instructions(self) -> Mapping[str, str]:
        """Return the instructions of each step."""

    def told(self, name: str) -> str:
        """Return a prompt of the area ``locot2v-bench``; see :func:`instruction`."""
        return instruction(name, self.settings.prompts)

    @abstractmethod
    def value(self, asker: Comparer, prompt: SuitePrompt, film: SampledVideo, repeat: int) -> Value:
        """Return the number.

        Raises
        ------
        NotJudged
            If there is none.
        """


def base_of(prompt: SuitePrompt) -> str:
    """Return the prompt without evaluation information: its detail ``base``, else the whole text."""
    base = prompt.details.get("base")
    return base.strip() if isinstance(base, str) and base.strip() else prompt.text


def numbered(texts: Sequence[str]) -> str:
    """Return texts as a numbered list.

    Examples
    --------
    >>> numbered(["A man waves.", "He sits."])
    '1. A man waves.\\n2. He sits.'
    """
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, 1))


def entries_by_number(value: Any, key: str, count: int) -> list[Mapping[str, Any]]:
    """Return the entries of a list in an answer in the order of their numbers, 1 to `count`.

    Raises
    ------
    NotJudged
        `not_understood` if one is missing or duplicate, or has another number.
    """
    entries = value.get(key) if isinstance(value, dict) else None
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"the answer has no list of objects {key!r}")
    numbers = [one.get("number") for one in entries]
    if any(isinstance(number, bool) or not isinstance(number, int) for number in numbers):
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"an entry of {key!r} has no whole number")
    if sorted(numbers) != list(range(1, count + 1)):
        raise NotJudged(
            Failure.NOT_UNDERSTOOD, f"the answer has entries {numbers!r:.80} of {key!r} for {count} asked"
        )
    return sorted(entries, key=lambda one: int(one["number"]))


def word_in(entry: Mapping[str, Any], key: str, words: Sequence[str]) -> str:
    """Return a word of an answer that must be one of `words`.

    Raises
    ------
    NotJudged
        `not_understood` if it is not.
    """
    word = entry.get(key)
    if not isinstance(word, str) or word not in words:
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"{key!r} is {word!r:.60}: it has to be {', '.join(words)}")
    return word


def instruction(name: str, own: str = "") -> str:
    """Return an instruction of ours, or the file of the same name in the user's folder; see `prompt_text`."""
    return prompt_text(f"locot2v-bench/{name}", own)
