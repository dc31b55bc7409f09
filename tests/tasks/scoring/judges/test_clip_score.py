"""CLIPScore on small videos: which frames and texts are embedded, how often, and what is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slvmeval.testing import check_evaluator
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import canonical_json
from storage_schemas.judgements import Failure
from storage_schemas.model import ModelServer
from storage_schemas.store import Store
from tasks.llm.servers import Servers
from tasks.llm.usage import NotJudged
from tasks.models.add import add_model
from tasks.models.hub import ModelHub
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges import local_models
from tasks.scoring.judges.clip_score import ClipScore, ServedClipScore, clip_score
from tasks.scoring.judges.local_models import HubSource
from tasks.scoring.registry import EvaluatorChoice, make_evaluator
from tasks.scoring.setup import Setup
from tests.tasks.scoring.encoders import Planted
from tests.tasks.scoring.sides import ASPECT, FrameList, cut_video, noise

PROMPT = "a red dog\na white boat on the water\nthe end"


def test_the_mean_over_the_scenes_of_weighted_cosines_that_are_not_negative() -> None:
    source = Planted()
    # scenes of 4 and 6 dark frames and 5 bright ones between: cosines near 1 and below 0
    video = cut_video([4, 5, 6])
    result = ClipScore(source, FeatureCache()).score(PROMPT, video, ASPECT)
    centres = [2, 6, 12]
    assert result.details["frames"]["places"] == centres
    cosines = [float(np.cos(np.pi * video.rgb(place).mean() / 255)) for place in centres]
    assert sum(cosine < 0 for cosine in cosines) == 1 == result.details["scenes_below_zero"]
    expected = sum(2.5 * max(cosine, 0) for cosine in cosines) / 3
    assert result.value == pytest.approx(expected, abs=1e-6)
    assert result.usage.frames == 3
    assert source.made.pictures == [3]


def test_scenes_in_another_order_score_the_same_to_the_bit() -> None:
    frames = [noise(number) for number in range(40)]
    order = np.random.default_rng(0).permutation(40)
    # every frame of noise is a scene of its own
    one = ClipScore(Planted(), FeatureCache(), threshold=0.0)
    first, second = (one.score(PROMPT, FrameList(f), ASPECT) for f in (frames, [frames[at] for at in order]))
    assert first.details["frames"]["chosen"] == second.details["frames"]["chosen"] == 40
    assert first.value == second.value


def test_frames_that_videos_share_and_the_prompt_are_embedded_once() -> None:
    source, cache = Planted(), FeatureCache()
    scorer = ClipScore(source, cache)
    frames = cut_video([4, 5, 6]).frames
    high, low = FrameList(frames, family="f"), FrameList(frames[:9] + frames[4:9] + frames[9:], family="f")
    first = scorer.score(PROMPT, high, ASPECT)
    second = scorer.score(PROMPT, low, ASPECT)
    assert first.details["features"] == {"needed": 3, "computed": 3}
    assert second.details["features"]["computed"] == 0
    assert scorer.score(PROMPT, high, ASPECT).value == first.value
    assert source.made.pictures == [3]
    assert len(source.made.read) == 1
    # another evaluator on the same cache, another policy: the same embeddings of frames
    other = ClipScore(source, cache, policy="each-truncate").score(PROMPT, high, ASPECT)
    assert other.details["features"]["computed"] == 0
    assert len(source.made.read) == 2


def test_policies_give_the_text_that_they_promise() -> None:
    prompt = "\n".join(["one two three four five six seven eight nine ten"] * 8)
    read = {}
    for policy in ("truncate", "ignore-max", "each-truncate"):
        source = Planted()
        result = ClipScore(source, FeatureCache(), policy).score(prompt, cut_video([3]), ASPECT)
        ((text, most),) = source.made.read
        read[policy] = (text, most)
        told = result.details["prompt"]
        assert (told["policy"], told["tokens"], told["most_tokens"]) == (policy, 82, most)
        assert told["cut"] == (policy != "ignore-max")
    assert read["truncate"] == (prompt, 40)
    assert read["ignore-max"] == (prompt, 400)
    assert read["each-truncate"] == ("\n".join(["one two three four"] * 8), 40)


def test_settings_tell_policies_apart_and_a_video_without_frames_has_no_score() -> None:
    def settings(**changes: Any) -> str:
        return canonical_json(ClipScore(Planted(), FeatureCache(), **changes).settings())

    assert len({settings(), settings(policy="ignore-max"), settings(threshold=0.4)}) == 3
    with pytest.raises(UserInputError, match="no prompt policy 'cut'"):
        settings(policy="cut")
    with pytest.raises(NotJudged) as caught:
        ClipScore(Planted(), FeatureCache()).score(PROMPT, FrameList([]), ASPECT)
    assert caught.value.failure is Failure.VIDEO_UNREADABLE


def test_missing_weights_are_reported_with_the_command(tmp_path: Path) -> None:
    scorer = clip_score(FeatureCache(), ModelHub([tmp_path]), Servers(), model="clip-vit-large-patch14")
    assert scorer.hardware == "gpu"
    with pytest.raises(PrerequisiteError, match="slvmeval models add clip-vit-large-patch14"):
        scorer.check()
    # a dry run asks for settings all the same
    assert "openai/clip-vit-large-patch14" in canonical_json(scorer.settings())
    with pytest.raises(PrerequisiteError, match=r"jina-clip-v2.*docs/scorers\.md"):
        clip_score(FeatureCache(), ModelHub([tmp_path]), Servers())


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.tiny_models.clip import tiny_clip

    root = tmp_path_factory.mktemp("clip-score")
    for name, sizes in {"tiny-clip": (77, 77), "long-clip": (40, 512)}.items():
        checkpoint = tiny_clip(root / "checkpoints" / name, *sizes)
        add_model(name, checkpoint, root / "weights", kind="clip", licence="CC0-1.0")
    return root / "weights"


def made(models: Path, tmp_path: Path, **settings: Any) -> ClipScore:
    if not (tmp_path / "store").exists():
        Store.create(tmp_path / "store")
    setup = Setup(store_path=str(tmp_path / "store"), model_folders=(str(models),))
    result = make_evaluator(EvaluatorChoice(use="clipscore", settings=settings), setup)
    assert isinstance(result, ClipScore)
    return result


@pytest.mark.models
def test_the_score_is_that_of_transformers_on_the_centre_frames(models: Path, tmp_path: Path) -> None:
    import torch
    from PIL import Image
    from transformers import CLIPModel, CLIPProcessor

    video = cut_video([4, 5, 6], seed=3)
    result = made(models, tmp_path, model="tiny-clip").score(PROMPT, video, ASPECT)
    folder = models / "tiny-clip"
    model = CLIPModel.from_pretrained(folder, local_files_only=True).eval()
    processor = CLIPProcessor.from_pretrained(folder, local_files_only=True, backend="pil")
    shown = [Image.fromarray(video.rgb(place)) for place in (2, 6, 12)]
    inputs = processor(text=[PROMPT], images=shown, return_tensors="pt", truncation=True)
    with torch.inference_mode():
        out = model(**inputs)
    cosines = (out.image_embeds @ out.text_embeds.T)[:, 0].numpy()
    assert result.value == pytest.approx(float(np.mean(2.5 * np.maximum(cosines, 0))), abs=1e-5)
    assert result.details["prompt"]["tokens"] == inputs["input_ids"].shape[1]


@pytest.mark.models
def test_embeddings_are_kept_in_the_store_and_another_model_has_its_own(models: Path, tmp_path: Path) -> None:
    video = cut_video([4, 5, 6])
    first = made(models, tmp_path, model="tiny-clip").score(PROMPT, video, ASPECT)
    again = made(models, tmp_path, model="tiny-clip").score(PROMPT, video, ASPECT)
    assert again.value == first.value
    assert (first.details["features"]["computed"], again.details["features"]["computed"]) == (3, 0)
    # it keeps an evaluator's promises
    check_evaluator(made(models, tmp_path, model="tiny-clip"))
    for policy in ("each-truncate", "ignore-max"):
        check_evaluator(made(models, tmp_path, model="long-clip", policy=policy))
    other = made(models, tmp_path, model="long-clip").score(PROMPT, video, ASPECT)
    half = made(models, tmp_path, model="tiny-clip", dtype="bfloat16").score(PROMPT, video, ASPECT)
    assert other.details["features"]["computed"] == half.details["features"]["computed"] == 3


@pytest.mark.models
def test_a_model_that_does_not_fit_is_refused_at_once(models: Path, tmp_path: Path) -> None:
    from tests.tiny_models.detector import tiny_detector

    with pytest.raises(UserInputError, match="positions for 77 tokens only"):
        made(models, tmp_path, model="tiny-clip", policy="ignore-max").check()
    made(models, tmp_path, model="long-clip", policy="ignore-max").check()
    eyes = tiny_detector(tmp_path / "checkpoint")
    add_model("eyes", eyes, tmp_path / "w", kind="detector", licence="CC0-1.0")
    with pytest.raises(UserInputError, match="eyes is of kind 'detector', but one of kind 'clip' is needed"):
        made(tmp_path / "w", tmp_path, model="eyes").check()


class Keyed(Servers):
    """Finds one server, whatever is asked for."""

    def __init__(self, server: Any) -> None:
        super().__init__()
        self._server = server

    def find(self, name: str, model: str) -> Any:
        return self._server


def behind(servers: Servers, revision: str = "r1") -> ClipScore:
    return clip_score(FeatureCache(), ModelHub([]), servers, model="tiny", server="clip", revision=revision)


@pytest.mark.models
def test_served_clip_score_is_the_same_without_a_gpu(models: Path, tmp_path: Path) -> None:
    from tasks.models.clip import load
    from tests.tasks.models.test_clip import served

    video = cut_video([4, 5, 6])
    here = made(models, tmp_path, model="tiny-clip").score(PROMPT, video, ASPECT)
    with served(load(models / "tiny-clip", "cpu")) as server:
        there = behind(Keyed(server))
        assert isinstance(there, ServedClipScore)
        assert there.hardware == "cpu"
        there.check()
        result = there.score(PROMPT, video, ASPECT)
        assert result.value == pytest.approx(here.value, abs=1e-6)
        assert result.model == "tiny"
        assert result.details["libraries"]["dtype"] == "float32"
        check_evaluator(there)
        with pytest.raises(PrerequisiteError, match="at revision r1 with code None, but r2"):
            behind(Keyed(server), "r2").check()
        unkeyed = Servers({"clip": ModelServer(url=server.url, key_variable=None)})
        with pytest.raises(PrerequisiteError, match="refused the key"):
            behind(unkeyed).check()
    # a server that goes away is the failure of a request
    with pytest.raises(NotJudged) as caught:
        there.score(PROMPT, cut_video([4, 5, 3], seed=8), ASPECT)
    assert caught.value.failure is Failure.SERVER_DOWN
    with pytest.raises(PrerequisiteError, match="does not answer"):
        there.check()


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_models_are_loaded_on_the_gpu(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[tuple[str, str, dict[str, Any]]] = []

    def get(self: ModelHub, name: str, **options: Any) -> str:
        loaded.append((self.device, name, options))
        return "a model"

    monkeypatch.setattr(ModelHub, "get", get)
    monkeypatch.setattr(local_models, "device_of", lambda has: device if has == "gpu" else "cpu")
    # a hub knows no device before the work is done
    source = HubSource(ModelHub([tmp_path]), "tiny", "bfloat16")
    assert source.loaded() == "a model"
    assert loaded == [(device, "tiny", {"dtype": "bfloat16"})]
