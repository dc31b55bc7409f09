"""Text-based VLM judge: a captioner describes each video, and a model compares the descriptions.

The captioner sees frames, aspect and description and never the prompt (SLVMEval, section 5.1). A language
model compares the two texts with the prompt, in both orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, ClassVar

from storage_schemas.ids import digest_value
from storage_schemas.judgements import Failure, Judgement
from tasks.llm.answer_store import AnswerStore
from tasks.llm.answers import ask, objects, prompt_digest, text_in, usage_of
from tasks.llm.chat import ChatClient
from tasks.llm.prompt_files import filled, prompt_text
from tasks.llm.requests import Calls, JsonAnswer, Parts, read
from tasks.llm.servers import check_server
from tasks.llm.usage import Estimate, MeasuredTokens, ModelUsage, NotJudged, TokenCounts, of_judgements
from tasks.llm.vision_models import CHOICE_TOKENS, LINE_TOKENS, MARK_TOKENS, VlmModel
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, JudgeAnswer, PairwiseJudge
from tasks.scoring.features import FeatureCache
from tasks.scoring.instructions import CHOICE_SCHEMA, read_choice
from tasks.scoring.judges.frame_choice import FramePolicy
from tasks.scoring.judges.sent_frames import SentFrames, check_form, choose_sent, sent_parts

#: What a captioner answers with.
CAPTION_SCHEMA = objects({"description": {"type": "string"}})


def description_in(value: Any) -> str:
    """Return the description that an answer is; raise NotJudged (`not_understood`) where it is none."""
    if not isinstance(value, dict) or set(value) != {"description"}:
        raise NotJudged(Failure.NOT_UNDERSTOOD, 'the answer is no JSON object {"description": …}')
    return text_in(value, "description")


class TextJudge(PairwiseJudge):
    """Compares descriptions of the two videos, each made once per video and aspect.

    Parameters
    ----------
    name
        Its name in tables.
    judge, captioner
        The models, with their servers.
    cache
        Cache of the changes between frames, which determine the scenes.
    captions
        Where descriptions are kept.
    prompts
        The user's folder of prompts; empty for ours.

    Raises
    ------
    UserInputError
        If the captioner's server does not take frames in the form of its settings.
    """

    prompt_areas: ClassVar[tuple[str, ...]] = ("judges", "descriptions")

    def __init__(
        self,
        name: str,
        judge: tuple[VlmModel, ChatClient],
        captioner: tuple[VlmModel, ChatClient],
        cache: FeatureCache,
        captions: AnswerStore,
        prompts: str = "",
    ) -> None:
        check_form(captioner[0], captioner[1].server)
        self.name = name
        self.model, self._client = judge
        self.captioner, self._captioner_client = captioner
        self._captions = Calls(*captioner, captions)
        self._cache = cache
        self._caption_system = prompt_text("judges/caption_system", prompts)
        self._caption_user = prompt_text("judges/caption_user", prompts)
        self._system = prompt_text("judges/text_judge_system", prompts)
        self._user = prompt_text("judges/text_judge_user", prompts)
        self._measured, self._captions_measured = MeasuredTokens(), MeasuredTokens()
        self._description_tokens: float = self.model.description_tokens
        self._policy = FramePolicy(policy="all" if self.captioner.frames == "all" else "clips")

    def settings(self) -> dict[str, Any]:
        """Return both models with their sampling, the frame policy and the prompts' checksums."""
        return {
            "model": self.model.settings(),
            "captioner": self._caption_settings(),
            "prompts": prompt_digest(self._system, self._user),
        }

    def _caption_settings(self) -> dict[str, Any]:
        return {
            "model": self.captioner.settings(),
            "frames": self._policy.model_dump(mode="json"),
            "prompts": prompt_digest(self._caption_system, self._caption_user),
        }

    def check(self) -> None:
        """Ask the servers whether they have their models.

        Raises
        ------
        PrerequisiteError
            If one does not answer, refuses the key, or has other models only.
        """
        for server in dict.fromkeys((self._client.server, self._captioner_client.server)):
            check_server(server)

    @property
    def concurrency(self) -> int:
        """The profile's limit of requests for the judge's server."""
        return self._client.server.concurrency

    def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
        """Return which description the model prefers; missing descriptions are made."""
        captions: list[JsonAnswer] = []
        paid: list[ModelUsage] = []
        for video in (first, second):
            try:
                captions.append(self._caption(video, aspect))
            except NotJudged as problem:
                usage = problem.usage.by_model(self.captioner.model)
                problem.usage = replace(usage, others=(*paid, *usage.others))
                raise
            paid += captions[-1].usage.by_model(captions[-1].stored.model).others
        text = self._text(prompt, aspect, captions[0].value, captions[1].value)
        frames = sum(caption.stored.frames for caption in captions)
        try:
            answer = ask(
                self._client, self.model, self._system, [{"type": "text", "text": text}], CHOICE_SCHEMA
            )
            choice = read_choice(answer)
        except NotJudged as problem:
            problem.usage = replace(problem.usage, frames=frames, others=tuple(paid))
            raise
        return JudgeAnswer(
            choice=choice,
            raw=answer.text,
            reasoning=answer.reasoning,
            finish_reason=answer.finish_reason or "",
            model=answer.model or self.model.model,
            prompt_digest=prompt_digest(self._system, text),
            usage=replace(usage_of(answer, frames=frames), others=tuple(paid)),
            details={
                "captions": [caption.stored.key for caption in captions],
                "captioner": captions[0].stored.model,
                "captions_made": sum(caption.calls for caption in captions),
                "frames_as": "; ".join(sorted({caption.stored.frames_as for caption in captions})),
                "tokens": {
                    "expected_in": self._answer_tokens(text),
                    "in": answer.tokens_in or 0,
                    "out": answer.tokens_out or 0,
                },
            },
        )

    def _what(self, video: Side, aspect: AspectText) -> dict[str, Any]:
        return {
            "video": video.identity(),
            "aspect": aspect.model_dump(mode="json"),
            "captioner": self._caption_settings(),
        }

    def _caption_texts(self, aspect: AspectText) -> tuple[str, str]:
        """Return what the captioner is told of an aspect: the texts of the system and of the user."""
        told = {"dimension": aspect.dimension, "description": aspect.description}
        return filled(self._caption_system, **told), filled(self._caption_user, **told)

    def _caption(self, video: Side, aspect: AspectText) -> JsonAnswer:
        system, user = self._caption_texts(aspect)
        noted: dict[str, Any] = {"asked_by": digest_value(self._caption_settings()), "about": aspect.name}

        def message() -> tuple[Parts, float | None]:
            sent = self._choose(video, aspect)
            noted["frames"], noted["frames_as"] = sent.count, sent.frames_as
            noted["expected_in"] = self._caption_tokens(aspect) + sent.tokens
            server = self._captioner_client.server
            parts = sent_parts(("video",), (video,), sent, self.captioner, server)
            return [{"type": "text", "text": user}, *parts], sent.fps

        return self._captions.ask(
            self._what(video, aspect),
            system,
            message,
            CAPTION_SCHEMA,
            description_in,
            lambda: noted,
        )

    def _choose(self, video: Side, aspect: AspectText) -> SentFrames:
        left = self.captioner.request_tokens() - self._caption_tokens(aspect)
        return choose_sent((video,), self._policy, self.captioner, left, self._cache)

    def _text(self, prompt: str, aspect: AspectText, first: str, second: str) -> str:
        return filled(
            self._user,
            dimension=aspect.dimension,
            description=aspect.description,
            prompt=prompt,
            first=first,
            second=second,
        )

    def _caption_tokens(self, aspect: AspectText) -> int:
        around = MARK_TOKENS + LINE_TOKENS + self.captioner.schema_tokens
        return self.captioner.text_tokens("".join(self._caption_texts(aspect))) + around

    def _answer_tokens(self, text: str) -> int:
        return self.model.text_tokens(self._system + text) + MARK_TOKENS + self.model.schema_tokens

    def estimate(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> list[Estimate]:
        """Return the cost of one comparison, including missing descriptions."""
        captions: list[Estimate] = []
        texts: list[str] = []
        lacking = 0
        system, _ = self._caption_texts(aspect)
        for video in (first, second):
            key = self._captions.key(self._what(video, aspect), system, CAPTION_SCHEMA)
            kept = self._captions.answers.find(key)
            texts.append("" if kept is None else read(kept.text, None, description_in))
            if kept is None:
                lacking += 1
                captions.append(self._estimate_caption(video, aspect, key))
        expected = self._answer_tokens(self._text(prompt, aspect, *texts))
        expected += round(lacking * self._description_tokens)
        answer = Estimate(
            tokens_in=self._measured.tokens_in(expected),
            tokens_out=self._measured.tokens_out(aspect.name, self.model.thinking_tokens + CHOICE_TOKENS),
            model=self.model.model,
        )
        return [*captions, answer]

    def _estimate_caption(self, video: Side, aspect: AspectText, key: str) -> Estimate:
        sent = self._choose(video, aspect)
        assumed = self.captioner.thinking_tokens + self.model.description_tokens
        return Estimate(
            images=sent.count,
            tokens_in=self._captions_measured.tokens_in(self._caption_tokens(aspect) + sent.tokens),
            tokens_out=self._captions_measured.tokens_out(aspect.name, assumed),
            model=self.captioner.model,
            once=key,
        )

    def learn(self, rows: Sequence[Judgement]) -> str:
        """Base estimates on the answers and descriptions in the store."""
        self._measured = of_judgements(rows)
        kept = self._captions.answers.made_for(digest_value(self._caption_settings()))
        self._captions_measured = MeasuredTokens(
            tuple(TokenCounts(one.about, one.tokens_out, one.tokens_in, one.expected_in) for one in kept)
        )
        if kept:
            self._description_tokens = fmean(
                self.model.text_tokens(read(one.text, None, description_in)) for one in kept
            )
        return "; ".join(
            (
                self._measured.says("answers") if self._measured.answers else self.model.assumes(),
                self._captions_measured.says("descriptions")
                if kept
                else f"{self.captioner.assumes()}, and {self._description_tokens:,} tokens a description "
                "(description_tokens)",
            )
        )
