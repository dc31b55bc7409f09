"""What a run may take, and what ends it: limits, a key that is refused, a server that is gone, Ctrl-C."""

from __future__ import annotations

import errno
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.llm import meter
from tasks.llm.limits import Limits, Spending
from tasks.llm.meter import Meter
from tasks.llm.usage import Price, Prices
from tasks.prompt_suite.maker import Made
from tasks.prompt_suite.videos import SourceVideo, load_videos
from tests.storage_schemas.full_disk import fill
from tests.tasks.prompt_suite.author import CALLS_TO_DRAFT, CALLS_TO_END, FIRST, Author, maker
from tests.tasks.scoring.judges.short_films import short_film
from tests.tiny_models.faulty_server import FaultyServer, Reply

ALL = CALLS_TO_DRAFT + CALLS_TO_END
#: As the server says of each request.
TOKENS = 120
UNITS = {"tokens": "tokens", "usd": "dollars"}
#: A dollar a token.
DEAR = Prices(models={"tiny": Price(input_per_million=1e6, output_per_million=1e6)})


@pytest.fixture(scope="module")
def two(ffmpeg: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[SourceVideo, ...]:
    folder = tmp_path_factory.mktemp("videos")
    for number, name in enumerate("ab"):
        short_film(ffmpeg, folder / f"{name}.mp4", 1.0, number * 90)
    return load_videos(folder).videos


def make(
    tmp_path: Path, server: FaultyServer, videos: tuple[SourceVideo, ...], limits: Limits, prices: Prices
) -> list[Made]:
    one = replace(maker(tmp_path, server, without_review=True), limits=limits, prices=prices)
    return one.run(videos, concurrency=1)


@pytest.mark.parametrize("unit", ["tokens", "usd"])
def test_a_limit_ends_a_run_and_the_next_one_goes_on(
    tmp_path: Path, two: tuple[SourceVideo, ...], unit: str
) -> None:
    video = two[:1]
    with FaultyServer(Author()) as server:
        most = ALL * TOKENS - 1
        (nothing,) = make(tmp_path, server, video, Limits.model_validate({unit: 1}), DEAR)
        assert (nothing.state, nothing.calls, nothing.failure) == ("unfinished", 0, "limit_reached")
        assert f"the limit of 1{'.0' * (unit == 'usd')} {UNITS[unit]} is too small" in nothing.message
        needed = nothing.message.partition("expected to take ")[2].partition(":")[0]
        assert float(needed) > 1
        assert "to continue" not in nothing.message
        assert not server.seen
        (some,) = make(tmp_path, server, video, Limits.model_validate({unit: most}), DEAR)
        assert some.state == "unfinished"
        assert 0 < some.calls < ALL
        assert some.message.endswith("is reached: run the same command again to continue")
        assert some.calls * TOKENS <= most
        assert some.usd == some.calls * TOKENS
        (rest,) = make(tmp_path, server, video, Limits(), DEAR)
        assert (rest.state, some.calls + rest.calls) == ("ready", ALL)
        assert len(server.seen) == ALL
        # what is kept costs nothing, so that no limit stands in its way
        (again,) = make(tmp_path, server, video, Limits.model_validate({unit: 0}), DEAR)
        assert (again.state, again.calls, again.usd) == ("ready", 0, 0.0)
    assert not list((tmp_path / "prompts").glob(".spending*"))


def test_what_a_killed_run_spent_counts_for_no_other(tmp_path: Path, two: tuple[SourceVideo, ...]) -> None:
    with FaultyServer(Author()) as server:
        left = Spending(tmp_path / "prompts" / ".spending.json", Limits(tokens=10**6))
        assert left.reserve("prompts", 0.0, 10**6 - 1)
        (made,) = make(tmp_path, server, two[:1], Limits(tokens=10**6), DEAR)
    assert made.state == "ready", made.message


def test_a_limit_in_dollars_wants_a_price(tmp_path: Path, two: tuple[SourceVideo, ...]) -> None:
    with FaultyServer(Author()) as server:
        result = make(tmp_path, server, two, Limits(usd=1e9), Prices())
        assert {one.state for one in result} == {"unfinished"}
        assert not server.seen
        assert {one.failure for one in result} == {"prerequisite_missing"}
        assert "model 'tiny' has no price; add it with --prices" in result[0].message
        priceless = make(tmp_path, server, two, Limits(tokens=10**9), Prices())
    assert [(one.state, one.usd) for one in priceless] == [("ready", None), ("ready", None)]


def test_answers_that_do_not_fit_are_paid_for_too(tmp_path: Path, two: tuple[SourceVideo, ...]) -> None:
    author = Author(lambda step, text, count: {"description": 5} if step == "describe" else None)
    with FaultyServer(author) as server:
        (result,) = make(tmp_path, server, two[:1], Limits(), DEAR)
        assert (result.state, result.failure, result.usd) == ("failed", "not_understood", 3 * TOKENS)
        author.odd = lambda step, text, count: Reply("no JSON") if step == "describe" else None
        (broken,) = make(tmp_path / "other", server, two[:1], Limits(), DEAR)
        assert (broken.state, broken.calls, broken.usd) == ("failed", 1, TOKENS)


def test_a_dry_run_is_possible_where_answers_never_fit(tmp_path: Path, two: tuple[SourceVideo, ...]) -> None:
    author = Author(lambda step, text, count: {"actions": 5} if step == "actions" else None)
    with FaultyServer(author) as server:
        (result,) = make(tmp_path, server, two[:1], Limits(), DEAR)
        assert result.failure == "not_understood"
        expected = maker(tmp_path, server).estimate(two)
    assert (expected.videos, expected.calls) == (2, ALL)


def test_a_video_that_is_there_twice_is_estimated_once(tmp_path: Path, two: tuple[SourceVideo, ...]) -> None:
    copy = two[0].model_copy(update={"prompt_id": "copy"})
    with FaultyServer(Author()) as server:
        one = replace(maker(tmp_path, server), prices=DEAR)
        expected = one.estimate([*two, copy])
    assert (expected.videos, expected.calls) == (3, 2 * ALL)
    assert expected.usd == pytest.approx(expected.tokens_in + expected.tokens_out)


def test_a_refused_key_ends_the_run(tmp_path: Path, two: tuple[SourceVideo, ...]) -> None:
    with FaultyServer(Author(lambda step, text, count: Reply(status=401))) as server:
        result = make(tmp_path, server, two, Limits(), Prices())
        asked = len(server.seen)
        assert [(one.state, one.failure) for one in result] == [
            ("failed", "not_allowed"),
            ("unfinished", "not_allowed"),
        ]
        assert "refused the key" in result[1].message
        assert "to continue" not in result[1].message
        assert asked == 1


def test_a_server_that_answers_nothing_ends_the_run(
    tmp_path: Path, two: tuple[SourceVideo, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meter, "MOST_IN_A_ROW", 1)
    with FaultyServer(Author(lambda step, text, count: Reply(status=503))) as server:
        result = make(tmp_path, server, two, Limits(), Prices())
    assert [(one.state, one.failure) for one in result] == [
        ("failed", "server_down"),
        ("unfinished", "server_down"),
    ]
    assert result[1].message.startswith("1 requests in a row failed, the last with: ")


def test_a_store_that_is_full_ends_the_run_and_what_was_paid_is_said(
    tmp_path: Path, two: tuple[SourceVideo, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultyServer(Author()) as server:
        with monkeypatch.context() as patched:
            fill(patched, tmp_path / "store" / "suites")
            paid, other = make(tmp_path, server, two, Limits(), DEAR)
        assert (paid.state, paid.failure, paid.calls, paid.usd) == ("failed", "out_of_space", 1, TOKENS)
        assert (other.state, other.calls) == ("unfinished", 0)
        assert len(server.seen) == 1
        assert other.message == paid.message
        assert "no space left below" in other.message
        result = make(tmp_path, server, two, Limits(), DEAR)
    assert [one.state for one in result] == ["ready", "ready"]


def test_a_run_that_cannot_count_ends(
    tmp_path: Path, two: tuple[SourceVideo, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, *_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, "no space")

    with FaultyServer(Author()) as server:
        with monkeypatch.context() as patched:
            patched.setattr(Path, "write_text", full)
            result = make(tmp_path, server, two, Limits(), DEAR)
        assert [(one.state, one.calls) for one in result] == [("failed", 1), ("unfinished", 0)]
        assert all("no space left below" in one.message for one in result)
        assert len(server.seen) == 1


def test_a_run_that_is_ended_makes_no_further_request(
    tmp_path: Path, two: tuple[SourceVideo, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the request that is under way is waited for, and kept."""
    ended, under_way = threading.Event(), threading.Event()
    stop = Meter.stop

    def stopping(self: Meter, why: str) -> None:
        stop(self, why)
        ended.set()

    def odd(step: str, text: str, count: int) -> Any:
        if step == "describe":
            return {"description": f"{FIRST} {count}"}
        if step == "events" and f"{FIRST} 2" in text:
            under_way.set()
            assert ended.wait(60)
        # the first video ends the run only when the second one's request is under way
        if step == "complexity":
            assert under_way.wait(60)
        return {"faults": []} if step == "criticise" else None

    def interrupt(done: int, total: int, note: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Meter, "stop", stopping)
    author = Author(odd)
    with FaultyServer(author) as server:
        maker(tmp_path, server).run(two[:1])
        with pytest.raises(KeyboardInterrupt):
            maker(tmp_path, server, without_review=True).run(two, 2, interrupt)
        assert (author.asked["events"], author.asked["actions"]) == (2, 1)
        asked = len(server.seen)
        result = maker(tmp_path, server, without_review=True).run(two)
        assert [one.state for one in result] == ["ready", "ready"]
        assert author.asked["events"] == 2
        assert len(server.seen) == asked + result[1].calls
