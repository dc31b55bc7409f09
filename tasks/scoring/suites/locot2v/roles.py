"""The models in their roles, and one request to one of them before it is made.

The three roles of LoCoT2V-Bench: who sees frames, who reads texts, who says when events take place.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from pydantic import Field

from storage_schemas.errors import SetAside, StoreError, UserInputError
from storage_schemas.judgements import Failure
from tasks.llm.answer_store import AnswerStore
from tasks.llm.chat import client_of
from tasks.llm.requests import Calls, Check, Parts
from tasks.llm.usage import NotJudged
from tasks.llm.vision_models import LINE_TOKENS, MARK_TOKENS, SuiteModel
from tasks.scoring.setup import Setup
from tasks.scoring.suites.locot2v.settings import Locot2vSettings
from tasks.scoring.suites.locot2v.text_similarity import TextSimilarity, text_similarity
from tasks.scoring.suites.video_bench.frames import (
    SampledVideo,
    ShownFrames,
    images_tokens,
    shown_frames,
    shown_parts,
)
from tasks.scoring.suites.video_bench.settings import VideoBenchSettings

#: Qwen2.5-VL counts one token for a square of so many pixels: patches of 14, merged two by two.
QWEN25_SQUARE = 28


class RoleModel(SuiteModel):
    """A model behind an OpenAI-compatible server, as the suite asks it.

    Parameters
    ----------
    square_px
        Side of the square of an image that counts one token, where images count in merged patches; None for
        what the house knows of Qwen3-VL.
    """

    square_px: int | None = Field(default=None, ge=1)

    def image_tokens(self, width: int, height: int) -> int:
        """Return what an image of this size counts, in tokens."""
        if self.square_px is None or self.images != "merged-patches" or self.detail is not None:
            return super().image_tokens(width, height)
        across, down = (max(1, round(side / self.square_px)) for side in (width, height))
        return across * down + 2


def _ready(model: str, server: str, context_tokens: int, most_images: int, **fields: Any) -> RoleModel:
    return RoleModel(
        model=model,
        server=server,
        context_tokens=context_tokens,
        answer_tokens=4096,
        most_images=most_images,
        temperature=0.0,
        **fields,
    )


#: The paper's models. It states no sampling: temperature 0 and the limits are ours. The names at a hub are to
#: be compared with what the server says: `model` in the profile's entry overrides them.
READY: Mapping[str, RoleModel] = {
    "qwen2.5-vl-7b": _ready(
        "Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-vl", 128_000, 768, square_px=QWEN25_SQUARE, image_side=448
    ),
    "time-r1-7b": _ready(
        "Boshenxx/Time-R1-7B", "time-r1", 128_000, 768, square_px=QWEN25_SQUARE, image_side=448
    ),
    "deepseek-v3.1": _ready("deepseek-ai/DeepSeek-V3.1", "deepseek", 128_000, 2),
}
#: Of a model that is not ready, what a user does not say.
_OTHER: Mapping[str, Any] = {
    "context_tokens": 32_768,
    "answer_tokens": 4096,
    "most_images": 128,
    "image_side": 448,
    "temperature": 0.0,
}


def role_model(said: str | Mapping[str, Any], role: str) -> RoleModel:
    """Return a model from its name, or from a table of its fields.

    Parameters
    ----------
    said
        Name of a ready model, or its fields: ``model`` (which may be a ready one's name) and what is to
        differ; ``server`` for one that is not ready.
    role
        What a message calls it: the setting's name.

    Raises
    ------
    UserInputError
        If there is none of that name and no server is given, or for a field that there is not.
    """
    fields = {"model": said} if isinstance(said, str) else dict(said)
    name = fields.pop("model", None)
    if not isinstance(name, str) or not name:
        raise UserInputError(f"{role}: give the model's name, or a table with model and server")
    unknown = [key for key in fields if key not in RoleModel.model_fields]
    if unknown:
        raise UserInputError(
            f"{role} has no field {unknown[0]!r}: it has {', '.join(RoleModel.model_fields)}"
        )
    if name in READY:
        return RoleModel(**{**READY[name].model_dump(), **fields})
    if "server" not in fields:
        raise UserInputError(
            f"{role}: {name!r} is no ready model ({', '.join(READY)}): give a table with model and server, "
            "the server's name in model_servers of the profile"
        )
    return RoleModel(**{**_OTHER, **fields, "model": name})


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
    film: SampledVideo | None = None
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
    kept: AnswerStore

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

    def shown(self, step: Step) -> tuple[ShownFrames | None, int]:
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

    def key_of(self, step: Step, shown: ShownFrames | None) -> dict[str, Any]:
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
_open: WeakValueDictionary[Path, AnswerStore] = WeakValueDictionary()
_lock = threading.Lock()


def _answers(folder: Path) -> AnswerStore:
    with _lock:
        found = _open.get(folder)
        if found is None:
            found = _open[folder] = AnswerStore(folder)
        return found


def parts_of(step: Step, shown: ShownFrames | None, model: RoleModel) -> Parts:
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
