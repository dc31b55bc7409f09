"""Options, settings and output that commands share. Nothing heavy is imported here."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from rich.console import Console
    from rich.table import Table

    from infra.profile import Profile
    from storage_schemas.release import Release
    from storage_schemas.store import Store


#: Exit codes of a build, in addition to 0 (all built) and 2 (wrong usage).
FAILED = 1
SOME_SET_ASIDE = 3

SOURCES_PANEL = "Input"
SITE_PANEL = "Site"
OUTPUT_PANEL = "Output"

SourcesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--sources",
        "-s",
        metavar="KIND:PATH",
        help="A data set: folder:PATH or vript:PATH; a plain PATH is a folder. Options follow a ?: "
        "'vript:PATH?unpack=true&only_present=true'. Repeatable.",
        rich_help_panel=SOURCES_PANEL,
    ),
]
RecipeOption = Annotated[
    str,
    typer.Option(
        "--recipe",
        metavar="NAME|FILE",
        help="A built-in recipe (cpu-approx, paper, paper-eight, paper-lightning) or a .toml or .json file; "
        "a pinned recipe rebuilds exactly its pairs.",
        rich_help_panel=SOURCES_PANEL,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one value of the recipe: clips_per_pair=3, "
        "aspects.aesthetics.parameters.contrast=-0.5. Repeatable.",
        rich_help_panel=SOURCES_PANEL,
    ),
]
DamagedOption = Annotated[
    str | None,
    typer.Option(
        "--damaged",
        metavar="refuse|truncate|conceal",
        help="Damaged videos: set aside (refuse, the default), use one that is cut off up to its last whole "
        "picture (truncate), or use it as FFmpeg plays it (conceal). Short for --set damaged=….",
        rich_help_panel=SOURCES_PANEL,
    ),
]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="DIR",
        help="Folder of the store.  [env: SLVMEVAL_STORE]",
        rich_help_panel=SITE_PANEL,
    ),
]
ReleaseOption = Annotated[
    str | None,
    typer.Option(
        "--release",
        metavar="NAME",
        help="Name of the release; a build extends its newest version.  [env: SLVMEVAL_RELEASE]",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
PromptsOption = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        metavar="DIR",
        help="Folder of prompts that replace the built-in ones; see `slvmeval prompts`.",
    ),
]
ModelFoldersOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--models",
        metavar="DIR",
        help="Model folder; repeatable.  [env: SLVMEVAL_MODEL_FOLDERS]",
        rich_help_panel=SITE_PANEL,
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Number of sources processed in parallel.  [env: SLVMEVAL_WORKERS]",
        rich_help_panel=SITE_PANEL,
    ),
]
ProfileOption = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        help="Settings of a site, as TOML.  [env: SLVMEVAL_PROFILE]",
        rich_help_panel=SITE_PANEL,
    ),
]
SettleOption = Annotated[
    float | None,
    typer.Option(
        "--settle",
        min=0,
        metavar="SECONDS",
        help="Ignore files that changed within this time.  [env: SLVMEVAL_SETTLE_S]",
        rich_help_panel=SITE_PANEL,
    ),
]
DirectOption = Annotated[
    bool,
    typer.Option(
        "--direct", help="Run without Prefect and Dask, in local processes.", rich_help_panel=SITE_PANEL
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show no progress.", rich_help_panel=OUTPUT_PANEL)
]
SummaryOption = Annotated[
    Path | None,
    typer.Option(
        "--summary",
        metavar="FILE",
        dir_okay=False,
        help="Write a summary of the result as JSON.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
VersionOption = Annotated[
    int | None, typer.Option("--version", min=1, help="Version of the release; the newest by default.")
]
ReleaseArgument = Annotated[
    str | None,
    typer.Argument(metavar="[RELEASE]", help="Name of the release; optional if there is only one."),
]


def console(stderr: bool = False) -> Console:
    """Return a console; lines are never folded if the output is not a terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 160, highlight=False, soft_wrap=True)


def say(*lines: str) -> None:
    """Print lines verbatim."""
    for line in lines:
        typer.echo(line)


def tell(line: str) -> None:
    """Print a line of progress to standard error."""
    typer.echo(line, err=True)


def teller(quiet: bool) -> Callable[[str], None]:
    """Return a function that prints a line of progress, or does nothing if `quiet`."""
    return (lambda _line: None) if quiet else tell


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))


def print_factories(built_in: Mapping[str, str], added: Mapping[str, EntryPoint], as_json: bool) -> None:
    """Print where evaluators or suites come from: built-in ones, then those of installed packages."""
    rows = {**built_in, **{name: point.value for name, point in added.items()}}
    if as_json:
        print_json(rows)
        return
    for name, where in rows.items():
        say(f"{name:<20} {where}")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: int = 0) -> Table:
    """Return a table; the `numbers` columns after the first one are aligned right."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    rich_table = Table(title=escape(title), box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for place, name in enumerate(columns):
        rich_table.add_column(name, justify="right" if 1 <= place <= numbers else "left", overflow="fold")
    for row in rows:
        rich_table.add_row(*(escape(str(cell)) for cell in row))
    return rich_table


@contextmanager
def step_bar(what: str, quiet: bool = False) -> Iterator[Callable[[int, int, str], None]]:
    """Yield a callback for (steps done, total steps, note): a progress bar, or now and then a line."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from infra.progress import LOG_EVERY_S
    from storage_schemas.printable import printable

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
    with bars:
        task = bars.add_task(what, total=None, note="")
        told = -LOG_EVERY_S

        def step(done: int, total: int, note: str = "") -> None:
            nonlocal told
            note = printable(note)
            bars.update(task, completed=done, total=total, note=note)
            if quiet or terminal:
                return
            now = time.monotonic()
            if done == total or now - told >= LOG_EVERY_S:
                told = now
                tell(f"{what} {done}/{total}: {note}" if note else f"{what} {done}/{total}")

        yield step


def dollars(usd: float | None, estimated: int = 0) -> str:
    """Return dollars for a table; those that are in part an estimate after ``~``.

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
    """Return the site's settings: command line over environment over file over default."""
    from infra.profile import load_profile

    given = {
        "store": None if store is None else str(store),
        "model_folders": [str(path) for path in model_folders] if model_folders else None,
        **others,
    }
    return load_profile(profile, given)


def recipe_changes(changes: Sequence[str] | None, damaged: str | None) -> tuple[str, ...]:
    """Return the changes of the recipe that ``--set`` and ``--damaged`` ask for.

    Raises
    ------
    UserInputError
        If `damaged` is no rule for damaged videos.
    """
    from storage_schemas.errors import UserInputError, suggestion
    from storage_schemas.source import DamageRule

    if damaged is not None and damaged not in get_args(DamageRule):
        hint = suggestion(damaged, get_args(DamageRule), "choose")
        raise UserInputError(f"--damaged {damaged}: {hint}")
    return (*(changes or ()), *([f"damaged={damaged}"] if damaged is not None else ()))


def path_text(path: Path | None) -> str | None:
    """Return a path as absolute text; None if it is None."""
    return None if path is None else str(path.expanduser().resolve())


def need_sources(sources: Sequence[str] | None, site: Profile) -> None:
    """Raise a usage error if neither the command line nor the profile names a data set."""
    if not sources and not site.sources:
        raise typer.BadParameter("give at least one: folder:PATH or vript:PATH", param_hint="--sources")


def open_store(store: Path | None, profile: Path | None = None) -> Store:
    """Open the store that the settings name."""
    from storage_schemas.store import Store

    return Store.open(Path(settings(profile, store=store).store))


def open_release(
    store: Path | None, name: str | None, version: int | None = None, profile: Path | None = None
) -> Release:
    """Open a release of the store that the settings name."""
    from storage_schemas.release import Release

    return Release.open(open_store(store, profile), name, version)


LIMITS_PANEL = "Limits"

MostDollarsOption = Annotated[
    float | None,
    typer.Option(
        "--most-dollars", min=0, help="Stop the run before it costs more.", rich_help_panel=LIMITS_PANEL
    ),
]
MostTokensOption = Annotated[
    int | None,
    typer.Option(
        "--most-tokens", min=0, help="Stop the run before it uses more.", rich_help_panel=LIMITS_PANEL
    ),
]
PricesOption = Annotated[
    Path | None,
    typer.Option(
        "--prices",
        metavar="FILE",
        help="Your own price list.",
        rich_help_panel=LIMITS_PANEL,
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Only estimate the cost; send no requests.", rich_help_panel=LIMITS_PANEL),
]
SampleOption = Annotated[
    int | None,
    typer.Option(
        "--sample",
        min=1,
        help="With --dry-run, look at only this number of items per row and extrapolate.",
        rich_help_panel=LIMITS_PANEL,
    ),
]
RepeatsOption = Annotated[int, typer.Option("--repeats", min=1, help="Number of times each request is made.")]
RetryOption = Annotated[
    list[str] | None,
    typer.Option(
        "--retry",
        metavar="REASON",
        help="Repeat requests that failed for this reason, such as refused; all for every reason.",
    ),
]
ResultAsJsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, for programs.", rich_help_panel=OUTPUT_PANEL)
]
