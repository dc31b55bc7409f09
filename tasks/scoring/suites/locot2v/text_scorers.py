"""Scorers of the dimensions that texts and language models decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from storage_schemas.ids import digest_value
from tasks.aspects.base import Pool
from tasks.llm.conversation import Roles, dry_run
from tasks.llm.usage import Estimate, NotJudged
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Dimension, ScoredVideo, Scorer, SuitePrompt, SuiteVideo
from tasks.scoring.suites.locot2v.askers import DryRunComparer, LiveComparer, roles_of, similarity_of
from tasks.scoring.suites.locot2v.clarity import Clarity
from tasks.scoring.suites.locot2v.dimensions import CLARITY_NAMES, HERD_NAMES
from tasks.scoring.suites.locot2v.herd import Herd
from tasks.scoring.suites.locot2v.human_action import HumanAction
from tasks.scoring.suites.locot2v.measure import Measure
from tasks.scoring.suites.locot2v.settings import Locot2vSettings
from tasks.scoring.suites.locot2v.text_alignment import EventAlignment, OverallAlignment
from tasks.scoring.suites.locot2v.text_similarity import TextSimilarity, embedding_model
from tasks.scoring.suites.shown_videos import SampledVideo, readable

#: What measures each dimension.
MEASURES: Mapping[str, type[Measure]] = {
    "overall_alignment": OverallAlignment,
    "event_alignment": EventAlignment,
    "human_action": HumanAction,
    **dict.fromkeys(CLARITY_NAMES, Clarity),
    **dict.fromkeys(HERD_NAMES, Herd),
}


class WordsScorer(Scorer):
    """Scores one video by steps that are asked of models.

    Parameters
    ----------
    measure
        The steps, and how they become a number.
    roles
        The models.
    similarity
        What compares texts, for a measure that does.
    """

    def __init__(self, measure: Measure, roles: Roles, similarity: TextSimilarity | None = None) -> None:
        super().__init__(measure.dimension)
        self.measure, self.roles, self.similarity = measure, roles, similarity

    @property
    def concurrency(self) -> int:
        """As many as the profile allows for the multimodal model's server."""
        return self.roles.concurrency("multimodal")

    def settings(self) -> dict[str, Any]:
        """Return models, constants and the checksum of the instructions."""
        found = {
            "models": self.roles.settings(self.measure.roles),
            "told": digest_value(dict(self.measure.told())),
            **self.measure.settings.model_dump(mode="json", include=set(self.measure.uses)),
        }
        if self.similarity is not None:
            found["embeddings"] = self.similarity.embedder.settings()
        return found

    def check(self) -> None:
        """Ask the servers whether they have their models, and look for the model of embeddings.

        Raises
        ------
        PrerequisiteError
            If something is not there.
        """
        self.roles.check(self.measure.roles)
        if self.similarity is not None:
            self.similarity.embedder.check()

    def score(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[ScoredVideo | NotJudged]:
        """Return the score of each video, with the whole conversation."""
        return [self.score_film(prompt, SampledVideo(one.digest, one.video), repeat) for one in videos]

    def score_film(self, prompt: SuitePrompt, film: SampledVideo, repeat: int = 0) -> ScoredVideo | NotJudged:
        """Return the score of one video, or why there is none."""
        asker = LiveComparer(self.roles, similarity=self.similarity)
        try:
            with readable():
                found = self.measure.value(asker, prompt, film, repeat)
        except NotJudged as problem:
            return asker.failed(problem)
        details = {**found.details, **asker.details()}
        return ScoredVideo(found.value, asker.usage(), asker.calls, asker.model, details)

    def estimate(
        self, prompt: SuitePrompt, videos: Sequence[SuiteVideo], repeat: int = 0
    ) -> Sequence[Estimate]:
        """Return the requests of each video whose answers are not kept."""
        films = [SampledVideo(one.digest, one.video) for one in videos]
        return [one for film in films for one in self.estimate_film(prompt, film, repeat)]

    def estimate_film(self, prompt: SuitePrompt, film: SampledVideo, repeat: int = 0) -> list[Estimate]:
        """Return the requests for one video whose answers are not kept."""
        asker = DryRunComparer(self.roles, similarity=self.similarity)
        return dry_run(asker, lambda asker: self.measure.value(asker, prompt, film, repeat))


class LoadedWordsScorer(WordsScorer):
    """As above, where the model of embeddings is loaded in this process."""

    pool: ClassVar[Pool] = "h100"


def words_scorer(dimension: Dimension, setup: Setup, settings: Locot2vSettings) -> WordsScorer:
    """Return what scores a dimension.

    Raises
    ------
    UserInputError
        If a model or an instruction does not fit.
    PrerequisiteError
        If the profile does not name a model's server.
    """
    measure = MEASURES[dimension.name](dimension, settings)
    measure.told()
    roles = roles_of(setup, settings)
    for role in measure.roles:
        roles.calls(role)
    if not measure.compares:
        return WordsScorer(measure, roles)
    embeddings = embedding_model(settings.embeddings)
    loaded = embeddings.kind == "clip" and not embeddings.server
    kind = LoadedWordsScorer if loaded else WordsScorer
    return kind(measure, roles, similarity_of(setup, settings))
