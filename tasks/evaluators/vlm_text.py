"""Text-based VLM judge: each video is described from its frames, and a model compares the descriptions.

The captioner sees frames, aspect and description and never the prompt (SLVMEval, section 5.1). A language
model compares the two texts with the prompt, in both orders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from storage_schemas.ids import digest_value
from tasks.evaluators.base import AspectText, Comparison, Estimate, ModelUsage, NotJudged, PairwiseJudge
from tasks.evaluators.features import FeatureCache
from tasks.evaluators.frame_choice import FrameChoice, FrameLimit, FramePolicy, choose_frames
from tasks.evaluators.frame_images import image_size, video_parts
from tasks.evaluators.kept_captions import KeptCaption, KeptCaptions
from tasks.evaluators.vlm_answers import (
    CHOICE_SCHEMA,
    ask,
    filled,
    prompt_digest,
    prompt_text,
    read_choice,
    read_value,
    usage_of,
)
from tasks.evaluators.vlm_models import VlmModel
from tasks.models.chat import ChatClient
from tasks.models.servers import check_server
from tasks.pairs.view import Side

#: What a captioner answers with.
CAPTION_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"description": {"type": "string"}},
    "required": ["description"],
    "additionalProperties": False,
}

_MARK_TOKENS = 30
#: Tokens of one description, about: for estimates made before the first is there.
_CAPTION_TOKENS = 600


class TextJudge(PairwiseJudge):
    """Compares descriptions of the two videos, each made once for a video and an aspect.

    Parameters
    ----------
    name
        What tables call it.
    judge, captioner
        The models, with their servers.
    cache
        Where changes between frames are kept, by which scenes are found.
    captions
        Where descriptions are kept.
    """

    def __init__(
        self,
        name: str,
        judge: tuple[VlmModel, ChatClient],
        captioner: tuple[VlmModel, ChatClient],
        cache: FeatureCache,
        captions: KeptCaptions,
    ) -> None:
        self.name = name
        self.model, self._client = judge
        self.captioner, self._captioner_client = captioner
        self._cache, self._captions = cache, captions
        self._caption_system, self._caption_user = prompt_text("caption_system"), prompt_text("caption_user")
        self._system, self._user = prompt_text("text_judge_system"), prompt_text("text_judge_user")
        self._policy = FramePolicy(policy="all" if self.captioner.frames == "all" else "clips")

    def settings(self) -> dict[str, Any]:
        """Return both models with their sampling, the frame policy and the prompts' checksums."""
        return {
            "model": self.model.model_dump(mode="json", exclude={"server"}),
            "captioner": self._caption_settings(),
            "prompts": prompt_digest(self._system, self._user),
        }

    def _caption_settings(self) -> dict[str, Any]:
        return {
            "model": self.captioner.model_dump(mode="json", exclude={"server"}),
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
        """As many requests as the profile allows for the judge's server."""
        return self._client.server.concurrency

    def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> Comparison:
        """Return which description the model prefers; descriptions that are not there are made."""
        captions, paid = [], []
        for video in (first, second):
            caption, made = self._caption(video, aspect)
            captions.append(caption)
            if made:
                paid.append(ModelUsage(caption.model, caption.tokens_in, caption.tokens_out))
        text = self._text(prompt, aspect, captions[0].text, captions[1].text)
        frames = sum(caption.frames for caption in captions)
        try:
            answer = ask(
                self._client, self.model, self._system, [{"type": "text", "text": text}], CHOICE_SCHEMA
            )
            choice = read_choice(answer)
        except NotJudged as problem:
            problem.usage = replace(problem.usage, frames=frames, others=tuple(paid))
            raise
        return Comparison(
            choice=choice,
            raw=answer.text,
            reasoning=answer.reasoning,
            finish_reason=answer.finish_reason or "",
            model=answer.model or self.model.model,
            prompt_digest=prompt_digest(self._system, text),
            usage=replace(usage_of(answer, frames=frames), others=tuple(paid)),
            details={
                "captions": [caption.key for caption in captions],
                "captioner": captions[0].model,
                "captions_made": len(paid),
            },
        )

    def _caption(self, video: Side, aspect: AspectText) -> tuple[KeptCaption, bool]:
        key = digest_value(
            {
                "video": video.identity(),
                "aspect": aspect.model_dump(mode="json"),
                "captioner": self._caption_settings(),
            }
        )

        def make() -> KeptCaption:
            text, choice = self._choose(video, aspect)
            parts = [
                {"type": "text", "text": text},
                *video_parts("video", video, choice.places, self.captioner),
            ]
            answer = ask(self._captioner_client, self.captioner, self._caption_system, parts, CAPTION_SCHEMA)
            return KeptCaption(
                key=key,
                text=read_value(answer, "description"),
                model=answer.model or self.captioner.model,
                frames=len(choice.places),
                tokens_in=answer.tokens_in or 0,
                tokens_out=answer.tokens_out or 0,
                seconds=answer.seconds,
                tries=answer.tries,
            )

        return self._captions.get_or_make(key, make)

    def _choose(self, video: Side, aspect: AspectText) -> tuple[str, FrameChoice]:
        text = filled(self._caption_user, dimension=aspect.dimension, description=aspect.description)
        taken = self.captioner.text_tokens(self._caption_system + text) + _MARK_TOKENS
        limit = FrameLimit(
            frames=self.captioner.most_images,
            tokens=self.captioner.context_tokens - self.captioner.answer_tokens - taken,
            tokens_per_frame=self._frame_tokens(video),
        )
        return text, choose_frames((video,), self._policy, limit, self._cache)[0]

    def _frame_tokens(self, video: Side) -> int:
        side = self.captioner.image_side
        return self.captioner.image_tokens(*image_size(video.width, video.height, side))

    def _text(self, prompt: str, aspect: AspectText, first: str, second: str) -> str:
        return filled(
            self._user,
            dimension=aspect.dimension,
            description=aspect.description,
            prompt=prompt,
            first=first,
            second=second,
        )

    def estimate(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> list[Estimate]:
        """Return what one comparison takes, with half of the descriptions: the other order reuses them."""
        text, choice = self._choose(first, aspect)
        images = len(choice.places)
        caption = Estimate(
            images=images,
            tokens_in=self.captioner.text_tokens(self._caption_system + text)
            + _MARK_TOKENS
            + images * self._frame_tokens(first),
            tokens_out=_CAPTION_TOKENS,
            model=self.captioner.model,
        )
        compared = self._text(prompt, aspect, "", "")
        answer = Estimate(
            tokens_in=self.model.text_tokens(self._system + compared) + 2 * _CAPTION_TOKENS + _MARK_TOKENS,
            tokens_out=self.model.text_tokens('{"better": "second"}'),
            model=self.model.model,
        )
        return [caption, answer]
