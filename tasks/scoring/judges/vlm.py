"""VLM judges that see frames (SLVMEval, section 5.1), and the factories of all VLM
judges.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.judgements import Choice, Judgement
from storage_schemas.model import Frozen, ProviderName
from storage_schemas.store import Store
from tasks.llm.answer_store import open_answers
from tasks.llm.answers import Asked, ask, complete, discounted, make_request, prompt_digest, usage_of
from tasks.llm.chat import ChatClient, client_of
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.preference import preference_in
from tasks.llm.prompt_files import filled, prompt_text
from tasks.llm.servers import ChatServer, Servers, check_server, require_logprobs
from tasks.llm.usage import Estimate, MeasuredTokens, NotJudged, Usage, of_judgements
from tasks.llm.vision_models import (
    CHOICE_TOKENS,
    INTERVALS_TOKENS,
    LINE_TOKENS,
    MARK_TOKENS,
    MIN_CACHED_TOKENS,
    TIME_TOKENS,
    VLM_MODELS,
    VlmModel,
)
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, JudgeAnswer, Need, PairwiseJudge, SharedBeginning, Sight
from tasks.scoring.features import FeatureCache
from tasks.scoring.instructions import CHOICE_SCHEMA, INTERVALS_SCHEMA, read_choice, read_intervals
from tasks.scoring.judges.frame_choice import FramePolicy
from tasks.scoring.judges.sent_frames import SentFrames, check_form, choose_sent, sent_parts
from tasks.scoring.judges.vlm_text import Descriptions, TextJudge
from tasks.scoring.submitted import DESCRIPTIONS


class FrameJudge(PairwiseJudge):
    """Shows a model the frames of both videos and asks which is better, in both orders.

    Parameters
    ----------
    name
        Its name in tables.
    model
        The model and its sampling.
    asked
        What answers: a server's client, or a model of this process.
    cache
        Cache of the changes between frames, which determine the scenes.
    prompts
        The user's folder of prompts; empty for ours.
    """

    prompt_areas: ClassVar[tuple[str, ...]] = ("judges", "descriptions")
    sees: ClassVar[tuple[Sight, ...]] = ("frames", "captions")
    _timed: ClassVar[bool] = False
    _prompt: ClassVar[str] = "video_judge"
    _schema: ClassVar[Mapping[str, Any]] = CHOICE_SCHEMA
    _answer_tokens: ClassVar[int] = CHOICE_TOKENS
    #: Names of the videos, in display order.
    _names: tuple[str, str] = ("first", "second")
    #: The provider whose form of videos is sent.
    _provider: ProviderName = "openai"

    def __init__(
        self, name: str, model: VlmModel, asked: Asked, cache: FeatureCache, prompts: str = ""
    ) -> None:
        self.name, self.model = name, model
        self._asked, self._cache = asked, cache
        self._system = prompt_text(f"judges/{self._prompt}_system", prompts)
        names = [f"{self._prompt}_user"]
        if model.layout == "aspect-last":
            names = ["video_judge_before", f"{self._prompt}_after"]
        #: What stands before the frames and, if the layout has that, after them.
        self._user = [prompt_text(f"judges/{name}", prompts) for name in names]
        self._shared = SharedBeginning()
        self._line = prompt_text("judges/video_line", prompts)
        self._time_line = prompt_text("judges/time_line", prompts) if self._timed else ""
        self._around = MARK_TOKENS + 2 * LINE_TOKENS + model.schema_tokens
        self._policy = FramePolicy(policy="all" if model.frames == "all" else "clips")

    def settings(self) -> dict[str, Any]:
        """Return the model with its sampling, the frame policy and the prompts' checksum."""
        return {
            "model": self._model_settings(),
            "frames": self._policy.model_dump(mode="json"),
            "prompts": prompt_digest(self._system, *self._user, self._line, self._time_line),
        }

    @abstractmethod
    def _model_settings(self) -> dict[str, Any]:
        """Return what of the model answers depend on."""

    def with_exchanged_names(self) -> PairwiseJudge:
        """Return this judge, which calls the video that is shown first the second."""
        other = copy(self)
        other._names = ("second", "first")
        return other

    def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
        """Return which video the model names."""
        texts = self._texts(prompt, aspect)
        sent = self._choose("".join(texts), first, second)
        parts, ends = self._message(texts, first, second, sent)
        return self._judged(
            lambda: ask(self._asked, self.model, self._system, parts, self._schema, sent.fps, ends),
            texts,
            sent,
            first,
            second,
        )

    def _message(
        self, texts: Sequence[str], first: Side, second: Side, sent: SentFrames
    ) -> tuple[list[dict[str, Any]], list[int]]:
        """Return the user's message, and the numbers of its parts at which a shared beginning ends."""
        lines = [filled(self._line, name=name) for name in self._names]
        frames = sent_parts(lines, (first, second), sent, self.model, self._provider, self._time_line)
        before, *after = ({"type": "text", "text": text} for text in texts)
        second_line = max(index for index, part in enumerate(frames) if part.get("text") == lines[1])
        ends = {1: 1 + second_line, 2: 1 + len(frames)}
        return [before, *frames, *after], [ends[number] for number in self._shared.ends]

    def _judged(
        self,
        answered: Callable[[], ChatAnswer],
        texts: Sequence[str],
        sent: SentFrames,
        first: Side,
        second: Side,
    ) -> JudgeAnswer:
        text = "".join(texts)
        expected = self._text_tokens(text) + sent.tokens
        beginning, _ = self._beginning(texts, sent)
        could = {"expected_cached": beginning} if beginning else {}
        try:
            answer = answered()
            choice_made, where = self._read(answer, first, second)
        except NotJudged as problem:
            problem.usage = self._usage(replace(problem.usage, frames=sent.count), expected)
            problem.details = {**problem.details, "frames_as": sent.frames_as, **self._ran(None)}
            raise
        return JudgeAnswer(
            choice=choice_made,
            raw=answer.text,
            reasoning=answer.reasoning,
            finish_reason=answer.finish_reason or "",
            model=answer.model or self.model.model,
            prompt_digest=prompt_digest(self._system, text),
            usage=self._usage(usage_of(answer, frames=sent.count), expected),
            details={
                "frames_as": sent.frames_as,
                "frames": [choice.details() for choice in sent.choices],
                "tokens": {
                    "expected_in": expected,
                    "in": answer.tokens_in or 0,
                    "out": answer.tokens_out or 0,
                    **could,
                    **discounted(answer),
                },
                **self._ran(answer),
                **where,
                **preference_in(answer),
            },
        )

    def _usage(self, usage: Usage, expected: int) -> Usage:
        """Return what a request took, by what was counted and what was expected."""
        return usage.expecting(expected)

    def _ran(self, answer: ChatAnswer | None) -> dict[str, Any]:
        """Return more about the model for a judgement's details."""
        return {}

    def _read(self, answer: ChatAnswer, first: Side, second: Side) -> tuple[Choice, dict[str, Any]]:
        """Return the choice in an answer, and what the judgement's details keep of the answer."""
        choice, found = read_choice(answer, self.model.answers)
        return choice, {"found": found} if found else {}

    def _texts(self, prompt: str, aspect: AspectText) -> list[str]:
        values = {"dimension": aspect.dimension, "description": aspect.description, "prompt": prompt}
        return [filled(one, **values) for one in self._user]

    def _beginning(self, texts: Sequence[str], sent: SentFrames) -> tuple[int, int]:
        """Return the estimated tokens that a cache may have, and those to the last shared end."""
        shown = [len(choice.indices) for choice in sent.choices]
        of_texts = self.model.text_tokens(self._system + texts[0]) + MARK_TOKENS + LINE_TOKENS

        def to(videos: int) -> int:
            tokens = of_texts + sent.tokens * sum(shown[:videos]) // max(sum(shown), 1)
            return tokens if videos and tokens >= MIN_CACHED_TOKENS else 0

        return to(self._shared.read), to(max(self._shared.ends, default=0))

    def _choose(self, text: str, first: Side, second: Side) -> SentFrames:
        left = self.model.request_tokens() - self._text_tokens(text)
        times = TIME_TOKENS if self._timed else 0
        return choose_sent((first, second), self._policy, self.model, left, self._cache, times)

    def _text_tokens(self, text: str) -> int:
        return self.model.text_tokens(self._system + text) + self._around


class VideoJudge(FrameJudge):
    """Asks a model behind a server.

    Parameters
    ----------
    client
        The model's server; the others are those of :class:`FrameJudge`.

    Raises
    ------
    UserInputError
        If the server does not take frames in the form of the model's settings, or has no log probabilities.
    """

    sees: ClassVar[tuple[Sight, ...]] = ("frames", "videos", "captions")
    needs: ClassVar[tuple[Need, ...]] = ("server",)
    paid: ClassVar[bool] = True
    settings_model: ClassVar[type[Frozen] | None] = VlmModel

    def __init__(
        self,
        name: str,
        model: VlmModel,
        client: ChatClient,
        cache: FeatureCache,
        prompts: str = "",
    ) -> None:
        check_form(model, client.server)
        if model.logprobs:
            require_logprobs(client.server)
        super().__init__(name, model, client, cache, prompts)
        self._client, self._provider = client, client.server.provider
        self._measured = MeasuredTokens()

    def _model_settings(self) -> dict[str, Any]:
        return self.model.settings(lambda: self._client.server.base)

    def check(self) -> None:
        """Ask the server whether it has the model.

        Raises
        ------
        PrerequisiteError
            If it does not answer, refuses the key, or has other models only.
        """
        check_server(self._client.server)

    def close(self) -> None:
        """Close the connections to the server; a later request opens new ones."""
        self._client.close()

    @property
    def concurrency(self) -> int:
        """The profile's limit of requests for the server."""
        return self._client.server.concurrency

    @property
    def shares_beginnings(self) -> bool:
        """Whether the aspect's text comes last."""
        return self.model.layout == "aspect-last"

    def sharing(self, shared: SharedBeginning) -> VideoJudge:
        """Return the same judge for a request that begins like others."""
        judge = copy(self)
        judge._shared = shared
        return judge

    @property
    def server(self) -> ChatServer:
        """The server of its model."""
        return self._client.server

    def make_request(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> ChatRequest:
        """Return the only request of a comparison."""
        texts = self._texts(prompt, aspect)
        sent = self._choose("".join(texts), first, second)
        parts, ends = self._message(texts, first, second, sent)
        return make_request(self.model, self._system, parts, self._schema, sent.fps, ends)

    def read_answer(
        self, answer: ChatAnswer, prompt: str, first: Side, second: Side, aspect: AspectText
    ) -> JudgeAnswer:
        """Return which video the model named in an answer to :meth:`make_request`; no frame is read."""
        texts = self._texts(prompt, aspect)
        sent = self._choose("".join(texts), first, second)
        return self._judged(lambda: complete(answer, self.model.answers), texts, sent, first, second)

    def estimate(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> Estimate:
        """Return images and tokens of one comparison, with measured or assumed reasoning length."""
        texts = self._texts(prompt, aspect)
        text = "".join(texts)
        sent = self._choose(text, first, second)
        could, marked = self._beginning(texts, sent)
        cached = self._measured.cached_in(could)
        # only Anthropic's interface has a price for what is written, and writes what is marked
        written = self._measured.tokens_in(marked) - cached if self._provider == "anthropic" else 0
        return Estimate(
            images=sent.count,
            cached_in=cached,
            written_in=max(written, 0),
            tokens_in=self._measured.tokens_in(self._text_tokens(text) + sent.tokens),
            tokens_out=self._measured.tokens_out(
                aspect.name, self.model.thinking_tokens + self._answer_tokens
            ),
            model=self.model.model,
        )

    def learn(self, rows: Sequence[Judgement]) -> str:
        """Base estimates on the answers in the store."""
        self._measured = of_judgements(rows)
        basis = self._measured.describe("answers") if self._measured.answers else self.model.assumes()
        return "; ".join(filter(None, (basis, self.model.borrowed())))


class SaysWhere(FrameJudge):
    """A video-based judge that also says where the other video is worse; not from the paper.

    Its request has another prompt, and its time before each image (a video has the times itself); the rest is
    the paper's. The intervals are scored by the report (:mod:`tasks.statistics.localisation`).
    """

    _timed: ClassVar[bool] = True
    _prompt: ClassVar[str] = "interval_judge"
    _schema: ClassVar[Mapping[str, Any]] = INTERVALS_SCHEMA
    _answer_tokens: ClassVar[int] = CHOICE_TOKENS + INTERVALS_TOKENS

    def settings(self) -> dict[str, Any]:
        """Return what :class:`FrameJudge` returns, and that intervals are asked for."""
        return {**super().settings(), "intervals": True}

    def _read(self, answer: ChatAnswer, first: Side, second: Side) -> tuple[Choice, dict[str, Any]]:
        lengths = _length_s(first), _length_s(second)
        better, intervals, found = read_intervals(answer, lengths, self.model.answers)
        return better, {"intervals": intervals, **({"found": found} if found else {})}


class IntervalJudge(SaysWhere, VideoJudge):
    """Asks a model behind a server where the other video is worse, too."""


def _length_s(video: Side) -> float:
    return float(video.times_s[-1]) + 1 / video.fps


#: Captioner of each judge: GPT-5 mini for both GPT judges, Qwen3-VL for itself (SLVMEval, section 5.1).
CAPTIONERS: Mapping[str, str] = {"gpt-5": "gpt-5-mini", "gpt-5-mini": "gpt-5-mini", "qwen3-vl": "qwen3-vl"}


def vlm_model(name: str, changes: Mapping[str, Any] | None = None) -> VlmModel:
    """Return a predefined model with changed fields; if they include `model` the name may be new.

    Raises
    ------
    UserInputError
        If the name is unknown and the changes do not define a model.
    """
    fields = dict(changes or {})
    if name in VLM_MODELS:
        own, ready = fields.get("model"), VLM_MODELS[name]
        if own not in (None, ready.model):
            return VlmModel.like(ready.model_dump(), fields, name)
        return VlmModel(**{**ready.model_dump(), **fields})
    if "model" in fields and "server" in fields:
        like = VLM_MODELS["qwen3-vl"].model_dump(
            exclude={"model", "server", "extra_body", "top_p", "thinking_tokens", "frames_as", "video_pixels"}
        )
        return VlmModel.like(like, fields, "qwen3-vl")
    raise UserInputError(
        f"there is no predefined VLM {name!r}: {suggestion(name, VLM_MODELS, 'there are')} For another one "
        "give the settings model (its id) and server (its name in model_servers, or its address)"
    )


Made = TypeVar("Made", bound=Callable[..., Any])


def _with_defaults(name: str) -> Callable[[Made], Made]:
    """Declare that a factory's model settings default to those of a predefined model."""

    def declare(factory: Made) -> Made:
        factory.ready = VLM_MODELS[name]  # type: ignore[attr-defined]
        return factory

    return declare


def _with_client(model: VlmModel, servers: Servers) -> tuple[VlmModel, ChatClient]:
    return model, client_of(servers.find(model.server, model.model))


@_with_defaults("gpt-5")
def video_judge(
    cache: FeatureCache,
    servers: Servers,
    vlm: str = "gpt-5",
    prompts: str = "",
    intervals: bool = False,
    **changes: Any,
) -> VideoJudge:
    """Make a video-based judge.

    Parameters
    ----------
    vlm
        ``gpt-5``, ``gpt-5-mini``, ``qwen3-vl``, or a name of your own with `changes`.
    prompts
        The user's folder of prompts; empty for ours.
    intervals
        Whether it also says where the other video is worse.
    changes
        Fields of :class:`~tasks.llm.vision_models.VlmModel`.

    Raises
    ------
    UserInputError
        If the model is unknown, or `intervals` is neither true nor false.
    """
    if not isinstance(intervals, bool):
        raise UserInputError(f"intervals is {intervals!r}: write true or false")
    model, client = _with_client(vlm_model(vlm, changes), servers)
    if intervals:
        return IntervalJudge(f"{vlm}-video-intervals", model, client, cache, prompts)
    return VideoJudge(f"{vlm}-video", model, client, cache, prompts)


@_with_defaults("gpt-5")
def text_judge(
    cache: FeatureCache,
    servers: Servers,
    store: Store,
    vlm: str = "gpt-5",
    captioner: str | None = None,
    prompts: str = "",
    **changes: Any,
) -> TextJudge:
    """Make a text-based judge.

    Parameters
    ----------
    vlm, prompts, changes
        As for :func:`video_judge`; of another captioner only `thinking_tokens` is changed as well.
    captioner
        Who describes the videos; the paper's by default, else the judge itself.
    """
    if "intervals" in changes:
        raise UserInputError("intervals is a setting of the video judges: a text-based one sees no times")
    if changes.get("layout", "aspect-first") != "aspect-first":
        raise UserInputError("layout is a setting of the video judges: a text-based one sees no frames")
    model = vlm_model(vlm, changes)
    by = captioner or CAPTIONERS.get(vlm)
    thoughts = {name: value for name, value in changes.items() if name == "thinking_tokens"}
    describing = model if by in (None, vlm) else vlm_model(str(by), thoughts)
    captions = open_answers(store.root / DESCRIPTIONS)
    captioning = _with_client(describing.model_copy(update={"logprobs": False}), servers)
    descriptions = Descriptions(*captioning, captions, cache, prompts, model.description_tokens)
    return TextJudge(f"{vlm}-text", _with_client(model, servers), descriptions, prompts)


@_with_defaults("gpt-5")
def gpt_5_video(
    cache: FeatureCache, servers: Servers, prompts: str = "", intervals: bool = False, **changes: Any
) -> VideoJudge:
    """Make the video-based judge with GPT-5."""
    return video_judge(cache, servers, "gpt-5", prompts, intervals, **changes)


@_with_defaults("gpt-5-mini")
def gpt_5_mini_video(
    cache: FeatureCache, servers: Servers, prompts: str = "", intervals: bool = False, **changes: Any
) -> VideoJudge:
    """Make the video-based judge with GPT-5 mini."""
    return video_judge(cache, servers, "gpt-5-mini", prompts, intervals, **changes)


@_with_defaults("qwen3-vl")
def qwen3_vl_video(
    cache: FeatureCache, servers: Servers, prompts: str = "", intervals: bool = False, **changes: Any
) -> VideoJudge:
    """Make the video-based judge with Qwen3-VL."""
    return video_judge(cache, servers, "qwen3-vl", prompts, intervals, **changes)


@_with_defaults("gpt-5")
def gpt_5_text(
    cache: FeatureCache, servers: Servers, store: Store, prompts: str = "", **changes: Any
) -> TextJudge:
    """Make the text-based judge with GPT-5; GPT-5 mini describes."""
    return text_judge(cache, servers, store, "gpt-5", prompts=prompts, **changes)


@_with_defaults("gpt-5-mini")
def gpt_5_mini_text(
    cache: FeatureCache, servers: Servers, store: Store, prompts: str = "", **changes: Any
) -> TextJudge:
    """Make the text-based judge with GPT-5 mini, which describes too."""
    return text_judge(cache, servers, store, "gpt-5-mini", prompts=prompts, **changes)


@_with_defaults("qwen3-vl")
def qwen3_vl_text(
    cache: FeatureCache, servers: Servers, store: Store, prompts: str = "", **changes: Any
) -> TextJudge:
    """Make the text-based judge with Qwen3-VL, which describes too."""
    return text_judge(cache, servers, store, "qwen3-vl", prompts=prompts, **changes)
