"""What every caption analyser is, its part of the recipe, and its accepted answers.

Each answer is on the disk before the next is waited for.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from storage_schemas.analysis import ANSWERS, CaptionAnalysis, CaptionAnswer
from storage_schemas.json_lines import LinesFolder
from storage_schemas.model import Frozen
from storage_schemas.parquet import write_rows

if TYPE_CHECKING:
    pass


class AnswerJournal:
    """The answers in a folder, which is made when there is one to keep.

    Parameters
    ----------
    folder
        A folder of this one analysis.
    """

    def __init__(self, folder: Path) -> None:
        self._lines = LinesFolder(folder, CaptionAnswer, "that caption is asked about again")

    def __enter__(self) -> AnswerJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    def read(self) -> dict[str, CaptionAnswer]:
        """Return all answers that are there, whoever wrote them, by the checksum of their caption."""
        found: dict[str, CaptionAnswer] = {}
        for answer in self._lines.rows():
            found.setdefault(answer.caption, answer)
        return found

    def append(self, answer: CaptionAnswer) -> None:
        """Keep an answer; it is on the disk when this returns.

        Raises
        ------
        SetAside
            If the disk is full or cannot be written.
        """
        self._lines.append(answer)

    def remove(self) -> None:
        """Remove all answers: they are in an artifact now."""
        # a network file system keeps a folder in which a file is open
        self._lines.close()
        if self._lines.folder.is_dir():
            # another process that made the same artifact may remove them at the same moment
            shutil.rmtree(self._lines.folder, ignore_errors=True)


def write_answers(path: Path, source_id: str, answers: Iterable[tuple[int, CaptionAnswer]]) -> None:
    """Write the answers about a source's clips, one row a clip that was asked about."""
    rows = [
        {"source_id": source_id, "clip": clip, **answer.model_dump(exclude={"caption", "analysis"})}
        for clip, answer in answers
    ]
    write_rows(path, ANSWERS, rows)


class NotAnalysed(Frozen):
    """Stands for one caption that could not be analysed, with the reason for a person.

    It is not an empty analysis: that would say that the caption names nothing.
    """

    message: str
    #: Whether a server would not look at it, whatever it says.
    refused: bool = False


class CaptionAnalyser(ABC):
    """Says what captions name (SLVMEval, appendix E.1).

    Class attributes
    ----------------
    name, version
        Both are in the id of every analysis; a change of results needs a new version.
    packages
        Distributions that do the work: for the provenance.
    asks_server
        Whether it asks a server, so that its answers cost something and are worth keeping.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    packages: ClassVar[tuple[str, ...]] = ()
    asks_server: ClassVar[bool] = False

    def consumes(self) -> dict[str, Any]:
        """Return all that the result depends on besides the caption, JSON-able, for the artifact's id."""
        return {"analyser": self.name, "version": self.version}

    @abstractmethod
    def check(self) -> None:
        """Check, without loading anything, that all it needs is there; asked before any work.

        Raises
        ------
        PrerequisiteError
            If something is missing, with the command that gets it.
        """

    def check_server(self) -> None:
        """Ask the server that it needs, if any, whether it is there; asked once, by the build's driver.

        Raises
        ------
        PrerequisiteError
            If it is not, with what to do.
        """
        return None

    @abstractmethod
    def analyse(
        self, captions: Sequence[str], journal: AnswerJournal | None = None
    ) -> Sequence[CaptionAnalysis | NotAnalysed]:
        """Return one result a caption, in order; a caption that fails costs no other.

        Parameters
        ----------
        captions
            The captions of some clips, each on its own: no result depends on its neighbours.
        journal
            Where an analyser whose answers cost much keeps each at once, and finds those of a run that was
            ended.

        Raises
        ------
        PrerequisiteError
            If what it needs (a model, a server) is missing, before any caption is looked at.
        """


class AnalyserRecipe(Frozen):
    """Which caption analyser to use."""

    name: str = "rules"
    parameters: dict[str, Any] = Field(default_factory=dict)
