"""``--against`` of a suite's tables: printed values next to ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from flows.parameters import Given
from slvmeval.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tasks.report.table import Table
    from tasks.scoring.suites.base import Suite

AgainstOption = Annotated[
    str | None,
    Given(metavar="paper|FILE"),
    Field(description="Show published values next to ours: those of the suite's paper, or of a TOML file."),
]


def compared_with(against: str | None, suite: Suite | None, tables: Sequence[Table]) -> list[Table]:
    """Return the comparison with published values, to print and to write; nothing without ``--against``.

    Raises
    ------
    UserInputError
        If the values cannot be read, or no suite determines the paper.
    """
    from storage_schemas.errors import UsageError
    from tasks.report.suite_published import PAPER, hold_suite_against, read_suite_published

    if against is None:
        return []
    if suite is None and against == PAPER:
        raise UsageError(f"--against {PAPER} needs a suite: name it")
    published = read_suite_published(against, "" if suite is None else suite.published)
    titles = {} if suite is None else {one.name: one.title for one in suite.dimensions}
    comparison = hold_suite_against(published, tables, titles)
    for line in comparison.absent:
        terminal.tell(line)
    shown = [column.title for column in comparison.table.shown]
    terminal.say(terminal.Grid(comparison.table.title, shown, comparison.table.cells()))
    return [comparison.table]
