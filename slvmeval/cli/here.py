"""``slvmeval`` without a command: show the current store and the next step."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.parameters import SiteParameters
from slvmeval.cli import terminal
from slvmeval.cli.declared import with_options
from slvmeval.command_line import command_line, store_words
from storage_schemas.counts import count_text

if TYPE_CHECKING:
    from storage_schemas.store import Store

#: Usual places of a store: in a project, and as in the documentation.
_USUAL = ("store", "slvmeval-store", "build/demo/store")


def register(app: typer.Typer) -> None:
    """Register the behaviour of the program without a command."""
    app.callback(invoke_without_command=True)(with_options(here))


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("slvmeval"))
        raise typer.Exit


def here(
    options: SiteParameters,
    context: typer.Context,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Builds SLVMEval: long-video pairs with known damage, to measure the judges of generated video.

    Start with `slvmeval doctor`, then `slvmeval demo`; with your own videos:
    `slvmeval build --sources folder:VIDEOS --store STORE`.

    Without a command, show the current store and the next step.
    """
    if context.invoked_subcommand is None:
        terminal.say(*store_and_next_step(Path.cwd(), options), "", "slvmeval --help lists all commands")


_OWN_VIDEOS = (
    "slvmeval sources scan DIR  what a folder of your own videos lacks",
    "slvmeval init DIR          a project for them",
)


def store_and_next_step(folder: Path, given: SiteParameters | None = None) -> Iterator[str]:
    """Yield lines about the store that commands in a folder would use, its last build and the next step."""
    from storage_schemas.store import Store

    options, path = _store_of(folder, given or SiteParameters())
    if path is None:
        yield f"no store in {folder}"
        project = (folder / "profile.toml").is_file()
        yield from _next(
            "slvmeval build --profile profile.toml --recipe recipe.toml --gallery gallery"
            if project
            else "slvmeval demo              a small release from a free film",
            *(() if project else _OWN_VIDEOS),
        )
        return
    store = Store.open(path)
    yield f"store: {store.root}"
    yield from _of_store(store, options)


def _store_of(folder: Path, site: SiteParameters) -> tuple[list[str], Path | None]:
    """Return the store as commands name it, and its folder; None if there is none yet."""
    if site.profile or site.store:
        path = terminal.store_folder(site)
        words = ["--profile", str(site.profile)] if site.profile else []
        if site.store:
            # a profile may name another store than the default
            words += ["--store", str(site.store)] if site.profile else store_words(site.store)
        return words, path if (path / "store.json").is_file() else None
    given = [name for name in ("SLVMEVAL_STORE", "SLVMEVAL_PROFILE") if os.environ.get(name)]
    if given or (folder / "profile.toml").is_file():
        profile = None if given else folder / "profile.toml"
        path = Path(terminal.settings(profile).store)
        words = [] if given else ["--profile", "profile.toml"]
        return words, path if (path / "store.json").is_file() else None
    for name in _USUAL:
        if (folder / name / "store.json").is_file():
            return store_words(name), folder / name
    return [], None


def _of_store(store: Store, options: list[str]) -> Iterator[str]:
    from slvmeval.store_status import run_states
    from storage_schemas.judgements import JudgementsStore
    from storage_schemas.release import Release, release_names

    runs = run_states(store)
    if runs:
        state = {"died": "was killed", "failed": "failed", "running": "is running"}.get(runs[0]["status"])
        last = "last build" if runs[0]["what"] == "build" else runs[0]["what"]
        yield f"{last}: {state or 'ended'}, {runs[0]['updated_at']}"
    names = release_names(store)
    for name in names:
        release = Release.open(store, name)
        pairs, sources = (release.manifest.content[what] for what in ("pairs", "sources"))
        of = count_text(sources, "source")
        yield f"release {name}, version {release.version}: {count_text(pairs, 'pair')} of {of}"
    if runs and runs[0]["status"] == "running":
        yield from _next(command_line("status", *options, "--watch"))
    elif not names or (runs and runs[0]["status"] in ("died", "failed")):
        yield from _next("the same slvmeval build as before: it resumes")
    else:
        judged = JudgementsStore(store)
        words = [*names[:1], *options] if len(names) > 1 else options
        if judged.part_files() or judged.lines_files():
            yield from _next(command_line("report", *words, "--out", "report", "--open"))
        else:
            judges = ("-e", "duration", "-e", "sharpness", "-e", "coin")
            yield from _next(command_line("evaluate", *words, *judges))


def _next(*commands: str) -> Iterator[str]:
    yield f"next: {commands[0]}"
    yield from (f"      {command}" for command in commands[1:])
