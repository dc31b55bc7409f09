"""Drafts of prompts: a video is described; then the description is criticised and rewritten in rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from storage_schemas.judgements import Failure
from storage_schemas.model import Frozen
from tasks.extras.locot2v.measure import numbered
from tasks.extras.prompt_suite.requests import Attempts
from tasks.extras.prompt_suite.settings import PromptSuiteSettings
from tasks.llm.answers import objects, text_in, texts_in
from tasks.llm.conversation import Step
from tasks.llm.prompt_files import filled, prompt_text
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.shown_videos import SampledVideo

DESCRIBED = objects({"description": {"type": "string"}})
FAULTS = objects({"faults": {"type": "array", "items": {"type": "string"}}})
#: Factor by which a description's length may differ from the settings; beyond it, the model is asked again,
#: because it answered with one sentence or did not stop.
_SLACK = 2.0


class Version(Frozen):
    """A version of the text, and its faults."""

    text: str
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drafting:
    """Makes drafts."""

    settings: PromptSuiteSettings

    def versions(self, attempts: Attempts, film: SampledVideo) -> list[Version]:
        """Return the versions of a description in order; the last one is the draft.

        Raises
        ------
        NotJudged
            If a step has no valid answer.
        """
        text = attempts.ask(self._step("describe", "make_describe", {}, film), self._read)
        versions: list[Version] = []
        for number in range(1, self.settings.rounds + 1):
            faults = self._faults(attempts, film, text, number)
            versions.append(Version(text=text, faults=tuple(faults)))
            if not faults:
                return versions
            message = {"description": text, "faults": numbered(faults)}
            step = self._step(f"rewrite, round {number}", "make_rewrite", message, film)
            text = attempts.ask(step, self._read)
        return [*versions, Version(text=text)]

    def _faults(self, attempts: Attempts, film: SampledVideo, text: str, number: int) -> list[str]:
        message = {"description": text}
        step = self._step(f"criticise, round {number}", "make_criticise", message, film, FAULTS)
        return attempts.ask(step, lambda value: texts_in(value, "faults"))

    def _read(self, value: Any) -> str:
        text = text_in(value, "description")
        count, least, most = len(text.split()), self.settings.least_words, self.settings.most_words
        if not least / _SLACK <= count <= most * _SLACK:
            raise NotJudged(
                Failure.NOT_UNDERSTOOD, f"the description has {count} words instead of {least} to {most}"
            )
        return text

    def _step(
        self,
        name: str,
        prompt: str,
        message: Mapping[str, str],
        film: SampledVideo,
        schema: Mapping[str, Any] = DESCRIBED,
    ) -> Step:
        settings = self.settings
        words = {"least": str(settings.least_words), "most": str(settings.most_words)}
        middle = "word " * ((settings.least_words + settings.most_words) // 2)
        assumed = {"faults": ["word " * 15] * 4} if schema is FAULTS else {"description": middle}
        return Step(
            name=name,
            role="multimodal",
            system=filled(prompt_text(f"prompt-suite/{prompt}", settings.prompts), **words),
            text=filled(prompt_text(f"prompt-suite/{prompt}_user", settings.prompts), **message),
            schema=schema,
            assumed=assumed,
            exhibit=settings.of_suite().exhibit(film),
        )
