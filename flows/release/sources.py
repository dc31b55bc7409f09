"""The sources that a build scans, and the release that it extends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flows.release.options import BuildOptions
from flows.release.state import BuildState
from storage_schemas.errors import Reason, UsageError, UserInputError
from storage_schemas.provenance import utc_now
from storage_schemas.release import Release
from storage_schemas.set_aside import SetAsideRow
from storage_schemas.source import Source
from storage_schemas.store import Store
from tasks.pairs.stages import source_row
from tasks.sources.base import SourceAdapter
from tasks.sources.registry import open_sources
from tasks.votes.release_votes import filtered_from


def open_all_sources(options: BuildOptions) -> list[SourceAdapter]:
    """Return the adapters of a build's sources, which have not read anything yet; the store need not exist.

    Raises
    ------
    UserInputError
        If a folder is missing or not of the stated kind.
    """
    cache = Store.cache_of(Path(options.store))
    return [
        open_sources(root.kind, Path(root.path), cache, options.settle_s, **root.options)
        for root in options.sources
    ]


def scan_sources(state: BuildState, adapters: Sequence[SourceAdapter]) -> None:
    """Add the usable sources to a state, and a row for each that is not.

    Raises
    ------
    UserInputError
        If no source is given or a folder is invalid.
    """
    for adapter in adapters:
        for item in adapter.scan():
            if isinstance(item, SetAsideRow):
                state.rows.append(item.model_copy(update={"at": item.at or utc_now()}))
            elif item.id in state.sources:
                state.rows.append(_second_of_its_id(item, state.sources[item.id]))
            else:
                state.sources[item.id] = item
    if not state.sources and not state.rows and not adapters:
        raise UsageError("no sources: use --sources folder:PATH or --sources vript:PATH")


def _second_of_its_id(second: Source, first: Source) -> SetAsideRow:
    if second.content_sha256 == first.content_sha256:
        message = f"{second.video} has the same content as {first.video}: remove one of them"
        return source_row(second, "catalogue", Reason.DUPLICATE_CONTENT, message)
    message = f"{second.video} has the id of {first.video} ({first.id}): give one of them another id"
    return source_row(second, "catalogue", Reason.DUPLICATE_ID, message)


def extended_release(store: Store, name: str) -> Release | None:
    """Return the newest version of a release after checking it; None if there is none.

    Raises
    ------
    UserInputError
        If it was filtered from another release.
    IntegrityError
        If it is damaged: the damage would enter the next version with a new checksum.
    """
    try:
        parent = Release.open(store, name)
    except UserInputError:
        return None
    parent.check()
    origin = filtered_from(parent)
    if origin is not None:
        raise UserInputError(
            f"release {parent.name} was filtered from {origin['name']}: build {origin['name']}, and "
            "filter it again"
        )
    return parent
