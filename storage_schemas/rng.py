"""Keyed random numbers: every draw is a function of its key, never of the order of work.

The generator is counter-based (Philox 4×64), keyed by the SHA-256 of
(release seed, source id, aspect, purpose, …), so that the same inputs give the same pairs on any
machine, in any order, with any number of workers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from storage_schemas.ids import canonical_json

T = TypeVar("T")
KeyPart = str | int


def derived_seed(*key: KeyPart) -> int:
    """Return the 128-bit seed that belongs to `key`; it is what an artifact's id consumes."""
    return int.from_bytes(_digest(key)[:16], "little")


def _digest(key: Sequence[KeyPart]) -> bytes:
    # a file name that is not UTF-8 comes with lone surrogates
    return hashlib.sha256(canonical_json(list(key)).encode("utf-8", "surrogatepass")).digest()


def keyed_rng(*key: KeyPart) -> np.random.Generator:
    """Return the generator that belongs to `key`; equal keys give equal draws everywhere."""
    return np.random.Generator(np.random.Philox(key=derived_seed(*key)))


def keyed_rank(*key: KeyPart) -> str:
    """Return a hexadecimal rank for `key`; sorting by it is a draw that ignores order of arrival."""
    return _digest(key).hex()


def shuffled(items: Sequence[T], *key: KeyPart) -> list[T]:
    """Return `items` in the random order that belongs to `key`."""
    order = keyed_rng(*key).permutation(len(items))
    return [items[int(place)] for place in order]
