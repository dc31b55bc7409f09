"""FirstJudge: the longer video is better, else the one with stronger colours."""

from typing import Any

import numpy as np

from slvmeval.evaluators import AspectText, Choice, JudgeAnswer, PairwiseJudge, Side, Usage


class FirstJudge(PairwiseJudge):
    """Uses lengths and colours, but no text."""

    name = "first-judge"
    # increase it when answers change for a reason that settings() does not show
    version = 1
    # each pair is judged twice, because a judge may prefer the video that it sees first
    both_orders = True

    def __init__(self, frames: int = 16) -> None:
        self.frames = frames

    def settings(self) -> dict[str, Any]:
        """Return everything besides the videos that answers depend on."""
        return {"frames": self.frames}

    def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
        """Return which of two videos is better."""
        lengths = len(first), len(second)
        if lengths[0] != lengths[1]:
            return JudgeAnswer(larger(*lengths), reasoning=f"frames: {lengths}")
        colours = self.colour(first), self.colour(second)
        return JudgeAnswer(
            larger(*colours), reasoning=f"colours: {colours}", usage=Usage(frames=2 * self.frames)
        )

    def colour(self, video: Side) -> float:
        """Return the mean spread of red, green and blue of some frames, in 8-bit steps."""
        indices = np.linspace(0, len(video) - 1, self.frames).astype(int)
        return round(float(np.mean([video.rgb(int(index)).std(axis=2).mean() for index in indices])), 2)


def larger(first: float, second: float) -> Choice:
    """Return which of two numbers is larger."""
    return "tie" if first == second else "first" if first > second else "second"
