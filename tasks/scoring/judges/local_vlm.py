"""The video judge with a model of this process: any image-text-to-text model of transformers.

It asks what :class:`~tasks.scoring.judges.vlm.VideoJudge` asks a server: the same prompts, frames and orders,
and its answers are read the same way. The one difference: no schema constrains an answer, only
the prompt describes its form.
"""

from __future__ import annotations

import base64
import io
import json
import statistics
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from PIL import Image
from pydantic import Field

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.judgements import Judgement
from storage_schemas.model import Frozen
from storage_schemas.placement import Hardware
from tasks.llm.exchange import ChatAnswer, ChatRequest, kept
from tasks.llm.json_answers import AnswerForm
from tasks.llm.usage import Usage
from tasks.llm.vision_models import TIME_TOKENS, VlmModel
from tasks.models.base import Models
from tasks.models.hub import ModelHub
from tasks.models.image_text import IMAGE_TEXT, ImageTextModel, check_checkpoint
from tasks.models.registry import folder_name
from tasks.pairs.view import Side
from tasks.scoring.base import Need
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.frame_choice import FrameLimit
from tasks.scoring.judges.frame_images import image_size
from tasks.scoring.judges.local_models import HubSource
from tasks.scoring.judges.sent_frames import SentFrames, choose_images
from tasks.scoring.judges.vlm import FrameJudge, SaysWhere

#: How long the first request of a batch waits for others, seconds: they are prepared in other threads.
_GATHERING_S = 0.2
#: Texts whose number of tokens is kept.
_MAX_TEXTS = 64


class LocalVlm(Frozen):
    """Settings of the judge ``hf``.

    Parameters
    ----------
    model
        A repository of the hub, ``ORG/MODEL``, that was fetched, or the name of a model in a model folder.
    revision
        The commit that its weights must be of, or the beginning of one; empty for the one that was fetched.
    dtype
        Of weights and computation.
    frames
        ``scenes``: the centre frame of each detected scene; ``all``: every frame, and scenes only if they do
        not fit.
    most_images
        Maximum images of one request, over both videos.
    image_side
        Longer side to which frames are reduced, in pixels; the model's own processor may reduce them further.
    jpeg_quality
        Quality of the JPEG files that the model sees, as a server's would.
    context_tokens
        Maximum tokens of a request with its answer; None for what the model's configuration says.
    max_new_tokens
        Maximum tokens of an answer with its reasoning.
    temperature, top_p
        Sampling; with a temperature of 0 the likeliest token is taken each time.
    answers
        As for ``vlm-video``: ``tolerant`` or ``strict``.
    intervals
        Whether it also says where the other video is worse.
    batch_size
        Maximum number of requests in one batch; part of any key. If memory runs out, it is halved.
    """

    model: str
    revision: str = Field(default="", pattern=r"^([0-9a-f]{7,40})?$")
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    frames: Literal["scenes", "all"] = "scenes"
    most_images: int = Field(default=64, ge=2)
    image_side: int = Field(default=512, ge=32)
    jpeg_quality: int = Field(default=90, ge=30, le=100)
    context_tokens: int | None = Field(default=None, ge=1024)
    max_new_tokens: int = Field(default=1024, ge=16)
    temperature: float = Field(default=0.0, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    answers: AnswerForm = "tolerant"
    intervals: bool = False
    batch_size: int = Field(default=4, ge=1, le=256)

    def vlm(self) -> VlmModel:
        """Return it as the judges of servers have it."""
        return VlmModel(
            model=self.model,
            server="none",
            # counted by the model itself, see LocalJudge
            context_tokens=self.context_tokens or 1024,
            answer_tokens=self.max_new_tokens,
            most_images=self.most_images,
            frames=self.frames,
            image_side=self.image_side,
            jpeg_quality=self.jpeg_quality,
            answers=self.answers,
            temperature=self.temperature,
            top_p=self.top_p,
        )


class ImageTextSource(HubSource):
    """An image-text-to-text model from a model folder.

    Parameters
    ----------
    repository
        The repository of the hub, or the name of a model in a folder.
    revision
        The commit that it must be of, or the beginning of one; empty for any.
    """

    kinds = (IMAGE_TEXT,)

    def __init__(self, models: Models, repository: str, dtype: str, revision: str = "") -> None:
        super().__init__(models, folder_name(repository), dtype)
        self.repository, self.revision = repository, revision

    @cached_property
    def identity(self) -> Any:
        """The model's repository, revision and digest; raises PrerequisiteError if it is missing."""
        found = self._identity
        revision = str(found.get("revision") or "") if isinstance(found, dict) else ""
        if self.revision and not revision.startswith(self.revision):
            raise PrerequisiteError(
                f"{self.repository} is in the model folder at revision {revision or 'unknown'}, but "
                f"{self.revision} is asked for: remove its folder {self.name}, then slvmeval models add "
                f"{self.repository} --set revision={self.revision}"
            )
        return found

    def settings(self) -> dict[str, Any]:
        """Return the model's exact identity and dtype."""
        return {"model": {self.repository: self.identity}, "dtype": self.dtype}

    def check(self) -> None:
        """Check that weights, processor and libraries are there, without loading them.

        Raises
        ------
        PrerequisiteError
            If something is missing, with what to do.
        UserInputError
            If it is a model of another kind.
        """
        super().check()
        if isinstance(self._models, ModelHub):
            check_checkpoint(self._models.find(self.name).path)

    def model(self) -> ImageTextModel:
        """Return the loaded model; call it each time, so that it can make room for another."""
        model: ImageTextModel = self.loaded()
        return model


@dataclass
class _Waiting:
    request: ChatRequest
    done: threading.Event = field(default_factory=threading.Event)
    answer: ChatAnswer | None = None
    problem: BaseException | None = None


class LocalClient:
    """Answers requests of several threads in batches, as the client of a server answers them one by one.

    One thread generates for those that wait; meanwhile others prepare their requests.

    Parameters
    ----------
    source
        The model.
    at_once
        Maximum number of requests in a batch.
    """

    def __init__(self, source: ImageTextSource, at_once: int) -> None:
        self._source, self._at_once = source, at_once
        self._waiting: deque[_Waiting] = deque()
        self._arrived = threading.Condition()
        self._generating = threading.Lock()

    def ask(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to a request.

        Raises
        ------
        PrerequisiteError
            If the model cannot be loaded, or a single request does not fit into memory.
        """
        waiting = _Waiting(request)
        with self._arrived:
            self._waiting.append(waiting)
            self._arrived.notify_all()
        while not waiting.done.is_set():
            with self._generating:
                if not waiting.done.is_set():
                    self._answer(self._next())
        if waiting.problem is not None:
            raise waiting.problem
        assert waiting.answer is not None
        return waiting.answer

    def _next(self) -> list[_Waiting]:
        """Return the requests of the next batch, after those that are about to arrive have."""
        with self._arrived:
            while len(self._waiting) < self._at_once and self._arrived.wait(_GATHERING_S):
                pass
            first = self._waiting[0].request.sampling
            count = min(self._at_once, len(self._waiting))
            taken = [self._waiting.popleft() for _ in range(count)]
        assert all(one.request.sampling == first for one in taken), "a judge has one sampling"
        return taken

    def _answer(self, some: Sequence[_Waiting]) -> None:
        try:
            chats = [[_message(message) for message in one.request.messages] for one in some]
            replies = self._source.model().generate(chats, some[0].request.sampling, self._at_once)
            for one, generated in zip(some, replies, strict=True):
                one.answer = kept(
                    ChatAnswer(
                        text=generated.text,
                        finish_reason="stop" if generated.ended else "length",
                        model=self._source.repository,
                        tokens_in=generated.tokens_in,
                        tokens_out=generated.tokens_out,
                        seconds=generated.seconds,
                    )
                )
        except BaseException as problem:  # noqa: BLE001 - raised in the thread of each request
            for one in some:
                one.problem = problem
        finally:
            for one in some:
                one.done.set()


def _message(message: dict[str, Any]) -> dict[str, Any]:
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": message["role"], "content": [_part(part) for part in parts]}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return part
    data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
    return {"type": "image", "image": Image.open(io.BytesIO(data)).convert("RGB")}


class LocalJudge(FrameJudge):
    """Asks a model of this process.

    Parameters
    ----------
    chosen
        The settings.
    source
        The model.
    cache, prompts
        As for :class:`~tasks.scoring.judges.vlm.FrameJudge`.
    """

    hardware: ClassVar[Hardware] = "gpu"
    needs: ClassVar[tuple[Need, ...]] = ("weights", "package")
    settings_model: ClassVar[type[Frozen] | None] = LocalVlm

    def __init__(
        self, name: str, chosen: LocalVlm, source: ImageTextSource, cache: FeatureCache, prompts: str = ""
    ) -> None:
        super().__init__(name, chosen.vlm(), LocalClient(source, chosen.batch_size), cache, prompts)
        self._chosen, self._source = chosen, source
        self._counted: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def _model_settings(self) -> dict[str, Any]:
        own = self._chosen.model_dump(mode="json", exclude={"batch_size", "model", "revision", "intervals"})
        return {**own, **self._source.settings()}

    def check(self) -> None:
        """Check that the model is there, without loading it; raises as :meth:`ImageTextSource.check`."""
        self._source.check()

    @property
    def concurrency(self) -> int:
        """Twice the size of a batch: while one is answered, the next is prepared."""
        return 2 * self._chosen.batch_size

    def learn(self, rows: Sequence[Judgement]) -> str:
        """Say what the answers in the store took; nothing is paid for."""
        details = (json.loads(row.details) for row in rows)
        seconds = [one["generation_s"] for one in details if one.get("generation_s")]
        if not seconds:
            return "free; the store has no answer of it, from which its GPU time could be estimated"
        mean = statistics.fmean(seconds)
        return f"free; {mean:.2g} s of GPU time per request, by {len(seconds)} answers in the store"

    def _choose(self, text: str, first: Side, second: Side) -> SentFrames:
        model = self._source.model()
        context = self._chosen.context_tokens or model.positions
        if context is None:
            raise UserInputError(
                f"the configuration of {self._chosen.model} says no length of its context: set context_tokens"
            )
        size = image_size(first.width, first.height, self._chosen.image_side)
        each = model.image_tokens(*size) + (TIME_TOKENS if self._timed else 0)
        left = context - self._chosen.max_new_tokens - self._text_tokens(text)
        limit = FrameLimit(frames=self._chosen.most_images, tokens=left, tokens_per_frame=each)
        return choose_images((first, second), self._policy, limit, self._cache)

    def _text_tokens(self, text: str) -> int:
        with self._lock:
            if text not in self._counted:
                while len(self._counted) >= _MAX_TEXTS:
                    self._counted.popitem(last=False)
                self._counted[text] = self._source.model().text_tokens(self._system + text) + self._around
            return self._counted[text]

    def _usage(self, usage: Usage, expected: int) -> Usage:
        # its tokens are in the details: a price list may know a model of this name
        return replace(usage, tokens_in=0, tokens_out=0)

    def _ran(self, answer: ChatAnswer | None) -> dict[str, Any]:
        model = self._source.model()
        return {
            **({} if answer is None else {"generation_s": round(answer.seconds, 3)}),
            "model": self._source.identity,
            "device": model.device,
            "dtype": model.dtype,
            "system_as": "system" if model.takes_system else "user",
            "libraries": self._source.libraries(),
        }


class LocalIntervalJudge(SaysWhere, LocalJudge):
    """Also asks a model of this process where the other video is worse."""


def hf_judge(cache: FeatureCache, models: Models, prompts: str = "", **settings: Any) -> LocalJudge:
    """Make the video-based judge with a model of this process.

    Parameters
    ----------
    prompts
        The user's folder of prompts; empty for ours.
    settings
        Fields of :class:`LocalVlm`.
    """
    chosen = LocalVlm(**settings)
    source = ImageTextSource(models, chosen.model, chosen.dtype, chosen.revision)
    kind = LocalIntervalJudge if chosen.intervals else LocalJudge
    name = f"hf-{source.name}" + ("-intervals" if chosen.intervals else "")
    return kind(name, chosen, source, cache, prompts)
