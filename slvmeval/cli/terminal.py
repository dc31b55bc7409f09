"""Options, settings and output that commands share. Nothing heavy is imported here."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field

from flows.annotate.parameters import Database
from flows.parameters import OUTPUT, RARE, DryRun, Given, ReleaseParameters, SiteParameters
from slvmeval.cli.declared import refuse
from storage_schemas.first_of_many import first_lines
from storage_schemas.model import Frozen
from storage_schemas.printable import printable, printable_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

    from infra.profile import Profile
    from storage_schemas.release import Release
    from storage_schemas.store import Store
    from tasks.scoring.user_files import UnusedLine


#: Exit codes of a build, in addition to 0 (all built) and 2 (wrong usage).
FAILED = 1
SOME_SET_ASIDE = 3


DirectOption = Annotated[
    bool, Given(panel=RARE), Field(description="Run without Prefect and Dask, in local processes.")
]
#: How a result is printed.
Format = Literal["table", "json", "markdown"]
FormatOption = Annotated[
    Format,
    Given(("--format",), "FORM", panel=OUTPUT),
    Field(description="Print a table, json or markdown."),
]
QuietOption = Annotated[bool, Given(("--quiet", "-q"), panel=OUTPUT), Field(description="Show no progress.")]
PortOption = Annotated[int, Field(ge=0, le=65535, description="0 for any free port.")]
GpuPoolOption = Annotated[
    str,
    Given(metavar="POOL"),
    Field(description="GPU pool of the job; the profile's first one by default."),
]

VotesOption = Annotated[
    tuple[str, ...], Given(("--campaign",), "NAME"), Field(description="Only votes of this campaign.")
]


class RunSwitches(Frozen):
    """How a command runs and reports, besides the run's parameters."""

    dry_run: DryRun = False
    sample: Annotated[int | None, Given(by_set=True)] = Field(
        default=None,
        ge=1,
        description="With --dry-run, look at only this number of items per row and extrapolate.",
    )
    direct: DirectOption = False
    summary: Annotated[str | None, Given(metavar="FILE", panel=RARE, path=True)] = Field(
        default=None, description="Write a summary of the result as JSON."
    )
    output: FormatOption = "table"
    quiet: QuietOption = False

    def refuse_ignored(self) -> None:
        """Refuse switches that would be ignored.

        Raises
        ------
        UsageError
            If there is one.
        """
        if self.dry_run:
            refuse(self, "not with --dry-run", "summary")
        else:
            refuse(self, "only with --dry-run", "sample")


class DeskParameters(SiteParameters):
    """The annotation database, and its store."""

    database: Database = None


def console(stderr: bool = False) -> Console:
    """Return a console; lines are never folded if the output is not a terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 160, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Grid:
    """A table; the `numbers` columns after the first one are aligned right."""

    title: str
    columns: Sequence[str]
    rows: Iterable[Sequence[object]]
    numbers: int = 0


#: What :func:`say` prints.
Part = str | Grid


def say(*parts: Part) -> None:
    """Print lines and tables; control sequences, which file names may contain, are escaped."""
    for part in parts:
        _say.get()(part)


def _say_plainly(part: Part) -> None:
    if isinstance(part, str):
        typer.echo(printable(part, keep="\n\t"))
    else:
        console().print(table(part))


def _say_markdown(part: Part) -> None:
    """Print a part as Markdown: a line becomes a paragraph, with commands as code."""
    from storage_schemas.markdown import escape_but_code, escape_markdown, markdown_table

    if isinstance(part, str):
        words = (escape_but_code(line) for line in part.splitlines() if line.strip())
        lines = [line for text in words for line in (text, "")]
    else:
        are_numbers = [1 <= index <= part.numbers for index in range(len(part.columns))]
        lines = [
            f"**{escape_markdown(part.title)}**",
            "",
            *markdown_table(part.columns, are_numbers, part.rows),
            "",
        ]
    for line in lines:
        typer.echo(printable(line))


#: How parts are printed; :func:`show` changes it.
_say: ContextVar[Callable[[Part], None]] = ContextVar("say", default=_say_plainly)

#: Maximum number of lines of a list to print; the others are counted.
MAX_LISTED = 10


def say_first(lines: Sequence[str], see: str = "") -> None:
    """Print the first lines of a list and the number of the others; `see` says how to show all."""
    say(*first_lines(lines, MAX_LISTED, see))


def say_left_out(rows: Sequence[UnusedLine], why: str = "left out", see: str = "") -> None:
    """Print the first rows of a user's file that were left out."""
    say_first([f"{why}: {one.where}: {one.message}" for one in rows], see)


def tell(line: str) -> None:
    """Print a line of progress to standard error."""
    typer.echo(printable(line, keep="\n\t"), err=True)


def teller(quiet: bool) -> Callable[[str], None]:
    """Return a function that prints a line of progress, or does nothing if `quiet`."""
    return (lambda _line: None) if quiet else tell


@contextmanager
def long_work(what: str, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """Yield a function that prints a line of progress; after a long silence the last line is repeated."""
    from infra.progress import SilenceBreaker

    if quiet:
        yield teller(quiet)
        return
    with SilenceBreaker(tell, what) as silence:

        def say_it(line: str) -> None:
            silence.heard()
            silence.working_on(line)
            tell(line)

        yield say_it


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(printable_json(json.dumps(value, indent=1, ensure_ascii=False)))


def show(form: Format, value: Any, *parts: Part | Callable[[], object]) -> None:
    """Print a result: one JSON value for programs, else tables, lines, and the output of functions."""
    if form == "json":
        print_json(value)
        return
    before = _say.set(_say_markdown if form == "markdown" else _say_plainly)
    try:
        for part in parts:
            if callable(part):
                part()
            else:
                say(part)
    finally:
        _say.reset(before)


def table(grid: Grid) -> Table:
    """Return a table for a terminal."""
    from rich import box
    from rich.table import Table

    rich_table = Table(
        title=_shown(grid.title), box=box.SIMPLE_HEAD, title_justify="left", title_style="bold"
    )
    for index, name in enumerate(grid.columns):
        is_number = 1 <= index <= grid.numbers
        rich_table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in grid.rows:
        rich_table.add_row(*(_shown(str(cell)) for cell in row))
    return rich_table


def rendered(part: Part) -> RenderableType:
    """Return a part for a terminal's live view."""
    from rich.text import Text

    return Text(printable(part)) if isinstance(part, str) else table(part)


def _shown(text: str) -> str:
    from rich.markup import escape

    return escape(printable(text, keep="\n\t"))


@contextmanager
def step_bar(what: str, quiet: bool = False) -> Iterator[Callable[[int, int, str], None]]:
    """Yield a callback for (steps done, total steps, note): a progress bar, or occasional lines."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from infra.progress import LOG_EVERY_S, SilenceBreaker

    terminal = sys.stderr.isatty()
    bars = Progress(
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=console(stderr=True),
        disable=quiet or not terminal,
        transient=True,
    )
    silence = SilenceBreaker(tell, what)
    with bars, nullcontext() if quiet or terminal else silence:
        task = bars.add_task(what, total=None, note="")
        told = -LOG_EVERY_S

        def step(done: int, total: int, note: str = "") -> None:
            nonlocal told
            note = printable(note)
            bars.update(task, completed=done, total=total, note=note)
            if quiet or terminal:
                return
            silence.working_on(f"{what} {done}/{total}")
            now = time.monotonic()
            if done == total or now - told >= LOG_EVERY_S:
                told = now
                silence.heard()
                tell(f"{what} {done}/{total}: {note}" if note else f"{what} {done}/{total}")

        yield step


def dollars(usd: float | None, estimated: int = 0) -> str:
    """Return dollars for a table; amounts that are partly estimated begin with ``~``.

    Examples
    --------
    >>> dollars(1.5), dollars(1.5, estimated=3), dollars(None)
    ('1.50', '~1.50', 'unknown')
    """
    return "unknown" if usd is None else f"{'~' if estimated else ''}{usd:.2f}"


def counted(reasons: dict[str, int]) -> str:
    """Return counts by reason as text: ``too_few_clips 2, nothing_found 1``."""
    return ", ".join(f"{reason} {count}" for reason, count in sorted(reasons.items()))


def settings(
    profile: Path | None = None,
    *,
    store: Path | None = None,
    model_folders: Sequence[Path] | None = None,
    **others: Any,
) -> Profile:
    """Return the site's settings; command line overrides environment, file and default, in this order."""
    from infra.profile import load_profile

    given = {
        "store": None if store is None else str(store),
        "model_folders": [str(path) for path in model_folders] if model_folders else None,
        **others,
    }
    return load_profile(profile, given)


def path_text(path: Path | None) -> str | None:
    """Return a path as absolute text; None if it is None."""
    return None if path is None else str(path.expanduser().resolve())


def need_sources(sources: Sequence[str] | None, site: Profile) -> None:
    """Raise a usage error if neither the command line nor the profile names a data set."""
    if not sources and not site.sources:
        raise typer.BadParameter("give at least one: folder:PATH or vript:PATH", param_hint="--sources")


def open_store(options: SiteParameters) -> Store:
    """Open the store that the settings name."""
    from storage_schemas.store import Store

    return Store.open(store_folder(options))


def store_folder(options: SiteParameters) -> Path:
    """Return the folder of the store that the settings name, or its subfolder ``store``, as in a project."""
    root = Path(options.site().store)
    below = root / "store"
    return below if not (root / "store.json").exists() and (below / "store.json").is_file() else root


def open_release(options: ReleaseParameters) -> Release:
    """Open a release of the store that the settings name."""
    from storage_schemas.release import Release

    return Release.open(open_store(options), options.release)
