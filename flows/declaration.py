"""What a flow is, declared once: what it is given, what runs, what its pages show.

:mod:`flows.command_runs` runs it for a command, :mod:`flows.shell` for a deployment and on a Prefect server.
Nothing here imports Prefect, which takes seconds.
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
    """What a run made."""

    def in_words(self) -> str:
        """Return it in a sentence or two."""


class Run(Protocol):
    """A run that is prepared."""

    def idle(self) -> bool:
        """Return whether there is no work for any worker."""

    @property
    def run(self) -> Callable[..., Any]:
        """Do the work; called with what opens an executor, which some runs tell the pools that they need."""


class NothingToDo(Exception):
    """A run ends before it begins, and says why; nothing is wrong."""


@dataclass(frozen=True)
class RunLabel:
    """What a run is called.

    Parameters
    ----------
    name
        For a person.
    tags
        To look for in Prefect's UI, each ``KEY:VALUE``.
    jobs
        What its SLURM jobs are named after.
    """

    name: str
    tags: Sequence[str]
    jobs: str


@dataclass(frozen=True)
class Artifact:
    """Something to show with a run in Prefect's UI: text, rows of a table, or a link; one of the three.

    Parameters
    ----------
    key
        Lower case letters, digits and dashes; see :func:`artifact_key`.
    """

    key: str
    description: str
    markdown: str = ""
    rows: Sequence[Mapping[str, Any]] = ()
    link: str = ""


def artifact_key(text: str) -> str:
    """Return a name as Prefect wants an artifact's key: lower case letters, digits and dashes."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in text.lower())


OptionsT = TypeVar("OptionsT", bound=RunOptions)
RunT = TypeVar("RunT", bound=Run)
ResultT = TypeVar("ResultT", bound=Result)


class FlowDeclaration(ABC, Generic[OptionsT, RunT, ResultT]):
    """One flow; a subclass says what differs from the others.

    Class attributes
    ----------------
    name
        Of the flow and of its main deployment.
    parameters
        What a deployment's form asks for.
    progress
        Counts what is done.
    counted
        What is counted, for a person.
    one_loads
        Without worker pools, let one process alone load models.
    """

    name: ClassVar[str]
    parameters: ClassVar[type[FlowParameters]]
    progress: ClassVar[type[BuildProgress]] = BuildProgress
    counted: ClassVar[str] = "tasks"
    one_loads: ClassVar[bool] = False

    @abstractmethod
    def prepared(self, options: OptionsT, progress: BuildProgress) -> AbstractContextManager[RunT]:
        """Give a run that is prepared: everything is read, and model servers have been asked.

        Raises
        ------
        SlvmevalError
            If it cannot start; nothing was done then.
        NothingToDo
            If there is no reason to start.
        """

    @abstractmethod
    def label(self, run: RunT) -> RunLabel:
        """Return what a prepared run is called."""

    @abstractmethod
    def artifacts(self, run: RunT, result: ResultT) -> Iterable[Artifact]:
        """Give what is shown of a run that has ended."""

    def finish_on_worker(self, result: ResultT, site: Profile) -> tuple[str, Sequence[Artifact]]:
        """Do what only a deployment's run does after the end; return what to say and show of it."""
        return "", ()

    def without_cluster(self, options: OptionsT) -> OptionsT:
        """Return the options of a run in processes of this machine."""
        return options

    def processes(self, workers: int, pools: Collection[str] = ()) -> Executor:
        """Return processes of this machine that do the work of some worker pools."""
        return ProcessExecutor(workers)
