"""What commands share: their options, settings, output. Nothing heavy is imported here."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from rich.console import Console
    from rich.table import Table

    from infra.profile import Profile
    from storage_schemas.release import Release
    from storage_schemas.store import Store


#: Exit codes of a build, beside 0 (all built) and 2 (wrong usage).
FAILED = 1
SOME_SET_ASIDE = 3

SOURCES_PANEL = "What goes in"
SITE_PANEL = "Where it runs"
OUTPUT_PANEL = "What comes out"

SourcesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--sources",
        "-s",
        metavar="KIND:PATH",
        help="A data set: folder:PATH or vript:PATH; a plain PATH is a folder. Options follow a ?: "
        "'vript:PATH?unpack=true&only_present=true'. May be given several times.",
        rich_help_panel=SOURCES_PANEL,
    ),
]
RecipeOption = Annotated[
    str,
    typer.Option(
        "--recipe",
        metavar="NAME|FILE",
        help="A built-in recipe (cpu-approx, paper, paper-eight, paper-lightning) or a .toml or .json file; "
        "a pinned one rebuilds exactly its pairs.",
        rich_help_panel=SOURCES_PANEL,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one value of the recipe: clips_per_pair=3, "
        "aspects.aesthetics.parameters.contrast=-0.5. May be given several times.",
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
        help="Name of the release; a new version extends the newest one of it.  [env: SLVMEVAL_RELEASE]",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
ModelFoldersOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--model-folder",
        metavar="DIR",
        help="Folder with downloaded weights; may be given several times.  [env: SLVMEVAL_MODEL_FOLDERS]",
        rich_help_panel=SITE_PANEL,
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="How many sources are worked on at once.  [env: SLVMEVAL_WORKERS]",
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
        help="Leave files alone that changed less than this long ago.  [env: SLVMEVAL_SETTLE_S]",
        rich_help_panel=SITE_PANEL,
    ),
]
DirectOption = Annotated[
    bool,
    typer.Option(
        "--direct", help="Without Prefect and Dask: no server to start.", rich_help_panel=SITE_PANEL
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress.", rich_help_panel=OUTPUT_PANEL)
]
SummaryOption = Annotated[
    Path | None,
    typer.Option(
        "--summary",
        metavar="FILE",
        dir_okay=False,
        help="Write what was made as JSON.",
        rich_help_panel=OUTPUT_PANEL,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
VersionOption = Annotated[
    int | None, typer.Option("--version", min=1, help="Version of the release; the newest by default.")
]
ReleaseArgument = Annotated[
    str | None,
    typer.Argument(metavar="[RELEASE]", help="Name of the release; may be left out if there is one."),
]


def console(stderr: bool = False) -> Console:
    """Return a console; where the output is no terminal, lines are never folded."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else 160, highlight=False, soft_wrap=True)


def say(*lines: str) -> None:
    """Print lines as they are."""
    for line in lines:
        typer.echo(line)


def tell(line: str) -> None:
    """Print a line of progress, on standard error."""
    typer.echo(line, err=True)


def teller(quiet: bool) -> Callable[[str], None]:
    """Return what prints a line of progress, or nothing where it is to be quiet."""
    return (lambda _line: None) if quiet else tell


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    typer.echo(json.dumps(value, indent=1, ensure_ascii=False))


def print_factories(built_in: Mapping[str, str], added: Mapping[str, EntryPoint], as_json: bool) -> None:
    """Print where evaluators or suites come from: ours, then those of installed packages."""
    rows = {**built_in, **{name: point.value for name, point in added.items()}}
    if as_json:
        print_json(rows)
        return
    for name, where in rows.items():
        say(f"{name:<20} {where}")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: int = 0) -> Table:
    """Return a table; after the first column so many `numbers` follow, aligned right."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    made = Table(title=escape(title), box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for place, name in enumerate(columns):
        made.add_column(name, justify="right" if 1 <= place <= numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(escape(str(cell)) for cell in row))
    return made


@contextmanager
def step_bar(what: str, quiet: bool = False) -> Iterator[Callable[[int, int, str], None]]:
    """Give a function that shows (steps done, all steps, what was done) as a bar, or as lines in a log."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    terminal = sys.stderr.isatty()
    bars = Progress(
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=console(stderr=True),
        disable=quiet or not terminal,
        transient=True,
    )
    with bars:
        task = bars.add_task(what, total=None, note="")

        def step(done: int, total: int, note: str = "") -> None:
            bars.update(task, completed=done, total=total, note=note)
            if not quiet and not terminal:
                tell(f"{what} {done}/{total}: {note}" if note else f"{what} {done}/{total}")

        yield step


def size_text(count: int) -> str:
    """Return bytes for a person, in decimal units."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def counted(reasons: dict[str, int]) -> str:
    """Return counts by reason for a person: ``too_few_clips 2, nothing_found 1``."""
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


def path_text(path: Path | None) -> str | None:
    """Return a path as text, in full, or None where none is given."""
    return None if path is None else str(path.expanduser().resolve())


def need_sources(sources: Sequence[str] | None, site: Profile) -> None:
    """Say that the command line is wrong where neither it nor the profile names a data set."""
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


LIMITS_PANEL = "What it may take"

MostDollarsOption = Annotated[
    float | None,
    typer.Option(
        "--most-dollars", min=0, help="End the run before it costs more.", rich_help_panel=LIMITS_PANEL
    ),
]
MostTokensOption = Annotated[
    int | None,
    typer.Option(
        "--most-tokens", min=0, help="End the run before it takes more.", rich_help_panel=LIMITS_PANEL
    ),
]
PricesOption = Annotated[
    Path | None,
    typer.Option(
        "--prices", metavar="FILE", help="A price list in place of ours.", rich_help_panel=LIMITS_PANEL
    ),
]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Only estimate what it would take; no model is asked.", rich_help_panel=LIMITS_PANEL
    ),
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
RetryOption = Annotated[bool, typer.Option("--retry", help="Repeat requests that failed before.")]
ResultAsJsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON, for programs.", rich_help_panel=OUTPUT_PANEL)
]
