"""Video-Bench as a judge of pairs: each aspect stands for one dimension (``video_bench_aspects.toml``).

Quality dimensions: both videos are the batch of one few-shot request, in both orders. Alignment dimensions:
each video is scored by itself against the whole prompt by chain of query, once; the greater score is better,
and the pair counts once, since the order of the videos has no say.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_value
from storage_schemas.judgements import Choice
from tasks.llm.usage import Estimate, NotJudged, total_usage
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, JudgeAnswer, PairwiseJudge
from tasks.scoring.judges.prompt_length import FittedPrompt, fit_prompt
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import ScoredVideo
from tasks.scoring.suites.shown_videos import SampledVideo
from tasks.scoring.suites.video_bench.dimensions import BY_NAME, QUALITY
from tasks.scoring.suites.video_bench.few_shot import VideoGroup
from tasks.scoring.suites.video_bench.scorers import AlignmentScorer, QualityScorer
from tasks.scoring.suites.video_bench.suite import VideoBench

#: Share of a model's request that a prompt may take; the rest is for frames, descriptions and instructions.
#: Not from the paper, whose prompts are a sentence long.
PROMPT_SHARE = 0.5


class RoughTokens:
    """Counts a text's tokens by its characters, for a model whose tokenizer is not here."""

    positions = None

    def __init__(self, limit: int, characters_per_token: float) -> None:
        self.limit, self._each = limit, characters_per_token

    def count(self, text: str) -> int:
        """Return about how many tokens a text has."""
        return math.ceil(len(text) / self._each)

    def ends(self, text: str) -> Sequence[int]:
        """Return where each token would end, in characters."""
        return [min(len(text), round(self._each * number)) for number in range(1, self.count(text) + 1)]


class VideoBenchJudge(PairwiseJudge):
    """Judges pairs by the dimensions of Video-Bench.

    Parameters
    ----------
    setup
        The store and the model servers.
    mapping
        Aspects whose dimension differs from ours.
    prompt_share
        Share of a model's request that a prompt may take; a longer one loses the end of each of its captions.
    repeat
        Another number asks models anew: equal requests have one kept answer.
    settings
        The suite's.
    """

    name = "video-bench"

    def __init__(
        self,
        setup: Setup,
        mapping: Mapping[str, str] | None = None,
        prompt_share: float = PROMPT_SHARE,
        repeat: int = 0,
        **settings: Any,
    ) -> None:
        if not 0 < prompt_share < 1:
            raise UserInputError(f"prompt_share is {prompt_share}: give a number between 0 and 1")
        # both orders are asked, so nothing is drawn
        self.suite = VideoBench(setup, **{"shots": 2, "order": "given", **settings})
        if self.suite.settings.shots < 2 or self.suite.settings.order != "given":
            raise UserInputError(
                "the judge shows both videos of a pair in both orders: leave out shots and order"
            )
        self.mapping = {**aspect_dimensions(), **(mapping or {})}
        for aspect, dimension in self.mapping.items():
            if dimension not in BY_NAME:
                near = difflib.get_close_matches(str(dimension), BY_NAME, n=2) or list(BY_NAME)
                raise UserInputError(
                    f"mapping: video-bench has no dimension {dimension!r} for {aspect}; "
                    f"it has {', '.join(near)}"
                )
        used = dict.fromkeys(self.mapping.values())
        self._scorers = {dimension: self.suite.scorer(dimension) for dimension in used}
        self._share, self._repeat = prompt_share, repeat

    def settings(self) -> dict[str, Any]:
        """Return the mapping and the settings of each dimension in use."""
        return {
            "mapping": dict(sorted(self.mapping.items())),
            "prompt_share": self._share,
            "repeat": self._repeat,
            "dimensions": {name: scorer.settings() for name, scorer in sorted(self._scorers.items())},
        }

    def check(self) -> None:
        """Ask the servers whether they have their models.

        Raises
        ------
        PrerequisiteError
            If one does not answer, refuses the key, or has other models only.
        """
        for scorer in {type(scorer): scorer for scorer in self._scorers.values()}.values():
            scorer.check()

    @property
    def concurrency(self) -> int:
        """As many requests as the profile allows for the multimodal model's server."""
        return next(iter(self._scorers.values())).concurrency

    def asks_both_orders(self, aspect: AspectText) -> bool:
        """Tell whether the order of the videos has a say: in quality dimensions it has."""
        return BY_NAME[self._dimension(aspect)].group == QUALITY

    def _dimension(self, aspect: AspectText) -> str:
        if aspect.name not in self.mapping:
            raise UserInputError(
                f"video-bench does not know which of its dimensions stands for {aspect.name}: say it in its "
                f'setting mapping, such as {{"{aspect.name}": "video_text_consistency"}}'
            )
        return self.mapping[aspect.name]

    def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
        """Return which video has the greater score; equal scores are a tie."""
        dimension = self._dimension(aspect)
        scorer, films = self._scorers[dimension], _films(first, second)
        details: dict[str, Any] = {"dimension": dimension}
        if isinstance(scorer, QualityScorer):
            by_place = scorer.score_batch(prompt, films, VideoGroup((0, 1)), self._repeat)
            found = [by_place[0], by_place[1]]
        elif isinstance(scorer, AlignmentScorer):
            fitted = self.fitted(prompt, scorer)
            details["prompt"] = fitted.details()
            found = [scorer.score_film(fitted.text, film, self._repeat) for film in films]
        else:
            raise TypeError(f"{type(scorer).__name__} is no scorer of Video-Bench")
        # a quality dimension has one conversation on both videos
        spoken = ("first",) if isinstance(scorer, QualityScorer) else ("first", "second")
        details |= {which: dict(one.details) for which, one in zip(spoken, found, strict=False)}
        for which, one in zip(("first", "second"), found, strict=True):
            if isinstance(one, NotJudged):
                one.details = details
                one.message = f"{dimension} of the {which} video: {one.message}"
                # of what failed no model is named, so each stands apart
                one.usage = total_usage(
                    [each.usage.by_model("" if isinstance(each, NotJudged) else each.model) for each in found]
                )
                raise one
        one, other = (each for each in found if isinstance(each, ScoredVideo))
        choice: Choice = "tie"
        if one.value != other.value:
            choice = "first" if one.value > other.value else "second"
        return JudgeAnswer(
            choice=choice,
            model=one.model,
            prompt_digest=digest_value([scorer.told(), prompt]),
            usage=total_usage([one.usage, other.usage]),
            details={
                **details,
                "scores": [one.value, other.value],
                "calls": one.calls + other.calls,
            },
        )

    def fitted(self, prompt: str, scorer: AlignmentScorer) -> FittedPrompt:
        """Return a prompt as both models can read it: where it is too long, every caption loses its end.

        Raises
        ------
        NotJudged
            `context_too_long` where not a token of every caption fits.
        """
        models = [scorer.roles.model(role) for role in scorer.asked]
        most = min(int(self._share * model.request_tokens()) for model in models)
        characters = min(model.characters_per_token for model in models)
        return fit_prompt(prompt, "each-truncate", RoughTokens(most, characters))

    def estimate(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> Sequence[Estimate]:
        """Return the requests of a comparison whose answers are not kept."""
        scorer, films = self._scorers[self._dimension(aspect)], _films(first, second)
        if isinstance(scorer, QualityScorer):
            return scorer.estimate_batch(prompt, films, self._repeat)
        if isinstance(scorer, AlignmentScorer):
            text = self.fitted(prompt, scorer).text
            return [one for film in films for one in scorer.estimate_film(text, film, self._repeat)]
        return ()


def aspect_dimensions() -> dict[str, str]:
    """Return our mapping of aspects to dimensions."""
    text = (
        resources.files("tasks.scoring.suites.video_bench")
        .joinpath("video_bench_aspects.toml")
        .read_text("utf-8")
    )
    return {str(aspect): str(dimension) for aspect, dimension in tomllib.loads(text).items()}


def _films(first: Side, second: Side) -> list[SampledVideo]:
    # no order is drawn, so the checksums of whole videos are not needed
    return [SampledVideo("", video) for video in (first, second)]
