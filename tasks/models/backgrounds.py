"""Sets of landscape images that replace a clip's background: generated ones, or a folder of the user's."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image, ImageOps

from storage_schemas.checksum_cache import remembered_digests
from storage_schemas.errors import PrerequisiteError
from storage_schemas.frames import Planes
from storage_schemas.ids import digest_value
from storage_schemas.parquet import open_parquet
from storage_schemas.regular_files import check_regular, why_unread
from storage_schemas.rng import keyed_rng

_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp"})
#: Rows of a Parquet file decoded at once, and bytes read at once.
_STEP_ROWS = 16
_READ_AHEAD = 1 << 20


class BackgroundSet(ABC):
    """Images to draw from; each has an id, so that a draw can be recorded."""

    @property
    @abstractmethod
    def checksum(self) -> str:
        """Digest of the set's content, for an artifact's id."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> str:
        """Return the id of a random image."""

    @abstractmethod
    def image(self, id_: str, height: int, width: int) -> Planes:
        """Return an image as RGB ``(height, width, 3)`` uint8."""


class DrawnLandscapes(BackgroundSet):
    """Landscapes generated from a seed; see ``tasks/models/landscapes.py``.

    `version` increases when the generator changes, since ids depend on nothing else in it.
    """

    version = 1

    @property
    def checksum(self) -> str:
        """The version of the generator."""
        return f"drawn-landscapes-{self.version}"

    def draw(self, rng: np.random.Generator) -> str:
        """Return 12 hexadecimal digits."""
        return f"{int(rng.integers(1 << 48)):012x}"

    def image(self, id_: str, height: int, width: int) -> Planes:
        """Generate the landscape; its content also depends on the size."""
        from tasks.models.landscapes import draw_landscape

        return draw_landscape(keyed_rng("landscape", id_), height, width)


class ImageFiles(BackgroundSet):
    """A folder of image files (and of its subfolders), or of Parquet files with a column `image`.

    The id of an image is its path in the folder, with ``#row`` for a row of a Parquet file.

    Raises
    ------
    PrerequisiteError
        If the folder contains no image, or an unreadable file is named like one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        named = [path for path in folder.rglob("*") if path.suffix.lower() in {*_SUFFIXES, ".parquet"}]
        files = sorted(path for path in named if not path.is_dir())
        tables = [path for path in files if path.suffix.lower() == ".parquet"]
        self._images = [path for path in files if path.suffix.lower() in _SUFFIXES]
        for path in self._images:
            try:
                check_regular(path)
            except OSError as problem:
                raise _unusable(path, why_unread(problem)) from problem
        self._ids: list[str] = [path.relative_to(folder).as_posix() for path in self._images]
        for path in tables:
            name = path.relative_to(folder).as_posix()
            self._ids += [f"{name}#{row}" for row in range(_row_count(path))]
        if not self._ids:
            raise PrerequisiteError(
                f"{folder} contains no image: put JPEG, PNG or WebP files, or Parquet files with a column "
                "`image`, into it"
            )
        self._files = [*self._images, *tables]

    @cached_property
    def checksum(self) -> str:
        """Digest of the files' names and contents; unchanged files are not read again."""
        names = [path.relative_to(self._folder).as_posix() for path in self._files]
        digests = remembered_digests(self._folder, names)
        return digest_value([[name, digests[name]] for name in names])

    def __len__(self) -> int:
        return len(self._ids)

    def draw(self, rng: np.random.Generator) -> str:
        """Return the id of a uniformly drawn image."""
        return self._ids[int(rng.integers(len(self._ids)))]

    def image(self, id_: str, height: int, width: int) -> Planes:
        """Return an image, centre-cropped to the frame's aspect ratio and scaled with Lanczos.

        Raises
        ------
        PrerequisiteError
            If the file cannot be read as an image. Without it the set would differ, so no pair is made.
        """
        name, _, row = id_.partition("#")
        path = self._folder / name
        try:
            raw = _table_image(path, int(row)) if row else path.read_bytes()
            with Image.open(io.BytesIO(raw)) as picture:
                rgb = ImageOps.exif_transpose(picture).convert("RGB")
                fitted = ImageOps.fit(rgb, (width, height), Image.Resampling.LANCZOS)
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as problem:
            known = isinstance(problem, OSError) and problem.strerror
            raise _unusable(self._folder / id_, known or "it is not a whole picture") from problem
        return np.asarray(fitted)


def _unusable(path: Path, why: str) -> PrerequisiteError:
    return PrerequisiteError(f"the background image {path} cannot be used ({why}): replace or remove it")


def _row_count(path: Path) -> int:
    try:
        with open_parquet(path) as table:
            return int(table.metadata.num_rows)
    except (pa.ArrowException, OSError) as problem:
        why = why_unread(problem) if isinstance(problem, OSError) else "it is not a whole Parquet file"
        raise PrerequisiteError(
            f"the background images {path} cannot be used ({why}): replace or remove the file"
        ) from problem


def _table_image(path: Path, row: int) -> bytes:
    """Return the image in a row of a Parquet file.

    Its row group, possibly gigabytes of photographs, is read up to that row in small steps: about three of
    its pages (of up to 1024 rows each) are in memory at a time.
    """
    with open_parquet(path, buffer_size=_READ_AHEAD, pre_buffer=False) as table:
        for group in range(table.num_row_groups):
            count = table.metadata.row_group(group).num_rows
            if row >= count:
                row -= count
                continue
            for rows in table.iter_batches(_STEP_ROWS, [group], columns=["image"], use_threads=False):
                if row < rows.num_rows:
                    value = rows["image"][row].as_py()
                    # Hugging Face stores images as {"bytes": …, "path": …}
                    return bytes(value["bytes"] if isinstance(value, dict) else value)
                row -= rows.num_rows
    raise KeyError(f"{path.name} has no row {row}")


@lru_cache(maxsize=8)
def open_backgrounds(folder: Path) -> BackgroundSet:
    """Return the image set in a folder; the folder is listed once per process."""
    return ImageFiles(folder)
