"""The instructions that models get: ours lie in ``prompts/``, a user's folder replaces them."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from storage_schemas.errors import UserInputError


def instruction(name: str, folder: str = "") -> str:
    """Return an instruction.

    Parameters
    ----------
    name
        The file's, without ``.txt``.
    folder
        The user's; empty for none.

    Raises
    ------
    UserInputError
        If it cannot be read or is empty.
    """
    place = resources.files("tasks.suites.locot2v").joinpath("prompts", f"{name}.txt")
    if folder:
        if not Path(folder).is_dir():
            raise UserInputError(f"prompts: {folder} is no folder")
        own = Path(folder) / f"{name}.txt"
        place = own if own.is_file() else place
    try:
        text = place.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise UserInputError(f"{place} cannot be read: {problem}") from problem
    if not text:
        raise UserInputError(f"{place} is empty: write what the model is to be told, or take the file away")
    return text
