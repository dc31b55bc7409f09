"""The hardware that work needs, and the worker pool of a site in which it runs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from pydantic import Field

from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.model import Frozen

#: Hardware needed by an operation, an evaluator or a dimension, and that of a pool's workers.
Hardware = Literal["cpu", "gpu"]
HARDWARE: tuple[Hardware, ...] = ("cpu", "gpu")


class Placement(Frozen):
    """Where work runs: in the pool named by `placed`, else in the first pool with the hardware it needs.

    Without pools, on one machine, there is a pool `cpu` and a pool `gpu`.

    Parameters
    ----------
    pools
        Hardware of each pool, in the profile's order.
    placed
        Pools by aspect, evaluator, or ``SUITE:DIMENSION``.
    """

    pools: dict[str, Hardware] = Field(default_factory=dict)
    placed: dict[str, str] = Field(default_factory=dict)

    @property
    def known(self) -> dict[str, Hardware]:
        """Hardware of each pool, also on one machine."""
        return self.pools or {hardware: hardware for hardware in HARDWARE}

    def pool(self, hardware: Hardware, name: str = "") -> str:
        """Return the pool of some work.

        Parameters
        ----------
        hardware
            What it needs.
        name
            Its name in `placed`.

        Raises
        ------
        UserInputError
            If no pool has what it needs, or the pool named by `placed` does not exist.
        """
        if name in self.placed:
            return known_pool(self.placed[name], self.known, f"placement of {name}")
        for pool, has in self.known.items():
            if has == hardware:
                return pool
        missing = "without GPUs" if hardware == "cpu" else "with GPUs (a table such as [pools.h100])"
        raise UserInputError(
            f"{name or 'some work'} needs a pool {missing}, but the profile has only "
            f"{', '.join(self.pools)}: add one, or place the work elsewhere with [placement]"
        )

    def runs_on(self, hardware: Hardware, name: str = "") -> Hardware:
        """Return the hardware on which work runs: the hardware it needs, unless `placed` says otherwise."""
        return self.known.get(self.placed.get(name, ""), hardware)

    def here(self) -> Placement:
        """Return the placement of the same work on this machine instead of the site's pools."""
        placed: dict[str, str] = {name: self.known[pool] for name, pool in self.placed.items()}
        return Placement(placed=placed)


def known_pool(pool: str, pools: Collection[str], where: str) -> str:
    """Return the name of a pool.

    Raises
    ------
    UserInputError
        If there is no such pool; the message suggests the nearest name. `where` says where the pool is named.
    """
    if pool not in pools:
        raise UserInputError(f"{where}: no pool {pool!r}; {suggestion(pool, pools, 'the pools are')}")
    return pool
