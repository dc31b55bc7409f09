"""What tokens cost: a dated file that a user can replace. A model that is not in it has no known price."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from pydantic import Field, ValidationError

from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen
from tasks.evaluators.base import Estimate


class Price(Frozen):
    """Dollars for a million tokens."""

    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)


class Prices(Frozen):
    """The price list.

    Parameters
    ----------
    as_of
        The day on which the prices were looked up.
    source
        Where.
    models
        By the name that the model's server uses.
    """

    as_of: str = ""
    source: str = ""
    models: dict[str, Price] = Field(default_factory=dict)

    def cost(self, model: str, tokens_in: int, tokens_out: int) -> float | None:
        """Return the dollars of some tokens, None where the model has no price."""
        if not tokens_in and not tokens_out:
            return 0.0
        price = self.models.get(model)
        if price is None:
            return None
        return (tokens_in * price.input_per_million + tokens_out * price.output_per_million) / 1e6

    def of(self, estimates: Iterable[Estimate]) -> float | None:
        """Return the dollars of estimates, None where one of them has no price."""
        costs = [self.cost(e.model, e.tokens_in, e.tokens_out) for e in estimates]
        return None if None in costs else sum(cost for cost in costs if cost is not None)


def load_prices(path: str | None = None) -> Prices:
    """Return the price list of a TOML file; ours by default.

    Raises
    ------
    UserInputError
        If it cannot be read or does not fit.
    """
    place = resources.files("tasks.evaluators").joinpath("prices.toml") if path is None else Path(path)
    try:
        return Prices.model_validate(tomllib.loads(place.read_text(encoding="utf-8")))
    except OSError as problem:
        raise UserInputError(f"prices: {place} cannot be read: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UserInputError(f"prices: {place} is no TOML: {problem}") from problem
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserInputError(f"prices: {place}: {key}: {first['msg']}") from problem
