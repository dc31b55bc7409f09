"""``slvmeval init``: a project folder to start from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated, Literal

import typer
from pydantic import Field

from flows.parameters import Given
from slvmeval.cli import terminal
from slvmeval.cli.declared import refuse
from slvmeval.cli.evaluate.evaluators import Shape, new
from storage_schemas.model import Frozen

#: Initial files for a site with a cluster, by their names in the documentation. Images are built from a
#: source tree.
_CLUSTER = ("slurm", "infra/postgres")
#: A project's files, and the packaged files they are made from.
_FILES = {
    "README.md": "README.md.txt",
    "profile.toml": "profile.toml.txt",
    "recipe.toml": "recipe.toml.txt",
    "sources/README.md": "sources.md.txt",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Start here")(init)


class InitOptions(Frozen):
    """Options of `init`."""

    folder: Annotated[Path, Given(("folder",), "DIR")] = Field(
        description="The project's folder; it may exist."
    )
    cluster: bool = Field(
        default=False,
        description="Add files for a site with SLURM: profiles, job scripts, a server on PostgreSQL.",
    )
    kind: Annotated[
        Literal["judge", "scorer", "model-judge", "manifest"] | None,
        Given(metavar="judge|scorer|model-judge|manifest"),
    ] = Field(
        default=None,
        description="Write the package of a new evaluator instead (a judge compares two videos, a scorer "
        "rates one, model-judge asks a model), or the manifest of a folder of generated videos.",
    )


def init(
    options: InitOptions,
) -> None:
    """Write a project folder: a profile, a recipe, a folder for videos, and a README with the next commands.

    Nothing is overwritten. With `--kind` it writes a working package for a new evaluator, with a test, named
    after the folder. With `--kind manifest` it writes a first manifest.csv into a folder of videos for
    `suite run`: the first folder of a path is taken as the model, and you fill in the prompt of each video.

    Example: `slvmeval init my-benchmark`, `slvmeval init my-judge --kind judge`
    """
    from slvmeval.new_files import write_new_files

    if options.kind is not None:
        refuse(options, "only for a project, without --kind", "cluster")
        if options.kind == "manifest":
            _write_manifest(options.folder)
        else:
            new(options.folder, Shape(options.kind))
        return
    write_new_files(options.folder, project_files(options.folder.resolve().name, options.cluster))
    terminal.say(
        f"{options.folder} is now a project; its README.md lists the commands. Next:",
        f"  put videos with captions into {options.folder}/sources (see README.md there for the format)",
        f"  cd {options.folder}",
        "  slvmeval build --profile profile.toml --recipe recipe.toml --gallery gallery",
    )


def _write_manifest(videos: Path) -> None:
    """Write a first manifest for a folder of videos; an existing one is not replaced."""
    from storage_schemas.commit import write_atomic
    from storage_schemas.errors import UserInputError
    from tasks.scoring.suites.manifest import draft_manifest

    target = videos / "manifest.csv"
    if target.exists():
        raise UserInputError(f"{target} already exists: remove or rename it")
    text, count = draft_manifest(videos)
    write_atomic(target, text.encode())
    terminal.say(f"{count} files: {target}; fill in the column prompt_id, and model where it is empty")


def project_files(name: str, cluster: bool) -> dict[str, str]:
    """Return a project's files: texts by path.

    Parameters
    ----------
    name
        Name of the project's folder.
    cluster
        Add the files for a site with a cluster.
    """
    texts = files("slvmeval") / "project"

    def text(source: str) -> str:
        return (texts / source).read_text(encoding="utf-8")

    words = {
        # a built-in recipe's name is only for its own values
        "name": f"{re.sub(r'[^A-Za-z0-9._-]+', '-', name).strip('-') or 'my'}-project",
        "version": version("slvmeval"),
        "cluster": text("cluster.md.txt") if cluster else "",
    }
    made = {target: Template(text(source)).safe_substitute(words) for target, source in _FILES.items()}
    if cluster:
        # next to this package, in a source tree and in an installation
        home = Path(str(files("slvmeval"))).parent
        for folder in _CLUSTER:
            made |= dict(_texts(home / folder, folder))
    return made


def _texts(folder: Path, prefix: str) -> Iterator[tuple[str, str]]:
    for one in sorted(folder.iterdir()):
        if one.is_dir() and one.name != "__pycache__":
            yield from _texts(one, f"{prefix}/{one.name}")
        elif one.is_file() and not one.name.startswith("."):
            yield f"{prefix}/{one.name}", one.read_text(encoding="utf-8")
