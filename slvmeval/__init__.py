"""SLVMEval: long-video pairs with known damage, to measure the judges of generated video.

The public names are attributes of this package, imported on first use, so that ``import slvmeval`` is
cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slvmeval.foreign_packages import foreign_packages, in_words

if TYPE_CHECKING:
    from slvmeval.api import (
        Pair,
        Release,
        Side,
        Store,
        compare,
        evaluate,
        iter_pairs,
        judgements,
        open_pair,
        open_pairs_file,
        open_release,
        open_store,
        open_video_pair,
        report,
    )
    from storage_schemas.errors import (
        IntegrityError,
        PrerequisiteError,
        Reason,
        SetAside,
        SlvmevalError,
        StoreError,
        UserInputError,
    )

__all__ = [
    "IntegrityError",
    "Pair",
    "PrerequisiteError",
    "Reason",
    "Release",
    "SetAside",
    "Side",
    "SlvmevalError",
    "Store",
    "StoreError",
    "UserInputError",
    "compare",
    "evaluate",
    "iter_pairs",
    "judgements",
    "open_pair",
    "open_pairs_file",
    "open_release",
    "open_store",
    "open_video_pair",
    "report",
]

_ERRORS = frozenset(
    {
        "IntegrityError",
        "PrerequisiteError",
        "Reason",
        "SetAside",
        "SlvmevalError",
        "StoreError",
        "UserInputError",
    }
)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("slvmeval")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if foreign := foreign_packages():
        raise ImportError(in_words(foreign)) from None
    value = getattr(import_module("storage_schemas.errors" if name in _ERRORS else "slvmeval.api"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
