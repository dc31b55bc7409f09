"""VideoScore on small videos: one look for all aspects, which number each takes, and what is recorded."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slvmeval.testing import check_evaluator
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import canonical_json
from storage_schemas.judgements import Failure
from storage_schemas.store import Store
from tasks.llm.usage import NotJudged
from tasks.models.add import add_model
from tasks.models.base import Models
from tasks.models.hub import ModelHub
from tasks.models.video_score import DIMENSIONS, FRAME_MARK
from tasks.scoring.base import AspectText
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.video_score import DIMENSION_OF, VideoScore, video_score
from tasks.scoring.registry import EvaluatorChoice, make_evaluator
from tasks.scoring.setup import Setup
from tests.tasks.scoring.sides import FrameList, cut_video

PROMPT = "a red dog\na white boat on the water"


def aspect(name: str) -> AspectText:
    return AspectText(name=name, dimension=name, description="…")


class Five:
    """Gives the numbers of the dimensions' places; a token is a character. It notes what it was asked."""

    checksum = "five"
    positions = 4096

    def __init__(self) -> None:
        self.asked: list[tuple[int, str]] = []

    def plain(self, text: str) -> str:
        return text.replace(FRAME_MARK, "image>")

    def ends(self, text: str) -> list[int]:
        return list(range(1, len(text) + 1))

    def count(self, text: str, frames: int, height: int, width: int) -> int:
        return len(text) + 3 * frames

    def scores(self, rgb: NDArray[np.uint8], text: str) -> tuple[NDArray[np.float32], int]:
        self.asked.append((len(rgb), text))
        # the last depends on the pictures
        return np.array([0, 1, 2, 3, rgb.mean()], np.float32), len(text) + 3 * len(rgb)


class Planted(Models):
    def __init__(self) -> None:
        self.made = Five()

    def get(self, name: str, **options: Any) -> Five:
        return self.made


def planted(cache: FeatureCache | None = None, **settings: Any) -> tuple[VideoScore, Five]:
    models = Planted()
    return video_score(cache or FeatureCache(), models, **settings), models.made


def test_all_aspects_of_a_video_share_one_look() -> None:
    table = (Path(__file__).parents[3] / "papers" / "slvmeval" / "table10.csv").read_text(encoding="utf-8")
    papers = {row["aspect"]: row["videoscore"] for row in csv.DictReader(table.splitlines())}
    assert dict(DIMENSION_OF) == papers
    assert len(papers) == 10
    cache = FeatureCache()
    scorer, model = planted(cache)
    video = cut_video([4, 5, 6])
    values = {}
    for name in DIMENSION_OF:
        result = scorer.score(PROMPT, video, aspect(name))
        values[name] = result.value
        assert result.details["dimension"] == DIMENSION_OF[name]
        assert list(result.details["scores"]) == list(DIMENSIONS)
    assert [frames for frames, _ in model.asked] == [3]
    assert [values[name] for name in ("aesthetics", "dynamics_degree", "temporal_flow")] == [0, 2, 3]
    assert values["background_consistency"] not in (0, 1, 2, 3)
    # another prompt, another video or another order of the frames is another look
    scorer.score("a cat", video, aspect("color"))
    scorer.score(PROMPT, cut_video([4, 5, 6, 4], seed=2), aspect("color"))
    scorer.score(PROMPT, FrameList(video.frames[::-1]), aspect("color"))
    assert [asked[0] for asked in model.asked] == [3, 3, 4, 3]
    # each about its own prompt and frames
    assert [PROMPT in text for _, text in model.asked] == [True, False, True, True]
    assert "a cat" in model.asked[1][1]
    # another object on the same cache, as in the next run
    again, other = planted(cache)
    assert again.score(PROMPT, video, aspect("color")).details["features"]["computed"] == 0
    assert not other.asked


def test_at_most_48_frames_drawn_from_the_scenes() -> None:
    scorer, model = planted()
    video = cut_video([2] * 60)
    result = scorer.score(PROMPT, video, aspect("color"))
    chosen = result.details["frames"]
    assert (chosen["candidates"], chosen["chosen"], chosen["most"]) == (60, 48, 48)
    assert model.asked[0][0] == 48 == model.asked[0][1].count(FRAME_MARK)
    # the same ones the next time, others by another seed
    assert planted()[0].score(PROMPT, video, aspect("color")).details["frames"] == chosen
    other = planted(seed=1)[0].score(PROMPT, video, aspect("color"))
    assert other.details["frames"]["places"] != chosen["places"]


def test_a_prompt_that_is_too_long_loses_its_end_and_that_is_reported() -> None:
    scorer, model = planted()
    result = scorer.score("x" * 9000, cut_video([4, 5]), aspect("color"))
    told = result.details["prompt"]
    assert (told["tokens"], told["cut"]) == (9000, True)
    assert 0 < told["tokens_read"] < 4096
    assert model.asked[0][1].count("x" * told["tokens_read"]) == 1
    assert result.details["tokens"] <= model.positions
    # a caption cannot add a frame
    scorer.score(f"a {FRAME_MARK} {{frames}} dog", cut_video([4, 5]), aspect("color"))
    assert model.asked[1][1].count(FRAME_MARK) == 2
    assert "{frames}" in model.asked[1][1]
    short = planted()[0].score(PROMPT, cut_video([4, 5]), aspect("color")).details["prompt"]
    assert not short["cut"]
    assert short["tokens"] == short["tokens_read"] == len(PROMPT)
    with pytest.raises(NotJudged) as caught:
        planted(most_tokens=64)[0].score(PROMPT, cut_video([4, 5]), aspect("color"))
    assert caught.value.failure is Failure.CONTEXT_TOO_LONG


def test_an_aspect_of_ones_own_needs_a_dimension() -> None:
    with pytest.raises(NotJudged, match="VideoScore has no dimension for sound"):
        planted()[0].score(PROMPT, cut_video([4]), aspect("sound"))
    scorer, _ = planted(dimensions={"sound": "temporal consistency"})
    assert scorer.score(PROMPT, cut_video([4]), aspect("sound")).value == 1
    with pytest.raises(UserInputError, match="VideoScore has no 'loudness', only visual quality"):
        planted(dimensions={"sound": "loudness"})


def test_the_wording_can_be_replaced_and_is_in_the_settings(tmp_path: Path) -> None:
    own = tmp_path / "judges" / "video_score.txt"
    own.parent.mkdir()
    own.write_text("Rate: {prompt} / {frames}\n", encoding="utf-8")
    scorer, model = planted(prompts=str(tmp_path))
    scorer.score(PROMPT, cut_video([4, 5]), aspect("color"))
    assert model.asked[0][1] == f"Rate: {PROMPT} / {FRAME_MARK} {FRAME_MARK}"
    assert canonical_json(scorer.settings()) != canonical_json(planted()[0].settings())
    for text, says in (
        ("Rate: {prompt}", r"the placeholder \{frames\} is missing"),
        ("Rate: {prompt} {frames} {frames}", r"must contain \{frames\} once"),
    ):
        own.write_text(text, encoding="utf-8")
        with pytest.raises(UserInputError, match=says):
            planted(prompts=str(tmp_path))
    with pytest.raises(UserInputError, match="is not a folder"):
        planted(prompts=str(tmp_path / "none"))


def test_missing_weights_are_reported_with_the_command(tmp_path: Path) -> None:
    scorer = video_score(FeatureCache(), ModelHub([tmp_path]))
    assert scorer.hardware == "gpu"
    with pytest.raises(PrerequisiteError, match=r"16.5 GB, MIT.*slvmeval models add videoscore-v1\.1"):
        scorer.check()
    assert "TIGER-Lab/VideoScore-v1.1" in canonical_json(scorer.settings())


@pytest.mark.models
def test_it_keeps_an_evaluators_promises_with_a_checkpoint_of_the_real_classes(tmp_path: Path) -> None:
    from tests.tiny_models.video_score import tiny_video_score

    checkpoint = tiny_video_score(tmp_path / "checkpoint")
    add_model("tiny-score", checkpoint, tmp_path / "weights", kind="video-score", licence="CC0-1.0")
    store = Store.create(tmp_path / "store")
    setup = Setup(store_path=str(store.root), model_folders=(str(tmp_path / "weights"),))
    chosen = EvaluatorChoice(use="videoscore", settings={"model": "tiny-score", "dtype": "float32"})
    scorer = make_evaluator(chosen, setup)
    assert isinstance(scorer, VideoScore)
    check_evaluator(scorer)
    video = cut_video([2] * 50)
    result = scorer.score("a dog " * 2000, video, aspect("dynamics_degree"))
    assert result.value == result.details["scores"]["dynamic degree"]
    assert result.details["prompt"]["cut"]
    assert result.details["tokens"] <= 4096
    assert result.usage.frames == 48
    # the kept numbers are the model's
    again = scorer.score("a dog " * 2000, video, aspect("color"))
    assert again.details["scores"] == result.details["scores"]
    assert again.usage.frames == 0
