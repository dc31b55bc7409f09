"""Base classes of evaluators: judges that compare two videos, and scorers that score one.

A scorer becomes a judge by comparing the two scores. Equal scores are a tie; statistics decide how ties
count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from storage_schemas.judgements import Choice, Judgement
from storage_schemas.model import Frozen
from tasks.aspects.base import Pool
from tasks.llm.usage import Estimate, Usage
from tasks.pairs.view import Side


class AspectText(Frozen):
    """An aspect as evaluators are told of it.

    Parameters
    ----------
    name
        Our name.
    dimension
        The id that the paper gives to judges (SLVMEval, table 6).
    description
        What it is about in a video's content; not the workers' instructions.
    """

    name: str
    dimension: str
    description: str


@dataclass(frozen=True)
class JudgeAnswer:
    """A judge's answer on two videos, in presentation order."""

    choice: Choice
    raw: str = ""
    reasoning: str = ""
    finish_reason: str = ""
    model: str = ""
    prompt_digest: str = ""
    usage: Usage = field(default_factory=Usage)
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """A scorer's answer on one video; greater is better."""

    value: float
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    details: Mapping[str, Any] = field(default_factory=dict)


class Evaluator(ABC):
    """What judges and scorers share.

    Class attributes
    ----------------
    name
        What commands and tables call it.
    version
        Part of every request's key; increase it when answers change.
    pool
        The pool that runs it: ``h100`` if it loads a model, else ``cpu``.
    """

    name: str
    version: ClassVar[int] = 1
    pool: ClassVar[Pool] = "cpu"

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return everything that answers depend on besides the videos, JSON-serialisable: model, prompts,
        sampling."""

    @abstractmethod
    def check(self) -> None:
        """Check, without loading anything, that everything it needs is present; called before any work.

        Raises
        ------
        PrerequisiteError
            If something is missing, with what to do.
        """

    @property
    def concurrency(self) -> int:
        """Maximum number of concurrent requests in one process."""
        return 1

    def estimate(
        self, prompt: str, first: Side, second: Side, aspect: AspectText
    ) -> Estimate | Sequence[Estimate] | None:
        """Return the estimated cost of one comparison, quickly and without sending a request.

        With several models, one estimate for each, the answer's own last. None if the cost is unknown or
        nothing is paid for.
        """
        return None

    def learn(self, rows: Sequence[Judgement]) -> str:
        """Base estimates on earlier answers; return a description of their basis.

        Parameters
        ----------
        rows
            The stored judgements of this evaluator with these settings; may be empty.
        """
        return ""


class PairwiseJudge(Evaluator):
    """Says which of two videos is better.

    Class attributes
    ----------------
    both_orders
        Whether each pair is judged twice, in both orders; else the order is drawn.
    """

    both_orders: ClassVar[bool] = True

    def asks_both_orders(self, aspect: AspectText) -> bool:
        """Return whether pairs of an aspect are judged in both orders; by default `both_orders`."""
        return self.both_orders

    @abstractmethod
    def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
        """Return which video is better for an aspect.

        Parameters
        ----------
        prompt
            All captions of the source, one a line.
        first, second
            The videos as lazy frame sequences with time stamps, in the order in which they are shown.

        Raises
        ------
        NotJudged
            If there is no answer.
        """


class PointwiseScorer(Evaluator):
    """Scores one video; greater is better.

    Class attributes
    ----------------
    by_aspect
        Whether the score depends on the aspect; else it is computed once for all aspects of a source.
    """

    by_aspect: ClassVar[bool] = True

    @abstractmethod
    def score(self, prompt: str, video: Side, aspect: AspectText) -> Score:
        """Return the score of one video for an aspect.

        Raises
        ------
        NotJudged
            If there is none.
        """
