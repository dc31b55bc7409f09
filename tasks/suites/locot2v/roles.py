"""The models in their roles, and one request to one of them before it is made."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from storage_schemas.errors import SetAside, StoreError
from storage_schemas.judgement import Failure
from tasks.evaluators.base import NotJudged
from tasks.evaluators.kept_captions import KeptCaptions
from tasks.evaluators.setup import Setup
from tasks.evaluators.vlm_models import LINE_TOKENS, MARK_TOKENS
from tasks.models.chat_client import client_of
from tasks.suites.calls import Calls, Check, Parts
from tasks.suites.locot2v.models import RoleModel, role_model
from tasks.suites.locot2v.settings import Locot2vSettings
from tasks.suites.locot2v.text_similarity import TextSimilarity, text_similarity
from tasks.suites.video_bench.frames import Film, Shown, images_tokens, shown_frames, shown_parts
from tasks.suites.video_bench.settings import VideoBenchSettings

Role = Literal["multimodal", "language", "locating"]


@dataclass(frozen=True)
class Step:
    """A request before it is made.

    Parameters
    ----------
    name, role
        What messages call it, and which model answers.
    system, text
        What the model is told.
    schema, check
        What its answer looks like.
    assumed
        An answer of usual length, for estimates.
    film
        The video that it sees; none for texts alone.
    timed
        Whether each frame has its time in seconds before it.
    what
        What else the answer depends on: the repeat.
    temperature, seed
        In place of the model's own, where there is a seed.
    """

    name: str
    role: Role
    system: str
    text: str
    schema: Mapping[str, Any]
    check: Check
    assumed: Mapping[str, Any]
    film: Film | None = None
    timed: bool = False
    what: Mapping[str, Any] = field(default_factory=dict)
    temperature: float | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Roles:
    """The models in their roles, and what compares texts.

    Parameters
    ----------
    named
        The models; their servers are looked up when one is asked for.
    """

    setup: Setup
    settings: Locot2vSettings
    named: Mapping[Role, RoleModel]
    kept: KeptCaptions

    def model(self, role: Role) -> RoleModel:
        """Return the model of a role."""
        return self.named[role]

    def calls(self, role: Role) -> Calls:
        """Return who answers.

        Raises
        ------
        PrerequisiteError
            If the profile does not name the model's server.
        """
        model = self.named[role]
        return Calls(model, client_of(self.setup.servers.find(model.server, model.model)), self.kept)

    def calls_of(self, step: Step) -> Calls:
        """Return who answers a step, with its temperature and seed."""
        calls = self.calls(step.role)
        if step.seed is None:
            return calls
        extra = {**self.named[step.role].extra_body, "seed": step.seed}
        changed = {"temperature": step.temperature, "extra_body": extra}
        return replace(calls, model=self.named[step.role].model_copy(update=changed))

    def similarity(self) -> TextSimilarity:
        """Return what compares texts; raises PrerequisiteError as :meth:`calls`."""
        return self._similarity

    @cached_property
    def _similarity(self) -> TextSimilarity:
        return text_similarity(self.setup, self.settings.embeddings, self.kept)

    def shown(self, step: Step) -> tuple[Shown | None, int]:
        """Return the frames of a step, and the tokens of the whole request, about.

        Raises
        ------
        NotJudged
            `video_unreadable` for a video without frames, `context_too_long` where the request does not fit.
        """
        model = self.model(step.role)
        tokens = model.text_tokens(step.system + step.text) + MARK_TOKENS + model.schema_tokens + LINE_TOKENS
        if step.film is None:
            if tokens > model.request_tokens():
                raise NotJudged(
                    Failure.CONTEXT_TOO_LONG,
                    f"a text of about {tokens} tokens and an answer do not fit into {model.context_tokens}",
                )
            return None, tokens
        choice = VideoBenchSettings(fps=self.settings.fps, most_frames=self.settings.most_frames)
        line = LINE_TOKENS if step.timed else 0
        most = min(choice.most_frames, model.most_images)
        shown = shown_frames([step.film], "", choice, model, tokens + most * line)
        return shown[0], tokens + len(shown[0].places) * line + images_tokens(shown, model)

    def key_of(self, step: Step, shown: Shown | None) -> dict[str, Any]:
        """Return all that the answer to a step depends on, JSON-able; no frame is read."""
        return {
            "suite": "locot2v-bench",
            "text": step.text,
            "video": None if shown is None else shown.key(),
            "timed": step.timed,
            **step.what,
        }


def roles_of(setup: Setup, settings: Locot2vSettings) -> Roles:
    """Return the models in their roles; nobody is asked yet.

    Raises
    ------
    UserInputError
        If a model does not fit.
    """
    named: dict[Role, RoleModel] = {
        "multimodal": role_model(settings.multimodal, "multimodal"),
        "language": role_model(settings.language, "language"),
        "locating": role_model(settings.locating, "locating"),
    }
    return Roles(setup, settings, named, _answers(setup.store.root / "suites" / "answers"))


#: Answers of a folder are held in memory: once for all dimensions of this process.
_open: WeakValueDictionary[Path, KeptCaptions] = WeakValueDictionary()
_lock = threading.Lock()


def _answers(folder: Path) -> KeptCaptions:
    with _lock:
        found = _open.get(folder)
        if found is None:
            found = _open[folder] = KeptCaptions(folder)
        return found


def parts_of(step: Step, shown: Shown | None, model: RoleModel) -> Parts:
    """Return the user's message of a step; frames are read here.

    Raises
    ------
    NotJudged
        `video_unreadable` if they cannot be read.
    """
    parts: Parts = [{"type": "text", "text": step.text}]
    if shown is None:
        return parts
    try:
        line, *images = shown_parts("video", shown, model)
    except (SetAside, StoreError, OSError) as problem:
        raise NotJudged(Failure.VIDEO_UNREADABLE, f"{type(problem).__name__}: {problem}") from problem
    parts.append(line)
    times = shown.film.video.times_s
    for place, image in zip(shown.places, images, strict=True):
        if step.timed:
            parts.append({"type": "text", "text": f"{times[place]:.1f} s:"})
        parts.append(image)
    return parts
