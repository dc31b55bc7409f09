"""Content clarity: a model gives four dimensions 0 to 4 with a brief reason, in several rounds.

All four come from one stored request per round. The number is the mean of the rounds, divided by 4. A failed
round is ignored, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from storage_schemas.judgements import TRANSIENT_FAILURES, Failure
from tasks.extras.locot2v.askers import Comparer
from tasks.extras.locot2v.dimensions import CLARITY_NAMES
from tasks.extras.locot2v.measure import Measure, Value, instruction
from tasks.llm.answers import objects
from tasks.llm.conversation import Role, Step
from tasks.llm.usage import NotJudged
from tasks.scoring.suites.base import SuitePrompt
from tasks.scoring.suites.shown_videos import SampledVideo

#: The greatest score of a round.
BEST = 4
_ROUND = objects(
    {"reason": {"type": "string"}, "score": {"type": "integer", "minimum": 0, "maximum": BEST}},
)
SCHEMA = objects(dict.fromkeys(CLARITY_NAMES, _ROUND))
_ASSUMED = {name: {"reason": "word " * 30, "score": 3} for name in CLARITY_NAMES}
#: More than the maximum number of rounds, so that each repeat has seeds of its own.
_SEEDS_A_REPEAT = 1000


def read_round(value: Any) -> dict[str, int | None]:
    """Return the scores of a round; None for one that is not a whole number from 0 to 4.

    Raises
    ------
    NotJudged
        `not_understood` if there is none.
    """
    scores: dict[str, int | None] = dict.fromkeys(CLARITY_NAMES)
    for name in CLARITY_NAMES:
        entry = value.get(name) if isinstance(value, dict) else None
        score = entry.get("score") if isinstance(entry, dict) else None
        if isinstance(score, int | float) and not isinstance(score, bool) and score in range(BEST + 1):
            scores[name] = int(score)
    if all(score is None for score in scores.values()):
        raise NotJudged(
            Failure.NOT_UNDERSTOOD, f"the answer has no whole number from 0 to {BEST} for any dimension"
        )
    return scores


def clarity_value(scores: Sequence[int]) -> float:
    """Return the mean of the rounds' scores, between 0 and 1.

    Examples
    --------
    >>> clarity_value([4, 3, 2])
    0.75
    """
    return math.fsum(scores) / BEST / len(scores)


class Clarity(Measure):
    """One of the four dimensions."""

    roles: ClassVar[Sequence[Role]] = ("multimodal",)
    messages: ClassVar[Sequence[str]] = ("clarity_user", "video_line")
    uses: ClassVar[frozenset[str]] = Measure.uses | {"rounds", "round_temperature"}

    def instructions(self) -> Mapping[str, str]:
        """Return the scale."""
        return {"clarity": instruction("clarity", self.settings.prompts)}

    def value(self, asker: Comparer, prompt: SuitePrompt, film: SampledVideo, repeat: int) -> Value:
        """Return the mean over the rounds that have an answer."""
        scores: list[int | None] = []
        failed: list[NotJudged] = []
        for number in range(self.settings.rounds):
            try:
                scores.append(asker.ask(self._step(film, number, repeat))[self.dimension.name])
            except NotJudged as problem:
                # the next run asks an unavailable server again, for all rounds
                if problem.failure in TRANSIENT_FAILURES:
                    raise
                failed.append(problem)
                scores.append(None)
        given = [score for score in scores if score is not None]
        if not given and failed:
            raise failed[-1]
        if not given:
            raise NotJudged(
                Failure.NOT_UNDERSTOOD,
                f"no round has a whole number from 0 to {BEST} for {self.dimension.name}",
            )
        details = {"rounds": scores, "failed": [problem.message for problem in failed]}
        return Value(clarity_value(given), details)

    def _step(self, film: SampledVideo, number: int, repeat: int) -> Step:
        warm = self.settings.round_temperature is not None
        return Step(
            name=f"round {number + 1}",
            role="multimodal",
            system=self.instructions()["clarity"],
            text=self.told("clarity_user"),
            schema=SCHEMA,
            check=read_round,
            assumed=_ASSUMED,
            exhibit=self.settings.exhibit(film),
            what={"repeat": repeat, "round": number},
            temperature=self.settings.round_temperature,
            seed=repeat * _SEEDS_A_REPEAT + number if warm else None,
        )
