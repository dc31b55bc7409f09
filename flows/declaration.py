"""Declaration of a flow: its parameters, its run and its artifacts.

:mod:`flows.command_runs` runs it for a command, :mod:`flows.shell` for a deployment and on a Prefect server.
This module does not import Prefect, which takes seconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from flows.parameters import FlowParameters, RunOptions
from infra.executor import Executor, ProcessExecutor
from infra.profile import Profile
from infra.progress import BuildProgress


class Result(Protocol):
    """Result of a run."""

    def in_words(self) -> str:
        """Return a summary in a sentence or two."""


class Run(Protocol):
    """A prepared run."""

    def idle(self) -> bool:
        """Return whether there is no work for workers."""

    @property
    def run(self) -> Callable[..., Any]:
        """Do the work, with a function that opens an executor, optionally for given pools."""


class NothingToDo(Exception):
    """There is no reason to run, which is not an error; the message says why."""


@dataclass(frozen=True)
class RunLabel:
    """Names of a run.

    Parameters
    ----------
    name
        Display name.
    tags
        Tags in Prefect's UI, each ``KEY:VALUE``.
    jobs
        Name for its SLURM jobs.
    """

    name: str
    tags: Sequence[str]
    jobs: str


@dataclass(frozen=True)
class Artifact:
    """An artifact of a run in Prefect's UI: either text, table rows or a link.

    Parameters
    ----------
    key
        Lower-case letters, digits and dashes; see :func:`artifact_key`.
    """

    key: str
    description: str
    markdown: str = ""
    rows: Sequence[Mapping[str, Any]] = ()
    link: str = ""


def artifact_key(text: str) -> str:
    """Convert a name to an artifact key: lower-case letters, digits and dashes."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower())


OptionsT = TypeVar("OptionsT", bound=RunOptions)
RunT = TypeVar("RunT", bound=Run)
ResultT = TypeVar("ResultT", bound=Result)


class FlowDeclaration(ABC, Generic[OptionsT, RunT, ResultT]):
    """One flow; subclasses define what is specific to it.

    Class attributes
    ----------------
    name
        Name of the flow and of its main deployment.
    parameters
        Fields of a deployment's form.
    progress
        Class that counts progress.
    counted
        Noun for what is counted.
    one_loads
        Without worker pools, only one process loads models.
    runs_as
        What runs, as shown by ``slvmeval status``.
    """

    name: ClassVar[str]
    parameters: ClassVar[type[FlowParameters]]
    progress: ClassVar[type[BuildProgress]] = BuildProgress
    counted: ClassVar[str] = "tasks"
    one_loads: ClassVar[bool] = False
    runs_as: ClassVar[str]

    @abstractmethod
    def options(self, parameters: Any, site: Profile) -> OptionsT:
        """Resolve the parameters of a deployment's run into options.

        Raises
        ------
        UserInputError
            For invalid or missing values, before any work.
        """

    @abstractmethod
    def prepared(self, options: OptionsT, progress: BuildProgress) -> AbstractContextManager[RunT]:
        """Yield a prepared run: all inputs are read and model servers checked.

        Raises
        ------
        SlvmevalError
            If it cannot start; nothing has been done.
        NothingToDo
            If there is no reason to start.
        """

    @abstractmethod
    def label(self, run: RunT) -> RunLabel:
        """Return the names of a prepared run."""

    @abstractmethod
    def artifacts(self, run: RunT, result: ResultT) -> Iterable[Artifact]:
        """Return the artifacts of a finished run."""

    def finish_on_worker(self, result: ResultT, site: Profile) -> tuple[str, Sequence[Artifact]]:
        """Run the final steps of a deployment's run; return additional text and artifacts."""
        return "", ()

    def without_cluster(self, options: OptionsT) -> OptionsT:
        """Return the options for a run in local processes, instead of the site's pools."""
        return options.model_copy(update={"placement": options.placement.here()})

    def processes(self, workers: int, pools: Collection[str] = ()) -> Executor:
        """Return local processes that replace some worker pools."""
        return ProcessExecutor(workers)
