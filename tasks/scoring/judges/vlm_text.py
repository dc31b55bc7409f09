"""Text-based VLM judge: a captioner describes each video, and a model compares the descriptions.

The captioner sees frames, aspect and description and never the prompt (SLVMEval, section 5.1). A language
model compares the two texts with the prompt, in both orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import fmean
from typing import Any, ClassVar

from storage_schemas.ids import digest_value
from storage_schemas.judgements import Failure, Judgement
from storage_schemas.model import Frozen
from tasks.llm.answer_store import AnswerStore, StoredAnswer
from tasks.llm.answers import ask, complete, make_request, objects, prompt_digest, text_in, usage_of
from tasks.llm.chat import ChatClient
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.preference import preference_in
from tasks.llm.prompt_files import filled, prompt_text
from tasks.llm.requests import Calls, JsonAnswer, Parts, VideoParts
from tasks.llm.servers import ChatServer, check_server, require_logprobs
from tasks.llm.usage import Estimate, MeasuredTokens, ModelUsage, NotJudged, TokenCounts, of_judgements
from tasks.llm.vision_models import CHOICE_TOKENS, LINE_TOKENS, MARK_TOKENS, VlmModel
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, JudgeAnswer, Need, PairwiseJudge, Sight
from tasks.scoring.features import FeatureCache
from tasks.scoring.instructions import CHOICE_SCHEMA, read_choice
from tasks.scoring.judges.frame_choice import FramePolicy
from tasks.scoring.judges.sent_frames import SentFrames, check_form, choose_sent, sent_parts

#: What a captioner answers with.
CAPTION_SCHEMA = objects({"description": {"type": "string"}})


def description_in(value: Any) -> str:
    """Return the description that an answer is; raise NotJudged (`not_understood`) where it is none."""
    if not isinstance(value, dict) or set(value) != {"description"}:
        raise NotJudged(Failure.NOT_UNDERSTOOD, 'the answer is not a JSON object {"description": …}')
    return text_in(value, "description")


class Descriptions:
    """Descriptions of videos by a captioner, each made once per video and aspect.

    Parameters
    ----------
    model, client
        The captioner, and the client of its server.
    answers
        Where descriptions are kept.
    cache
        Cache of the changes between frames, which determine the scenes.
    prompts
        The user's folder of prompts; empty for ours.
    assumed_tokens
        Tokens of a description, assumed until some are measured; the captioner's `description_tokens` by
        default.

    Raises
    ------
    UserInputError
        If the server does not take frames in the form of the model's settings.
    """

    def __init__(
        self,
        model: VlmModel,
        client: ChatClient,
        answers: AnswerStore,
        cache: FeatureCache,
        prompts: str = "",
        assumed_tokens: int | None = None,
    ) -> None:
        check_form(model, client.server)
        self.model, self.answers = model, answers
        self._client, self._cache = client, cache
        self._calls = Calls(model, client, answers)
        self._system = prompt_text("judges/caption_system", prompts)
        self._user = prompt_text("judges/caption_user", prompts)
        self._line = prompt_text("judges/caption_line", prompts)
        self._policy = FramePolicy(policy="all" if model.frames == "all" else "clips")
        self._measured = MeasuredTokens()
        self._assumed = model.description_tokens if assumed_tokens is None else assumed_tokens
        #: Mean tokens of a description.
        self.tokens: float = self._assumed

    @property
    def server(self) -> ChatServer:
        """The captioner's server."""
        return self._client.server

    def settings(self) -> dict[str, Any]:
        """Return the captioner with its sampling, the frame policy and the prompts' checksum."""
        return {
            "model": self.model.settings(lambda: self._client.server.base),
            "frames": self._policy.model_dump(mode="json"),
            "prompts": prompt_digest(self._system, self._user, self._line),
        }

    def key(self, video: Side, aspect: AspectText) -> str:
        """Return the key of a description among the kept answers."""
        return self._calls.key(self._what(video, aspect), self._texts(aspect)[0], CAPTION_SCHEMA)

    def make(self, video: Side, aspect: AspectText) -> JsonAnswer:
        """Return a description; it is asked for unless it is kept.

        Raises
        ------
        NotJudged
            If there is none.
        """
        noted: dict[str, Any] = {}

        def message() -> VideoParts:
            sent = self._choose(video, aspect)
            noted.update(self._noted(sent, aspect))
            return self._message(video, aspect, sent), sent.fps

        system, _ = self._texts(aspect)
        what = self._what(video, aspect)
        with self._priced(noted):
            return self._calls.ask(what, system, message, CAPTION_SCHEMA, description_in, lambda: noted)

    def make_request(self, video: Side, aspect: AspectText) -> ChatRequest:
        """Return the request for a description."""
        sent = self._choose(video, aspect)
        system, _ = self._texts(aspect)
        return make_request(self.model, system, self._message(video, aspect, sent), CAPTION_SCHEMA, sent.fps)

    def keep(self, answer: ChatAnswer, video: Side, aspect: AspectText, paid_by: str) -> None:
        """Keep the description in an answer to :meth:`make_request`; no frame is read."""
        noted = {**self._noted(self._choose(video, aspect), aspect), "paid_by": paid_by}
        with self._priced(noted):
            self._calls.keep(self.key(video, aspect), answer, CAPTION_SCHEMA, description_in, noted)

    def text(self, kept: StoredAnswer) -> str:
        """Return the description in a kept answer."""
        return str(self._calls.read(kept.text, CAPTION_SCHEMA, description_in)[0])

    def estimate(self, video: Side, aspect: AspectText, key: str) -> Estimate:
        """Return the cost of a description that is not kept yet."""
        sent = self._choose(video, aspect)
        assumed = self.model.thinking_tokens + self._assumed
        return Estimate(
            images=sent.count,
            tokens_in=self._measured.tokens_in(self._request_tokens(aspect) + sent.tokens),
            tokens_out=self._measured.tokens_out(aspect.name, assumed),
            model=self.model.model,
            once=key,
        )

    def learn(self, tokens_of: Callable[[str], int]) -> str:
        """Base estimates on the kept descriptions; return in words what they are based on.

        Parameters
        ----------
        tokens_of
            Counts the tokens of a text as the model does that reads it.
        """
        kept = self.answers.made_for(digest_value(self.settings()))
        self._measured = MeasuredTokens(
            tuple(
                TokenCounts(one.about, one.tokens_out, one.tokens_in, one.expected_in)
                for one in kept
                # a server may have counted nothing
                if one.tokens_out
            )
        )
        if self._measured.answers:
            self.tokens = fmean(tokens_of(self.text(one)) for one in kept)
            return self._measured.describe("descriptions")
        return f"{self.model.assumes()}, and {self.tokens:,} tokens a description (description_tokens)"

    @contextmanager
    def _priced(self, noted: Mapping[str, Any]) -> Iterator[None]:
        """Count the cost of an answer without a description as this model's."""
        try:
            yield
        except NotJudged as problem:
            problem.usage = problem.usage.expecting(noted.get("expected_in", 0)).by_model(self.model.model)
            raise

    def _what(self, video: Side, aspect: AspectText) -> dict[str, Any]:
        return {
            "video": video.identity(),
            "aspect": aspect.model_dump(mode="json"),
            "captioner": self.settings(),
        }

    def _texts(self, aspect: AspectText) -> tuple[str, str]:
        """Return what the captioner is told of an aspect: the texts of the system and of the user."""
        values = {"dimension": aspect.dimension, "description": aspect.description}
        return filled(self._system, **values), filled(self._user, **values)

    def _message(self, video: Side, aspect: AspectText, sent: SentFrames) -> Parts:
        parts = sent_parts((self._line,), (video,), sent, self.model, self.server.provider)
        return [{"type": "text", "text": self._texts(aspect)[1]}, *parts]

    def _noted(self, sent: SentFrames, aspect: AspectText) -> dict[str, Any]:
        return {
            "asked_by": digest_value(self.settings()),
            "about": aspect.name,
            "frames": sent.count,
            "frames_as": sent.frames_as,
            "expected_in": self._request_tokens(aspect) + sent.tokens,
        }

    def _choose(self, video: Side, aspect: AspectText) -> SentFrames:
        left = self.model.request_tokens() - self._request_tokens(aspect)
        return choose_sent((video,), self._policy, self.model, left, self._cache)

    def _request_tokens(self, aspect: AspectText) -> int:
        around = MARK_TOKENS + LINE_TOKENS + self.model.schema_tokens
        return self.model.text_tokens("".join(self._texts(aspect))) + around


class TextJudge(PairwiseJudge):
    """Compares descriptions of the two videos.

    Parameters
    ----------
    name
        Its name in tables.
    judge
        The model, with its server.
    descriptions
        The descriptions.
    prompts
        The user's folder of prompts; empty for ours.

    Raises
    ------
    UserInputError
        If log probabilities are wanted of a server that has none.
    """

    prompt_areas: ClassVar[tuple[str, ...]] = ("judges", "descriptions")
    sees: ClassVar[tuple[Sight, ...]] = ("descriptions", "captions")
    needs: ClassVar[tuple[Need, ...]] = ("server",)
    paid: ClassVar[bool] = True
    settings_model: ClassVar[type[Frozen] | None] = VlmModel

    def __init__(
        self,
        name: str,
        judge: tuple[VlmModel, ChatClient],
        descriptions: Descriptions,
        prompts: str = "",
    ) -> None:
        self.name = name
        self.model, self._client = judge
        if self.model.logprobs:
            require_logprobs(self._client.server)
        self.descriptions = descriptions
        self._system = prompt_text("judges/text_judge_system", prompts)
        self._user = prompt_text("judges/text_judge_user", prompts)
        self._measured = MeasuredTokens()

    def settings(self) -> dict[str, Any]:
        """Return both models with their sampling, the frame policy and the prompts' checksums."""
        return {
            "model": self.model.settings(lambda: self._client.server.base),
            "captioner": self.descriptions.settings(),
            "prompts": prompt_digest(self._system, self._user),
        }

    def check(self) -> None:
        """Ask the servers whether they have their models.

        Raises
        ------
        PrerequisiteError
            If one does not answer, refuses the key, or has other models only.
        """
        for server in dict.fromkeys((self.server, self.descriptions.server)):
            check_server(server)

    @property
    def server(self) -> ChatServer:
        """The server of the model that compares."""
        return self._client.server

    @property
    def concurrency(self) -> int:
        """The profile's limit of requests for the judge's server."""
        return self.server.concurrency

    def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
        """Return which description the model prefers; missing descriptions are made."""
        made: list[JsonAnswer] = []
        paid: list[ModelUsage] = []
        for video in (first, second):
            try:
                made.append(self.descriptions.make(video, aspect))
            except NotJudged as problem:
                problem.usage = replace(problem.usage, others=(*paid, *problem.usage.others))
                raise
            stored = made[-1].stored
            paid += made[-1].usage.expecting(stored.expected_in).by_model(stored.model).others
        parts = self._message(prompt, aspect, *(one.value for one in made))
        return self._judged(
            lambda: ask(self._client, self.model, self._system, parts, CHOICE_SCHEMA),
            parts[0]["text"],
            [one.stored for one in made],
            tuple(paid),
            sum(one.calls for one in made),
        )

    def make_request(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> ChatRequest:
        """Return the request of a comparison, with the kept descriptions."""
        kept = self._kept(first, second, aspect)
        parts = self._message(prompt, aspect, *(self.descriptions.text(one) for one in kept))
        return make_request(self.model, self._system, parts, CHOICE_SCHEMA)

    def read_answer(
        self, answer: ChatAnswer, prompt: str, first: Side, second: Side, aspect: AspectText
    ) -> JudgeAnswer:
        """Return which description the model preferred in an answer to :meth:`make_request`."""
        kept = self._kept(first, second, aspect)
        parts = self._message(prompt, aspect, *(self.descriptions.text(one) for one in kept))
        return self._judged(lambda: complete(answer, self.model.answers), parts[0]["text"], kept)

    def _kept(self, first: Side, second: Side, aspect: AspectText) -> list[StoredAnswer]:
        keys = [self.descriptions.key(video, aspect) for video in (first, second)]
        found = [self.descriptions.answers.find(key) for key in keys]
        kept = [one for one in found if one is not None]
        if len(kept) < len(keys):
            raise NotJudged(
                Failure.INTERNAL_ERROR,
                f"a description that was compared is gone from {self.descriptions.answers.folder}: run again",
            )
        return kept

    def _judged(
        self,
        answered: Callable[[], ChatAnswer],
        text: str,
        kept: Sequence[StoredAnswer],
        paid: tuple[ModelUsage, ...] = (),
        made: int = 0,
    ) -> JudgeAnswer:
        frames, expected = sum(one.frames for one in kept), self._answer_tokens(text)
        try:
            answer = answered()
            choice, found = read_choice(answer, self.model.answers)
        except NotJudged as problem:
            problem.usage = replace(problem.usage, frames=frames, others=paid).expecting(expected)
            raise
        return JudgeAnswer(
            choice=choice,
            raw=answer.text,
            reasoning=answer.reasoning,
            finish_reason=answer.finish_reason or "",
            model=answer.model or self.model.model,
            prompt_digest=prompt_digest(self._system, text),
            usage=replace(usage_of(answer, frames=frames), others=paid).expecting(expected),
            details={
                "captions": [one.key for one in kept],
                "captioner": kept[0].model,
                "captions_made": made,
                "frames_as": "; ".join(sorted({one.frames_as for one in kept})),
                "tokens": {
                    "expected_in": expected,
                    "in": answer.tokens_in or 0,
                    "out": answer.tokens_out or 0,
                },
                **({"found": found} if found else {}),
                **preference_in(answer),
            },
        )

    def _message(self, prompt: str, aspect: AspectText, first: str, second: str) -> list[dict[str, Any]]:
        text = filled(
            self._user,
            dimension=aspect.dimension,
            description=aspect.description,
            prompt=prompt,
            first=first,
            second=second,
        )
        return [{"type": "text", "text": text}]

    def _answer_tokens(self, text: str) -> int:
        return self.model.text_tokens(self._system + text) + MARK_TOKENS + self.model.schema_tokens

    def estimate(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> list[Estimate]:
        """Return the cost of one comparison, including missing descriptions."""
        missing: list[Estimate] = []
        texts: list[str] = []
        for video in (first, second):
            key = self.descriptions.key(video, aspect)
            kept = self.descriptions.answers.find(key)
            texts.append("" if kept is None else self.descriptions.text(kept))
            if kept is None:
                missing.append(self.descriptions.estimate(video, aspect, key))
        expected = self._answer_tokens(self._message(prompt, aspect, *texts)[0]["text"])
        expected += round(len(missing) * self.descriptions.tokens)
        answer = Estimate(
            tokens_in=self._measured.tokens_in(expected),
            tokens_out=self._measured.tokens_out(aspect.name, self.model.thinking_tokens + CHOICE_TOKENS),
            model=self.model.model,
        )
        return [*missing, answer]

    def learn(self, rows: Sequence[Judgement]) -> str:
        """Base estimates on the answers and descriptions in the store."""
        self._measured = of_judgements(rows)
        of_descriptions = self.descriptions.learn(self.model.text_tokens)
        of_answers = self._measured.describe("answers") if self._measured.answers else self.model.assumes()
        models = dict.fromkeys((self.model.borrowed(), self.descriptions.model.borrowed()))
        return "; ".join(filter(None, (of_answers, of_descriptions, *models)))
