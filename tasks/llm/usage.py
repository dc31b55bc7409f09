"""What requests to models take, measured and estimated, and what it costs."""

from __future__ import annotations

import json
import math
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from storage_schemas.errors import SlvmevalError, UserInputError
from storage_schemas.judgements import Failure, Judgement
from storage_schemas.model import Frozen


@dataclass(frozen=True)
class ModelUsage:
    """Tokens of another model that a request needed, such as a captioner's."""

    model: str
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True)
class Usage:
    """What a request took.

    Parameters
    ----------
    frames
        Frames that were looked at.
    tokens_in, tokens_out
        Tokens of a model behind a server.
    seconds
        Wall time.
    tries
        How often it was sent.
    others
        What further models took besides, each with a price of its own.
    """

    frames: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    tries: int = 1
    others: tuple[ModelUsage, ...] = ()

    def by_model(self, model: str) -> Usage:
        """Return the same with every model apart: the own tokens become those of `model` among `others`."""
        if not self.tokens_in and not self.tokens_out:
            return self
        own = ModelUsage(model, self.tokens_in, self.tokens_out)
        return replace(self, tokens_in=0, tokens_out=0, others=(own, *self.others))

    def tokens(self) -> tuple[int, int]:
        """Return the tokens in and out of all models."""
        return (
            self.tokens_in + sum(one.tokens_in for one in self.others),
            self.tokens_out + sum(one.tokens_out for one in self.others),
        )


def total_usage(usages: Sequence[Usage]) -> Usage:
    """Return what several requests took together; attempts are those of the request with the most."""
    return Usage(
        frames=sum(usage.frames for usage in usages),
        tokens_in=sum(usage.tokens_in for usage in usages),
        tokens_out=sum(usage.tokens_out for usage in usages),
        seconds=sum(usage.seconds for usage in usages),
        tries=max((usage.tries for usage in usages), default=0),
        others=tuple(other for usage in usages for other in usage.others),
    )


@dataclass(frozen=True)
class Estimate:
    """What a request will take, estimated before it is sent.

    Parameters
    ----------
    requests
        Requests to a server.
    images
        Images that are sent.
    tokens_in, tokens_out
        Tokens of the model.
    model
        The model whose price counts, as the price list names it.
    once
        A name of work that further requests reuse, also another evaluator's: it is paid for once.
    """

    requests: int = 1
    images: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    model: str = ""
    once: str = ""


class NotJudged(SlvmevalError):
    """This request has no answer; it becomes a row with the reason and harms no other.

    Parameters
    ----------
    failure
        A member of :class:`~storage_schemas.judgements.Failure`.
    message
        What happened, for a person.
    raw, finish_reason, usage
        What came back all the same.
    calls
        Requests to servers that were paid for until then; None where that was not counted.
    details
        What was said until then, JSON-able.
    """

    def __init__(
        self,
        failure: Failure,
        message: str,
        raw: str = "",
        finish_reason: str = "",
        usage: Usage | None = None,
        calls: int | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(failure, message)
        self.failure, self.message, self.raw = failure, message, raw
        self.finish_reason, self.usage = finish_reason, usage or Usage()
        self.calls, self.details = calls, details or {}

    def __str__(self) -> str:
        return f"{self.failure.value}: {self.message}"


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
    place = resources.files("tasks.llm").joinpath("prices.toml") if path is None else Path(path)
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


def usage_fields(prices: Prices, model: str, *usages: Usage) -> dict[str, Any]:
    """Return the fields of a row that say what it took, all models and videos together."""
    parts = [(model, usage.tokens_in, usage.tokens_out) for usage in usages]
    parts += [(one.model, one.tokens_in, one.tokens_out) for usage in usages for one in usage.others]
    costs = [prices.cost(*part) for part in parts]
    return {
        "frames": sum(usage.frames for usage in usages),
        "tokens_in": sum(part[1] for part in parts),
        "tokens_out": sum(part[2] for part in parts),
        "tries": max((usage.tries for usage in usages), default=1),
        "cost_usd": None if None in costs else sum(cost for cost in costs if cost is not None),
    }


#: From so many answers on, an aspect has a mean of its own; before that all aspects share one.
OWN_MEAN = 30
#: A normal distribution's two-sided 95 %.
_Z = 1.96


@dataclass(frozen=True)
class TokenCounts:
    """Tokens of one answer.

    Parameters
    ----------
    aspect
        The aspect that was asked about.
    tokens_out
        Tokens of the answer with its thoughts.
    tokens_in, expected_in
        Tokens of the request as the server counted them, and as estimated before; 0 where one is not known.
    """

    aspect: str
    tokens_out: int
    tokens_in: int = 0
    expected_in: int = 0


@dataclass(frozen=True)
class MeasuredTokens:
    """What some answers took, on the mean; without answers it says nothing."""

    answers: tuple[TokenCounts, ...] = ()
    _by_aspect: dict[str, list[int]] = field(init=False, default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for one in self.answers:
            self._by_aspect[one.aspect].append(one.tokens_out)

    def tokens_out(self, aspect: str, otherwise: float) -> int:
        """Return the mean length of an answer on an aspect, in tokens; of all aspects where it has few."""
        own = self._by_aspect.get(aspect, [])
        if len(own) >= OWN_MEAN:
            return round(statistics.fmean(own))
        return round(self._mean_out if self.answers else otherwise)

    def tokens_in(self, expected: float) -> int:
        """Return the tokens of a request by those that were estimated."""
        return round(expected * self._ratio_in)

    @cached_property
    def _mean_out(self) -> float:
        return statistics.fmean(one.tokens_out for one in self.answers)

    @cached_property
    def _ratio_in(self) -> float:
        known = [one for one in self.answers if one.tokens_in and one.expected_in]
        expected = sum(one.expected_in for one in known)
        return sum(one.tokens_in for one in known) / expected if expected else 1.0

    def says(self, what: str) -> str:
        """Return for a person on what an estimate rests; there has to be an answer.

        The share after ± is half of the mean's 95 % interval, by the normal distribution.
        """
        lengths = [one.tokens_out for one in self.answers]
        wide = ""
        if len(lengths) > 1 and self._mean_out:
            share = _Z * statistics.stdev(lengths) / math.sqrt(len(lengths)) / self._mean_out
            wide = f" ± {share:.0%}"
        return (
            f"by {len(lengths)} {what} in the store: {self._mean_out:,.0f} tokens out each{wide}, "
            f"tokens in {self._ratio_in:.2f} times the estimate"
        )


def of_judgements(rows: Iterable[Judgement]) -> MeasuredTokens:
    """Return what the answers of a judge took that notes it in the details' ``tokens``.

    A request that failed was paid for as well, so its answer counts; how many tokens it was expected to have
    is not kept.
    """
    found = []
    for row in rows:
        noted = json.loads(row.details).get("tokens", {})
        if noted:
            found.append(TokenCounts(row.aspect, noted["out"], noted["in"], noted["expected_in"]))
        elif row.failure is not None and row.tokens_out:
            found.append(TokenCounts(row.aspect, row.tokens_out))
    return MeasuredTokens(tuple(found))
