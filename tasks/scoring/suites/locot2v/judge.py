"""LoCoT2V-Bench as a judge of pairs: each aspect stands for one of its dimensions (``locot2v_aspects.toml``).

Each video is scored by itself; the greater score is better.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, ClassVar

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import digest_text
from storage_schemas.judgements import Failure
from tasks.aspects.base import Pool
from tasks.llm.conversation import Role
from tasks.llm.usage import Estimate, NotJudged
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, PointwiseScorer, Score
from tasks.scoring.judges.prompt_length import FittedPrompt, fit_prompt
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Scorer, SuitePrompt, SuiteVideo
from tasks.scoring.suites.locot2v.dimensions import BY_NAME, HERD, HERD_NAMES
from tasks.scoring.suites.locot2v.event_consistency import EventConsistency
from tasks.scoring.suites.locot2v.suite import Locot2vBench
from tasks.scoring.suites.locot2v.text_scorers import WordsScorer
from tasks.scoring.suites.video_bench.judge import RoughTokens

#: Share of a model's request that a prompt may take. Not from the paper, whose prompts have 240 words.
PROMPT_SHARE = 0.5
_READS: Sequence[Role] = ("language",)


class Locot2vJudge(PointwiseScorer):
    """Scores a video in the dimension that stands for an aspect.

    Parameters
    ----------
    suite
        The suite.
    mapping
        Dimension by aspect.
    prompt_share
        Share of a model's request that a prompt may take; a longer one loses the end of each of its captions.
    """

    name = "locot2v-bench"

    def __init__(self, suite: Locot2vBench, mapping: Mapping[str, str], prompt_share: float) -> None:
        self.suite, self.mapping, self._share = suite, dict(mapping), prompt_share
        used = [one.name for one in suite.dimensions if one.name in set(mapping.values())]
        self._scorers: dict[str, Scorer] = {name: suite.scorer(name) for name in used}

    def settings(self) -> dict[str, Any]:
        """Return the mapping and the settings of each dimension in use."""
        return {
            "mapping": dict(sorted(self.mapping.items())),
            "prompt_share": self._share,
            "dimensions": {name: scorer.settings() for name, scorer in sorted(self._scorers.items())},
        }

    def check(self) -> None:
        """Check that all dimensions in use have what they need.

        Raises
        ------
        PrerequisiteError
            If a server does not answer or weights are missing, with the dimension and what to do.
        """
        for scorer in self._scorers.values():
            scorer.check()

    @property
    def concurrency(self) -> int:
        """The least that a dimension in use allows."""
        return min((scorer.concurrency for scorer in self._scorers.values()), default=1)

    def score(self, prompt: str, video: Side, aspect: AspectText) -> Score:
        """Return the score of one video in the dimension of an aspect.

        Raises
        ------
        NotJudged
            `no_answer` for an aspect without a dimension, and whatever the dimension has no score for.
        """
        scorer = self._scorer(aspect)
        said, details = self._prompt(prompt, scorer)
        found = scorer.score(said, [_video(video, said.prompt_id)])[0]
        name = scorer.dimension.name
        if isinstance(found, NotJudged):
            found.message = f"{name}: {found.message}"
            found.details = {"dimension": name, **details, **found.details}
            raise found
        return Score(
            found.value,
            model=found.model,
            usage=found.usage,
            details={"dimension": name, "calls": found.calls, **details, **found.details},
        )

    def estimate(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> Sequence[Estimate]:
        """Return the requests of a comparison whose answers are not kept."""
        scorer = self._scorer(aspect)
        said, _ = self._prompt(prompt, scorer)
        return scorer.estimate(said, [_video(video, said.prompt_id) for video in (first, second)])

    def _scorer(self, aspect: AspectText) -> Scorer:
        name = self.mapping.get(aspect.name)
        if not name:
            raise NotJudged(
                Failure.NO_ANSWER,
                f"no dimension of LoCoT2V-Bench stands for {aspect.name}: name one in the setting mapping",
            )
        return self._scorers[name]

    def _prompt(self, prompt: str, scorer: Scorer) -> tuple[SuitePrompt, dict[str, Any]]:
        id_ = digest_text(prompt)[:16]
        if not isinstance(scorer, WordsScorer | EventConsistency):
            return SuitePrompt(prompt_id=id_, text=prompt), {}
        fitted = self.fitted(prompt, scorer)
        return SuitePrompt(prompt_id=id_, text=fitted.text), {"prompt": fitted.details()}

    def fitted(self, prompt: str, scorer: WordsScorer | EventConsistency) -> FittedPrompt:
        """Return a prompt as all models of a dimension can read it; too long ones lose each caption's end.

        Raises
        ------
        NotJudged
            `context_too_long` where not a token of every caption fits.
        """
        # of events' consistency only the language model reads it
        roles = scorer.measure.roles if isinstance(scorer, WordsScorer) else _READS
        models = [scorer.roles.model(role) for role in roles]
        most = [int(self._share * model.request_tokens()) for model in models]
        characters = [model.characters_per_token for model in models]
        if isinstance(scorer, WordsScorer) and scorer.similarity is not None:
            embeddings = scorer.similarity.model
            most.append(embeddings.most_tokens)
            characters.append(embeddings.characters_per_token)
        return fit_prompt(prompt, "each-truncate", RoughTokens(min(most), min(characters)))


class LoadedLocot2vJudge(Locot2vJudge):
    """As above, where a dimension in use loads a model."""

    pool: ClassVar[Pool] = "h100"


def locot2v_bench(
    setup: Setup,
    mapping: Mapping[str, str] | None = None,
    prompt_share: float = PROMPT_SHARE,
    **settings: Any,
) -> Locot2vJudge:
    """Make the judge; nothing is loaded yet.

    Parameters
    ----------
    mapping
        Aspects whose dimension differs from ours; "" for an aspect that is not to be judged.
    prompt_share
        As for :class:`Locot2vJudge`.
    settings
        The suite's. Here event alignment counts events that are missing (``over = "prompt"``) unless
        `matching` says otherwise.

    Raises
    ------
    UserInputError
        For a dimension that there is not or that needs questions, or a setting that does not fit.
    PrerequisiteError
        If the profile does not name a server, or weights are missing, with the aspects that need them.
    """
    if not 0 < prompt_share < 1:
        raise UserInputError(f"prompt_share is {prompt_share}: give a number between 0 and 1")
    whole = {**aspect_dimensions(), **(mapping or {})}
    for aspect, dimension in whole.items():
        if dimension in HERD_NAMES:
            raise UserInputError(
                f"mapping: {dimension} ({HERD}) cannot stand for {aspect}: its questions are of one prompt"
            )
        if dimension and dimension not in BY_NAME:
            near = difflib.get_close_matches(str(dimension), BY_NAME, n=3) or list(BY_NAME)
            raise UserInputError(
                f"mapping: locot2v-bench has no {dimension!r} for {aspect}; it has {', '.join(near)}"
            )
    matching = settings.pop("matching", None)
    if matching is None or isinstance(matching, Mapping):
        matching = {"over": "prompt", **(matching or {})}
    suite = Locot2vBench(setup, matching=matching, **settings)
    pools = {_pool(suite, dimension, whole) for dimension in dict.fromkeys(whole.values()) if dimension}
    return (LoadedLocot2vJudge if "h100" in pools else Locot2vJudge)(suite, whole, prompt_share)


def _pool(suite: Locot2vBench, dimension: str, mapping: Mapping[str, str]) -> Pool:
    """Return where a dimension is scored; what it lacks is said with the aspects that need it."""
    try:
        scorer = suite.scorer(dimension)
        # which weights there are is part of the key
        scorer.settings()
    except PrerequisiteError as problem:
        aspects = [aspect for aspect, wanted in mapping.items() if wanted == dimension]
        raise PrerequisiteError(
            f"locot2v-bench needs {dimension} for {', '.join(aspects)}: {problem}. Or leave such aspects out "
            f'with the setting mapping = {{{aspects[0]} = ""}}'
        ) from problem
    return scorer.pool


def aspect_dimensions() -> dict[str, str]:
    """Return our mapping of aspects to dimensions."""
    text = resources.files("tasks.scoring.suites.locot2v").joinpath("locot2v_aspects.toml").read_text("utf-8")
    return {str(aspect): str(dimension) for aspect, dimension in tomllib.loads(text).items()}


def _video(video: Side, prompt_id: str) -> SuiteVideo:
    return SuiteVideo(model="", prompt_id=prompt_id, sample=0, digest=video.identity(), video=video)
