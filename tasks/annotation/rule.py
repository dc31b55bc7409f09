"""The rule by which a pair stays after people have looked at it; part of the recipe."""

from __future__ import annotations

from pydantic import Field

from storage_schemas.model import Frozen


class FilterRule(Frozen):
    """When a pair stays.

    Parameters
    ----------
    workers_per_pair
        Votes that a pair needs (SLVMEval, section 4.4: 5); with fewer it is undecided.
    most_c
        Votes C that a pair may have (0).
    least_lead
        By how many votes A has to lead over B (1: A > B).
    drop_excluded
        Whether votes of workers that were excluded later count no more; then the pair is shown to others
        (the paper keeps them).
    """

    workers_per_pair: int = Field(default=5, ge=1)
    most_c: int = Field(default=0, ge=0)
    least_lead: int = Field(default=1)
    drop_excluded: bool = False
