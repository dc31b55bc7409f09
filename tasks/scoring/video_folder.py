"""The videos below a folder that a user's file names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from storage_schemas.errors import Reason, SetAside
from storage_schemas.regular_files import in_either_form
from tasks.sources.base import refuse_to_leave


class VideoFolder:
    """The videos under one folder; each is searched once.

    Parameters
    ----------
    root
        Paths of the set's files are relative to it and cannot leave it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[str, Path | SetAside] = {}

    def find(self, named: str) -> Path:
        """Return the video of a path in the set's files.

        Raises
        ------
        SetAside
            `unsafe_path`, `video_missing` or `empty_file`.
        """
        if named not in self._known:
            try:
                self._known[named] = self._look(named)
            except SetAside as problem:
                self._known[named] = problem
        video = self._known[named]
        if isinstance(video, SetAside):
            raise video
        return video

    def first(self, names: Sequence[str]) -> Path:
        """Return the first existing path.

        Raises
        ------
        SetAside
            For the first path, if none exists.
        """
        problems = []
        for name in names:
            try:
                return self.find(name)
            except SetAside as problem:
                problems.append(problem)
        raise problems[0]

    def _look(self, named: str) -> Path:
        parts = PurePosixPath(named.replace("\\", "/"))
        drive = bool(parts.parts) and parts.parts[0].endswith(":")
        if not named.strip() or "\0" in named or parts.is_absolute() or drive or ".." in parts.parts:
            raise SetAside(
                Reason.UNSAFE_PATH, f"the path {named[:200]!r} may leave the videos' folder: do not trust it"
            )
        path = in_either_form(self.root.joinpath(*parts.parts))
        if not path.is_file():
            raise SetAside(Reason.VIDEO_MISSING, f"there is no video {path}")
        refuse_to_leave(path, self.root, named)
        if path.stat().st_size == 0:
            raise SetAside(Reason.EMPTY_FILE, f"{path} has zero bytes: get it again")
        return path
