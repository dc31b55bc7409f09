"""A judge with a known psychometric function, as a package: it sees damage by how much the videos differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

CODE = '''
"""Answers rightly with a chance that rises with the mean difference of the two videos."""

import os, signal
from pathlib import Path

import numpy as np

from slvmeval.evaluators import Estimate, JudgeAnswer, PairwiseJudge, Usage
from storage_schemas.rng import keyed_rng

ASKED = Path(__file__).parent / "asked"


class Seeing(PairwiseJudge):
    def __init__(self, steps, kill_after, name):
        self.steps, self.kill_after, self.name = steps, kill_after, name

    def settings(self):
        return {"steps": self.steps}

    def check(self):
        pass

    def estimate(self, prompt, first, second, aspect):
        return Estimate(images=2, tokens_in=1000, model="toy")

    def compare(self, prompt, first, second, aspect):
        with ASKED.open("a") as log:
            log.write(f"{self.name} {first.identity()[:12]} {second.identity()[:12]}\\n")
        if self.kill_after and len(ASKED.read_text().splitlines()) == self.kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        places = [at for at in range(len(first)) if first.frame_ids([at]) != second.frame_ids([at])]
        if not places:
            # of two equal videos it names the first
            return JudgeAnswer("first", model="toy", usage=Usage(frames=2, tokens_in=1000))
        some = places[:2]
        one, two = (side.planes(some).astype(np.int16) for side in (first, second))
        seen = np.abs(one - two).mean() / self.steps
        chance = 0.5 + 0.5 * seen**3 / (1 + seen**3)
        right = keyed_rng("seeing", first.identity(), second.identity()).random() < chance
        # the damage of `aesthetics` lowers contrast
        damaged = "first" if one.std() < two.std() else "second"
        other = "second" if damaged == "first" else "first"
        return JudgeAnswer(other if right else damaged, model="toy", usage=Usage(frames=2, tokens_in=1000))


def judge(steps: float = 12.0, kill_after: int = 0, name: str = "seeing"):
    return Seeing(steps, kill_after, name)
'''


@pytest.fixture
def seeing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install the judge for this process and those that it starts; return the file of its requests."""
    import sys

    folder = tmp_path / "seeing-site"
    folder.mkdir()
    (folder / "seeing_judge.py").write_text(CODE, encoding="utf-8")
    info = folder / "seeing_judge-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: seeing-judge\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[slvmeval.evaluators]\nseeing = seeing_judge:judge\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    yield folder / "asked"
    sys.modules.pop("seeing_judge", None)
