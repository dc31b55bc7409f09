"""What the last build of a release was asked to do, kept in the store, so that it can be asked again."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from flows.options import BuildOptions
from flows.source_roots import typed_options
from storage_schemas.commit import write_atomic
from storage_schemas.errors import UserInputError
from storage_schemas.store import Store


def remember(store: Store, options: BuildOptions) -> None:
    """Keep what a build is asked to do."""
    write_atomic(asked_path(store, options.release), options.model_dump_json(indent=1).encode())


def last_options(store: Store, release: str) -> BuildOptions:
    """Return what the last build of a release was asked to do.

    Raises
    ------
    UserInputError
        If none is known.
    """
    path = asked_path(store, release)
    try:
        asked = BuildOptions.model_validate_json(path.read_bytes())
        # in JSON they have lost their types
        sources = tuple(
            root.model_copy(update={"options": typed_options(root.kind, root.options)})
            for root in asked.sources
        )
        return asked.model_copy(update={"sources": sources})
    except FileNotFoundError as problem:
        raise UserInputError(
            f"no build of release {release!r} was started in {store.root}: run `slvmeval build` first, or "
            "name another --release"
        ) from problem
    except ValidationError as problem:
        raise UserInputError(
            f"{path} was written by another version of this program: run `slvmeval build --retry` with "
            "the same options as before"
        ) from problem


def asked_path(store: Store, release: str) -> Path:
    """Return the file that says it."""
    return store.cache / f"asked-{release}.json"
