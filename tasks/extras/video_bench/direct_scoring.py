"""Direct scoring: one request in place of the chain of query (Video-Bench, tables 3 and 4 (b))."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.extras.video_bench.instructions import instruction, sections_of
from tasks.extras.video_bench.settings import VideoBenchSettings
from tasks.llm.answers import objects, score_in, text_in
from tasks.llm.conversation import Asker, Step
from tasks.llm.prompt_files import filled, prompt_text
from tasks.scoring.suites.base import Dimension
from tasks.scoring.suites.shown_videos import SampledVideo

_NAME = "score directly"
#: Assumed length of the reason of a score.
_REASON = "word " * 60


class DirectScoring:
    """Scores videos in one alignment dimension from their frames and their prompt alone.

    Raises
    ------
    UserInputError
        If its criteria are invalid.
    """

    def __init__(self, dimension: Dimension, settings: VideoBenchSettings) -> None:
        self.dimension, self._settings = dimension, settings
        sections = sections_of(dimension.name, settings.prompts)
        ends = {"low": f"{dimension.low:g}", "high": f"{dimension.high:g}"}
        self.systems: Mapping[str, str] = {
            _NAME: instruction("score_directly", sections, settings.prompts, **ends)
        }
        self.messages = {
            "user": prompt_text("video-bench/score_directly_user", settings.prompts),
            **settings.image_lines(dimension.name, "video_line"),
        }

    def score(self, asker: Asker, prompt: str, film: SampledVideo, repeat: int = 0) -> int:
        """Return the score of one video.

        Raises
        ------
        NotJudged
            If the request has no answer.
        """
        low, high = int(self.dimension.low), int(self.dimension.high)
        scale = list(range(low, high + 1))

        def check(value: Any) -> dict[str, Any]:
            return {"reason": text_in(value, "reason"), "score": score_in(value, low, high)}

        step = Step(
            name=_NAME,
            role="multimodal",
            system=self.systems[_NAME],
            text=filled(self.messages["user"], prompt=prompt),
            exhibit=self._settings.exhibit(self.dimension.name, {"video": film}, self.messages),
            schema=objects({"reason": {"type": "string"}, "score": {"type": "integer", "enum": scale}}),
            check=check,
            assumed={"reason": _REASON, "score": scale[0]},
            what={"step": _NAME, "repeat": repeat},
        )
        return int(asker.ask(step)["score"])
