"""Registry of source adapters by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage_schemas.errors import UserInputError, did_you_mean
from tasks.sources.base import SourceAdapter
from tasks.sources.folder import FolderAdapter
from tasks.sources.vript import VriptAdapter

#: Adapters by name.
ADAPTERS: Mapping[str, type[SourceAdapter]] = {
    adapter.name: adapter for adapter in (FolderAdapter, VriptAdapter)
}


def open_sources(
    kind: str, root: Path, cache: Path | None = None, settle_s: float = 0.0, **options: Any
) -> SourceAdapter:
    """Create the adapter for a data set.

    Parameters
    ----------
    kind
        ``folder`` or ``vript``.
    root, cache, settle_s
        See :class:`tasks.sources.base.SourceAdapter`.
    **options
        Options of this kind of adapter.

    Raises
    ------
    UserInputError
        If the kind or an option does not exist, or the root is not a folder.
    """
    adapter = ADAPTERS.get(kind)
    if adapter is None:
        hint = did_you_mean(kind, ADAPTERS)
        raise UserInputError(f"unknown kind of source {kind!r}: choose {' or '.join(ADAPTERS)}.{hint}")
    try:
        inspect.signature(adapter).bind(root, cache, settle_s, **options)
    except TypeError as problem:
        raise UserInputError(f"sources of the kind {kind}: {problem}") from problem
    return adapter(root, cache, settle_s, **options)
