"""Entry points through which other packages add aspects, evaluators, suites and kinds of model.

Listing them imports none of those packages.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from storage_schemas.errors import PrerequisiteError


def added_points(group: str, taken: Collection[str], what: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name; nothing is imported.

    Parameters
    ----------
    group
        Name of the entry-point group.
    taken
        Names of built-in entries.
    what
        What such an entry point adds, for error messages.

    Raises
    ------
    PrerequisiteError
        If two packages, or a package and this project, use the same name.
    """
    points: dict[str, EntryPoint] = {}
    installed = installed_points(group, _state_of_path())
    for point in sorted(installed, key=lambda point: (point.name, point.value)):
        if point.name in taken:
            raise PrerequisiteError(
                f"package entry point {point.value} names its {what} {point.name!r}, like a built-in {what}: "
                "rename or uninstall it"
            )
        # the same package twice on the path is not a conflict
        if point.name in points and points[point.name].value != point.value:
            raise PrerequisiteError(
                f"{points[point.name].value} and {point.value} both add the {what} {point.name!r}: "
                "uninstall one"
            )
        points[point.name] = point
    return points


@lru_cache(maxsize=32)
def installed_points(group: str, state: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group; all packages are read once for each state of the path."""
    return tuple(entry_points(group=group))


def _state_of_path() -> tuple[tuple[str, int], ...]:
    """Return the folders of installed packages with their times, which change when one is installed."""
    return tuple((folder, _changed_ns(folder or ".")) for folder in sys.path)


def _changed_ns(folder: str) -> int:
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0
