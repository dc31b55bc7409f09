"""Keyed random numbers: every draw depends only on its key, never on the order of execution.

The generator is counter-based (Philox 4×64) and keyed by the SHA-256 of (release seed, source id, aspect,
purpose, …), so the same inputs give the same pairs on any machine, in any order, with any number of
workers.
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
    """Return the 128-bit seed for `key`, as used in artifact ids."""
    return int.from_bytes(_digest(key)[:16], "little")


def _digest(key: Sequence[KeyPart]) -> bytes:
    # a file name that is not UTF-8 contains lone surrogates
    return hashlib.sha256(canonical_json(list(key)).encode("utf-8", "surrogatepass")).digest()


def keyed_rng(*key: KeyPart) -> np.random.Generator:
    """Return the generator for `key`; equal keys give equal draws everywhere."""
    return np.random.Generator(np.random.Philox(key=derived_seed(*key)))


def keyed_rank(*key: KeyPart) -> str:
    """Return a hexadecimal rank for `key`; sorting by it is a draw independent of the input order."""
    return _digest(key).hex()


def shuffled(items: Sequence[T], *key: KeyPart) -> list[T]:
    """Return `items` in the random order given by `key`."""
    order = keyed_rng(*key).permutation(len(items))
    return [items[int(index)] for index in order]
