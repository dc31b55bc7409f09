"""Base class of caption analysers, their part of the recipe, and the journal of accepted answers.

Each answer is on the disk before the next one is awaited.
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
    """The answers of one analysis, in a folder created with the first answer.

    Parameters
    ----------
    folder
        A folder used by this analysis only.
    """

    def __init__(self, folder: Path) -> None:
        self._lines = LinesFolder(folder, CaptionAnswer, "that caption is analysed again")

    def __enter__(self) -> AnswerJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.close()

    def read(self) -> dict[str, CaptionAnswer]:
        """Return the answers of all processes, by the checksum of their caption."""
        answers: dict[str, CaptionAnswer] = {}
        for answer in self._lines.rows():
            answers.setdefault(answer.caption, answer)
        return answers

    def append(self, answer: CaptionAnswer) -> None:
        """Append an answer; it is on the disk when this returns.

        Raises
        ------
        SetAside
            If the disk is full or cannot be written.
        """
        self._lines.append(answer)

    def remove(self) -> None:
        """Remove all answers, once they are in an artifact."""
        # a network file system keeps a folder that has an open file
        self._lines.close()
        if self._lines.folder.is_dir():
            # another process that made the same artifact may remove them at the same time
            shutil.rmtree(self._lines.folder, ignore_errors=True)


def write_answers(path: Path, source_id: str, answers: Iterable[tuple[int, CaptionAnswer]]) -> None:
    """Write the answers about a source's clips, one row per clip sent to the model."""
    rows = [
        {"source_id": source_id, "clip": clip, **answer.model_dump(exclude={"caption", "analysis"})}
        for clip, answer in answers
    ]
    write_rows(path, ANSWERS, rows)


class NotAnalysed(Frozen):
    """A caption that could not be analysed, with the reason.

    It differs from an empty analysis, which means that the caption names nothing.
    """

    message: str
    #: Whether the server rejected the request itself.
    refused: bool = False


class CaptionAnalyser(ABC):
    """Extracts the entities that captions name (SLVMEval, appendix E.1).

    Class attributes
    ----------------
    name, version
        Part of the id of every analysis; increase the version when results change.
    packages
        Distributions used, for the provenance.
    asks_server
        Whether it uses a server, so that its answers are expensive and kept one by one.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    packages: ClassVar[tuple[str, ...]] = ()
    asks_server: ClassVar[bool] = False

    def consumes(self) -> dict[str, Any]:
        """Return all inputs of the result besides the caption, JSON-serialisable, for the artifact's id."""
        return {"analyser": self.name, "version": self.version}

    @abstractmethod
    def check(self) -> None:
        """Check before any work that all requirements are installed, without loading them.

        Raises
        ------
        PrerequisiteError
            If a requirement is missing; the message has the command that installs it.
        """

    def check_server(self) -> None:
        """Check that the required server, if any, is available; called once by the build's driver.

        Raises
        ------
        PrerequisiteError
            If it is not; the message says what to do.
        """
        return None

    @abstractmethod
    def analyse(
        self, captions: Sequence[str], journal: AnswerJournal | None = None
    ) -> Sequence[CaptionAnalysis | NotAnalysed]:
        """Return one result per caption, in order; a failing caption does not affect the others.

        Parameters
        ----------
        captions
            Captions of clips; each is analysed independently.
        journal
            Where an analyser with expensive answers stores each one immediately and finds those of an
            interrupted run.

        Raises
        ------
        PrerequisiteError
            If a required model or server is missing, before any caption is analysed.
        """


class AnalyserRecipe(Frozen):
    """Which caption analyser to use."""

    name: str = "rules"
    parameters: dict[str, Any] = Field(default_factory=dict)
