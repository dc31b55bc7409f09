"""The models in their roles, and askers that also compare texts by their embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from tasks.extras.locot2v.settings import READY, Locot2vSettings
from tasks.extras.locot2v.text_similarity import Group, Rows, TextSimilarity, text_similarity
from tasks.llm.conversation import Asker, DryRunAsker, LiveAsker, Roles
from tasks.llm.usage import NotJudged
from tasks.scoring.setup import Setup
from tasks.scoring.suites.conversation_scorer import suite_answers, suite_roles


def roles_of(setup: Setup, settings: Locot2vSettings) -> Roles:
    """Return the models in their roles; no server is asked yet.

    ``multimodal`` sees frames, ``language`` reads texts, ``locating`` says when events take place.

    Raises
    ------
    UserInputError
        If a model is invalid.
    """
    models = {
        "multimodal": settings.multimodal,
        "language": settings.language,
        "locating": settings.locating,
    }
    return suite_roles("locot2v-bench", setup, models, READY, image_side=448)


def similarity_of(setup: Setup, settings: Locot2vSettings) -> TextSimilarity:
    """Return what compares texts; see :func:`text_similarity`."""
    return text_similarity(setup, settings.embeddings, suite_answers(setup))


class Comparer(Asker, Protocol):
    """Gives the answers to steps, and compares texts."""

    def compare(self, groups: Sequence[Group]) -> tuple[Rows, ...]:
        """Return the cosines of texts, see :class:`TextSimilarity`; raise NotJudged where there are none."""


@dataclass
class LiveComparer(LiveAsker):
    """Asks servers, including one for embeddings."""

    similarity: TextSimilarity | None = None

    def compare(self, groups: Sequence[Group]) -> tuple[Rows, ...]:
        """Return cosines, stored or new."""
        try:
            cosines = compares(self.similarity).compare(groups)
        except NotJudged as problem:
            problem.message = f"compare texts: {problem.message}"
            self.failed(problem)
            raise
        self.model = self.model or cosines.model
        self.add(cosines.model, cosines.usage, cosines.requests)
        return cosines.values


@dataclass
class DryRunComparer(DryRunAsker):
    """Sends no request, also not for embeddings."""

    similarity: TextSimilarity | None = None

    def compare(self, groups: Sequence[Group]) -> tuple[Rows, ...]:
        """Return zeros, and note the request."""
        estimate = compares(self.similarity).estimate(groups)
        if estimate is not None:
            self.assume(replace(estimate, once=self.once(estimate.once)), estimate.once)
        return tuple(np.zeros((len(left), len(right))) for left, right in groups)


def compares(similarity: TextSimilarity | None) -> TextSimilarity:
    """Return the comparison of texts, which a measure that compares always has."""
    if similarity is None:
        raise TypeError("this measure says that it does not compare")
    return similarity
