"""Pairs that are judged in place of a release's, written ``NAME:LOCATION``.

A package adds them by an entry point in the group ``slvmeval.pair_sets``. Its name is what stands before the
colon; its value is ``module:factory``, which is called with the name and with the text after the colon and
returns :class:`NamedPairs`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from importlib.metadata import EntryPoint

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.model import Frozen
from tasks.pairs.view import Pair
from tasks.plugins import added_points
from tasks.scoring.base import AspectText
from tasks.scoring.registry import load_factory
from tasks.scoring.request import PairFacts

#: Entry-point group of the factories.
GROUP = "slvmeval.pair_sets"


class NamedPairs(Frozen, ABC):
    """Pairs that are not a release's: a :class:`~tasks.scoring.request.PairSet` that is sent to workers.

    Parameters
    ----------
    name
        Name of runs on the pairs.
    """

    name: str

    @property
    @abstractmethod
    def title(self) -> str:
        """Display name."""

    @abstractmethod
    def facts(self) -> Sequence[PairFacts]:
        """Return the facts of all pairs."""

    @abstractmethod
    def open(self, pair_id: str) -> Pair:
        """Open a pair; no frame is read yet."""

    @abstractmethod
    def text(self, aspect: str, dimension: str, prompts: str) -> AspectText:
        """Return an aspect's description for evaluators; the user's description takes precedence."""

    @abstractmethod
    def check(self, wanted: Iterable[PairFacts]) -> None:
        """Check that the videos of some pairs exist, before any request."""


def pair_sets() -> dict[str, EntryPoint]:
    """Return the factories of installed packages by name; nothing is imported."""
    return added_points(GROUP, (), "set of pairs")


def split_name(text: str) -> tuple[str, str]:
    """Return name and location of ``NAME:LOCATION``.

    Raises
    ------
    UserInputError
        Without a colon.
    """
    name, colon, location = text.partition(":")
    if not colon:
        raise UserInputError(f"{text!r}: write NAME:PATH, such as pairs:mine.jsonl")
    return name, location


def pairs_from_text(text: str) -> NamedPairs:
    """Return the pairs of ``NAME:LOCATION``.

    Raises
    ------
    UserInputError
        If there is no such name, or the location is invalid.
    PrerequisiteError
        If a package cannot be imported, or returns something else.
    """
    name, location = split_name(text)
    made = load_factory("set of pairs", name, {}, pair_sets())(name, location)
    if not isinstance(made, NamedPairs):
        raise PrerequisiteError(f"set of pairs {name} is a {type(made).__name__}: it has to be NamedPairs")
    return made
