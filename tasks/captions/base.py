"""What every caption analyser is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from storage_schemas.analysis import CaptionAnalysis
from storage_schemas.model import Frozen

if TYPE_CHECKING:
    from tasks.captions.answers import AnswerJournal


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
