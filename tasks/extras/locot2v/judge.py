"""LoCoT2V-Bench as a judge of pairs: each aspect stands for one of its dimensions (``aspects.toml``).

Each video is scored separately; the greater score is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.judgements import Failure
from storage_schemas.model import Frozen
from storage_schemas.placement import Hardware
from tasks.extras.locot2v.dimensions import BY_NAME, HERD, HERD_NAMES
from tasks.extras.locot2v.event_consistency import EventConsistency
from tasks.extras.locot2v.settings import Locot2vSettings
from tasks.extras.locot2v.suite import Locot2vBench
from tasks.extras.locot2v.text_scorers import WordsScorer
from tasks.llm.conversation import Role
from tasks.llm.usage import Estimate, NotJudged
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, Need, PointwiseScorer, Score
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Scorer, SuitePrompt
from tasks.scoring.suites.conversation_scorer import ConversationScorer
from tasks.scoring.suites.pairwise import (
    PROMPT_SHARE,
    SuiteJudge,
    aspect_mapping,
    mapping_of,
    prompt_of,
    video_of,
)


class Locot2vJudge(SuiteJudge, PointwiseScorer):
    """Scores a video in the dimension that stands for an aspect; parameters as :class:`SuiteJudge`."""

    name = "locot2v-bench"
    needs: ClassVar[tuple[Need, ...]] = ("server", "weights", "package")
    settings_model: ClassVar[type[Frozen] | None] = Locot2vSettings
    prompt_areas: ClassVar[tuple[str, ...]] = ("locot2v-bench",)

    def score(self, prompt: str, video: Side, aspect: AspectText) -> Score:
        """Return the score of one video in the dimension of an aspect.

        Raises
        ------
        NotJudged
            `no_answer` for an aspect without a dimension, or whatever the dimension's scorer gives.
        """
        scorer = self.scorer(aspect)
        short, details = self._prompt(prompt, scorer)
        (result,) = scorer.score(short, [video_of(video, short)])
        name = scorer.dimension.name
        if isinstance(result, NotJudged):
            result.message = f"{name}: {result.message}"
            result.details = {**self.said(name), **details, **result.details}
            raise result
        return Score(
            result.value,
            model=result.model,
            usage=result.usage,
            details={**self.said(name), "calls": result.calls, **details, **result.details},
        )

    def estimate(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> Sequence[Estimate]:
        """Return the requests of a comparison whose answers are not kept."""
        scorer = self.scorer(aspect)
        short, _ = self._prompt(prompt, scorer)
        return scorer.estimate(short, [video_of(video, short) for video in (first, second)])

    def scorer(self, aspect: AspectText) -> Scorer:
        """Return the scorer of the dimension that stands for an aspect.

        Raises
        ------
        NotJudged
            `no_answer` if no dimension does.
        """
        scorer = self.scorer_of(aspect.name)
        if scorer is None:
            raise NotJudged(
                Failure.NO_ANSWER,
                f"no dimension of locot2v-bench stands for {aspect.name}: name one in its setting mapping",
            )
        return scorer

    def _prompt(self, prompt: str, scorer: Scorer) -> tuple[SuitePrompt, dict[str, Any]]:
        """Return a prompt that all models of a dimension can read, with how it was cut."""
        if not isinstance(scorer, ConversationScorer):
            return prompt_of(prompt), {}
        # for the consistency of events only the language model reads the prompt
        readers: Sequence[Role] = ("language",) if isinstance(scorer, EventConsistency) else scorer.asked
        limits = []
        if isinstance(scorer, WordsScorer) and scorer.similarity is not None:
            embeddings = scorer.similarity.model
            limits.append((embeddings.most_tokens, embeddings.characters_per_token))
        fitted = self.fitted(prompt, [scorer.roles.model(role) for role in readers], limits)
        return prompt_of(fitted.text), {"prompt": fitted.details()}


class LoadedLocot2vJudge(Locot2vJudge):
    """The judge if a dimension in use loads a model."""

    hardware: ClassVar[Hardware] = "gpu"


class OneDimension(Locot2vJudge):
    """The judge of one dimension: a video's score holds for all aspects."""

    by_aspect: ClassVar[bool] = False


class LoadedOneDimension(OneDimension):
    """The judge of one dimension that loads a model."""

    hardware: ClassVar[Hardware] = "gpu"


def locot2v_bench(
    setup: Setup,
    mapping: Mapping[str, str] | None = None,
    dimension: str = "",
    prompt_share: float = PROMPT_SHARE,
    **settings: Any,
) -> Locot2vJudge:
    """Make the judge; nothing is loaded yet.

    Parameters
    ----------
    mapping
        Aspects whose dimension differs from ours; "" for an aspect that is not to be judged.
    dimension
        The only one, for all aspects; ``all`` stands for an evaluator for each.
    prompt_share
        As for :class:`SuiteJudge`.
    settings
        The suite's. Here event alignment counts missing events (``over = "prompt"``) unless `matching` says
        otherwise.

    Raises
    ------
    UserInputError
        For an unknown dimension, one that needs questions, or an invalid setting.
    PrerequisiteError
        If the profile does not name a server or a model is missing, with the aspects that need it.
    """
    whole, claims = mapping_of(aspect_dimensions, mapping, dimension)
    for aspect, name in whole.items():
        if name in HERD_NAMES:
            raise UserInputError(
                f"mapping: {name} ({HERD}) cannot stand for {aspect}: its questions are about one prompt"
            )
    matching = settings.pop("matching", None)
    if matching is None or isinstance(matching, Mapping):
        matching = {"over": "prompt", **(matching or {})}
    suite = Locot2vBench(setup, matching=matching, **settings)
    loads = "gpu" in {_hardware(suite, name, whole) for name in dict.fromkeys(whole.values()) if name}
    if claims is not None:
        return (LoadedOneDimension if loads else OneDimension)(suite, whole, prompt_share, claims)
    return (LoadedLocot2vJudge if loads else Locot2vJudge)(suite, whole, prompt_share)


def _hardware(suite: Locot2vBench, dimension: str, mapping: Mapping[str, str]) -> Hardware:
    """Return the hardware that a dimension needs.

    Raises
    ------
    PrerequisiteError
        If the dimension lacks something, with the aspects that need it.
    """
    try:
        scorer = suite.scorer(dimension)
        # the key depends on which weights are present
        scorer.settings()
    except PrerequisiteError as problem:
        aspects = [aspect for aspect, wanted in mapping.items() if wanted == dimension]
        raise PrerequisiteError(
            f"locot2v-bench needs {dimension} for {', '.join(aspects)}: {problem}. Or leave such aspects out "
            f'with the setting mapping = {{{aspects[0]} = ""}}'
        ) from problem
    return scorer.hardware


def aspect_dimensions(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the dimension of each aspect; raises as :func:`aspect_mapping`."""
    return aspect_mapping("locot2v-bench", "tasks.extras.locot2v", BY_NAME, changes)
