"""CLIPScore on small videos: which frames and texts are embedded, how often, and what is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slvmeval.testing import check_evaluator
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.ids import canonical_json
from storage_schemas.judgements import Failure
from tasks.llm.servers import Servers
from tasks.llm.usage import NotJudged
from tasks.models.add import add_model
from tasks.models.hub import ModelHub
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.clip_score import ClipScore, ServedClipScore, clip_score
from tasks.scoring.registry import EvaluatorChoice, make_evaluator
from tasks.scoring.setup import Setup
from tests.tasks.scoring.sides import ASPECT, FrameList, cut_video, noise

PROMPT = "a red dog\na white boat on the water\nthe end"


class Directions:
    """An encoder whose pictures and texts point where the test wants; it notes what it was asked."""

    width, limit, positions = 2, 40, 400

    def __init__(self) -> None:
        self.pictures: list[int] = []
        self.read: list[tuple[str, int]] = []

    def images(self, rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
        self.pictures.append(len(rgb))
        light = rgb.mean(axis=(1, 2, 3)) / 255
        angles = np.pi * light
        return np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)

    def texts(self, texts: list[str], most_tokens: int) -> NDArray[np.float32]:
        self.read += [(text, most_tokens) for text in texts]
        return np.array([[1.0, 0.0]] * len(texts), np.float32)

    def count(self, text: str) -> int:
        return len(text.split()) + 2

    def ends(self, text: str) -> list[int]:
        return [at for at in range(1, len(text) + 1) if at == len(text) or text[at] == " "]


class Planted:
    """A source with that encoder."""

    def __init__(self) -> None:
        self.made = Directions()

    def settings(self) -> dict[str, Any]:
        return {"model": {"planted": "1"}}

    def libraries(self) -> dict[str, str]:
        return {}

    def check(self) -> None: ...

    def check_length(self) -> None: ...

    def encoder(self) -> Directions:
        return self.made


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
    scores = [one.score(PROMPT, FrameList(f), ASPECT) for f in (frames, [frames[at] for at in order])]
    if scores[0].details["frames"]["chosen"] == scores[1].details["frames"]["chosen"] == 40:
        assert scores[0].value == scores[1].value
    else:
        pytest.fail("the videos do not have the scenes that this test is about")


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


def test_settings_tell_policies_and_models_apart_and_are_json() -> None:
    def settings(**changes: Any) -> str:
        return canonical_json(ClipScore(Planted(), FeatureCache(), **changes).settings())

    assert len({settings(), settings(policy="ignore-max"), settings(threshold=0.4)}) == 3
    with pytest.raises(UserInputError, match="no prompt policy 'cut'"):
        settings(policy="cut")


def test_a_video_without_frames_has_no_score() -> None:
    with pytest.raises(NotJudged) as caught:
        ClipScore(Planted(), FeatureCache()).score(PROMPT, FrameList([]), ASPECT)
    assert caught.value.failure is Failure.VIDEO_UNREADABLE


def test_missing_weights_are_said_with_the_command(tmp_path: Path) -> None:
    scorer = clip_score(FeatureCache(), ModelHub([tmp_path]), Servers(), model="clip-vit-large-patch14")
    assert scorer.pool == "h100"
    with pytest.raises(PrerequisiteError, match="slvmeval models fetch clip-vit-large-patch14"):
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
    from storage_schemas.store import Store

    store = Store.create(tmp_path / "store") if not (tmp_path / "store").exists() else None
    setup = Setup(store_path=str(store.root if store else tmp_path / "store"), model_folders=(str(models),))
    result = make_evaluator(EvaluatorChoice(use="clipscore", settings=settings), setup)
    assert isinstance(result, ClipScore)
    return result


@pytest.mark.models
def test_it_keeps_an_evaluators_promises(models: Path, tmp_path: Path) -> None:
    check_evaluator(made(models, tmp_path, model="tiny-clip"))
    check_evaluator(made(models, tmp_path, model="long-clip", policy="each-truncate"))
    check_evaluator(made(models, tmp_path, model="long-clip", policy="ignore-max"))


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
    other = made(models, tmp_path, model="long-clip").score(PROMPT, video, ASPECT)
    half = made(models, tmp_path, model="tiny-clip", dtype="bfloat16").score(PROMPT, video, ASPECT)
    assert other.details["features"]["computed"] == half.details["features"]["computed"] == 3


@pytest.mark.models
def test_ignore_max_with_a_model_that_has_no_more_places_is_refused_at_once(
    models: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserInputError, match="positions for 77 tokens only"):
        made(models, tmp_path, model="tiny-clip", policy="ignore-max").check()
    made(models, tmp_path, model="long-clip", policy="ignore-max").check()


@pytest.mark.models
def test_a_model_of_another_kind_is_refused(models: Path, tmp_path: Path) -> None:
    from tests.tiny_models.detector import tiny_detector

    add_model(
        "eyes", tiny_detector(tmp_path / "checkpoint"), tmp_path / "w", kind="detector", licence="CC0-1.0"
    )
    with pytest.raises(UserInputError, match="eyes is of kind 'detector', but one of kind 'clip' is needed"):
        made(tmp_path / "w", tmp_path, model="eyes").check()


@pytest.fixture
def server(models: Path) -> Iterator[Any]:
    from tasks.models.clip import load
    from tests.tasks.models.test_clip import served

    with served(load(models / "tiny-clip", "cpu")) as result:
        yield result


@pytest.mark.models
def test_behind_a_server_it_scores_the_same_without_a_gpu(models: Path, server: Any, tmp_path: Path) -> None:
    from storage_schemas.model import ModelServer

    named = {"clip": ModelServer(url=server.url, key_variable=None)}
    servers = Servers(named)
    video = cut_video([4, 5, 6])
    here = made(models, tmp_path, model="tiny-clip").score(PROMPT, video, ASPECT)

    class Keyed(Servers):
        def find(self, name: str, model: str) -> Any:
            return server

    hub = ModelHub([])
    there = clip_score(FeatureCache(), hub, Keyed(), model="tiny", server="clip", revision="r1")
    assert isinstance(there, ServedClipScore)
    assert there.pool == "cpu"
    there.check()
    result = there.score(PROMPT, video, ASPECT)
    assert result.value == pytest.approx(here.value, abs=1e-6)
    assert result.model == "tiny"
    assert result.details["libraries"]["dtype"] == "float32"
    check_evaluator(there)
    with pytest.raises(PrerequisiteError, match="at revision r1 with code None, but r2"):
        clip_score(FeatureCache(), hub, Keyed(), model="tiny", server="clip", revision="r2").check()
    with pytest.raises(PrerequisiteError, match="refused the key"):
        clip_score(FeatureCache(), hub, servers, model="tiny", server="clip", revision="r1").check()


@pytest.mark.models
def test_a_server_that_goes_away_is_the_failure_of_a_request(models: Path, tmp_path: Path) -> None:
    from tasks.models.clip import load
    from tests.tasks.models.test_clip import served

    class Gone(Servers):
        def find(self, name: str, model: str) -> Any:
            return where

    with served(load(models / "tiny-clip", "cpu")) as where:
        scorer = clip_score(FeatureCache(), ModelHub([]), Gone(), model="tiny", server="clip", revision="r1")
        scorer.check()
    with pytest.raises(NotJudged) as caught:
        scorer.score(PROMPT, cut_video([4, 5]), ASPECT)
    assert caught.value.failure is Failure.SERVER_DOWN
    with pytest.raises(PrerequisiteError, match="does not answer"):
        scorer.check()
