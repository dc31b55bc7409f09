"""VLM judges against a real HTTP server: what is sent, what is read, and what becomes of every odd answer."""

from __future__ import annotations

import base64
import io
import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.judgements import Failure
from storage_schemas.model import ModelServer
from storage_schemas.store import Store
from tasks.llm.answer_store import AnswerStore
from tasks.llm.exchange import ChatAnswer
from tasks.llm.preference import TOP_LOGPROBS
from tasks.llm.prompt_files import prompt_text
from tasks.llm.usage import NotJudged
from tasks.llm.vision_models import VLM_MODELS, VlmModel
from tasks.scoring.base import AspectText
from tasks.scoring.features import FeatureCache
from tasks.scoring.instructions import read_intervals
from tasks.scoring.judges import frame_images
from tasks.scoring.judges.frame_images import _KeptImages
from tasks.scoring.judges.vlm import IntervalJudge, VideoJudge, vlm_model
from tasks.scoring.judges.vlm_text import Descriptions, TextJudge
from tasks.scoring.registry import choice_from_text, make_evaluator
from tasks.scoring.setup import Setup
from tests.tasks.scoring.judges.asked import FIRST, MODEL, SECOND, Videos, client, parts
from tests.tasks.scoring.sides import FrameList, noise
from tests.tiny_models.faulty_server import FaultyServer, Reply

COLOUR = AspectText(name="color", dimension="color", description="Whether the colours are those of the text.")
PROMPT = "A red car.\nA {brace} and a <text> mark."


def judge(server: FaultyServer, model: VlmModel = MODEL) -> VideoJudge:
    return VideoJudge("tiny-video", model, client(server.url), FeatureCache())


def images(body: dict[str, Any]) -> list[Image.Image]:
    addresses = parts(body, "image_url")
    assert all(address.startswith("data:image/jpeg;base64,") for address in addresses)
    return [Image.open(io.BytesIO(base64.b64decode(address.split(",")[1]))) for address in addresses]


def test_one_request_has_the_centre_frames_of_both_videos_in_order(videos: Videos) -> None:
    replies = [Reply(f"<think>mostly red</think>\n{SECOND}"), Reply(FIRST, reasoning="so")]
    with FaultyServer(replies) as server:
        asked = judge(server)
        asked.check()
        answer, other = (asked.compare(PROMPT, *videos, COLOUR) for _ in range(2))
        body = server.seen[0].body
        server.models = ["another"]
        with pytest.raises(PrerequisiteError, match="does not serve tiny; it has another"):
            judge(server).check()
        assert len(server.seen) == 2
    assert (answer.choice, other.choice) == ("second", "first")
    # thoughts are kept apart
    assert (answer.reasoning, other.reasoning) == ("mostly red", "so")
    assert answer.usage.frames == 5
    assert [choice["chosen"] for choice in answer.details["frames"]] == [3, 2]
    texts = parts(body)
    assert PROMPT in texts[0]
    assert COLOUR.description in texts[0]
    assert texts[1:] == ["The first video:", "The second video:"]
    pictures = images(body)
    assert len(pictures) == 5
    for picture, place in zip(pictures, answer.details["frames"][0]["places"], strict=False):
        shown = np.asarray(picture, np.float64) - videos[0].rgb(place)
        assert np.abs(shown).mean() < 12
    assert (body["temperature"], body["top_k"]) == (1.0, 20)
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["better"]["enum"] == ["first", "second"]


def test_exchanged_names_change_the_lines_before_the_videos_alone(videos: Videos) -> None:
    own = VideoJudge("tiny", MODEL, client("http://127.0.0.1:1/v1"), FeatureCache())
    other = own.with_exchanged_names()
    assert isinstance(other, VideoJudge)
    one, exchanged = (judge.make_request(PROMPT, *videos, COLOUR).model_dump() for judge in (own, other))
    lines = [parts(request, "text")[1:] for request in (one, exchanged)]
    assert lines[0] == lines[1][::-1] == ["The first video:", "The second video:"]
    assert parts(one, "image_url") == parts(exchanged, "image_url")
    # the judge itself stays as it is
    assert own.make_request(PROMPT, *videos, COLOUR).model_dump() == one


@pytest.mark.parametrize(
    ("reply", "failure"),
    [
        (Reply("The first video is clearly better."), Failure.NOT_UNDERSTOOD),
        (Reply("最初の動画のほうが良いです。"), Failure.NOT_UNDERSTOOD),
        (Reply('{"better": "first"} {"better": "second"}'), Failure.NOT_UNDERSTOOD),
        (Reply('{"better": "first", "better": "second"}'), Failure.NOT_UNDERSTOOD),
        (Reply('{"better": "second", "better": "second"}'), Failure.NOT_UNDERSTOOD),
        (Reply('{"better": {"better": "first"}}'), Failure.NOT_UNDERSTOOD),
        (Reply('{"better": "first", "also": "second"}'), Failure.NOT_UNDERSTOOD),
        (Reply('{"better": "first"}\nOn second thoughts, the second.'), Failure.NOT_UNDERSTOOD),
        (Reply('{"better": "third"}'), Failure.NOT_UNDERSTOOD),
        (Reply(None, reasoning="The first one is sharper."), Failure.NO_ANSWER),
        (Reply('{"better": ["first"]}'), Failure.NOT_UNDERSTOOD),
        (Reply('["first"]'), Failure.NOT_UNDERSTOOD),
        (Reply("[" * 60_000), Failure.NOT_UNDERSTOOD),
        (Reply("[" * 100_000), Failure.CUT_OFF),
        (Reply(""), Failure.NO_ANSWER),
        (Reply(None), Failure.NO_ANSWER),
        (Reply("<think>it is the first"), Failure.CUT_OFF),
        (Reply('{"better": "fir', finish_reason="length"), Failure.CUT_OFF),
        (Reply("", finish_reason="content_filter"), Failure.MODEL_REFUSED),
        (Reply(status=400, body=b'{"error": {"message": "bad image"}}'), Failure.REFUSED),
        (
            Reply(status=400, body=b'{"error": {"message": "maximum context length is 9 tokens"}}'),
            Failure.CONTEXT_TOO_LONG,
        ),
        (Reply(status=404), Failure.NOT_ALLOWED),
        (Reply(status=401), Failure.NOT_ALLOWED),
        (Reply(status=500), Failure.SERVER_DOWN),
        (Reply(cut="before"), Failure.SERVER_DOWN),
    ],
)  # fmt: skip
def test_no_odd_answer_becomes_a_choice(reply: Reply, failure: Failure, videos: Videos) -> None:
    with FaultyServer([reply]) as server, pytest.raises(NotJudged) as problem:
        judge(server).compare(PROMPT, *videos, COLOUR)
    assert problem.value.failure == failure
    assert problem.value.message
    if failure is Failure.NOT_UNDERSTOOD:
        assert problem.value.raw == (reply.text or "").strip()
    assert problem.value.usage.frames == 5


ODD_FORMS = {
    "in a code fence": Reply('```json\n{"better": "first"}\n```'),
    "behind a byte order mark": Reply('\ufeff{"better": "first"}'),
    "with other keys": Reply('{"why": "It is sharper than the second.", "better": "first"}'),
    "in other letter case": Reply('{"better": " First"}'),
    "in a text": Reply('The second is blurred.\n\n{"better": "first"}'),
    "in the reasoning": Reply(None, reasoning='{"better": "first"}'),
}


@pytest.mark.parametrize("found", ODD_FORMS)
def test_an_answer_in_another_form_is_understood_unless_strict(found: str, videos: Videos) -> None:
    with FaultyServer([ODD_FORMS[found]]) as server:
        answer = judge(server).compare(PROMPT, *videos, COLOUR)
        assert (answer.choice, answer.details["found"]) == ("first", found)
        strict = MODEL.model_copy(update={"answers": "strict"})
        with pytest.raises(NotJudged):
            judge(server, strict).compare(PROMPT, *videos, COLOUR)
    assert "answers" not in MODEL.settings(), "stored answers keep their keys"
    assert strict.settings()["answers"] == "strict"


def test_log_probabilities_are_asked_for_and_change_neither_key_nor_other_judges(videos: Videos) -> None:
    odds = {"first": math.log(0.2), "second": math.log(0.6)}
    tokens = [('{"better": "', {}), ("second", odds), ('"}', {})]
    asks = MODEL.model_copy(update={"logprobs": True})
    with FaultyServer([Reply(SECOND, logprobs=tokens)]) as server:
        told, plain = (judge(server, model).compare(PROMPT, *videos, COLOUR) for model in (asks, MODEL))
        bodies = [seen.body for seen in server.seen]
        assert judge(server, asks).settings() == judge(server).settings()
    assert told.details["p_first"] == pytest.approx(0.25)
    assert {**told.details, "p_first": None} == {**plain.details, "p_first": None}
    assert "p_first" not in plain.details
    extra = {name: bodies[0].pop(name) for name in ("logprobs", "top_logprobs")}
    assert extra == {"logprobs": True, "top_logprobs": TOP_LOGPROBS}
    assert bodies[0] == bodies[1]
    with pytest.raises(UserInputError, match="provider = 'anthropic': leave logprobs out"):
        VideoJudge("claude-video", asks, client("https://x.org", "anthropic"), FeatureCache())


def where(better: str, *intervals: tuple[Any, Any]) -> str:
    entries = [{"start_s": start, "end_s": end} for start, end in intervals]
    return json.dumps({"better": better, "intervals": entries})


def interval_judge(server: FaultyServer) -> IntervalJudge:
    return IntervalJudge("tiny-video-intervals", MODEL, client(server.url), FeatureCache())


NAN, INF = float("nan"), float("inf")
ODD_INTERVALS = [
    (3, 3), (5, 3), (-1, 3), (1, 9.6), (9.2, 9.4), ("1", 3), (True, 3), (NAN, 3), (1, INF),
]  # fmt: skip


def test_a_judge_that_says_where_gets_the_times_of_the_frames_and_its_own_prompt(videos: Videos) -> None:
    length = len(videos[1]) / videos[1].fps
    reply = where("first", (2, 4.5), (length - 1, length + 0.3))
    with FaultyServer([Reply(reply), Reply(where("second"))]) as server:
        asked = interval_judge(server)
        answer = asked.compare(PROMPT, *videos, COLOUR)
        none = asked.compare(PROMPT, *videos, COLOUR)
        plain = judge(server)
        (seen, _) = server.seen
    assert (answer.choice, answer.details["intervals"]) == ("first", [[2.0, 4.5], [length - 1, length]])
    assert (none.choice, none.details["intervals"]) == ("second", [])
    system, user = (message["content"] for message in seen.body["messages"])
    assert system == prompt_text("judges/interval_judge_system")
    assert COLOUR.description in user[0]["text"]
    places = [choice["places"] for choice in answer.details["frames"]]
    assert [part["text"] for part in user[1:] if part["type"] == "text"] == [
        line
        for name, video, shown in zip(("first", "second"), videos, places, strict=True)
        for line in (f"The {name} video:", *(f"{video.times_s[place]:.1f} s:" for place in shown))
    ]
    schema = seen.body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["intervals"]["items"]["required"] == ["start_s", "end_s"]
    assert asked.settings()["intervals"] is True
    assert "intervals" not in plain.settings()
    assert asked.settings()["prompts"] != plain.settings()["prompts"]
    more, less = (one.estimate(PROMPT, *videos, COLOUR) for one in (asked, plain))
    assert more.images == less.images
    assert more.tokens_in > less.tokens_in
    assert more.tokens_out > less.tokens_out + 50


def read(text: str, *lengths: float) -> tuple[str, list[list[float]]]:
    return read_intervals(ChatAnswer(text=text, finish_reason="stop"), lengths)[:2]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        FIRST,
        where("neither"),
        *(where("first", one) for one in ODD_INTERVALS),
        '{"better": "first", "intervals": [[1, 2]]}',
        '{"better": "first", "intervals": "all"}',
        '{"better": "first", "better": "second", "intervals": []}',
        '["first"]',
        "[" * 100_000,
        "The first one, from 3 s to 7 s.",
    ],
)
def test_no_odd_interval_is_taken(text: str) -> None:
    with pytest.raises(NotJudged) as problem:
        read(text, 60.0, 9.0)
    assert problem.value.failure is Failure.NOT_UNDERSTOOD
    assert problem.value.raw == text


def test_intervals_are_those_of_the_video_that_is_not_better() -> None:
    with pytest.raises(NotJudged, match="outside the video's 9 s"):
        read(where("first", (20, 40.5)), 40.0, 9.0)
    assert read(where("second", (20, 40.5)), 40.0, 9.0) == ("second", [[20.0, 40.0]])


def test_intervals_are_a_setting_of_the_video_judges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    store = str(Store.create(tmp_path / "store").root)
    setup = Setup(store_path=store, model_servers={"qwen3-vl": ModelServer(url="http://127.0.0.1:9")})
    one = make_evaluator(choice_from_text("gpt-5-video?intervals=true&frames=all"), setup)
    assert isinstance(one, IntervalJudge)
    assert (one.name, one.model.frames) == ("gpt-5-video-intervals", "all")
    other = make_evaluator(choice_from_text("qwen3-vl-video?intervals=false"), setup)
    assert type(other) is VideoJudge
    with pytest.raises(UserInputError, match="intervals is 'yes': write true or false"):
        make_evaluator(choice_from_text("gpt-5-video?intervals=yes"), setup)
    with pytest.raises(UserInputError, match="a setting of the video judges"):
        make_evaluator(choice_from_text("gpt-5-text?intervals=true"), setup)


@pytest.mark.parametrize("kind", ["video", "text"])
def test_the_servers_address_is_part_of_the_key_if_that_is_set(tmp_path: Path, kind: str) -> None:
    store = str(Store.create(tmp_path / "store").root)

    def settings(port: int, more: str = "") -> object:
        servers = {"qwen3-vl": ModelServer(url=f"http://127.0.0.1:{port}")}
        setup = Setup(store_path=store, model_servers=servers)
        return make_evaluator(choice_from_text(f"qwen3-vl-{kind}{more}"), setup).settings()

    keyed = "?address_in_key=true"
    assert settings(9) == settings(8) != settings(9, keyed) == settings(9, keyed) != settings(8, keyed)


def test_request_that_does_not_fit_is_not_sent(videos: Videos) -> None:
    def fitting(**fields: Any) -> VideoJudge:
        return judge(server, MODEL.model_copy(update=fields))

    with FaultyServer([Reply(FIRST)]) as server:
        answer = fitting(most_images=4).compare(PROMPT, *videos, COLOUR)
        assert len(images(server.seen[0].body)) == answer.usage.frames <= 4
        with pytest.raises(NotJudged, match="context_too_long"):
            fitting(context_tokens=1024, answer_tokens=900).compare(PROMPT * 100, *videos, COLOUR)
        assert len(server.seen) == 1
        # all frames where they fit and scenes where not
        whole = fitting(frames="all").compare(PROMPT, *videos, COLOUR)
        assert whole.usage.frames == len(videos[0]) + len(videos[1])
        fewer = fitting(frames="all", most_images=10).compare(PROMPT, *videos, COLOUR)
    assert fewer.usage.frames == 5
    assert all(choice["fell_back"] for choice in fewer.details["frames"])


def test_an_image_is_made_once_for_both_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    # other tests of this process may have sent the same frames
    monkeypatch.setattr(frame_images, "_kept", _KeptImages(frame_images.KEPT_BYTES))
    fresh = FrameList([noise(1), noise(2)]), FrameList([noise(1), noise(3)])
    read: list[int] = []
    rgb = FrameList.rgb
    monkeypatch.setattr(FrameList, "rgb", lambda self, place: read.append(place) or rgb(self, place))
    every = MODEL.model_copy(update={"frames": "all"})
    with FaultyServer([Reply(FIRST)]) as server:
        asked = judge(server, every)
        asked.compare(PROMPT, *fresh, COLOUR)
        # the frame that both videos have is one image
        assert len(read) == 3
        asked.compare(PROMPT, fresh[1], fresh[0], COLOUR)
        assert len(read) == 3
        sent = [[image.tobytes() for image in images(seen.body)] for seen in server.seen]
        assert sent[1] == sent[0][2:] + sent[0][:2]
        small = judge(server, every.model_copy(update={"image_side": 16}))
        small.compare(PROMPT, *fresh, COLOUR)
        assert len(read) == 6
        assert images(server.seen[2].body)[0].size == (16, 8)
    kept = _KeptImages(10)
    for number in (0, 0, 1, 1, 2, 2, 3, 3):
        kept.put((str(number), 0, 0), "1234")
    assert [kept.get((str(number), 0, 0)) for number in range(4)] == [None, None, "1234", "1234"]


def text_judge(server: FaultyServer, folder: Path) -> TextJudge:
    both = (MODEL, client(server.url))
    return TextJudge("tiny-text", both, Descriptions(*both, AnswerStore(folder), FeatureCache()))


def described(number: int, body: dict[str, Any]) -> Reply:
    if "description" in body["response_format"]["json_schema"]["schema"]["properties"]:
        return Reply(json.dumps({"description": f"{len(images(body))} pictures"}))
    return Reply(FIRST)


def test_descriptions_are_made_once_and_never_see_the_prompt(tmp_path: Path, videos: Videos) -> None:
    with FaultyServer(described) as server:
        asked = text_judge(server, tmp_path)
        there = asked.compare(PROMPT, *videos, COLOUR)
        back = asked.compare(PROMPT, videos[1], videos[0], COLOUR)
        assert len(server.seen) == 4
        # another process finds them in the folder
        text_judge(server, tmp_path).compare(PROMPT, *videos, COLOUR)
        assert len(server.seen) == 5
        other = COLOUR.model_copy(update={"name": "scene", "description": "Whether the scene is there."})
        asked.compare(PROMPT, *videos, other)
        assert len(server.seen) == 8
    assert [len(made.usage.others) for made in (there, back)] == [2, 0]
    assert there.details["captions"] == back.details["captions"][::-1]
    captioned = [s.body for s in server.seen if images(s.body)]
    assert len(captioned) == 4
    assert not any("red car" in json.dumps(body) for body in captioned)
    # the viewpoint stands in the system's text (SLVMEval, appendix G.1)
    told = [body["messages"][0]["content"] for body in captioned]
    assert (
        sum(f"Viewpoint: {COLOUR.dimension}\nDescription: {COLOUR.description}" in text for text in told) == 2
    )
    assert sum("Whether the scene is there." in text for text in told) == 2
    compared = json.dumps(server.seen[2].body)
    assert compared.index("3 pictures") < compared.index("2 pictures")
    assert "red car" in compared
    # a description that fails is a failure of the comparison, and is not kept
    with FaultyServer([Reply("no JSON")]) as server, pytest.raises(NotJudged, match="not_understood"):
        text_judge(server, tmp_path / "none").compare(PROMPT, *videos, COLOUR)
    assert not list((tmp_path / "none").glob("*"))


def test_a_description_out_of_a_batch_is_not_asked_for_again(tmp_path: Path, videos: Videos) -> None:
    with FaultyServer(described) as server:
        both = (MODEL, client(server.url))
        kept = Descriptions(*both, AnswerStore(tmp_path), FeatureCache())
        for side, text in zip(videos, ("a car", "a van"), strict=True):
            kept.keep(ChatAnswer(text=json.dumps({"description": text})), side, COLOUR, "test")
        TextJudge("tiny-text", both, kept).compare(PROMPT, *videos, COLOUR)
        (seen,) = server.seen
    (told,) = parts(seen.body)
    assert told.index("a car") < told.index("a van")


def test_estimates_count_what_is_sent(videos: Videos, tmp_path: Path) -> None:
    with FaultyServer(described) as server:
        asked = judge(server)
        guess = asked.estimate(PROMPT, *videos, COLOUR)
        first, second, compared = text_judge(server, tmp_path).estimate(PROMPT, *videos, COLOUR)
        assert not server.seen
        # descriptions that exist are not paid for again
        by_text = text_judge(server, tmp_path)
        by_text.compare(PROMPT, *videos, COLOUR)
        (again,) = by_text.estimate(PROMPT, videos[1], videos[0], COLOUR)
    assert guess.images == 5
    assert guess.tokens_in > 5 * MODEL.image_tokens(32, 16)
    assert (first.images, second.images, compared.images) == (3, 2, 0)
    assert again.images == 0
    assert again.tokens_in < compared.tokens_in
    assert len({first.once, second.once}) == 2
    assert not compared.once


@pytest.mark.parametrize(
    ("name", "size", "tokens"),
    [
        # by OpenAI's guide: base 70, 140 a tile of 512; 1.62 a patch of 32; 144 squares of 32 and two marks
        ("gpt-5", (512, 288), 210), ("gpt-5", (1024, 1024), 70 + 140 * 4),
        ("gpt-5", (2048, 4096), 70 + 140 * 6),
        ("gpt-5-mini", (512, 288), 234), ("gpt-5-mini", (4096, 4096), 2489), ("qwen3-vl", (512, 288), 146),
    ],
)  # fmt: skip
def test_image_tokens_are_those_of_the_guide(name: str, size: tuple[int, int], tokens: int) -> None:
    assert VLM_MODELS[name].image_tokens(*size) == tokens


def test_models_of_ones_own() -> None:
    own = vlm_model("mine", {"model": "org/vlm", "server": "gpu", "context_tokens": 32_000})
    assert (own.model, own.extra_body) == ("org/vlm", {})
    assert vlm_model("gpt-5", {"image_side": 256}).image_side == 256
    with pytest.raises(UserInputError, match="did you mean gpt-5-mini"):
        vlm_model("gpt-5-mimi")
    # only Qwen3-VL sends videos by default
    forms = [own.frames_as, *(vlm_model(name).frames_as for name in ("gpt-5", "gpt-5-mini", "qwen3-vl"))]
    assert forms == ["images", "images", "images", "video"]


@pytest.mark.parametrize(
    ("chosen", "says", "silent"),
    [
        ("vlm-video?vlm=mine&model=org/vlm&server=s", "images merged-patches", "GPT's vocabulary"),
        ("vlm-text?vlm=mine&model=org/vlm&server=s", "most_images 100,000", ""),
        ("vlm-video?vlm=m&model=m&server=s&context_tokens=32000&square_px=28", "answer_tok", "context_to"),
        ("gpt-5-video?model=org/vlm&server=s", "for gpt-5: context_tokens 400,000", ""),
        ("vlm-video?vlm=mine&model=o3-like&server=s", "GPT's vocabulary (for its name)", ""),
        ("vlm-video?vlm=mine&model=m&server=s&frames_as=video", "video_frame_tokens as Qwen3-VL's", ""),
    ],
)  # fmt: skip
def test_estimate_names_assumed_models(chosen: str, says: str, silent: str, tmp_path: Path) -> None:
    setup = Setup(
        store_path=str(Store.create(tmp_path / "store").root),
        model_servers={name: ModelServer(url="http://127.0.0.1:1/v1") for name in ("s", "openai")},
    )
    basis = make_evaluator(choice_from_text(chosen), setup).learn([])
    assert "assumed as for" in basis
    assert says in basis
    assert not silent or silent not in basis
    # a model of the table, and one whose counts are all given
    assert "assumed as" not in make_evaluator(choice_from_text("gpt-5-video?image_side=256"), setup).learn([])
    counts = (
        "context_tokens=9000&answer_tokens=99&most_images=9&images=tiles&characters_per_token=4&temperature=1"
    )
    given = choice_from_text(f"vlm-video?vlm=mine&model=org/vlm&server=s&{counts}")
    assert "assumed as" not in make_evaluator(given, setup).learn([])


def test_many_threads_share_a_client(videos: Videos) -> None:
    together = threading.Barrier(3, timeout=60)

    def three_at_once(number: int, body: dict[str, Any]) -> Reply:
        if number < 3:
            together.wait()
        return Reply(FIRST)

    with FaultyServer(three_at_once) as server:
        asked = judge(server)
        with ThreadPoolExecutor(12) as pool:
            for done in [pool.submit(asked.compare, PROMPT, *videos, COLOUR) for _ in range(12)]:
                done.result()
        assert len(server.seen) == 12
        assert server.most_in_flight > 2
