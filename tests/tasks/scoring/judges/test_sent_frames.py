"""The form in which judges send frames: as images, or as one video with its rate; by exact requests."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Failure
from storage_schemas.model import ModelServer, ProviderName
from storage_schemas.store import Store
from tasks.llm.answer_store import AnswerStore
from tasks.llm.providers.batches import GeminiBatches, OpenAIBatches
from tasks.llm.usage import NotJudged
from tasks.llm.vision_models import model_from
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.vlm import IntervalJudge, VideoJudge
from tasks.scoring.judges.vlm_text import Descriptions, TextJudge
from tasks.scoring.registry import choice_from_text, make_evaluator
from tasks.scoring.setup import Setup
from tests.tasks.scoring.judges.asked import FIRST, Videos, client
from tests.tasks.scoring.judges.asked import MODEL as IMAGES
from tests.tasks.scoring.sides import ASPECT, FrameList, noise
from tests.tiny_models.faulty_server import FaultyServer, Reply
from tests.tiny_models.provider_server import KEY, ProviderServer

AS_VIDEO = {"most_images": 400, "frames": "all", "frames_as": "video", "video_pixels": 10_000_000}
MODEL = IMAGES.model_copy(update=AS_VIDEO)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storage_schemas.secrets._reported", {})
    monkeypatch.setenv("THE_KEY", KEY)


def judge(url: str, provider: ProviderName = "openai", **changes: Any) -> VideoJudge:
    model = MODEL.model_copy(update=changes)
    return VideoJudge("tiny-video", model, client(url, provider), FeatureCache())


def frames_of(address: str) -> list[np.ndarray[Any, Any]]:
    head, _, data = address.partition(",")
    assert head == "data:video/jpeg;base64"
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(one))), float) for one in data.split(",")]


def test_a_server_gets_each_video_as_one_with_its_rate(videos: Videos) -> None:
    with FaultyServer([Reply(FIRST)]) as server:
        asked = judge(server.url)
        answer = asked.compare("A car.", *videos, ASPECT)
        (seen,) = server.seen
    system, user = (message["content"] for message in seen.body.pop("messages"))
    assert seen.body.pop("response_format")["type"] == "json_schema"
    assert seen.body == {
        "model": "tiny",
        "temperature": 1.0,
        "max_completion_tokens": 100,
        "top_k": 20,
        "media_io_kwargs": {"video": {"fps": 1.0, "num_frames": -1}},
        "mm_processor_kwargs": {"videos_kwargs": {"max_pixels": 10_000_000}},
    }
    assert "Which" not in system
    assert [part["type"] for part in user] == ["text", "text", "video_url", "text", "video_url"]
    told = ["The first video:", "The second video:"]
    assert [user[1]["text"], user[3]["text"]] == told
    for part, video in zip((user[2], user[4]), videos, strict=True):
        assert set(part) == {"type", "video_url"}
        frames = frames_of(part["video_url"]["url"])
        assert len(frames) == len(video)
        assert all(np.abs(frame - video.rgb(at)).mean() < 12 for at, frame in enumerate(frames))
    assert answer.details["frames_as"] == "video"
    assert answer.usage.frames == 21
    assert {choice["places"] for choice in answer.details["frames"]} == {"all"}
    # two frames are one of the model's: six and five of them, with a square, its time and two marks each
    assert MODEL.video_tokens(12, 32, 16) + MODEL.video_tokens(9, 32, 16) == (6 + 5) * (1 + 8 + 2)
    guess = asked.estimate("A car.", *videos, ASPECT)
    assert (guess.images, guess.tokens_in) == (21, answer.details["tokens"]["expected_in"])
    as_images = judge(server.url, frames_as="images")
    assert guess.tokens_in < as_images.estimate("A car.", *videos, ASPECT).tokens_in
    # answers of two forms have other settings
    assert asked.settings() != as_images.settings()
    assert asked.settings()["model"]["frames_as"] == "video"
    with FaultyServer([Reply("no JSON")]) as server, pytest.raises(NotJudged) as problem:
        judge(server.url).compare("A car.", *videos, ASPECT)
    assert problem.value.details["frames_as"] == "video"


@pytest.mark.parametrize(
    ("changes", "frames"),
    [
        # not all frames fit: the centres of five scenes, which have no rate
        ({"context_tokens": 1024, "answer_tokens": 450, "video_frame_tokens": 74}, 5),
        # the server would reduce the frames of the first video
        ({"video_pixels": 12 * 32 * 16 - 1}, 21),
    ],
)
def test_unencodable_frames_are_sent_as_images(changes: dict[str, Any], frames: int, videos: Videos) -> None:
    with FaultyServer([Reply(FIRST)]) as server:
        answer = judge(server.url, **changes).compare("A car.", *videos, ASPECT)
        (seen,) = server.seen
    kinds = [part["type"] for part in seen.body["messages"][1]["content"]]
    assert (kinds.count("image_url"), kinds.count("video_url")) == (frames, 0)
    assert not {"media_io_kwargs", "mm_processor_kwargs"} & set(seen.body)
    assert answer.details["frames_as"] == "images"


def test_videos_of_two_rates_or_one_frame_are_sent_as_images(videos: Videos) -> None:
    slow = FrameList(videos[1].frames)
    slow.fps = 0.5
    with FaultyServer([Reply(FIRST)]) as server:
        asked = judge(server.url)
        for second in (slow, FrameList([noise(901)])):
            assert asked.compare("A car.", videos[0], second, ASPECT).details["frames_as"] == "images"
        whole = FrameList(videos[0].frames)
        whole.fps = 0.5
        assert asked.compare("A car.", whole, slow, ASPECT).details["frames_as"] == "video"
    assert server.seen[2].body["media_io_kwargs"]["video"]["fps"] == 0.5


def test_judges_that_say_where_and_captioners_get_videos_too(tmp_path: Path, videos: Videos) -> None:
    where = json.dumps({"better": "first", "intervals": [{"start_s": 1, "end_s": 3}]})
    described = [Reply(json.dumps({"description": name})) for name in ("a", "b")]
    with FaultyServer([Reply(where), *described, Reply(FIRST)]) as server:
        both = (MODEL, client(server.url))
        answer = IntervalJudge("where", *both, FeatureCache()).compare("A car.", *videos, ASPECT)
        assert answer.details["intervals"] == [[1.0, 3.0]]
        asked = TextJudge("tiny-text", both, Descriptions(*both, AnswerStore(tmp_path), FeatureCache()))
        answer = asked.compare("A car.", *videos, ASPECT)
        bodies = [seen.body for seen in server.seen]
    sent = [[part["type"] for part in body["messages"][1]["content"]] for body in bodies]
    video = ["text", "video_url"]
    assert sent == [["text", *video, *video], ["text", *video], ["text", *video], ["text"]]
    assert ["media_io_kwargs" in body for body in bodies] == [True, True, True, False]
    assert answer.details["frames_as"] == "video"


def inline_videos(body: dict[str, Any]) -> list[tuple[bytes, dict[str, Any]]]:
    parts = body["contents"][0]["parts"]
    inline = [part for part in parts if "inlineData" in part]
    assert {part["inlineData"]["mime_type"] for part in inline} == {"video/mp4"}
    return [(base64.urlsafe_b64decode(one["inlineData"]["data"]), one["videoMetadata"]) for one in inline]


@pytest.mark.parametrize("side", [512, 33])
def test_google_gets_an_mp4_of_all_frames(side: int) -> None:
    videos = [FrameList([noise(seed, 70, 50) for seed in range(n)], 70, 50) for n in (4, 3)]
    for video in videos:
        video.fps = 2.0
    with ProviderServer("google") as server:
        asked = judge(server.url, "google", image_side=side, video_frame_tokens=258)
        answer = asked.compare("A car.", *videos, ASPECT)
        ((seen),) = server.seen
    assert (answer.choice, answer.details["frames_as"]) == ("first", "video")
    assert answer.details["tokens"]["expected_in"] > 7 * 258
    sent = inline_videos(seen.body)
    assert [metadata for _, metadata in sent] == [{"fps": 2.0}] * 2
    for (content, _), video in zip(sent, videos, strict=True):
        with av.open(io.BytesIO(content)) as container:
            stream = container.streams.video[0]
            assert (stream.average_rate, stream.frames) == (2, len(video))
            assert (stream.width, stream.height) == ((70, 50) if side == 512 else (32, 24))
            shown = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
    assert len(shown) == 3


def test_video_too_large_for_google_is_a_reason(monkeypatch: pytest.MonkeyPatch, videos: Videos) -> None:
    monkeypatch.setattr("tasks.scoring.judges.sent_frames.MAX_INLINE_BYTES", 1000)
    with ProviderServer("google") as server, pytest.raises(NotJudged, match="reduce image_side") as problem:
        judge(server.url, "google").compare("A car.", *videos, ASPECT)
    assert problem.value.failure is Failure.CONTEXT_TOO_LONG
    assert not server.seen


def test_batches_have_the_same_form(videos: Videos) -> None:
    asked = judge("http://127.0.0.1:9")
    line = OpenAIBatches(asked.server).line("k", asked.make_request("A car.", *videos, ASPECT))
    body = json.loads(line)["body"]
    assert body["media_io_kwargs"] == {"video": {"fps": 1.0, "num_frames": -1}}
    assert len(frames_of(body["messages"][1]["content"][2]["video_url"]["url"])) == 12
    asked = judge("http://127.0.0.1:9", "google")
    line = GeminiBatches(asked.server).line("k", asked.make_request("A car.", *videos, ASPECT))
    parts = json.loads(line)["request"]["contents"][0]["parts"]
    assert [part["videoMetadata"]["fps"] for part in parts if "inlineData" in part] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("words", "servers", "message"),
    [
        ("qwen3-vl-video", {"qwen3-vl": "anthropic"}, "takes images only: write frames_as=images"),
        ("gpt-5-video?frames=all&frames_as=video", {}, "api.openai.com/v1 takes images only"),
        ("qwen3-vl-video?frames=scenes", {"qwen3-vl": "openai"}, "write frames=all too, or frames_as=images"),
        ("qwen3-vl-text", {"qwen3-vl": "anthropic"}, "takes images only: write frames_as=images"),
    ],
)
def test_a_server_that_cannot_take_it_is_refused_at_the_start(
    words: str, servers: dict[str, ProviderName], message: str, tmp_path: Path
) -> None:
    store = str(Store.create(tmp_path / "store").root)
    named = {
        name: ModelServer(url="http://127.0.0.1:9", provider=provider) for name, provider in servers.items()
    }
    with pytest.raises(UserInputError, match=message):
        make_evaluator(choice_from_text(words), Setup(store_path=store, model_servers=named))
    given = {"model": "m", "server": "s", "frames_as": "video"}
    with pytest.raises(UserInputError, match="vlm: suites send frames as images"):
        model_from(given, "vlm", {}, {"context_tokens": 9000, "answer_tokens": 99, "most_images": 4})
