"""Base classes of suites: dimensions that score one video, or all videos of one prompt together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import ValidationError

from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.model import Frozen
from storage_schemas.placement import Hardware
from storage_schemas.suite_score import SuiteScore
from storage_schemas.value_problems import first_error
from tasks.llm.usage import Estimate, NotJudged, Usage
from tasks.pairs.view import Side
from tasks.scoring.suites.guide import Guide


class Dimension(Frozen):
    """One dimension of a suite.

    Parameters
    ----------
    name, title, group
        Names for commands, for people, and of its group in tables.
    low, high
        Ends of its scale; greater is better.
    needs
        Details that a prompt must have, such as ``events`` or ``questions``.
    about
        What the number means, in a sentence.
    behind
        The model or the method behind it.
    source
        Where it comes from: a section of the paper, or ``not from the paper``.
    averaged
        Whether it counts in the mean of its group; False on another scale than the others.
    """

    name: str
    title: str
    group: str
    low: float
    high: float
    needs: tuple[str, ...] = ()
    about: str
    behind: str
    source: str
    averaged: bool = True


class SuitePrompt(Frozen):
    """What the videos of one prompt were made from.

    Parameters
    ----------
    dimensions
        Dimensions in which it is scored; empty for all.
    theme, category
        Theme, and the category that its theme belongs to, for tables by either.
    kind
        What sort of prompt it is, such as simple or complex, for agreement with people by kind.
    details
        Further data for suites: events, questions with their polarity, complexity.
    """

    prompt_id: str
    text: str
    dimensions: tuple[str, ...] = ()
    theme: str = ""
    category: str = ""
    kind: str = ""
    details: Mapping[str, Any] = {}


class Variant(Frozen):
    """The suite with other settings, as in an ablation; its scores stand apart.

    Parameters
    ----------
    title
        What tables call it.
    settings
        The settings that differ from the suite's defaults.
    source
        Where it comes from: a table of the paper, or ``not from the paper``.
    """

    title: str
    settings: Mapping[str, Any]
    source: str


@dataclass(frozen=True)
class SuiteVideo:
    """One generated video, as a lazy frame sequence."""

    model: str
    prompt_id: str
    sample: int
    digest: str
    video: Side

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"{self.model}/{self.prompt_id}#{self.sample}"


@dataclass(frozen=True)
class ScoredVideo:
    """The score of one video in one dimension."""

    value: float
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    model: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


class Scorer(ABC):
    """Gives the scores of one dimension.

    Class attributes
    ----------------
    hardware
        Hardware that its workers must have.
    batch
        ``video``: each video is scored separately; ``prompt``: all models' videos of one prompt together.
    prompt_areas
        Areas of prompts that it sends (:mod:`tasks.llm.prompt_files`); none for one that sends no text.
    """

    hardware: ClassVar[Hardware] = "cpu"
    batch: ClassVar[Literal["video", "prompt"]] = "video"
    prompt_areas: ClassVar[tuple[str, ...]] = ()

    def __init__(self, dimension: Dimension) -> None:
        self.dimension = dimension

    @property
    def concurrency(self) -> int:
        """Maximum number of concurrent scores in one process; with a server, its limit."""
        return 1

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return everything that scores depend on besides videos and prompt, JSON-serialisable."""

    @abstractmethod
    def check(self) -> None:
        """Check, without loading anything, that everything it needs is available.

        Raises
        ------
        PrerequisiteError
            If a model or a server is missing, with what to do.
        """

    def assumes(self) -> Sequence[str]:
        """Return readable statements of what its estimates assume of models that the user named."""
        return ()

    @abstractmethod
    def score(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[ScoredVideo | NotJudged]:
        """Return the scores of videos of one prompt, in their order; a single video if `batch` is ``video``.

        A failed video has its reason in its place; the others continue.
        """

    def estimate(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[Estimate]:
        """Return the estimated requests of `score`, without sending them; empty if nothing is paid for.

        Work that several units share has one name (`Estimate.once`); each repeat has names of its own.
        """
        return ()


class VideoScorer(Scorer):
    """Scores each video separately."""

    @abstractmethod
    def score_video(self, prompt: SuitePrompt, video: SuiteVideo, repeat: int = 0) -> ScoredVideo | NotJudged:
        """Return the score of one video, or why there is none."""

    def score(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[ScoredVideo | NotJudged]:
        """Return the score of each video."""
        return [self.score_video(prompt, video, repeat) for video in videos]

    def estimate_video(self, prompt: SuitePrompt, video: SuiteVideo, repeat: int = 0) -> Sequence[Estimate]:
        """Return the requests about one video whose answers are not kept."""
        return ()

    def estimate(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[Estimate]:
        """Return the requests about each video whose answers are not kept."""
        return [one for video in videos for one in self.estimate_video(prompt, video, repeat)]


class Suite(ABC):
    """A set of dimensions with their scorers.

    Class attributes
    ----------------
    name, title
        What commands and people call it.
    fps, long_side
        Default sampling: frames per second (``native`` for the video's own rate) and longer side in pixels.
    variants
        Ablations of the paper, by name.
    published
        Package whose ``published.toml`` has the tables that its paper prints; empty without one.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    fps: ClassVar[str] = "native"
    long_side: ClassVar[int] = 512
    variants: ClassVar[Mapping[str, Variant]] = {}
    published: ClassVar[str] = ""

    @property
    @abstractmethod
    def dimensions(self) -> Sequence[Dimension]:
        """All dimensions in the order of the paper's table."""

    def dimensions_of(self, rows: Iterable[SuiteScore]) -> Sequence[Dimension]:
        """Return all dimensions as some scores have them: settings may change a scale."""
        return self.dimensions

    @property
    def prompt_dimensions(self) -> Sequence[str]:
        """The dimensions that a prompts file may name; those that are not scored now are passed over."""
        return [dimension.name for dimension in self.dimensions]

    def dimension(self, name: str) -> Dimension:
        """Return a dimension by its name.

        Raises
        ------
        UserInputError
            If the suite does not have it.
        """
        by_name = {dimension.name: dimension for dimension in self.dimensions}
        if name not in by_name:
            raise UserInputError(f"{self.name} has no dimension {name!r}: {suggestion(name, by_name)}")
        return by_name[name]

    @abstractmethod
    def scorer(self, dimension: str) -> Scorer:
        """Return the scorer of a dimension; nothing is loaded yet.

        Raises
        ------
        UserInputError
            If the suite does not have the dimension, or one of its instructions is invalid.
        PrerequisiteError
            If something it needs is missing, such as a model server in the profile.
        """

    def guide(self, dimension: str, language: str) -> Guide | None:
        """Return the guide with which people rate a dimension; None if the suite has none in the language.

        Raises
        ------
        UserInputError
            If the suite does not have the dimension.
        """
        self.dimension(dimension)
        return None

    def read_prompts(self, path: Path) -> Sequence[SuitePrompt] | None:
        """Return the prompts of a file in the form that the suite's authors publish.

        None if the file has another form; it is then read as a prompts file of ours.
        """
        return None


Settings = TypeVar("Settings", bound=Frozen)


def suite_settings(suite: str, model: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Return a user's settings of a suite.

    Raises
    ------
    UserInputError
        For an unknown setting or an invalid value.
    """
    for name in values:
        if name not in model.model_fields:
            hint = suggestion(name, model.model_fields)
            raise UserInputError(f"{suite} has no setting {name!r}: {hint}")
    try:
        return model.model_validate(dict(values))
    except ValidationError as problem:
        raise UserInputError(f"{suite}: {first_error(problem)}") from problem
