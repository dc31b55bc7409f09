"""Work on many pictures in batches that fit the device's memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from storage_schemas.errors import PrerequisiteError
from tasks.models.device_memory import free_caches, is_out_of_memory
from tasks.models.residence import residence

log = logging.getLogger(__name__)

T = TypeVar("T")


class Batches:
    """Runs work in batches; where the memory runs out the batch is halved and the work goes on.

    It lives in the loaded model, so what was learned holds for all later clips of the process.

    Parameters
    ----------
    requested
        Largest number of pictures at once, as the recipe has it; at least 1.
    owner
        The loaded model that works in these batches: it stays when others are freed. Without it the model
        that was last asked for stays.

    Attributes
    ----------
    size
        Largest number of pictures at once by now.
    sizes_ran
        Sizes of the batches of the last :meth:`run`, each once, in the order in which they first came.
    """

    def __init__(self, requested: int, owner: object | None = None) -> None:
        if requested < 1:
            raise ValueError(f"a batch of {requested} pictures: at least 1 is needed")
        self.requested = requested
        self.size = requested
        self.sizes_ran: tuple[int, ...] = ()
        self._owner = owner

    def run(self, count: int, work: Callable[[slice], Iterable[T]]) -> list[T]:
        """Return the results of `count` pictures, in order.

        Parameters
        ----------
        count
            Number of pictures.
        work
            Called with consecutive slices of them; returns as many results.

        Raises
        ------
        PrerequisiteError
            If one picture alone does not fit although all other models of the process were freed.
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
                    raise ValueError(f"{len(done)} results for a batch of {length} pictures")
                results.extend(done)
                if length not in self.sizes_ran:
                    self.sizes_ran += (length,)
                alone = False
            elif length > 1:
                free_caches()
                self.size = length // 2
                log.warning("out of memory with %d pictures at once: going on with %d", length, self.size)
            else:
                freed = residence().free_others(owner=self._owner)
                log.warning("out of memory with one picture: freed %s", ", ".join(freed) or "only caches")
                alone = True
        return results

    @staticmethod
    def _attempt(work: Callable[[slice], Iterable[T]], batch: slice, *, last: bool) -> list[T] | None:
        """Return the batch's results, or None if the memory ran out.

        The error ends here: its traceback holds tensors, which must be gone before memory is freed.
        """
        try:
            return list(work(batch))
        except Exception as problem:
            if not is_out_of_memory(problem):
                raise
            if last:
                raise PrerequisiteError(
                    f"not even one picture fits into the device's memory with no other model loaded "
                    f"({problem}): end what else uses this device, or use a larger one"
                ) from problem
            return None
