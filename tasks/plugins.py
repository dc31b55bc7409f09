"""Entry points by which other packages add aspects, evaluators, suites and kinds of model.

Listing them imports none of those packages.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points

from storage_schemas.errors import PrerequisiteError


def added_points(group: str, taken: Collection[str], what: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name; nothing is imported.

    Parameters
    ----------
    group
        The group that other packages use.
    taken
        Names that are built in.
    what
        What such an entry point adds, for messages.

    Raises
    ------
    PrerequisiteError
        If two packages, or a package and this project, use the same name.
    """
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=group), key=lambda point: (point.name, point.value)):
        if point.name in taken:
            raise PrerequisiteError(
                f"package entry point {point.value} calls its {what} {point.name!r}, which is the name of a "
                f"built-in {what}: rename or uninstall it"
            )
        # one package seen twice on the path is no conflict
        if point.name in found and found[point.name].value != point.value:
            raise PrerequisiteError(
                f"{found[point.name].value} and {point.value} both add the {what} {point.name!r}: "
                "uninstall one"
            )
        found[point.name] = point
    return found
