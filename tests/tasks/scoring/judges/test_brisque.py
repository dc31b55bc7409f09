"""BRISQUE as an evaluator: which of two videos it prefers, and when it says nothing."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from storage_schemas.errors import PrerequisiteError
from storage_schemas.frames import Planes
from storage_schemas.judgements import Failure
from storage_schemas.store import Store
from tasks.llm.usage import NotJudged
from tasks.models.base import Models
from tasks.scoring.judges.brisque import BrisqueScore
from tasks.scoring.registry import EvaluatorChoice, make_evaluator
from tasks.scoring.setup import Setup
from tests.tasks.scoring.sides import ASPECT, FrameList, flat, noise


class Blur(Models):
    """A model whose score is 0 for a sharp picture, and NaN as BRISQUE's for one of one colour."""

    checksum = "blur"
    asked = 0

    def get(self, name: str, **options: str | float | bool) -> Blur:
        return self

    def score(self, luma: Planes) -> float:
        self.asked += 1
        return float("nan") if luma.std() == 0 else 1 / float(cv2.Laplacian(luma, cv2.CV_64F).var())


def test_the_score_is_the_negated_mean_of_luma_over_frames_that_have_one() -> None:
    models = Blur()
    frames = [noise(1), flat(90), noise(2)]
    side = FrameList(frames)
    luma = [frame[: side.height] for frame in (frames[0], frames[2])]
    score = BrisqueScore(models).score("", side, ASPECT)
    assert score.value == pytest.approx(-np.mean([models.score(one) for one in luma]), rel=1e-12)
    assert score.details["frames_of_one_colour"] == 1


def test_equal_frames_are_measured_once() -> None:
    models = Blur()
    judge = BrisqueScore(models)
    for numbers in ((1, 2), (2, 1, 1)):
        judge.score("", FrameList([noise(number) for number in numbers]), ASPECT)
    assert models.asked == 2


def test_a_video_without_statistics_is_not_judged() -> None:
    for frames in ([], [flat(0), flat(255)]):
        with pytest.raises(NotJudged) as caught:
            BrisqueScore(Blur()).score("", FrameList(frames), ASPECT)
        assert caught.value.failure is Failure.VIDEO_UNREADABLE


def test_without_weights_it_says_what_to_fetch(tmp_path: Path) -> None:
    Store.create(tmp_path / "store")
    setup = Setup(store_path=str(tmp_path / "store"), model_folders=(str(tmp_path / "models"),))
    with pytest.raises(PrerequisiteError, match=r"^weights of model brisque .* models fetch brisque"):
        make_evaluator(EvaluatorChoice(use="brisque"), setup)
