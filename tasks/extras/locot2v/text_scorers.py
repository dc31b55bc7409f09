"""Scorers of the dimensions measured by text and language models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from storage_schemas.placement import Hardware
from tasks.extras.locot2v.askers import DryRunComparer, LiveComparer, roles_of, similarity_of
from tasks.extras.locot2v.clarity import Clarity
from tasks.extras.locot2v.dimensions import CLARITY_NAMES, HERD_NAMES
from tasks.extras.locot2v.herd import Herd
from tasks.extras.locot2v.human_action import HumanAction
from tasks.extras.locot2v.measure import Measure
from tasks.extras.locot2v.settings import Locot2vSettings
from tasks.extras.locot2v.text_alignment import EventAlignment, OverallAlignment
from tasks.extras.locot2v.text_similarity import TextSimilarity, embedding_model
from tasks.llm.conversation import Roles, dry_run
from tasks.llm.usage import Estimate, NotJudged
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Dimension, ScoredVideo, SuitePrompt, SuiteVideo, VideoScorer
from tasks.scoring.suites.conversation_scorer import ConversationScorer, sampled
from tasks.scoring.suites.shown_videos import readable

#: The measure of each dimension.
MEASURES: Mapping[str, type[Measure]] = {
    "overall_alignment": OverallAlignment,
    "event_alignment": EventAlignment,
    "human_action": HumanAction,
    **dict.fromkeys(CLARITY_NAMES, Clarity),
    **dict.fromkeys(HERD_NAMES, Herd),
}


class WordsScorer(VideoScorer, ConversationScorer):
    """Scores one video by a conversation with models.

    Parameters
    ----------
    measure
        The steps, and their value.
    roles
        The models.
    similarity
        The comparison of texts, for measures that need it.
    """

    prompt_areas = ("locot2v-bench",)

    def __init__(self, measure: Measure, roles: Roles, similarity: TextSimilarity | None = None) -> None:
        super().__init__(measure.dimension, roles, measure.roles)
        self.measure, self.similarity = measure, similarity

    def instructions(self) -> Mapping[str, str]:
        """Return the instructions of each step, and its messages."""
        messages = {name: self.measure.told(name) for name in self.measure.messages}
        return {**self.measure.instructions(), **messages}

    def settings(self) -> dict[str, Any]:
        """Return models, constants and the checksum of the instructions."""
        embeddings = {} if self.similarity is None else {"embeddings": self.similarity.embedder.settings()}
        constants = self.measure.settings.model_dump(mode="json", include=set(self.measure.uses))
        return {**super().settings(), **constants, **embeddings}

    def check(self) -> None:
        """Ask the servers whether they have their models, and check the model of embeddings.

        Raises
        ------
        PrerequisiteError
            If something is missing.
        """
        super().check()
        if self.similarity is not None:
            self.similarity.embedder.check()

    def score_video(self, prompt: SuitePrompt, video: SuiteVideo, repeat: int = 0) -> ScoredVideo | NotJudged:
        """Return the score of one video with the whole conversation, or why there is none."""
        asker = LiveComparer(self.roles, similarity=self.similarity)
        try:
            with readable():
                result = self.measure.value(asker, prompt, sampled(video), repeat)
        except NotJudged as problem:
            return asker.failed(problem)
        details = {**result.details, **asker.details()}
        return ScoredVideo(result.value, asker.usage(), asker.calls, asker.model, details)

    def estimate_video(self, prompt: SuitePrompt, video: SuiteVideo, repeat: int = 0) -> Sequence[Estimate]:
        """Return the requests about one video whose answers are not kept."""
        asker = DryRunComparer(self.roles, similarity=self.similarity)
        return dry_run(asker, lambda asker: self.measure.value(asker, prompt, sampled(video), repeat))


class LoadedWordsScorer(WordsScorer):
    """The scorer if the model of embeddings is loaded in this process."""

    hardware: ClassVar[Hardware] = "gpu"


def words_scorer(dimension: Dimension, setup: Setup, settings: Locot2vSettings) -> WordsScorer:
    """Return what scores a dimension.

    Raises
    ------
    UserInputError
        If a model or an instruction is invalid.
    PrerequisiteError
        If the profile does not name a model's server.
    """
    measure = MEASURES[dimension.name](dimension, settings)
    measure.instructions()
    roles = roles_of(setup, settings)
    if not measure.compares:
        return WordsScorer(measure, roles)
    embeddings = embedding_model(settings.embeddings)
    loaded = embeddings.kind == "clip" and not embeddings.server
    kind = LoadedWordsScorer if loaded else WordsScorer
    return kind(measure, roles, similarity_of(setup, settings))
