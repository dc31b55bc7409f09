"""Few-shot scoring: the videos of one prompt in one request, each a measure for the others (section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storage_schemas.judgements import Failure
from tasks.extras.video_bench.instructions import instruction, sections_of
from tasks.extras.video_bench.settings import Rest, VideoBenchSettings
from tasks.llm.answers import objects, score_in
from tasks.llm.conversation import Asker, Step
from tasks.llm.prompt_files import filled, prompt_text
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import Dimension
from tasks.scoring.suites.shown_videos import SampledVideo

#: Assumed length of the reason of one score.
_REASON = "word " * 40


@dataclass(frozen=True)
class VideoGroup:
    """The videos of one request, by their indices.

    Parameters
    ----------
    counted
        Whose scores are taken.
    measures
        Shown after them only for comparison.
    """

    counted: tuple[int, ...]
    measures: tuple[int, ...] = ()

    @property
    def shown(self) -> tuple[int, ...]:
        """All of them, in their order."""
        return (*self.counted, *self.measures)


def video_groups(count: int, shots: int, rest: Rest) -> list[VideoGroup]:
    """Return `count` videos in batches of at most `shots`; see the setting ``rest``."""
    if rest == "even" and count:
        number = -(-count // shots)
        ends = [count * at // number for at in range(number + 1)]
        return [VideoGroup(tuple(range(*ends[at : at + 2]))) for at in range(number)]
    groups = [VideoGroup(tuple(range(at, min(at + shots, count)))) for at in range(0, count, shots)]
    if rest == "fill" and len(groups) > 1:
        last = groups[-1].counted
        groups[-1] = VideoGroup(last, tuple(range(shots - len(last))))
    return groups


class FewShot:
    """Scores the videos of one prompt together, in one quality dimension.

    Attributes
    ----------
    sends_prompt
        Whether its requests have the prompt's text.

    Raises
    ------
    UserInputError
        If its criteria are invalid.
    """

    def __init__(self, dimension: Dimension, settings: VideoBenchSettings) -> None:
        self.dimension, self._settings = dimension, settings
        self.sends_prompt = dimension.name in settings.quality_prompt
        sections = sections_of(dimension.name, settings.prompts)
        ends = {"low": f"{dimension.low:g}", "high": f"{dimension.high:g}"}
        self.system = instruction("few_shot", sections, settings.prompts, **ends)
        names = ("few_shot_user", *(["few_shot_prompt"] if self.sends_prompt else []))
        self.messages = {
            **{name: prompt_text(f"video-bench/{name}", settings.prompts) for name in names},
            **settings.image_lines(dimension.name, "numbered_video_line"),
        }
        scale = list(range(int(dimension.low), int(dimension.high) + 1))
        one = objects(
            {
                "video": {"type": "integer"},
                "reason": {"type": "string"},
                "score": {"type": "integer", "enum": scale},
            }
        )
        self._schema = objects({"scores": {"type": "array", "items": one}})
        self._assumed = scale[0]

    def score(
        self, asker: Asker, prompt: str, films: Sequence[SampledVideo], repeat: int = 0
    ) -> list[int | NotJudged]:
        """Return the scores of the videos of one request, in their order.

        An invalid score is a failure of that video alone.

        Raises
        ------
        NotJudged
            If the request has no answer, or scores for the wrong number of videos.
        """
        count = len(films)
        numbers = range(1, count + 1)
        text = filled(self.messages["few_shot_user"], count=str(count))
        if self.sends_prompt:
            text += "\n" + filled(self.messages["few_shot_prompt"], prompt=prompt)
        assumed = [{"video": number, "reason": _REASON, "score": self._assumed} for number in numbers]

        read: list[int | NotJudged] = []

        def check(value: Any) -> dict[str, Any]:
            entries = scores_of(value, count)
            read[:] = [self._one(entry) for entry in entries]
            odd = next((one for one in read if isinstance(one, NotJudged)), None)
            if odd is not None:
                # such an answer is not stored: a new attempt may succeed
                raise odd
            reasons = [str(entry.get("reason", "")) for entry in entries]
            kept = zip(numbers, reasons, read, strict=True)
            return {"scores": [{"video": at, "reason": why, "score": score} for at, why, score in kept]}

        named = {f"video {number}": film for number, film in zip(numbers, films, strict=True)}
        step = Step(
            name="few-shot",
            role="multimodal",
            system=self.system,
            text=text,
            exhibit=self._settings.exhibit(self.dimension.name, named, self.messages),
            schema=self._schema,
            check=check,
            assumed={"scores": assumed},
            what={"step": "few-shot", "repeat": repeat},
        )
        try:
            return [entry["score"] for entry in asker.ask(step)["scores"]]
        except NotJudged:
            if not read:
                raise
            # the other videos of the answer keep their scores
            return list(read)

    def _one(self, entry: Mapping[str, Any]) -> int | NotJudged:
        try:
            return score_in(entry, int(self.dimension.low), int(self.dimension.high))
        except NotJudged as problem:
            return problem


def scores_of(value: Any, count: int) -> list[Any]:
    """Return the entries of an answer in the order of the videos.

    Raises
    ------
    NotJudged
        `not_understood` unless there is exactly one for each video; nothing is guessed.
    """
    entries = value.get("scores") if isinstance(value, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise NotJudged(Failure.NOT_UNDERSTOOD, "the answer has no list 'scores'")
    if len(entries) != count:
        raise NotJudged(Failure.NOT_UNDERSTOOD, f"{len(entries)} scores were given for {count} videos")
    by_number = {entry.get("video"): entry for entry in entries if isinstance(entry.get("video"), int)}
    if set(by_number) != set(range(1, count + 1)):
        named = ", ".join(str(entry.get("video")) for entry in entries)
        raise NotJudged(
            Failure.NOT_UNDERSTOOD, f"scores were given for videos {named} in place of 1 to {count}"
        )
    return [by_number[number] for number in range(1, count + 1)]
