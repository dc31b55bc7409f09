"""The file in which a data set's sources have content categories, for those whose data set names none.

``content_categories.jsonl`` in the root has one source a line; `title` and `model` are for the reader::

    {"source_id": "v1f0c…", "content_category": "Sports", "title": "Beach", "model": "Qwen/Qwen3-8B"}

``slvmeval sources categorise`` writes it, and people may correct it.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import ValidationError

from storage_schemas.commit import storage_errors
from storage_schemas.errors import SetAside, UserInputError
from storage_schemas.json_lines import append_line
from storage_schemas.model import Frozen
from storage_schemas.regular_files import read_regular_text, why_unread
from storage_schemas.value_problems import first_error
from tasks.sources.clips import load_json

CATEGORIES_NAME = "content_categories.jsonl"


class CategoryLine(Frozen):
    """One line of the file; `model` is empty if a person wrote it."""

    source_id: str
    content_category: str
    title: str = ""
    model: str = ""


def read_content_categories(root: Path) -> dict[str, str]:
    """Return the categories by source id; none if there is no file.

    Raises
    ------
    UserInputError
        If the file cannot be read, or a line is malformed or repeats a source.
    """
    path = root / CATEGORIES_NAME
    if not os.path.lexists(path):
        return {}
    try:
        texts = read_regular_text(path, "utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as problem:
        raise UserInputError(f"{path} cannot be read: {why_unread(problem)}") from problem
    categories: dict[str, str] = {}
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            continue
        try:
            line = CategoryLine.model_validate(load_json(text, f"{path}, line {number}"), strict=True)
        except SetAside as problem:
            raise UserInputError(problem.message) from problem
        except ValidationError as problem:
            raise UserInputError(
                f"{path}, line {number}: {first_error(problem)}: correct or remove the line"
            ) from problem
        if line.source_id in categories:
            raise UserInputError(f"{path}, line {number}: a second line for {line.source_id}: remove one")
        categories[line.source_id] = line.content_category
    return categories


def append_content_category(root: Path, line: CategoryLine) -> None:
    """Append a line; it is on the disk when this returns.

    Raises
    ------
    SetAside
        If the folder cannot be written or the disk is full.
    """
    path = root / CATEGORIES_NAME
    with storage_errors(root):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            size = os.fstat(handle).st_size
            # an editor may have left the last line without its end
            begin = b"\n" if size and os.pread(handle, 1, size - 1) != b"\n" else b""
            append_line(handle, begin + line.model_dump_json().encode())
            os.fsync(handle)
        finally:
            os.close(handle)
