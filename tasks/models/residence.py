"""The loaded models of a process, and processing in batches that fit the device's memory.

Each model is loaded once and evicted when another needs the memory.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cache
from threading import RLock
from typing import Any, TypeVar

from storage_schemas.errors import PrerequisiteError
from storage_schemas.sizes import size_text
from tasks.models.device import free_bytes, free_caches, is_out_of_memory


@dataclass(frozen=True)
class _Resident:
    model: Any
    memory_bytes: int
    device: str


@dataclass(frozen=True)
class LoadedModel:
    """A loaded model: its name, device and dtype (empty if it has none), and its loading time."""

    name: str
    device: str
    dtype: str
    seconds: float


class Residence:
    """Loaded models, least recently used first.

    Callers request a model with :meth:`get` each time and keep no reference: its memory is released only
    when nothing refers to it any longer. A model with resources that garbage collection does not release
    has a method ``release()``, called once when the model is freed.

    Parameters
    ----------
    probe
        Returns the free bytes of a device, or None for no limit.

    Attributes
    ----------
    loaded
        What was loaded so far, in order; a model that was freed and loaded again is there twice.
    """

    def __init__(self, probe: Callable[[str], int | None] = free_bytes) -> None:
        self._probe = probe
        self._lock = RLock()
        self._residents: OrderedDict[Hashable, _Resident] = OrderedDict()
        self.loaded: list[LoadedModel] = []

    def get(self, key: Hashable, memory_bytes: int, load: Callable[[], Any], *, device: str = "cuda") -> Any:
        """Return a model; load it if necessary, after freeing others if it does not fit.

        Parameters
        ----------
        key
            The model's name, or a tuple that starts with it: name, file, device, load options.
        memory_bytes
            Memory needed on the device: weights and the working memory of one picture.
        load
            Loads it.
        device
            ``cpu`` or ``cuda``. Only models on the same device are freed for it; on the CPU none is, unless
            the probe sets a limit there.

        Raises
        ------
        PrerequisiteError
            If it does not fit after all others were freed, with the memory needed and free.
        """
        with self._lock:
            if key not in self._residents:
                self._make_room(key, memory_bytes, device)
                began = time.monotonic()
                model = self._load(key, memory_bytes, load, device)
                self._note(key, device, model, time.monotonic() - began)
                self._residents[key] = _Resident(model, memory_bytes, device)
            self._residents.move_to_end(key)
            return self._residents[key].model

    def free_others(self, key: Hashable | None = None, *, owner: object | None = None) -> list[str]:
        """Free all models but one on its device; return the names of those freed.

        Parameters
        ----------
        key, owner
            The model that stays, by key or as object; by default the last used.
        """
        with self._lock:
            if key is None and owner is not None:
                key = next((k for k, held in self._residents.items() if held.model is owner), None)
            if key is None and owner is None and self._residents:
                key = next(reversed(self._residents))
            here = self._residents.get(key) if key is not None else None
            others = [
                other
                for other, held in self._residents.items()
                if other != key and (here is None or held.device == here.device)
            ]
            for other in others:
                self._free(other, f"{_name(key)} needs the memory")
            free_caches()
            return [_name(other) for other in others]

    def names(self) -> list[str]:
        """Return the names of the loaded models, least recently used first."""
        with self._lock:
            return [_name(key) for key in self._residents]

    def _make_room(self, key: Hashable, memory_bytes: int, device: str) -> None:
        """Free the least recently used models until one more fits, or none is left."""
        free = self._probe(device)
        if free is None or free >= memory_bytes:
            return
        # blocks cached by the allocator count as used: return them before freeing a model
        free_caches()
        while (free := self._probe(device)) is not None and free < memory_bytes:
            oldest = next((k for k, held in self._residents.items() if held.device == device), None)
            if oldest is None:
                # the request is an estimate: the load itself decides
                log.warning(
                    "%s: less memory is free than requested (%s)", _name(key), _of(memory_bytes, free)
                )
                return
            self._free(oldest, f"{_name(key)} does not fit beside it ({_of(memory_bytes, free)})")
            free_caches()

    def _load(self, key: Hashable, memory_bytes: int, load: Callable[[], Any], device: str) -> Any:
        # the second attempt is outside `except`, since the traceback holds what was loaded so far
        for last in (False, True):
            try:
                return load()
            except Exception as problem:
                if not is_out_of_memory(problem):
                    raise
                if last:
                    raise PrerequisiteError(
                        f"model {_name(key)} does not fit into the memory of {device}, although no other "
                        f"model is loaded ({_of(memory_bytes, self._probe(device))}; {problem}): free the "
                        "device of other programs, use a larger one, or load the model in a smaller dtype"
                    ) from problem
                log.warning("%s: out of memory while loading", _name(key))
            for other in [k for k, held in self._residents.items() if held.device == device]:
                self._free(other, f"{_name(key)} ran out of memory while loading")
            free_caches()
        raise AssertionError("the second attempt returns or raises")

    def _note(self, key: Hashable, device: str, model: Any, seconds: float) -> None:
        ran_on, dtype = getattr(model, "device", device), getattr(model, "dtype", "")
        self.loaded.append(LoadedModel(_name(key), str(ran_on), str(dtype), seconds))
        log.info("model %s loaded in %.1f s: %s", _name(key), seconds, ran_on)

    def _free(self, key: Hashable, why: str) -> None:
        model = self._residents.pop(key).model
        release = getattr(model, "release", None)
        if release is not None:
            release()
        log.info("model %s freed: %s", _name(key), why)


def _name(key: Hashable) -> str:
    return str(key[0]) if isinstance(key, tuple) and key else str(key)


def _of(needed: int, free: int | None) -> str:
    free_text = "free memory unknown" if free is None else f"{size_text(free)} free"
    return f"{size_text(needed)} needed, {free_text}"


@cache
def residence() -> Residence:
    """Return the loaded models of this process."""
    return Residence()


log = logging.getLogger(__name__)

T = TypeVar("T")


class Batches:
    """Processes items in batches; halves the batch size when memory runs out, and continues.

    Each loaded model has its own batch size, which also applies to later clips in the process.

    Parameters
    ----------
    requested
        Maximum number of pictures per batch, from the recipe; at least 1.
    owner
        The loaded model that uses these batches, which stays when others are freed; by default the model
        last requested.
    what
        What is processed, for messages.

    Attributes
    ----------
    size
        Current maximum number of pictures per batch.
    sizes_ran
        Distinct batch sizes of the last :meth:`run`, in order of first use.
    """

    def __init__(self, requested: int, owner: object | None = None, what: str = "picture") -> None:
        if requested < 1:
            raise ValueError(f"a batch of {requested} {what}s: at least 1 is needed")
        self.requested = requested
        self.size = requested
        self.sizes_ran: tuple[int, ...] = ()
        self._owner, self._what = owner, what

    def run(self, count: int, work: Callable[[slice], Iterable[T]]) -> list[T]:
        """Return the results of `count` pictures, in order.

        Parameters
        ----------
        count
            Number of pictures.
        work
            Called with consecutive slices of them; returns one result per picture.

        Raises
        ------
        PrerequisiteError
            If a single picture does not fit after all other models of the process were freed.
        """
        self.sizes_ran = ()
        results: list[T] = []
        alone = False
        while len(results) < count:
            batch = slice(len(results), min(len(results) + self.size, count))
            length = batch.stop - batch.start
            done = self._attempt(work, batch, last=alone)
            if done is not None:
                if len(done) != length:
                    raise ValueError(f"{len(done)} results for a batch of {length} {self._what}s")
                results.extend(done)
                if length not in self.sizes_ran:
                    self.sizes_ran += (length,)
                alone = False
            elif length > 1:
                free_caches()
                self.size = length // 2
                log.warning(
                    "out of memory with %d %ss at once: continuing with %d", length, self._what, self.size
                )
            else:
                freed = residence().free_others(owner=self._owner)
                log.warning(
                    "out of memory with one %s: freed %s", self._what, ", ".join(freed) or "only caches"
                )
                alone = True
        return results

    def _attempt(self, work: Callable[[slice], Iterable[T]], batch: slice, *, last: bool) -> list[T] | None:
        """Return the batch's results, or None if memory ran out.

        The error is dropped here: its traceback holds tensors, which must be gone before memory is freed.
        """
        try:
            return list(work(batch))
        except Exception as problem:
            if not is_out_of_memory(problem):
                raise
            if last:
                raise PrerequisiteError(
                    f"a single {self._what} does not fit into the device's memory with no other model loaded "
                    f"({problem}): free the device of other programs, or use a larger one"
                ) from problem
            return None
