"""Evaluators that answer right, wrong or not at all; a real package adds them, in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

CODE = '''
"""Planted evaluators; each notes every request that it is asked in a file of the folder ASKED."""

import os, signal, threading, time
from pathlib import Path

from slvmeval.evaluators import JudgeAnswer, Estimate, Failure, NotJudged, PairwiseJudge, PointwiseScorer
from slvmeval.evaluators import PrerequisiteError, Score, Usage

ASKED = Path(__file__).parent / "asked"


class Planted(PairwiseJudge):
    def __init__(self, mood, seconds, tokens, threads, hardware, prompts):
        system = Path(prompts) / "judges" / "video_judge_system.txt"
        self.words = system.read_text() if prompts and system.exists() else ""
        self.name, self.mood, self.seconds, self.tokens, self.threads = mood, mood, seconds, tokens, threads
        self.hardware = hardware

    def settings(self):
        words = {"words": self.words} if self.words else {}
        return {"mood": {self.mood}} if self.mood == "unsettled" else {"mood": self.mood, **words}

    @property
    def concurrency(self):
        return self.threads

    def check(self):
        if self.mood == "missing":
            raise PrerequisiteError("weights are missing: fetch them")
        if (ASKED / "away").exists():
            raise PrerequisiteError("the server is away")

    def estimate(self, prompt, first, second, aspect):
        return Estimate(images=2, tokens_in=self.tokens, model="toy") if self.tokens else None

    def compare(self, prompt, first, second, aspect):
        ASKED.mkdir(exist_ok=True)
        with (ASKED / self.mood).open("a") as log:
            log.write(f"{aspect.name} {os.environ.get('SLURM_JOB_PARTITION', '')}\\n")
        time.sleep(self.seconds)
        usage = Usage(frames=2, tokens_in=self.tokens)
        if self.mood == "raises":
            raise ZeroDivisionError("planted")
        if self.mood == "refused":
            raise NotJudged(Failure.NOT_ALLOWED, "the key is refused")
        if self.mood == "prose":
            raise NotJudged(Failure.NOT_UNDERSTOOD, "no choice in it", raw="Both are nice.", usage=usage)
        if self.mood == "nonsense":
            return "first"
        if self.mood == "mistyped":
            return JudgeAnswer("first", raw=None)
        if self.mood == "half-a-sign":
            return JudgeAnswer("first", raw="good \\ud83d")
        if self.mood == "exits":
            raise SystemExit(3)
        if self.mood == "kills" and aspect.name == "comprehensiveness":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.mood == "first" or "the first" in self.words:
            return JudgeAnswer("first", model="toy", usage=usage)
        # comprehensiveness: the damaged video is the shorter one; else the first frame that differs is paler
        if len(first) != len(second):
            return JudgeAnswer("first" if len(first) > len(second) else "second", model="toy", usage=usage)
        return JudgeAnswer("tie", model="toy", usage=usage, raw="same length")


class Lengths(PointwiseScorer):
    name = "lengths"
    by_aspect = False

    def settings(self):
        return {}

    def check(self):
        pass

    def score(self, prompt, video, aspect):
        ASKED.mkdir(exist_ok=True)
        with (ASKED / "lengths").open("a") as log:
            log.write("x\\n")
        return Score(len(video))


def judge(
    mood: str = "right", seconds=0.0, tokens: int = 0, threads: int = 1, hardware: str = "cpu", prompts=""
):
    return Planted(mood, seconds, tokens, threads, hardware, prompts)
'''
ENTRY = "[slvmeval.evaluators]\nplanted = planted_moods:judge\nlengths = planted_moods:Lengths\n"


class PlantedPackage:
    """The folder of the package; `asked` counts the requests that really arrived."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "planted_moods.py").write_text(CODE, encoding="utf-8")
        info = folder / "planted_moods-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planted-moods\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(ENTRY)

    def asked(self, mood: str) -> int:
        return len(self.lines(mood))

    def lines(self, mood: str) -> list[str]:
        """Return an aspect and a SLURM partition for each request."""
        log = self.folder / "asked" / mood
        return log.read_text().splitlines() if log.exists() else []


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlantedPackage]:
    """Install the planted evaluators for this process and those that it starts."""
    import sys

    folder = tmp_path / "site"
    folder.mkdir()
    package = PlantedPackage(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    yield package
    sys.modules.pop("planted_moods", None)
