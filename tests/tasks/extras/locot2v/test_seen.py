"""Dimensions of pixels and features as the suite makes them, with tiny checkpoints and without any."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from slvmeval.cli.main import main
from storage_schemas.errors import PrerequisiteError, Reason, SetAside
from storage_schemas.frames import Planes
from storage_schemas.judgements import Failure
from storage_schemas.store import Store
from tasks.extras.locot2v.suite import Locot2vBench
from tasks.extras.video_bench.suite import VideoBench
from tasks.llm.usage import NotJudged
from tasks.models.add import add_model
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import ScoredVideo, SuitePrompt
from tests.tasks.extras.locot2v.talking import RISE, ROLES, WAVE, Talk
from tests.tasks.extras.locot2v.talking import setup as site
from tests.tasks.extras.locot2v.videos import PROMPT, Endless, named, scene, scenes, side
from tests.tasks.scoring.sides import FrameList
from tests.tasks.scoring.suites.told import Told, failure, scored
from tests.tiny_models.dover import tiny_dover

#: What names the tiny checkpoints in place of the published ones.
VISUAL: dict[str, Any] = {
    "pixels": {"flow": {"model": "raft", "updates": 2}},
    "transitions": {"flow": {"model": "raft", "updates": 2}},
    "aesthetics": {"pictures": {"model": "siglip"}, "head": "head", "upper_bound": 8.0},
    "technical": {"model": "dover"},
    "transition_pictures": {"model": "siglip"},
    "semantic_pictures": {"model": "clip"},
    "consistency": {
        "detector": {"model": "detector"},
        "segmenter": {"model": "sam2"},
        "subjects": {"model": "dino"},
        "backgrounds": {"model": "clip"},
        "box_threshold": 0.0,
        "text_threshold": 0.0,
        "fps": 4.0,
    },
}
NEEDING = ("aesthetic_quality", "technical_quality", "semantic_consistency", "transition_smoothness")
ON_FLOW = ("dynamic_degree", "temporal_flickering", "warping_error", "motion_smoothness")


def bench(store: Path, *folders: Path, **visual: Any) -> Locot2vBench:
    if not store.is_dir():
        Store.create(store)
    setup = Setup(store_path=str(store), model_folders=tuple(map(str, folders)))
    return Locot2vBench(setup, visual={**VISUAL, **visual})


def one(suite: Any, name: str, video: Any, prompt: SuitePrompt = PROMPT) -> ScoredVideo | NotJudged:
    scorer = suite.scorer(name)
    scorer.check()
    result: list[ScoredVideo | NotJudged] = scorer.score(prompt, [named(video)])
    return result[0]


def seen(*given: Any) -> ScoredVideo:
    return scored(one(*given))


def unseen(*given: Any) -> NotJudged:
    return failure(one(*given))


def test_missing_weights_are_reported_with_what_to_do(tmp_path: Path) -> None:
    own = bench(tmp_path / "store", tmp_path)
    published = Locot2vBench(Setup(store_path=str(tmp_path / "store"), model_folders=(str(tmp_path),)))
    for name in [*NEEDING, *ON_FLOW]:
        with pytest.raises(PrerequisiteError, match=r"slvmeval models (fetch|add)"):
            published.scorer(name).check()
        # one of your own that is not there
        with pytest.raises(PrerequisiteError, match="slvmeval models add"):
            own.scorer(name).check()


@pytest.fixture(scope="module")
def dover(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dover")
    add_model("dover", tiny_dover(folder / "made"), folder / "models", kind="dover", licence="-")
    return folder / "models"


def test_technical_quality_is_the_mean_over_pieces_under_ten_seconds(tmp_path: Path, dover: Path) -> None:
    # the tiny network gives the mean of what it sees: two pieces of one grey each
    pictures = [np.full((224, 224, 3), level, np.uint8) for level in (118, 120)]
    video = side([pictures[n // 6] for n in range(12)], fps=1.0)
    made = bench(tmp_path / "s", dover, semantic_pictures={"model": "dover"})
    result = seen(made, "technical_quality", video)
    mean, deviation = np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])
    values = [((level - mean) / deviation).mean() for level in (118, 120)]
    wanted = [1 / (1 + np.exp(-(value - 0.1107) / 0.07355)) for value in values]
    assert result.details["pieces"] == pytest.approx(wanted, abs=0.02)
    assert result.value == pytest.approx(np.mean(wanted), abs=0.02)
    assert result.model == "dover"
    again = seen(bench(tmp_path / "s", dover), "technical_quality", video)
    assert again.value == result.value
    # a model of another kind is refused
    with pytest.raises(PrerequisiteError, match="'dover', but one of kind 'picture-features' or 'clip'"):
        made.scorer("semantic_consistency").check()


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.tiny_models.clip import tiny_clip
    from tests.tiny_models.detector import tiny_detector
    from tests.tiny_models.flow import tiny_raft
    from tests.tiny_models.pictures import tiny_aesthetic_head, tiny_dino, tiny_siglip
    from tests.tiny_models.segmenter import tiny_sam2

    folder = tmp_path_factory.mktemp("weights")
    makers = {
        "siglip": (tiny_siglip, "picture-features"),
        "dino": (tiny_dino, "picture-features"),
        "clip": (tiny_clip, "clip"),
        "detector": (tiny_detector, "detector"),
        "head": (tiny_aesthetic_head, "aesthetic-head"),
        "raft": (partial(tiny_raft, ending=".safetensors"), "optical-flow"),
        "sam2": (tiny_sam2, "segmenter"),
    }
    for name, (make, kind) in makers.items():
        add_model(name, make(folder / "made" / name), folder / "models", kind=kind, licence="-")
    return folder / "models"


@pytest.mark.models
def test_dimensions_of_whole_frames_share_features(tmp_path: Path, weights: Path) -> None:
    made = bench(tmp_path / "s", weights)
    video = scenes([8, 12], fps=8.0)
    transition, beauty, semantic = (
        seen(made, name, video)
        for name in ("transition_smoothness", "aesthetic_quality", "semantic_consistency")
    )
    assert all(0 <= score.value <= 1 for score in (transition, beauty, semantic))
    assert [cut["frame"] for cut in transition.details["cuts"]] == [8]
    assert beauty.value == pytest.approx(beauty.details["mean"] / 8)
    assert (beauty.details["rests_on"], semantic.details["rests_on"]) == (3, 19)
    assert beauty.details["lowest"] < beauty.details["highest"]
    # equal frames have equal features, which are computed once by each model: two scenes, two models
    assert made._setup.cache.counts()["picture-features"]["computed"] == 4
    # as baselines of Video-Bench they have the same values, from the same features
    setup = Setup(store_path=str(tmp_path / "s"), model_folders=(str(weights),))
    baselines = VideoBench(setup, baselines=VISUAL)
    for name, metric in (("aesthetic_quality", beauty), ("temporal_consistency", semantic)):
        baseline = seen(baselines, name, video)
        assert baseline.value == metric.value
        assert baseline.details["metric"].endswith(f" by {metric.model}")
    assert setup.cache.counts()["picture-features"]["computed"] == 0
    # a video without cuts or with one frame has a reason
    assert "no cut" in unseen(made, "transition_smoothness", scenes([9])).message
    assert unseen(made, "semantic_consistency", scenes([1])).failure is Failure.NO_ANSWER
    assert seen(made, "aesthetic_quality", scenes([1]))


@pytest.mark.models
def test_a_frame_a_second_of_three_hours_is_looked_at(tmp_path: Path, weights: Path) -> None:
    video = Endless(3 * 3600, fps=1.0)
    # the same frames again and again, so that it takes no time
    video.frame_ids = lambda places: [f"endless:{place % 7}" for place in places]  # type: ignore[method-assign]
    result = seen(bench(tmp_path / "s", weights), "aesthetic_quality", video)
    assert result.details["rests_on"] == 3 * 3600
    assert video.most_at_once <= 32


@pytest.mark.models
def test_bound_of_a_folder(tmp_path: Path, weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "suite",
        "aesthetics-bound",
        str(tmp_path / "pictures"),
        "--model-folder",
        str(weights),
        "--quiet",
    ]
    words += ["--set", "siglip=siglip", "--set", "head=head"]
    (tmp_path / "pictures").mkdir()
    assert main(words) == 1
    assert "has no pictures" in capsys.readouterr().err
    for number in range(3):
        Image.fromarray(scene(number)).save(tmp_path / "pictures" / f"{number}.png")
    assert main(words) == 0
    output = capsys.readouterr().out
    bound = float(output.split(":")[0])
    assert f'{{"upper_bound": {bound:.4f}}}' in output
    video = side([scene(number) for number in range(3)], fps=1.0)
    # the predictor's own number, which the dimension's scale says
    models = {key: VISUAL["aesthetics"][key] for key in ("pictures", "head")}
    made = bench(tmp_path / "s", weights, aesthetics=models)
    raw, scorer = seen(made, "aesthetic_quality", video), made.scorer("aesthetic_quality")
    assert raw.value == raw.details["mean"] > 1
    assert raw.details["upper_bound"] is None
    assert (scorer.dimension.high, scorer.dimension.averaged) == (10, False)
    assert bound == pytest.approx(raw.details["highest"], abs=0.02)


@pytest.mark.models
def test_flow_by_a_loaded_model_is_in_the_row_and_in_the_key(tmp_path: Path, weights: Path) -> None:
    video = scenes([2, 2], fps=8.0)
    made = bench(tmp_path / "s", weights)
    result = {name: one(made, name, video) for name in ON_FLOW}
    used = {"method": "raft", "model": "raft", "updates": 2}
    for name, score in result.items():
        scorer = made.scorer(name)
        assert scorer.hardware == "gpu"
        assert scorer.settings()["flow"] == {**used, **scorer.settings()["flow"]}
        assert "digest" in scorer.settings()["flow"]["model"]["raft"]
        if isinstance(score, ScoredVideo):
            assert score.details["flow"] == used
        else:
            # untrained flow need not find a still step
            assert name == "temporal_flickering"
    assert result["motion_smoothness"].details["interpolation"] == "flow-warp"
    other = bench(tmp_path / "s", weights, base="cpu-approx", pixels={"flow": {"method": "dis"}})
    assert other.scorer("dynamic_degree").settings() != made.scorer("dynamic_degree").settings()
    assert other.scorer("dynamic_degree").hardware == "cpu"


def located(server: Told, weights: Path) -> Locot2vBench:
    """A suite whose server sees two events, of two seconds each."""
    entries = [{"number": at + 1, "seen": True, "start": 2.0 * at, "end": 2.0 * at + 2} for at in (0, 1)]
    server.say(Talk(locate={"events": entries}))
    setup = site(server).model_copy(update={"model_folders": (str(weights),)})
    return Locot2vBench(setup, **ROLES, visual=VISUAL)


@pytest.mark.models
def test_subjects_and_backgrounds_within_events_and_between_them(server: Told, weights: Path) -> None:
    man = {**WAVE, "subject": "The man"}
    prompt = PROMPT.model_copy(update={"details": {"events": [man, {**RISE, "subject": "a man"}]}})
    video = scenes([16, 16], fps=8.0)
    made = located(server, weights)
    within, between = (seen(made, f"{part}_event_subject", video, prompt) for part in ("intra", "inter"))
    for part in ("intra", "inter"):
        score = one(made, f"{part}_event_background", video, prompt)
        if isinstance(score, ScoredVideo):
            assert list(score.details["frames_by_thing"]) == ["background"]
        else:
            assert score.failure is Failure.NO_ANSWER
    # each event is one still picture; both are of the man, by two names
    assert within.value == pytest.approx(1, abs=1e-5)
    assert 0 <= between.value < 1
    assert within.details["frames_by_thing"] == {"man": {"0": 8, "1": 8}}
    assert within.details["masks"] == "sam2"
    assert len(within.details["conversation"]) == 1
    # two pictures, whose boxes four dimensions share
    assert made._setup.cache.counts()["boxes"]["computed"] == 2


@pytest.mark.models
def test_events_without_a_subject_have_a_background_all_the_same(server: Told, weights: Path) -> None:
    prompt = PROMPT.model_copy(update={"details": {"events": [{"event": "a"}, {"event": "b"}]}})
    video = scenes([16, 16], fps=8.0)
    made = located(server, weights)
    assert "two events" in unseen(made, "inter_event_subject", video, prompt).message
    assert 0 <= seen(made, "inter_event_background", video, prompt).value < 1
    films = [named(video), named(scenes([9, 16], fps=8.0), "other")]
    # where the other video's events are has not been asked yet
    assert len(made.scorer("inter_event_background").estimate(prompt, films)) == 1


class HalfDamaged(FrameList):
    """A film of which only each fourth frame can be read."""

    def planes(self, places: Sequence[int]) -> Planes:
        if any(place % 4 and place < len(self) - 1 for place in places):
            raise SetAside(Reason.UNDECODABLE_VIDEO, "a frame is broken")
        return super().planes(places)


@pytest.mark.models
def test_what_was_paid_before_a_frame_could_not_be_read_is_known(server: Told, weights: Path) -> None:
    whole = scenes([8, 9], fps=4.0)
    video = HalfDamaged(whole.frames, whole.width, whole.height)
    video.fps = 4.0
    result = unseen(located(server, weights), "intra_event_background", video)
    assert result.failure is Failure.VIDEO_UNREADABLE
    assert "a frame is broken" in result.message
    assert result.calls == 2
    assert sum(part.tokens_in for part in result.usage.others) == 200
    steps = [output["step"] for output in result.details["conversation"]]
    assert steps == ["events of the prompt", "locate events"]
