"""Dimensions of pixels and features as the suite makes them, with tiny checkpoints and without any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
from tasks.llm.usage import NotJudged
from tasks.models.add import add_model
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import ScoredVideo, SuitePrompt
from tasks.scoring.suites.locot2v.suite import Locot2vBench
from tasks.scoring.suites.video_bench.suite import VideoBench
from tests.tasks.scoring.sides import FrameList
from tests.tasks.scoring.suites.locot2v.talking import MODELS, RISE, WAVE, Talk
from tests.tasks.scoring.suites.locot2v.talking import setup as site
from tests.tasks.scoring.suites.locot2v.videos import PROMPT, Endless, named, scene, scenes, side
from tests.tiny_models.dover import tiny_dover
from tests.tiny_models.faulty_server import FaultyServer

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


def one(scorer: Any, video: Any, prompt: SuitePrompt = PROMPT) -> ScoredVideo | NotJudged:
    scorer.check()
    (result,) = scorer.score(prompt, [named(video)])
    return result


@pytest.mark.parametrize("name", [*NEEDING, *ON_FLOW])
def test_missing_weights_are_said_with_what_to_do(tmp_path: Path, name: str) -> None:
    setup = Setup(store_path=str(Store.create(tmp_path / "store").root), model_folders=(str(tmp_path),))
    scorer = Locot2vBench(setup).scorer(name)
    with pytest.raises(PrerequisiteError, match=r"slvmeval models (fetch|add)"):
        scorer.check()
    # one of your own that is not there
    with pytest.raises(PrerequisiteError, match="slvmeval models add"):
        bench(tmp_path / "store", tmp_path).scorer(name).check()


@pytest.fixture(scope="module")
def dover(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dover")
    add_model("dover", tiny_dover(folder / "made"), folder / "models", kind="dover", licence="-")
    return folder / "models"


def test_technical_quality_is_the_mean_over_pieces_under_ten_seconds(tmp_path: Path, dover: Path) -> None:
    # the tiny network gives the mean of what it sees: two pieces of one grey each
    pictures = [np.full((224, 224, 3), level, np.uint8) for level in (118, 120)]
    video = side([pictures[n // 6] for n in range(12)], fps=1.0)
    result = one(bench(tmp_path / "s", dover).scorer("technical_quality"), video)
    assert isinstance(result, ScoredVideo)
    mean, deviation = np.array([123.675, 116.28, 103.53]), np.array([58.395, 57.12, 57.375])
    seen = [((level - mean) / deviation).mean() for level in (118, 120)]
    wanted = [1 / (1 + np.exp(-(value - 0.1107) / 0.07355)) for value in seen]
    assert result.details["pieces"] == pytest.approx(wanted, abs=0.02)
    assert result.value == pytest.approx(np.mean(wanted), abs=0.02)
    assert result.model == "dover"
    again = one(bench(tmp_path / "s", dover).scorer("technical_quality"), video)
    assert isinstance(again, ScoredVideo)
    assert again.value == result.value


def test_a_model_of_another_kind_is_refused(tmp_path: Path, dover: Path) -> None:
    scorer = bench(tmp_path / "s", dover, semantic_pictures={"model": "dover"}).scorer("semantic_consistency")
    with pytest.raises(PrerequisiteError, match="'dover', but one of kind 'picture-features' or 'clip'"):
        scorer.check()


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
    cache = made._setup.cache
    result = {name: one(made.scorer(name), video) for name in NEEDING if name != "technical_quality"}
    assert all(isinstance(score, ScoredVideo) and 0 <= score.value <= 1 for score in result.values())
    transition, beauty = result["transition_smoothness"], result["aesthetic_quality"]
    assert isinstance(transition, ScoredVideo)
    assert isinstance(beauty, ScoredVideo)
    assert [cut["frame"] for cut in transition.details["cuts"]] == [8]
    assert beauty.value == pytest.approx(beauty.details["mean"] / 8)
    assert beauty.details["rests_on"] == 3
    assert beauty.details["lowest"] < beauty.details["highest"]
    # equal frames have equal features, which are computed once by each model: two scenes, two models
    assert cache.counts()["picture-features"]["computed"] == 4
    semantic = result["semantic_consistency"]
    assert isinstance(semantic, ScoredVideo)
    assert semantic.details["rests_on"] == 19
    # as baselines of Video-Bench they have the same values, from the same features
    setup = Setup(store_path=str(tmp_path / "s"), model_folders=(str(weights),))
    baselines = VideoBench(setup, baselines=VISUAL)
    for name, metric in (("aesthetic_quality", beauty), ("temporal_consistency", semantic)):
        baseline = one(baselines.scorer(name), video)
        assert isinstance(baseline, ScoredVideo)
        assert baseline.value == metric.value
        assert baseline.details["metric"].endswith(f" by {metric.model}")
    assert setup.cache.counts()["picture-features"]["computed"] == 0


@pytest.mark.models
def test_a_video_without_cuts_or_with_one_frame_has_a_reason(tmp_path: Path, weights: Path) -> None:
    made = bench(tmp_path / "s", weights)
    still = one(made.scorer("transition_smoothness"), scenes([9]))
    single = one(made.scorer("semantic_consistency"), scenes([1]))
    assert isinstance(still, NotJudged)
    assert "no cut" in still.message
    assert isinstance(single, NotJudged)
    assert single.failure is Failure.NO_ANSWER
    assert isinstance(one(made.scorer("aesthetic_quality"), scenes([1])), ScoredVideo)


@pytest.mark.models
def test_a_frame_a_second_of_three_hours_is_looked_at(tmp_path: Path, weights: Path) -> None:
    video = Endless(3 * 3600, fps=1.0)
    # the same frames again and again, so that it takes no time
    video.frame_ids = lambda places: [f"endless:{place % 7}" for place in places]  # type: ignore[method-assign]
    result = one(bench(tmp_path / "s", weights).scorer("aesthetic_quality"), video)
    assert isinstance(result, ScoredVideo)
    assert result.details["rests_on"] == 3 * 3600
    assert video.most_at_once <= 32


@pytest.mark.models
def test_the_bound_of_a_folder_of_pictures_and_scores_without_one(
    tmp_path: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["suite", "aesthetics-bound", str(tmp_path / "pictures"), "--models", str(weights), "--quiet"]
    words += ["--siglip", "siglip", "--head", "head"]
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
    scorer = bench(tmp_path / "s", weights, aesthetics=models).scorer("aesthetic_quality")
    raw = one(scorer, video)
    assert isinstance(raw, ScoredVideo)
    assert raw.value == raw.details["mean"] > 1
    assert raw.details["upper_bound"] is None
    assert (scorer.dimension.high, scorer.dimension.averaged) == (10, False)
    assert bound == pytest.approx(raw.details["highest"], abs=0.02)


@pytest.mark.models
def test_flow_by_a_loaded_model_is_in_the_row_and_in_the_key(tmp_path: Path, weights: Path) -> None:
    video = scenes([2, 2], fps=8.0)
    made = bench(tmp_path / "s", weights)
    result = {name: one(made.scorer(name), video) for name in ON_FLOW}
    used = {"method": "raft", "model": "raft", "updates": 2}
    for name, score in result.items():
        scorer = made.scorer(name)
        assert scorer.pool == "h100"
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
    assert other.scorer("dynamic_degree").pool == "cpu"


@contextmanager
def located(folder: Path, weights: Path, *intervals: tuple[float, float]) -> Iterator[Locot2vBench]:
    entries = [
        {"number": number, "seen": True, "start": start, "end": end}
        for number, (start, end) in enumerate(intervals, 1)
    ]
    with FaultyServer(Talk(locate={"events": entries}), MODELS) as server:
        setup = site(folder, server).model_copy(update={"model_folders": (str(weights),)})
        roles = zip(("multimodal", "language", "locating", "embeddings"), MODELS, strict=True)
        given: dict[str, Any] = {role: {"model": model, "server": "s"} for role, model in roles}
        yield Locot2vBench(setup, **given, visual=VISUAL)


@pytest.mark.models
def test_subjects_and_backgrounds_within_events_and_between_them(tmp_path: Path, weights: Path) -> None:
    man = {**WAVE, "subject": "The man"}
    prompt = PROMPT.model_copy(update={"details": {"events": [man, {**RISE, "subject": "a man"}]}})
    video = scenes([16, 16], fps=8.0)
    with located(tmp_path, weights, (0.0, 2.0), (2.0, 4.0)) as made:
        result = {
            name: one(made.scorer(f"{name}_{part}"), video, prompt)
            for name in ("intra_event", "inter_event")
            for part in ("subject",)
        }
        backgrounds = {
            name: one(made.scorer(f"{name}_background"), video, prompt)
            for name in ("intra_event", "inter_event")
        }
        counts = made._setup.cache.counts()
    within, between = result["intra_event"], result["inter_event"]
    assert isinstance(within, ScoredVideo), result
    assert isinstance(between, ScoredVideo), result
    # each event is one still picture; both are of the man, by two names
    assert within.value == pytest.approx(1, abs=1e-5)
    assert 0 <= between.value < 1
    assert within.details["frames_by_thing"] == {"man": {"0": 8, "1": 8}}
    assert within.details["masks"] == "sam2"
    assert len(within.details["conversation"]) == 1
    for score in backgrounds.values():
        if isinstance(score, ScoredVideo):
            assert list(score.details["frames_by_thing"]) == ["background"]
        else:
            assert score.failure is Failure.NO_ANSWER
    # two pictures, whose boxes four dimensions share
    assert counts["boxes"]["computed"] == 2


@pytest.mark.models
def test_events_without_a_subject_have_a_background_all_the_same(tmp_path: Path, weights: Path) -> None:
    prompt = PROMPT.model_copy(update={"details": {"events": [{"event": "a"}, {"event": "b"}]}})
    video = scenes([16, 16], fps=8.0)
    with located(tmp_path, weights, (0.0, 2.0), (2.0, 4.0)) as made:
        nobody = one(made.scorer("inter_event_subject"), video, prompt)
        place = one(made.scorer("inter_event_background"), video, prompt)
        output = made.scorer("inter_event_background").estimate(
            prompt, [named(video), named(scenes([9, 16], fps=8.0), "other")]
        )
    assert isinstance(nobody, NotJudged)
    assert "two events" in nobody.message
    assert isinstance(place, ScoredVideo)
    assert 0 <= place.value < 1
    # where the other video's events are has not been asked yet
    assert len(output) == 1


class HalfDamaged(FrameList):
    """A film of which only each fourth frame can be read."""

    def planes(self, places: Sequence[int]) -> Planes:
        if any(place % 4 and place < len(self) - 1 for place in places):
            raise SetAside(Reason.UNDECODABLE_VIDEO, "a frame is broken")
        return super().planes(places)


@pytest.mark.models
def test_what_was_paid_before_a_frame_could_not_be_read_is_known(tmp_path: Path, weights: Path) -> None:
    whole = scenes([8, 9], fps=4.0)
    video = HalfDamaged(whole.frames, whole.width, whole.height)
    video.fps = 4.0
    with located(tmp_path, weights, (0.0, 2.0), (2.0, 4.0)) as made:
        result = one(made.scorer("intra_event_background"), video)
    assert isinstance(result, NotJudged)
    assert result.failure is Failure.VIDEO_UNREADABLE
    assert "a frame is broken" in result.message
    assert result.calls == 2
    assert sum(part.tokens_in for part in result.usage.others) == 200
    assert [output["step"] for output in result.details["conversation"]] == [
        "events of the prompt",
        "locate events",
    ]
