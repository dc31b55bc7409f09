"""The strength of a pair as a number on its operation's scale."""

from __future__ import annotations

from storage_schemas.errors import SlvmevalError
from storage_schemas.pair import PairRecord
from tasks.aspects.base import Parameters
from tasks.aspects.registry import aspect as find_aspect


def strength_number(record: PairRecord) -> float | None:
    """Return a pair's strength as a number; None without a scale, or if its package is not installed."""
    try:
        operation = find_aspect(record.aspect).operation(record.operation)
    except SlvmevalError:
        return None
    parameters: Parameters = operation.parameters_type.model_validate(record.parameters)
    return operation.strength_of(parameters)
