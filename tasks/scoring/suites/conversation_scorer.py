"""Scorers whose scores come from conversations with models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from storage_schemas.ids import digest_value
from tasks.llm.answer_store import AnswerStore, open_answers
from tasks.llm.conversation import Role, Roles
from tasks.llm.vision_models import VlmModel, model_from
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Dimension, Scorer, SuiteVideo
from tasks.scoring.suites.shown_videos import SampledVideo


class ConversationScorer(Scorer):
    """Scores by conversations with models.

    Parameters
    ----------
    roles
        The models in their roles.
    asked
        The roles of the models that are asked.

    Raises
    ------
    PrerequisiteError
        If the profile does not name a model's server.
    """

    def __init__(self, dimension: Dimension, roles: Roles, asked: Sequence[Role]) -> None:
        super().__init__(dimension)
        self.roles, self.asked = roles, asked
        for role in asked:
            roles.calls(role)

    @property
    def concurrency(self) -> int:
        """The profile's limit of requests for the multimodal model's server."""
        return self.roles.concurrency("multimodal")

    @abstractmethod
    def instructions(self) -> Mapping[str, str]:
        """Return the instructions of each step."""

    def settings(self) -> dict[str, Any]:
        """Return the models and the checksum of the instructions."""
        return {
            "models": self.roles.settings(self.asked),
            "instructions": digest_value(dict(self.instructions())),
        }

    def assumes(self) -> Sequence[str]:
        """Return what is assumed of the models of its roles because others have it."""
        return [text for role in self.asked if (text := self.roles.model(role).borrowed())]

    def check(self) -> None:
        """Ask the servers whether they have their models; raises as :meth:`Roles.check`."""
        self.roles.check(self.asked)


#: Optional fields of a model that is not predefined.
_OTHER_MODEL: Mapping[str, Any] = {
    "context_tokens": 32_768,
    "answer_tokens": 4096,
    "most_images": 128,
    "low_tokens": 85,
    "tile_tokens": 170,
    "temperature": 0.0,
}


def suite_roles(
    suite: str,
    setup: Setup,
    models: Mapping[Role, str | Mapping[str, Any]],
    predefined: Mapping[str, VlmModel],
    **other: Any,
) -> Roles:
    """Return a suite's models in their roles; no server is asked yet.

    Parameters
    ----------
    models
        By role, the name of a predefined model or fields of one.
    other
        Fields of models that are not predefined, besides those of all suites.

    Raises
    ------
    UserInputError
        If a model is unknown or a field invalid.
    """
    given = {
        role: model_from(model, role, predefined, {**_OTHER_MODEL, **other}) for role, model in models.items()
    }
    return Roles(suite, given, setup.servers, suite_answers(setup))


def suite_answers(setup: Setup) -> AnswerStore:
    """Return the store of the models' answers to suites."""
    return open_answers(setup.store.root / "suites" / "answers")


def sampled(video: SuiteVideo) -> SampledVideo:
    """Return a video as conversations show it."""
    return SampledVideo(video.digest, video.video)
