"""Usage of models by requests, measured and estimated, and its price."""

from __future__ import annotations

import json
import math
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from storage_schemas.errors import SlvmevalError, UserInputError
from storage_schemas.judgements import Failure, Judgement
from storage_schemas.model import Frozen
from storage_schemas.regular_files import read_regular_text
from storage_schemas.secrets import strike_out
from storage_schemas.value_problems import value_problem
from tasks.llm.model_names import is_same_model, names_of


@dataclass(frozen=True)
class ModelUsage:
    """Tokens of a further model that a request needed, such as a captioner's; fields as in :class:`Usage`."""

    model: str
    tokens_in: int = 0
    tokens_out: int = 0
    cached_in: int = 0
    written_in: int = 0
    uncounted: int = 0
    estimated_in: int = 0
    estimated_out: int = 0


@dataclass(frozen=True)
class Usage:
    """Cost of a request, without its price.

    Parameters
    ----------
    frames
        Number of frames examined.
    tokens_in, tokens_out
        Tokens of the request and of the answer, for a model behind a server.
    seconds
        Wall time.
    tries
        Number of attempts.
    others
        Tokens of further models, each with its own price.
    cached_in, written_in
        Of `tokens_in`, those read from and written to the provider's cache.
    reasoning_out
        Of `tokens_out`, those of the reasoning.
    lost
        Number of attempts that may have been paid and whose tokens were not counted: they timed out.
    uncounted
        Number of answers whose server did not count their tokens, so that their cost is unknown.
    estimated_in, estimated_out
        Their tokens by estimate; not part of `tokens_in` and `tokens_out`.
    """

    frames: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    tries: int = 1
    others: tuple[ModelUsage, ...] = ()
    cached_in: int = 0
    written_in: int = 0
    reasoning_out: int = 0
    lost: int = 0
    uncounted: int = 0
    estimated_in: int = 0
    estimated_out: int = 0

    @property
    def paid(self) -> bool:
        """Whether there was an answer, which may be charged."""
        return bool(self.tokens_in or self.tokens_out or self.uncounted)

    def expecting(self, tokens_in: int) -> Usage:
        """Return the same usage; if the server did not count the request, with its estimated tokens."""
        return replace(self, estimated_in=tokens_in) if self.uncounted and not self.tokens_in else self

    def by_model(self, model: str) -> Usage:
        """Return the same usage with its tokens listed under `model` in `others`."""
        if not self.paid:
            return self
        counts = {name: getattr(self, name) for name in _BY_MODEL}
        nothing: dict[str, Any] = dict.fromkeys(_BY_MODEL, 0)
        return replace(self, **nothing, others=(ModelUsage(model, **counts), *self.others))

    def answers_uncounted(self) -> int:
        """Return the number of answers of all models whose server did not count their tokens."""
        return self.uncounted + sum(one.uncounted for one in self.others)

    def tokens(self) -> tuple[int, int]:
        """Return the tokens in and out of all models."""
        return (
            self.tokens_in + sum(one.tokens_in for one in self.others),
            self.tokens_out + sum(one.tokens_out for one in self.others),
        )


#: Counts that are priced by the model.
_BY_MODEL = (
    "tokens_in",
    "tokens_out",
    "cached_in",
    "written_in",
    "uncounted",
    "estimated_in",
    "estimated_out",
)


def total_usage(usages: Sequence[Usage]) -> Usage:
    """Return the total usage of several requests; attempts are those of the request with the most."""
    counts: dict[str, Any] = {name: sum(getattr(usage, name) for usage in usages) for name in _BY_MODEL}
    return Usage(
        **counts,
        frames=sum(usage.frames for usage in usages),
        seconds=sum(usage.seconds for usage in usages),
        tries=max((usage.tries for usage in usages), default=0),
        others=tuple(other for usage in usages for other in usage.others),
        reasoning_out=sum(usage.reasoning_out for usage in usages),
        lost=sum(usage.lost for usage in usages),
    )


@dataclass(frozen=True)
class Estimate:
    """Estimated cost of a request.

    Parameters
    ----------
    requests
        Number of requests to a server.
    images
        Number of images sent.
    tokens_in, tokens_out
        Tokens of the model.
    model
        The model whose price applies, as in the price list.
    cached_in, written_in
        Of `tokens_in`, those read from the provider's cache, and those written to it.
    once
        Name of work that other requests reuse, also those of other evaluators; it is paid for once.
    """

    requests: int = 1
    images: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    model: str = ""
    once: str = ""
    cached_in: int = 0
    written_in: int = 0


class NotJudged(SlvmevalError):
    """A request has no answer; it becomes a row with the reason and does not affect other requests.

    Parameters
    ----------
    failure
        A member of :class:`~storage_schemas.judgements.Failure`.
    message
        A readable reason.
    raw, finish_reason, usage
        The text, finish reason and cost of an unusable answer.
    calls
        Number of requests paid for until then; None if not counted.
    details
        The conversation until then, JSON-serialisable.
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
        self.failure, self.message, self.raw = failure, str(self.args[1]), strike_out(raw)
        self.finish_reason, self.usage = finish_reason, usage or Usage()
        self.calls, self.details = calls, details or {}

    def __str__(self) -> str:
        return f"{self.failure.value}: {self.message}"


class Price(Frozen):
    """Dollars per million tokens; without a price of their own, tokens of the cache cost what others do.

    Parameters
    ----------
    cached_input_per_million, written_input_per_million
        Of tokens that are read from the provider's cache, and written to it.
    """

    input_per_million: float = Field(ge=0)
    output_per_million: float = Field(ge=0)
    cached_input_per_million: float | None = Field(default=None, ge=0)
    written_input_per_million: float | None = Field(default=None, ge=0)

    def cost(self, tokens_in: int, tokens_out: int, cached_in: int, written_in: int) -> float:
        """Return the price of tokens in dollars."""
        cached, written = (
            self.input_per_million if price is None else price
            for price in (self.cached_input_per_million, self.written_input_per_million)
        )
        plain = (tokens_in - cached_in - written_in) * self.input_per_million
        return (
            plain + cached_in * cached + written_in * written + tokens_out * self.output_per_million
        ) / 1e6


#: The package with the providers' public prices, and where it is made.
_PACKAGE, _PACKAGE_SOURCE = "genai-prices", "https://github.com/pydantic/genai-prices"


#: The share of the normal price that OpenAI, Anthropic and Google charge for a request in a batch.
BATCH_SHARE = 0.5


class Prices(Frozen):
    """The price list.

    Parameters
    ----------
    as_of
        Date on which the prices were looked up, or the version of the package.
    source
        Where they were looked up.
    models
        Prices by the model's name at its server.
    package
        Whether the package's prices apply to models that are not in `models`.
    share
        Share of the prices that is paid, such as :data:`BATCH_SHARE`.
    """

    as_of: str = ""
    source: str = ""
    models: dict[str, Price] = Field(default_factory=dict)
    package: bool = False
    share: float = Field(default=1.0, gt=0)

    def in_batches(self) -> Prices:
        """Return the prices of providers' batch interfaces."""
        source = f"{self.source}; in batches {BATCH_SHARE:.0%} of it"
        return self.model_copy(update={"share": self.share * BATCH_SHARE, "source": source})

    def cost(
        self, model: str, tokens_in: int, tokens_out: int, cached_in: int = 0, written_in: int = 0
    ) -> float | None:
        """Return the price of tokens in dollars; None if the model has no price.

        Parameters
        ----------
        cached_in, written_in
            Of `tokens_in`, those read from and written to the provider's cache.
        """
        if not tokens_in and not tokens_out:
            return 0.0
        cached_in = min(cached_in, tokens_in)
        written_in = min(written_in, tokens_in - cached_in)
        counts = (tokens_in, tokens_out, cached_in, written_in)
        # the requested model's price applies if the one that answered has none
        names = names_of(model)
        costs = [price.cost(*counts) for name in names if (price := self._own(name)) is not None]
        if not costs and self.package:
            full = (_package_cost(name, *counts) for name in names)
            costs = [cost for cost in full if cost is not None]
        return costs[0] * self.share if costs else None

    def _own(self, model: str) -> Price | None:
        """Return the listed price of a model; a server may have appended a date to its name."""
        if model in self.models:
            return self.models[model]
        return next((one for name, one in self.models.items() if is_same_model(name, model)), None)

    def of(self, estimates: Iterable[Estimate]) -> float | None:
        """Return the price of estimates in dollars; None if one of them has no price."""
        costs = [
            self.cost(one.model, one.tokens_in, one.tokens_out, one.cached_in, one.written_in)
            for one in estimates
        ]
        return None if None in costs else sum(cost for cost in costs if cost is not None)


def _package_cost(
    model: str, tokens_in: int, tokens_out: int, cached_in: int, written_in: int
) -> float | None:
    """Return the package's price of tokens, which depends on its version; None if unknown."""
    from genai_prices import Usage as Priced
    from genai_prices import calc_price

    counted = {"cache_read_tokens": cached_in, "cache_write_tokens": written_in}
    tokens = Priced(
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        **{name: count for name, count in counted.items() if count},
    )
    try:
        return float(calc_price(tokens, model).total_price)
    except LookupError:
        return None


def load_prices(path: str | None = None) -> Prices:
    """Return the public prices of the package ``genai-prices``, with those of a TOML file over them.

    Raises
    ------
    UserInputError
        If the file cannot be read or is invalid.
    """
    package = f"{_PACKAGE} {metadata.version(_PACKAGE)}"
    if path is None:
        return Prices(as_of=package, source=_PACKAGE_SOURCE, package=True)
    own = _read_prices(Path(path))
    source = "; ".join(part for part in (own.source or path, f"else {package}") if part)
    return own.model_copy(update={"source": source, "package": True})


def _read_prices(path: Path) -> Prices:
    try:
        return Prices.model_validate(tomllib.loads(read_regular_text(path)))
    except OSError as problem:
        raise UserInputError(f"prices: {path} cannot be read: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UserInputError(f"prices: {path} is not TOML: {problem}") from problem
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserInputError(f"prices: {path}: {key}: {value_problem(first)}") from problem


def usage_fields(prices: Prices, model: str, *usages: Usage) -> dict[str, Any]:
    """Return a row's fields for the cost of its request, over all models and videos.

    The cost is unknown if a server did not count the tokens of an answer; see :func:`estimated_cost`.
    """
    parts = [
        (name, one.tokens_in, one.tokens_out, one.cached_in, one.written_in)
        for name, one in _by_model(model, usages)
    ]
    costs = [prices.cost(*part) for part in parts]
    if any(one.uncounted for _, one in _by_model(model, usages)):
        costs.append(None)
    return {
        "frames": sum(usage.frames for usage in usages),
        "tokens_in": sum(part[1] for part in parts),
        "tokens_out": sum(part[2] for part in parts),
        "tries": max((usage.tries for usage in usages), default=1),
        "cost_usd": None if None in costs else sum(cost for cost in costs if cost is not None),
    }


def _by_model(model: str, usages: Sequence[Usage]) -> list[tuple[str, Usage | ModelUsage]]:
    own: list[tuple[str, Usage | ModelUsage]] = [(model, usage) for usage in usages]
    return own + [(other.model, other) for usage in usages for other in usage.others]


def estimated_cost(prices: Prices, model: str, *usages: Usage) -> dict[str, Any]:
    """Return the estimate of an unknown cost from a row's details; empty if it is known."""
    named = _by_model(model, usages)
    if not any(one.uncounted for _, one in named):
        return {}
    tokens = [
        (name, one.tokens_in + one.estimated_in, one.tokens_out + one.estimated_out) for name, one in named
    ]
    costs = [prices.cost(*one) for one in tokens]
    return {
        "estimated": {
            "tokens_in": sum(one[1] for one in tokens),
            "tokens_out": sum(one[2] for one in tokens),
            "usd": None if None in costs else sum(cost for cost in costs if cost is not None),
        }
    }


#: Minimum number of answers for an aspect's own mean; below it, the mean of all aspects is used.
OWN_MEAN = 30
#: Two-sided 95 % quantile of the normal distribution.
_Z = 1.96


@dataclass(frozen=True)
class TokenCounts:
    """Tokens of one answer.

    Parameters
    ----------
    aspect
        The aspect of the request.
    tokens_out
        Tokens of the answer, including its reasoning.
    tokens_in, expected_in
        Tokens of the request as counted by the server and as estimated; 0 if unknown.
    cached_in, expected_cached
        Of these, those read from the provider's cache, and those that it could have had.
    """

    aspect: str
    tokens_out: int
    tokens_in: int = 0
    expected_in: int = 0
    cached_in: int = 0
    expected_cached: int = 0


@dataclass(frozen=True)
class MeasuredTokens:
    """Mean tokens of answers; without answers, estimates are unchanged."""

    answers: tuple[TokenCounts, ...] = ()
    _by_aspect: dict[str, list[int]] = field(init=False, default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for one in self.answers:
            self._by_aspect[one.aspect].append(one.tokens_out)

    def tokens_out(self, aspect: str, otherwise: float) -> int:
        """Return the mean length of an answer in tokens, on an aspect or, if that has few, on all aspects."""
        own = self._by_aspect.get(aspect, [])
        if len(own) >= OWN_MEAN:
            return round(statistics.fmean(own))
        return round(self._mean_out if self.answers else otherwise)

    def tokens_in(self, expected: float) -> int:
        """Return the estimated tokens of a request, corrected by the measured ratio."""
        return round(expected * self._ratio_in)

    def cached_in(self, expected: float) -> int:
        """Return the estimated tokens read from the cache, from the possible ones and the measured share."""
        return round(expected * self._ratio_in * self._share_cached)

    @cached_property
    def _share_cached(self) -> float:
        # above 1 where requests also share more than was expected, such as frames before any damage
        could = sum(one.expected_cached for one in self.answers if one.tokens_in) * self._ratio_in
        return sum(one.cached_in for one in self.answers) / could if could else 1.0

    @cached_property
    def _mean_out(self) -> float:
        return statistics.fmean(one.tokens_out for one in self.answers)

    @cached_property
    def _ratio_in(self) -> float:
        measured = [one for one in self.answers if one.tokens_in and one.expected_in]
        expected = sum(one.expected_in for one in measured)
        return sum(one.tokens_in for one in measured) / expected if expected else 1.0

    def describe(self, what: str) -> str:
        """Return a readable basis of an estimate; requires at least one answer.

        The percentage after ± is the half-width of the mean's 95 % interval, by the normal distribution.
        """
        lengths = [one.tokens_out for one in self.answers]
        half_width = ""
        if len(lengths) > 1 and self._mean_out:
            share = _Z * statistics.stdev(lengths) / math.sqrt(len(lengths)) / self._mean_out
            half_width = f" ± {share:.0%}"
        return (
            f"by {len(lengths)} {what} in the store: {self._mean_out:,.0f} tokens out each{half_width}, "
            f"tokens in {self._ratio_in:.2f} times the estimate"
        )


def of_judgements(rows: Iterable[Judgement]) -> MeasuredTokens:
    """Return the measured tokens of a judge whose rows have them in ``tokens`` of the details.

    Failed requests were paid for too, so their answers count; their estimated tokens are not recorded.
    """
    counts = []
    for row in rows:
        tokens = json.loads(row.details).get("tokens", {})
        # the server may not have counted any tokens
        if tokens and tokens["out"]:
            read = (tokens.get("cached", 0), tokens.get("expected_cached", 0))
            counts.append(TokenCounts(row.aspect, tokens["out"], tokens["in"], tokens["expected_in"], *read))
        elif row.failure is not None and row.tokens_out:
            counts.append(TokenCounts(row.aspect, row.tokens_out))
    return MeasuredTokens(tuple(counts))
