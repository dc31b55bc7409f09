"""A suite as an evaluator of pairs: a dimension for each aspect, and prompts that its models can read."""

from __future__ import annotations

import tomllib
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from importlib import resources
from typing import Any, ClassVar

from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.ids import digest_text
from storage_schemas.judgements import Judgement
from tasks.llm.vision_models import VlmModel
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, Evaluator, Need, Sight
from tasks.scoring.judges.prompt_length import ApproximateTokens, FittedPrompt, fit_prompt
from tasks.scoring.registry import EvaluatorChoice
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Scorer, Suite, SuitePrompt, SuiteVideo
from tasks.scoring.suites.registry import make_suite, suites

#: Share of a model's request that a prompt may take; the rest is for frames, descriptions and instructions.
#: Not from the papers, whose prompts are short.
PROMPT_SHARE = 0.5
#: In a mapping, the dimension of every aspect that has none of its own.
ANY_ASPECT = "*"
#: The value of a judge's setting `dimension` that stands for each of the suite's.
ALL_DIMENSIONS = "all"
#: Settings of a suite's judge that are not the suite's.
_OF_JUDGE = ("dimension", "mapping", "prompt_share", "repeat")


class SuiteJudge(Evaluator):
    """Evaluates pairs by the dimensions of a suite.

    Parameters
    ----------
    suite
        The suite.
    mapping
        Dimension by aspect; "" for an aspect without one.
    prompt_share
        Share of a model's request that a prompt may take; a longer prompt loses the end of each caption.
    claims
        The aspects that the suite maps to the judge's one dimension; None for a judge with a dimension for
        each aspect.

    Raises
    ------
    UserInputError
        If the share is not between 0 and 1.
    """

    sees: ClassVar[tuple[Sight, ...]] = ("frames", "captions", "descriptions")
    needs: ClassVar[tuple[Need, ...]] = ("server",)
    paid: ClassVar[bool] = True

    def __init__(
        self,
        suite: Suite,
        mapping: Mapping[str, str],
        prompt_share: float,
        claims: Sequence[str] | None = None,
    ) -> None:
        if not 0 < prompt_share < 1:
            raise UserInputError(f"prompt_share is {prompt_share}: give a number between 0 and 1")
        self.suite, self._claims = suite, claims
        self.mapping, self._prompt_share = dict(mapping), prompt_share
        self._scorers = {name: suite.scorer(name) for name in dict.fromkeys(mapping.values()) if name}

    def settings(self) -> dict[str, Any]:
        """Return the mapping and the settings of each dimension in use."""
        return {
            "mapping": dict(sorted(self.mapping.items())),
            "prompt_share": self._prompt_share,
            "dimensions": {name: scorer.settings() for name, scorer in sorted(self._scorers.items())},
        }

    def scorer_of(self, aspect: str) -> Scorer | None:
        """Return the scorer of the dimension that stands for an aspect; None if none does."""
        return self._scorers.get(self.mapping.get(aspect, self.mapping.get(ANY_ASPECT, "")))

    def said(self, dimension: str) -> dict[str, Any]:
        """Return the information on the dimension in a row's details."""
        return {"dimension": dimension, **({} if self._claims is None else {"claims": list(self._claims)})}

    def check(self) -> None:
        """Check that all dimensions in use have what they need.

        Raises
        ------
        PrerequisiteError
            If a server does not answer or a model is missing.
        """
        for scorer in self._scorers.values():
            scorer.check()

    @property
    def concurrency(self) -> int:
        """The minimum of the dimensions in use."""
        return min((scorer.concurrency for scorer in self._scorers.values()), default=1)

    def learn(self, rows: Sequence[Judgement]) -> str:
        """Say what estimates assume of models that the user named."""
        texts = (text for scorer in self._scorers.values() for text in scorer.assumes())
        return "; ".join(dict.fromkeys(texts))

    @abstractmethod
    def scorer(self, aspect: AspectText) -> Scorer:
        """Return the scorer of the dimension that stands for an aspect.

        Raises
        ------
        NotJudged, UserInputError
            If no dimension does.
        """

    def fitted(
        self, prompt: str, models: Iterable[VlmModel], limits: Iterable[tuple[int, float]] = ()
    ) -> FittedPrompt:
        """Return a prompt that all models can read.

        Parameters
        ----------
        limits
            Of further models: the maximum tokens of a text, and characters per token.

        Raises
        ------
        NotJudged
            `context_too_long` if the limit is below one token per caption.
        """
        shares = [
            (int(self._prompt_share * model.request_tokens()), model.characters_per_token) for model in models
        ]
        most, characters = zip(*shares, *limits, strict=True)
        return fit_prompt(prompt, "each-truncate", ApproximateTokens(min(most), min(characters)))


def aspect_mapping(
    suite: str, package: str, dimensions: Collection[str], changes: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the dimension of each aspect: the suite's ``aspects.toml`` with a user's changes.

    Parameters
    ----------
    suite
        The suite's name, for messages.
    package
        The package that has the file.
    dimensions
        Names of the suite's dimensions.

    Raises
    ------
    UserInputError
        For a dimension that the suite does not have.
    """
    shipped = tomllib.loads(resources.files(package).joinpath("aspects.toml").read_text("utf-8"))
    mapping = {aspect: str(name) for aspect, name in {**shipped, **(changes or {})}.items()}
    for aspect, name in mapping.items():
        if name and name not in dimensions:
            hint = suggestion(name, dimensions)
            raise UserInputError(f"mapping: {suite} has no dimension {name!r} for {aspect}: {hint}")
    return mapping


def mapping_of(
    shipped: Callable[[Mapping[str, str] | None], dict[str, str]],
    mapping: Mapping[str, str] | None,
    dimension: str,
) -> tuple[dict[str, str], tuple[str, ...] | None]:
    """Return the dimensions of a judge by aspect, and what a judge of one dimension claims.

    Parameters
    ----------
    shipped
        Returns the suite's mapping with changes.
    dimension
        The only one; empty for a mapping.

    Raises
    ------
    UserInputError
        For an unknown dimension, or one together with a mapping.
    """
    if not dimension:
        return shipped(mapping), None
    if mapping:
        raise UserInputError("mapping and dimension: give one of the two")
    if dimension == ALL_DIMENSIONS:
        raise UserInputError("dimension=all stands for several evaluators, which only `evaluate` makes of it")
    claims = tuple(aspect for aspect, name in shipped(None).items() if name == dimension)
    return {ANY_ASPECT: shipped({ANY_ASPECT: dimension})[ANY_ASPECT]}, claims


def each_dimension(choice: EvaluatorChoice, setup: Setup) -> list[EvaluatorChoice]:
    """Return an evaluator for each dimension of a suite's judge with ``dimension=all``, else the one given.

    Dimensions that ask questions written for one prompt are left out.
    """
    if choice.settings.get("dimension") != ALL_DIMENSIONS or choice.use not in suites():
        return [choice]
    settings = {key: value for key, value in choice.settings.items() if key not in _OF_JUDGE}
    return [
        choice.model_copy(
            update={
                "label": f"{choice.label or choice.use}.{one.name}",
                "settings": {**choice.settings, "dimension": one.name},
            }
        )
        for one in make_suite(choice.use, setup, settings).dimensions
        if "questions" not in one.needs
    ]


def prompt_of(text: str) -> SuitePrompt:
    """Return a pair's prompt in the form of suites."""
    return SuitePrompt(prompt_id=digest_text(text)[:16], text=text)


def video_of(side: Side, prompt: SuitePrompt) -> SuiteVideo:
    """Return a video of a pair as suites take it."""
    return SuiteVideo(model="", prompt_id=prompt.prompt_id, sample=0, digest=side.identity(), video=side)
