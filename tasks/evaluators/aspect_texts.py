"""What evaluators are told of an aspect: its id in the paper, and a text on the video's content.

The texts lie beside this file, one an aspect; a folder of a user's own replaces those that it has.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import digest_value
from tasks.evaluators.base import AspectText

if TYPE_CHECKING:
    from tasks.evaluators.request import PairSet


def aspect_text(name: str, dimension: str, folder: str | None = None) -> AspectText:
    """Return an aspect as evaluators are told of it.

    Parameters
    ----------
    name, dimension
        Our name, and the paper's id.
    folder
        Where ``NAME.txt`` is looked for first.

    Raises
    ------
    UserInputError
        If a text cannot be read or is empty.
    PrerequisiteError
        If there is none: an aspect that a package adds needs one of the user's.
    """
    places = [resources.files("tasks.evaluators").joinpath("descriptions", f"{name}.txt")]
    if folder is not None:
        if not Path(folder).is_dir():
            raise UserInputError(f"descriptions: {folder} is no folder")
        places.insert(0, Path(folder) / f"{name}.txt")
    for place in places:
        if place.is_file():
            try:
                text = " ".join(place.read_text(encoding="utf-8").split())
            except (OSError, UnicodeDecodeError) as problem:
                raise UserInputError(f"{place} cannot be read: {problem}") from problem
            if not text:
                raise UserInputError(f"{place} is empty: say what the aspect is about in a video's content")
            return AspectText(name=name, dimension=dimension, description=text)
    raise PrerequisiteError(
        f"there is no description of aspect {name} for evaluators: write one into a file {name}.txt, and "
        "give its folder with --descriptions"
    )


def changed_texts(pairs: PairSet, folder: str | None) -> dict[str, str]:
    """Return by aspect the checksums of the texts that a folder has in place of those of a set of pairs."""
    found: dict[str, str] = {}
    if folder is None:
        return found
    for name, dimension in sorted({(pair.aspect, pair.dimension) for pair in pairs.facts()}):
        try:
            ours = text_digest(pairs.text(name, dimension, None))
        except PrerequisiteError:  # an aspect that a package adds may have the user's only
            continue
        theirs = text_digest(pairs.text(name, dimension, folder))
        if theirs != ours:
            found[name] = theirs
    return found


def text_digest(text: AspectText) -> str:
    """Return the checksum of what evaluators are told of an aspect."""
    return digest_value(text)
