"""Requests on several aspects of a source begin alike, and a provider's cache has what they share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.stand_in_server import standing_in
from storage_schemas.errors import UserInputError
from storage_schemas.model import ModelServer
from storage_schemas.store import Store
from tasks.llm.exchange import ChatRequest
from tasks.llm.providers.anthropic_messages import arguments
from tasks.llm.usage import Price, Prices
from tasks.llm.vision_models import VLM_MODELS, model_from
from tasks.scoring.base import AspectText, SharedBeginning
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.vlm import IntervalJudge, VideoJudge
from tasks.scoring.registry import choice_from_text, make_evaluator
from tasks.scoring.request import beginnings, make_requests, shared_beginnings
from tasks.scoring.setup import Setup
from tests.tasks.scoring.judges.asked import MODEL, Videos, client, two_videos
from tests.tasks.scoring.one_source import ASPECTS, OneSource, estimated, judged, units_of

LAST = MODEL.model_copy(update={"layout": "aspect-last"})
JUDGE = "vlm-video?vlm=mine&model=m&server=s&frames=all&context_tokens=60000&answer_tokens=100"
#: Tokens of the cache cost a tenth, written ones a quarter more, as at Anthropic.
PRICES = Prices(
    models={
        "m": Price(
            input_per_million=10, output_per_million=0,
            cached_input_per_million=1, written_input_per_million=12.5,
        )
    }
)  # fmt: skip


def aspect(name: str) -> AspectText:
    return AspectText(name=name, dimension=name, description=f"Whether {name} is right.")


@pytest.fixture
def videos() -> Videos:
    return two_videos()


def user(request: ChatRequest) -> list[dict[str, Any]]:
    content = request.messages[1]["content"]
    assert isinstance(content, list)
    return content


@pytest.mark.parametrize("kind", [VideoJudge, IntervalJudge])
def test_requests_of_aspects_differ_in_the_last_text(kind: type[VideoJudge], videos: Videos) -> None:
    judge = kind("tiny", LAST, client("http://127.0.0.1:1/v1"), FeatureCache())
    one, other = (judge.make_request("a ball", *videos, aspect(name)) for name in ("color", "motion"))
    assert one.messages[0] == other.messages[0]
    assert user(one)[:-1] == user(other)[:-1]
    assert "a ball" in user(one)[0]["text"]
    assert "Whether color" in user(one)[-1]["text"]
    assert "Whether motion" in user(other)[-1]["text"]
    # both layouts say the same, in another order
    usual = kind("tiny", MODEL, client("http://127.0.0.1:1/v1"), FeatureCache())
    words = user(usual.make_request("a ball", *videos, aspect("color")))[0]["text"]
    told = f"{user(one)[0]['text']} {user(one)[-1]['text']}"
    assert sorted(words.replace("below", "above").split()) == sorted(told.split())


def test_the_layout_is_part_of_the_key_unless_it_is_the_usual_one() -> None:
    assert "layout" not in MODEL.settings()
    assert LAST.settings()["layout"] == "aspect-last"
    usual, last = (
        VideoJudge("tiny", model, client("http://127.0.0.1:1/v1"), FeatureCache()).settings()
        for model in (MODEL, LAST)
    )
    assert usual["prompts"] != last["prompts"]


def test_only_video_judges_have_a_layout(tmp_path: Path) -> None:
    servers = {"s": ModelServer(url="http://127.0.0.1:9")}
    setup = Setup(store_path=str(Store.create(tmp_path / "store").root), model_servers=servers)
    with pytest.raises(UserInputError, match="layout is a setting of the video judges"):
        make_evaluator(choice_from_text("vlm-text?vlm=mine&model=m&server=s&layout=aspect-last"), setup)
    with pytest.raises(UserInputError, match="have a layout; leave it out"):
        model_from({"model": "gpt-5", "layout": "aspect-last"}, "multimodal", VLM_MODELS, {})


@pytest.mark.parametrize("ends", [(), (1,), (1, 2)])
def test_anthropic_is_told_where_shared_beginnings_end(ends: tuple[int, ...], videos: Videos) -> None:
    judge = VideoJudge("tiny", LAST, client("https://x.org", "anthropic"), FeatureCache())
    request = judge.sharing(SharedBeginning(ends)).make_request("a ball", *videos, aspect("color"))
    blocks = arguments(request, judge.server)["messages"][0]["content"]
    marked = [place for place, block in enumerate(blocks) if "cache_control" in block]
    # the last frame of the first video, and of the second
    lines = [place for place, block in enumerate(blocks) if "video:" in block.get("text", "")]
    last = {1: lines[1] - 1, 2: len(blocks) - 2}
    assert marked == [last[end] for end in ends]
    assert all(blocks[place]["type"] == "image" for place in marked)
    assert not judge.make_request("a ball", *videos, aspect("color")).shared_ends


def test_shared_beginnings_are_known_from_the_pairs() -> None:
    own, release = OneSource(same=True).facts(), OneSource().facts()
    high, low = ({key for _, key in beginnings(own[0], order)} for order in ("high_first", "low_first"))
    assert shared_beginnings(own) == high | low
    # in a release the high video alone is that of several pairs
    assert shared_beginnings(release) == {beginnings(release[0], "high_first")[0][1]}
    assert not shared_beginnings(release[:1])
    # a repeat begins as the first request does, with both videos
    assert len(shared_beginnings(release[:1], repeats=2)) == 4


def test_requests_that_begin_alike_stand_together_and_wait_for_their_first(tmp_path: Path) -> None:
    pairs = OneSource(ASPECTS[:3], frames=8)
    with standing_in() as server:
        rows, kind = judged(tmp_path / "store", server.url, f"{JUDGE}&layout=aspect-last", pairs)
        order = [row.order for row in rows if row.order == "high_first"]
        units = [unit for pair in pairs.facts() for unit in make_requests(kind.evaluator, pair, aspect("a"))]
        assert [unit.order for unit in units_of(kind, pairs)] == ["high_first"] * 3 + ["low_first"] * 3
        _, usual = judged(tmp_path / "usual", server.url, JUDGE, pairs)
        assert list(usual.in_order(units)) == units
        assert not usual.leaders(units)
    assert len(order) == 3
    # no follower was asked before the first had its answer
    cached = [json.loads(row.details)["tokens"].get("cached", 0) for row in rows if row.order == "high_first"]
    assert sorted(count > 0 for count in cached) == [False, True, True]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
@pytest.mark.parametrize("same", [False, True])
def test_estimate_has_cached_tokens_at_their_price(provider: Any, same: bool, tmp_path: Path) -> None:
    pairs = OneSource(ASPECTS[:3], frames=10, same=same)
    with standing_in() as server:
        asked = (tmp_path / "store", server.url, f"{JUDGE}&layout=aspect-last", pairs, provider, PRICES)
        rows, kind = judged(*asked)
        # another run's dry run: no beginning was read in it
        estimates = estimated(kind, pairs)
    dollars = sum(row.cost_usd or 0 for row in rows)
    tokens = [json.loads(row.details)["tokens"] for row in rows]
    cached = sum(one.get("cached", 0) for one in tokens)
    assert cached > 0
    assert sum(one.written_in for one in estimates) > 0 if provider == "anthropic" else True
    assert sum(one.cached_in for one in estimates) == pytest.approx(cached, rel=0.1)
    assert PRICES.of(estimates) == pytest.approx(dollars, rel=0.1)
    # rows price the cache, too
    plain = sum(one["in"] for one in tokens) * 10 / 1e6
    assert dollars < plain


def test_a_measured_share_of_cached_tokens_corrects_the_estimate(tmp_path: Path) -> None:
    pairs = OneSource(ASPECTS[:3], frames=10)
    with standing_in() as server:
        rows, kind = judged(tmp_path / "store", server.url, f"{JUDGE}&layout=aspect-last", pairs)
    fresh = kind.work.kind("judge")
    assumed = sum(one.cached_in for one in estimated(kind, pairs))
    # a provider whose cache never has anything
    missed = []
    for row in rows:
        details = json.loads(row.details)
        details["tokens"].pop("cached", None)
        missed.append(row.model_copy(update={"details": json.dumps(details)}))
    fresh.evaluator.learn(missed)
    assert sum(one.cached_in for one in estimated(kind, pairs)) == 0 < assumed
    # requests on damage in the middle share the frames before it, too
    later = OneSource(ASPECTS[:3], frames=10, damaged_from=0.6)
    with standing_in() as server:
        more, _ = judged(tmp_path / "later", server.url, f"{JUDGE}&layout=aspect-last", later)
    told = [json.loads(row.details)["tokens"] for row in more]
    fresh.evaluator.learn(more)
    found = sum(one.cached_in for one in estimated(kind, pairs))
    assert found == pytest.approx(sum(one.get("cached", 0) for one in told), rel=0.1) != assumed
    fresh.evaluator.learn(rows)
    assert sum(one.cached_in for one in estimated(kind, pairs)) > 0
