"""Interfaces of evaluators: a judge compares two videos, a scorer rates one.

A scorer acts as a judge by comparing its two scores. Equal scores are a tie; the statistics decide how ties
count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from storage_schemas.errors import TRANSIENT_REASONS, SetAside, SlvmevalError
from storage_schemas.judgements import Choice, Failure, Judgement
from storage_schemas.model import Frozen
from storage_schemas.placement import Hardware
from tasks.llm.answer_store import AnswerStore
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.servers import ChatServer
from tasks.llm.usage import Estimate, NotJudged, Usage
from tasks.pairs.view import Side

#: What evaluators may see: frames as images, videos as such, the source's captions, descriptions by a model.
Sight = Literal["frames", "videos", "captions", "descriptions", "length"]
#: What evaluators may need.
Need = Literal["server", "weights", "package"]


class AspectText(Frozen):
    """An aspect's description for evaluators.

    Parameters
    ----------
    name
        Name of the aspect.
    dimension
        The id that the paper gives to judges (SLVMEval, table 6).
    description
        What the aspect concerns in a video's content; it differs from the workers' instructions.
    """

    name: str
    dimension: str
    description: str


@dataclass(frozen=True)
class JudgeAnswer:
    """A judge's answer on two videos, in the order in which it saw them."""

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
    """A scorer's answer on one video; a greater value is better."""

    value: float
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    details: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class BatchJudge(Protocol):
    """A judge whose comparison is one request to one server, which may go there in a batch."""

    @property
    def server(self) -> ChatServer:
        """The server."""

    def make_request(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> ChatRequest:
        """Return the request of a comparison."""

    def read_answer(
        self, answer: ChatAnswer, prompt: str, first: Side, second: Side, aspect: AspectText
    ) -> JudgeAnswer:
        """Return what the judge says by an answer to the request.

        Raises
        ------
        NotJudged
            If the answer is none.
        """


@dataclass(frozen=True)
class SharedBeginning:
    """How a request begins like others of its run.

    Parameters
    ----------
    ends
        Numbers of its videos after which others continue differently: 1 for the first video, 2 for both.
    read
        How many of its videos an earlier request had, so that a provider's cache may have them.
    """

    ends: tuple[int, ...] = ()
    read: int = 0


@runtime_checkable
class PrefixJudge(Protocol):
    """A judge whose requests may begin alike; those that do are made one after the other."""

    @property
    def shares_beginnings(self) -> bool:
        """Whether its settings put the shared part of requests first."""

    def sharing(self, shared: SharedBeginning) -> Evaluator:
        """Return the same judge for a request that begins like others."""


class Describing(Protocol):
    """Descriptions of videos that a judge's request contains; each is made by a request of its own, once."""

    @property
    def answers(self) -> AnswerStore:
        """Where they are kept."""

    @property
    def server(self) -> ChatServer:
        """The server of the model that describes."""

    def key(self, video: Side, aspect: AspectText) -> str:
        """Return the key of a description among the kept answers."""

    def make_request(self, video: Side, aspect: AspectText) -> ChatRequest:
        """Return the request for a description."""

    def keep(self, answer: ChatAnswer, video: Side, aspect: AspectText, paid_by: str) -> None:
        """Keep the description in an answer; the row of the request `paid_by` counts its cost.

        Raises
        ------
        NotJudged
            If the answer holds none.
        """


@runtime_checkable
class DescribingJudge(BatchJudge, Protocol):
    """A judge that compares descriptions: its request can be made when both videos have one."""

    @property
    def descriptions(self) -> Describing:
        """The descriptions."""


class Evaluator(ABC):
    """Base class of judges and scorers.

    Class attributes
    ----------------
    name
        Name in commands and tables.
    version
        Part of every request's key; increase it if answers change.
    hardware
        Hardware that its workers must have: ``gpu`` for models that are loaded, ``cpu`` for the rest.
    prompt_areas
        Areas of prompts that it sends (:mod:`tasks.llm.prompt_files`); none for one that sends no text.
    sees
        Part of a pair that it sees.
    needs
        What must be there besides the pair: a model server, weights in a model folder, a package.
    paid
        Whether its requests have a price, by their tokens and the price list.
    settings_model
        Model of the further settings that its factory takes by ``**``; None if it takes none.
    """

    name: str
    version: ClassVar[int] = 1
    hardware: ClassVar[Hardware] = "cpu"
    prompt_areas: ClassVar[tuple[str, ...]] = ()
    sees: ClassVar[tuple[Sight, ...]] = ()
    needs: ClassVar[tuple[Need, ...]] = ()
    paid: ClassVar[bool] = False
    settings_model: ClassVar[type[Frozen] | None] = None

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return everything that answers depend on besides the videos: model, prompts, sampling.

        It has to be JSON-serialisable.
        """

    def check(self) -> None:  # noqa: B027 - many need nothing
        """Check, without loading anything, that everything it needs is available; called before any work.

        Raises
        ------
        PrerequisiteError
            If something is missing; the message says what to do.
        """

    @property
    def concurrency(self) -> int:
        """Number of concurrent requests in one process."""
        return 1

    def estimate(
        self, prompt: str, first: Side, second: Side, aspect: AspectText
    ) -> Estimate | Sequence[Estimate] | None:
        """Return the estimated cost of one comparison, quickly and without a request.

        A sequence if several models are used, with that of the answer last; None if the cost is unknown or
        nothing is paid for.
        """
        return None

    def learn(self, rows: Sequence[Judgement]) -> str:
        """Base estimates on the cost of earlier answers; return a readable statement of their basis.

        Parameters
        ----------
        rows
            The store's rows of this evaluator with these settings; possibly none.
        """
        return ""


class PairwiseJudge(Evaluator):
    """Decides which of two videos is better.

    Class attributes
    ----------------
    both_orders
        Whether each pair is judged twice, in both orders; otherwise the order is drawn.
    """

    both_orders: ClassVar[bool] = True

    def asks_both_orders(self, aspect: AspectText) -> bool:
        """Return whether pairs of an aspect are judged in both orders; by default, `both_orders`."""
        return self.both_orders

    def with_exchanged_names(self) -> PairwiseJudge | None:
        """Return this judge with the names of the two videos exchanged; None if it does not name them.

        That judge calls the video that is shown first what the other one is called, and answers with these
        names.
        """
        return None

    @abstractmethod
    def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
        """Return which video is better for an aspect.

        Parameters
        ----------
        prompt
            All captions of the source, one per line.
        first, second
            The videos as lazy frame sequences with timestamps, in presentation order.

        Raises
        ------
        NotJudged
            If there is no answer.
        """


class PointwiseScorer(Evaluator):
    """Rates one video; a greater score is better.

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
            If there is no score.
        """


def not_readable(problem: SlvmevalError | OSError) -> NotJudged:
    """Return the failure for a file that could not be used.

    If the store is full or read-only, the next run scores the video.
    """
    passes = isinstance(problem, SetAside) and problem.reason in TRANSIENT_REASONS
    failure = Failure.INTERNAL_ERROR if passes else Failure.VIDEO_UNREADABLE
    return NotJudged(failure, f"{type(problem).__name__}: {problem}")
