"""The public Python interface: open a store, a release, a pair, or your own pairs."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.pairs import view
from tasks.pairs.file_pairs import open_video_pair, read_pairs_file
from tasks.pairs.view import Pair, Side

__all__ = [
    "Pair",
    "Release",
    "Side",
    "Store",
    "iter_pairs",
    "open_pair",
    "open_pairs_file",
    "open_release",
    "open_store",
    "open_video_pair",
]


def open_store(path: str | Path) -> Store:
    """Open the store in a folder.

    Raises
    ------
    StoreError
        If there is none, or one of another schema version.
    """
    return Store.open(Path(path))


def open_release(store: str | Path | Store, name: str | None = None, version: int | None = None) -> Release:
    """Open a release; without a name the only one, without a version the newest complete one.

    Parameters
    ----------
    store
        A store, or its folder.

    Raises
    ------
    StoreError
        If there is no store, or one of another schema version.
    UserInputError
        If there is no such release or version; the message lists the existing ones.

    Examples
    --------
    >>> release = open_release("build/demo/store")  # doctest: +SKIP
    >>> for pair in iter_pairs(release, "aesthetics"):  # doctest: +SKIP
    ...     print(pair.id, len(pair.low), pair.low_intervals)
    """
    return Release.open(store if isinstance(store, Store) else open_store(store), name, version)


def open_pair(release: Release, pair_id: str) -> Pair:
    """Open a pair by its id or an unambiguous prefix; frames are read lazily.

    Raises
    ------
    UserInputError
        If no pair, or more than one, matches.
    StoreError
        If the source's frames were evicted.
    """
    return view.open_pair(release.store, release, pair_id)


def iter_pairs(release: Release, aspect: str | None = None) -> Iterator[Pair]:
    """Yield the pairs of a release, or those of one aspect, opening each when it is reached."""
    for record in release.pairs(aspect=aspect):
        yield view.open_record(release.store, record, release.prompt(record.source_id))


def open_pairs_file(path: str | Path, *, fps: Fraction | int = 1, long_side: int = 512) -> list[Pair]:
    """Open your own pairs from a JSON Lines file; see :func:`tasks.pairs.file_pairs.read_pairs_file`.

    Raises
    ------
    UserInputError
        Naming the file and the line, if the file or a video is missing or a line is invalid.
    """
    return read_pairs_file(Path(path), fps=Fraction(fps), long_side=long_side)
