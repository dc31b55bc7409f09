"""Video-based VLM judge: one request shows the frames of both videos (SLVMEval, section 5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from storage_schemas.judgement import Judgement
from tasks.evaluators.base import AspectText, Comparison, Estimate, NotJudged, PairwiseJudge
from tasks.evaluators.features import FeatureCache
from tasks.evaluators.frame_choice import FrameChoice, FrameLimit, FramePolicy, choose_frames
from tasks.evaluators.frame_images import image_size, video_parts
from tasks.evaluators.measured_tokens import MeasuredTokens, of_judgements
from tasks.evaluators.vlm_answers import (
    CHOICE_SCHEMA,
    ask,
    filled,
    prompt_digest,
    prompt_text,
    read_choice,
    usage_of,
)
from tasks.evaluators.vlm_models import CHOICE_TOKENS, LINE_TOKENS, MARK_TOKENS, VlmModel
from tasks.models.chat_client import ChatClient
from tasks.models.servers import check_server
from tasks.pairs.view import Side


class VideoJudge(PairwiseJudge):
    """Shows a model both videos' frames and asks which is better; each pair is asked in both orders.

    Parameters
    ----------
    name
        What tables call it.
    model
        The model and how it is asked.
    client
        Its server.
    cache
        Where changes between frames are kept, by which scenes are found.
    system, user
        Prompts; `user` has the placeholders dimension, description and prompt.
    """

    def __init__(
        self,
        name: str,
        model: VlmModel,
        client: ChatClient,
        cache: FeatureCache,
        system: str | None = None,
        user: str | None = None,
    ) -> None:
        self.name, self.model = name, model
        self._client, self._cache = client, cache
        self._system = system or prompt_text("video_judge_system")
        self._user = user or prompt_text("video_judge_user")
        self._around = MARK_TOKENS + 2 * LINE_TOKENS + model.schema_tokens
        self._measured = MeasuredTokens()
        self._policy = FramePolicy(policy="all" if model.frames == "all" else "clips")

    def settings(self) -> dict[str, Any]:
        """Return the model with its sampling, the frame policy and the prompts' checksum."""
        return {
            "model": self.model.settings(),
            "frames": self._policy.model_dump(mode="json"),
            "prompts": prompt_digest(self._system, self._user),
        }

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
        """As many requests as the profile allows for the server."""
        return self._client.server.concurrency

    def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> Comparison:
        """Return which video the model names."""
        text = self._text(prompt, aspect)
        chosen = self._choose(text, first, second)
        parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
        for place, (video, choice) in enumerate(zip((first, second), chosen, strict=True)):
            parts += video_parts(f"{('first', 'second')[place]} video", video, choice.places, self.model)
        shown = sum(len(choice.places) for choice in chosen)
        try:
            answer = ask(self._client, self.model, self._system, parts, CHOICE_SCHEMA)
            choice_made = read_choice(answer)
        except NotJudged as problem:
            problem.usage = replace(problem.usage, frames=shown)
            raise
        return Comparison(
            choice=choice_made,
            raw=answer.text,
            reasoning=answer.reasoning,
            finish_reason=answer.finish_reason or "",
            model=answer.model or self.model.model,
            prompt_digest=prompt_digest(self._system, text),
            usage=usage_of(answer, frames=shown),
            details={
                "frames": [choice.details() for choice in chosen],
                "tokens": {
                    "expected_in": self._text_tokens(text) + shown * self._frame_tokens(first),
                    "in": answer.tokens_in or 0,
                    "out": answer.tokens_out or 0,
                },
            },
        )

    def estimate(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> Estimate:
        """Return images and tokens of one comparison, with thoughts as long as measured or assumed."""
        text = self._text(prompt, aspect)
        images = sum(len(choice.places) for choice in self._choose(text, first, second))
        return Estimate(
            images=images,
            tokens_in=self._measured.tokens_in(self._text_tokens(text) + images * self._frame_tokens(first)),
            tokens_out=self._measured.tokens_out(aspect.name, self.model.thinking_tokens + CHOICE_TOKENS),
            model=self.model.model,
        )

    def learn(self, rows: Sequence[Judgement]) -> str:
        """Let estimates rest on what answers in the store took."""
        self._measured = of_judgements(rows)
        return self._measured.says("answers") if self._measured.answers else self.model.assumes()

    def _text(self, prompt: str, aspect: AspectText) -> str:
        return filled(self._user, dimension=aspect.dimension, description=aspect.description, prompt=prompt)

    def _choose(self, text: str, first: Side, second: Side) -> Sequence[FrameChoice]:
        left = self.model.context_tokens - self.model.answer_tokens - self._text_tokens(text)
        limit = FrameLimit(
            frames=self.model.most_images, tokens=left, tokens_per_frame=self._frame_tokens(first)
        )
        return choose_frames((first, second), self._policy, limit, self._cache)

    def _text_tokens(self, text: str) -> int:
        return self.model.text_tokens(self._system + text) + self._around

    def _frame_tokens(self, video: Side) -> int:
        return self.model.image_tokens(*image_size(video.width, video.height, self.model.image_side))
