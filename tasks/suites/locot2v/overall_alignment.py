"""Overall alignment: a model describes the video without the prompt, and the description is compared with it.

The description is kept; event alignment uses the same one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tasks.suites.base import SuitePrompt
from tasks.suites.locot2v.asking import Asker
from tasks.suites.locot2v.measure import Measure, Value, base_of
from tasks.suites.locot2v.roles import Role, Step
from tasks.suites.locot2v.texts import instruction
from tasks.suites.video_bench.answers import objects, text_in
from tasks.suites.video_bench.frames import Film

SCHEMA = objects({"description": {"type": "string"}})
#: An answer of usual length, about 250 words.
_ASSUMED = {"description": "word " * 250}


def describe(asker: Asker, film: Film, folder: str, repeat: int) -> str:
    """Return what a model says is seen in a video.

    Raises
    ------
    NotJudged
        If it says nothing.
    """
    step = Step(
        name="describe",
        role="multimodal",
        system=instruction("describe", folder),
        text="Describe this video.",
        schema=SCHEMA,
        check=lambda value: text_in(value, "description"),
        assumed=_ASSUMED,
        film=film,
        what={"repeat": repeat},
    )
    return str(asker.ask(step))


class OverallAlignment(Measure):
    """Cosine of the embeddings of the description and of the prompt's base; below 0 counts as 0."""

    roles: ClassVar[Sequence[Role]] = ("multimodal",)
    compares: ClassVar[bool] = True

    def told(self) -> Mapping[str, str]:
        """Return how the model is asked to describe."""
        return {"describe": instruction("describe", self.settings.prompts)}

    def value(self, asker: Asker, prompt: SuitePrompt, film: Film, repeat: int) -> Value:
        """Return how near the description is to the prompt."""
        description = describe(asker, film, self.settings.prompts, repeat)
        cosine = float(asker.compare([([base_of(prompt)], [description])])[0][0, 0])
        details: dict[str, Any] = {"cosine": cosine}
        return Value(max(0.0, cosine), details)
