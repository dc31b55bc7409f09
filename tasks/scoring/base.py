"""What every evaluator is: a judge that compares two videos, or a scorer that looks at one.

A scorer becomes a judge by comparing the two scores. Equal scores are a tie; what a tie counts is the
statistics' matter.
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
        What it is about in a video's content; another text than the workers' instructions.
    """

    name: str
    dimension: str
    description: str


@dataclass(frozen=True)
class JudgeAnswer:
    """A judge's answer on two videos in the order in which it saw them."""

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
    """A scorer's answer on one video; more is better."""

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
        Part of every request's key; a change of answers needs a new version.
    pool
        Which workers run it: ``h100`` for models that are loaded, ``cpu`` for the rest.
    """

    name: str
    version: ClassVar[int] = 1
    pool: ClassVar[Pool] = "cpu"

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return all that answers depend on besides the videos, JSON-able: model, prompts, sampling."""

    @abstractmethod
    def check(self) -> None:
        """Check, without loading anything, that all it needs is there; asked before any work.

        Raises
        ------
        PrerequisiteError
            If something is missing, with what to do.
        """

    @property
    def concurrency(self) -> int:
        """How many requests may be under way at once in one process."""
        return 1

    def estimate(
        self, prompt: str, first: Side, second: Side, aspect: AspectText
    ) -> Estimate | Sequence[Estimate] | None:
        """Return what one comparison of two videos will take, without asking anybody, and quickly.

        Several where several models are asked, the answer's own last; None where nothing is known or nothing
        is paid for.
        """
        return None

    def learn(self, rows: Sequence[Judgement]) -> str:
        """Let estimates rest on what earlier answers took; return for a person what they rest on.

        Parameters
        ----------
        rows
            What the store has of this evaluator with these settings; there may be none.
        """
        return ""


class PairwiseJudge(Evaluator):
    """Says which of two videos is better.

    Class attributes
    ----------------
    both_orders
        Whether each pair is asked twice, in both orders; else the order is drawn.
    """

    both_orders: ClassVar[bool] = True

    def asks_both_orders(self, aspect: AspectText) -> bool:
        """Tell whether pairs of an aspect are asked in both orders; by default as the class says."""
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
    """Says how good one video is; the greater the better.

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
