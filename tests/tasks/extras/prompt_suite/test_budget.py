"""What a run may take, and what ends it: limits, a key that is refused, a server that is gone, a kill."""

from __future__ import annotations

import errno
import json
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.extras.prompt_suite.maker import Made
from tasks.extras.prompt_suite.videos import SourceVideo
from tasks.llm import meter
from tasks.llm.chat import ChatClient
from tasks.llm.exchange import ChatAnswer, ChatRequest
from tasks.llm.limits import Limits, Spending
from tasks.llm.meter import Meter
from tasks.llm.usage import Price, Prices
from tests.storage_schemas.full_disk import fill
from tests.tasks.extras.prompt_suite.author import CALLS_TO_DRAFT, CALLS_TO_END, FIRST, Writing, sensible
from tests.tiny_models.faulty_server import Reply

Videos = tuple[SourceVideo, ...]
ALL = CALLS_TO_DRAFT + CALLS_TO_END
#: As the server says of each request.
TOKENS = 120
#: A dollar a token.
DEAR = Prices(models={"tiny": Price(input_per_million=1e6, output_per_million=1e6)})


def make(writing: Writing, videos: Videos, limits: Limits | None = None, prices: Prices = DEAR) -> list[Made]:
    one = replace(writing.maker(without_review=True), limits=limits or Limits(), prices=prices)
    return one.run(videos, concurrency=1)


@pytest.mark.parametrize(("unit", "least"), [("tokens", "1 tokens"), ("usd", "1.0 dollars")])
def test_limit_ends_a_run_and_the_next_resumes(writing: Writing, two: Videos, unit: str, least: str) -> None:
    def limited(most: float) -> Made:
        return make(writing, two[:1], Limits.model_validate({unit: most}))[0]

    most = ALL * TOKENS - 1
    nothing = limited(1)
    assert (nothing.state, nothing.calls, nothing.failure) == ("unfinished", 0, "limit_reached")
    assert f"the limit of {least} is too small" in nothing.message
    assert float(nothing.message.partition("expected to take ")[2].partition(":")[0]) > 1
    assert "to continue" not in nothing.message
    assert not writing.server.seen
    some = limited(most)
    assert some.state == "unfinished"
    assert 0 < some.calls < ALL
    assert some.message.endswith("is reached: run the same command again to continue")
    assert some.usd == some.calls * TOKENS <= most
    (rest,) = make(writing, two[:1])
    assert (rest.state, some.calls + rest.calls, len(writing.server.seen)) == ("ready", ALL, ALL)
    # what is kept costs nothing, so that no limit stands in its way
    again = limited(0)
    assert (again.state, again.calls, again.usd) == ("ready", 0, 0.0)
    assert not list((writing.folder / "prompts").glob(".spending*"))


def test_what_a_killed_run_spent_counts_for_no_other(writing: Writing, two: Videos) -> None:
    left = Spending(writing.folder / "prompts" / ".spending.json", Limits(tokens=10**6))
    assert left.reserve("prompts", 0.0, 10**6 - 1)
    (made,) = make(writing, two[:1], Limits(tokens=10**6))
    assert made.state == "ready", made.message


def test_a_limit_in_dollars_wants_a_price(writing: Writing, two: Videos) -> None:
    result = make(writing, two, Limits(usd=1e9), Prices())
    assert {(one.state, one.failure) for one in result} == {("unfinished", "prerequisite_missing")}
    assert not writing.server.seen
    assert "model 'tiny' has no price; add it with --set prices=…" in result[0].message
    priceless = make(writing, two, Limits(tokens=10**9), Prices())
    assert [(one.state, one.usd) for one in priceless] == [("ready", None)] * 2


def test_answers_that_do_not_fit_are_paid_for_too(writing: Writing, two: Videos) -> None:
    writing.author.odd = lambda step, text, count: {"description": 5} if step == "describe" else None
    (result,) = make(writing, two[:1])
    assert (result.state, result.failure, result.usd) == ("failed", "not_understood", 3 * TOKENS)
    writing.author.odd = lambda step, text, count: Reply("no JSON") if step == "describe" else None
    (broken,) = make(replace(writing, folder=writing.folder / "other"), two[:1])
    assert (broken.state, broken.calls, broken.usd) == ("failed", 1, TOKENS)


def test_rejected_requests_are_asked_again_and_uncounted_ones_cost_their_estimate(
    writing: Writing, two: Videos
) -> None:
    writing.author.odd = lambda step, text, count: Reply(status=400) if step == "events" else None
    (rejected,) = make(writing, two[:1])
    assert (rejected.state, rejected.failure, rejected.usd) == ("failed", "refused", CALLS_TO_DRAFT * TOKENS)
    uncounted = json.dumps({"choices": [{"message": {"content": json.dumps(sensible("events", ""))}}]})
    writing.author.odd = lambda step, text, count: (
        Reply(body=uncounted.encode()) if step == "events" else None
    )
    expected = replace(writing.maker(), prices=DEAR).estimate(two[:1])
    (made,) = make(writing, two[:1])
    # a person waits for each prompt, and may have changed what was rejected
    assert (made.state, made.calls) == ("ready", CALLS_TO_END)
    counted = (CALLS_TO_END - 1) * TOKENS
    assert made.usd is not None
    assert counted < made.usd < counted + (expected.usd or 0)


def test_what_a_dry_run_counts(writing: Writing, two: Videos) -> None:
    copy = two[0].model_copy(update={"prompt_id": "copy"})
    one = replace(writing.maker(), prices=DEAR)
    expected = one.estimate([*two, copy])
    assert (expected.videos, expected.calls) == (3, 2 * ALL), "a video that is there twice is paid for once"
    assert expected.usd == pytest.approx(expected.tokens_in + expected.tokens_out)
    writing.author.odd = lambda step, text, count: {"actions": 5} if step == "actions" else None
    (result,) = make(writing, two[:1])
    assert result.failure == "not_understood"
    expected = one.estimate(two)
    assert (expected.videos, expected.calls) == (2, ALL), "one whose answers never fit, and one that is open"


@pytest.mark.parametrize(
    ("status", "failure", "message"),
    [
        (401, "not_allowed", "refused the key"),
        (503, "server_down", "^1 requests in a row failed, the last with: "),
    ],
)
def test_a_server_that_answers_nobody_ends_the_run(
    writing: Writing, two: Videos, monkeypatch: pytest.MonkeyPatch, status: int, failure: str, message: str
) -> None:
    if status == 503:
        monkeypatch.setattr(meter, "MAX_IN_A_ROW", 1)
    writing.author.odd = lambda step, text, count: Reply(status=status)
    first, second = make(writing, two, prices=Prices())
    assert (first.state, first.failure) == ("failed", failure)
    assert (second.state, second.failure) == ("unfinished", failure)
    assert re.search(message, second.message)
    if status == 401:
        assert "to continue" not in second.message
        assert len(writing.server.seen) == 1


def test_full_store_ends_a_run(writing: Writing, two: Videos, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        fill(patched, writing.folder / "store" / "suites")
        paid, other = make(writing, two)
    assert (paid.state, paid.failure, paid.calls, paid.usd) == ("failed", "out_of_space", 1, TOKENS)
    assert (other.state, other.calls, other.message) == ("unfinished", 0, paid.message)
    assert len(writing.server.seen) == 1
    assert "no space left below" in other.message
    assert [one.state for one in make(writing, two)] == ["ready", "ready"]


def test_a_run_that_cannot_count_ends(writing: Writing, two: Videos, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, *_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        result = make(writing, two)
    assert [(one.state, one.calls) for one in result] == [("failed", 1), ("unfinished", 0)]
    assert all("no space left below" in one.message for one in result)
    assert len(writing.server.seen) == 1


def test_ended_run_asks_no_more(writing: Writing, two: Videos, monkeypatch: pytest.MonkeyPatch) -> None:
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
    writing.author.odd = odd
    writing.maker().run(two[:1])
    with pytest.raises(KeyboardInterrupt):
        writing.maker(without_review=True).run(two, 2, interrupt)
    assert (writing.author.asked["events"], writing.author.asked["actions"]) == (2, 1)
    asked = len(writing.server.seen)
    result = writing.maker(without_review=True).run(two)
    assert [one.state for one in result] == ["ready", "ready"]
    assert writing.author.asked["events"] == 2
    assert len(writing.server.seen) == asked + result[1].calls


def test_after_a_kill_nothing_is_paid_for_twice(
    writing: Writing, two: Videos, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        """Ends a process at once, as kill -9 does."""

    ask = ChatClient.ask

    def killed_amid_the_questions(self: ChatClient, request: ChatRequest) -> ChatAnswer:
        if writing.author.asked["questions"] == 3:
            raise Killed
        return ask(self, request)

    with monkeypatch.context() as patched:
        patched.setattr(ChatClient, "ask", killed_amid_the_questions)
        with pytest.raises(Killed):
            make(writing, two[:1])
    answered = len(writing.server.seen)
    (made,) = make(writing, two[:1])
    assert (made.state, answered + made.calls, len(writing.server.seen)) == ("ready", ALL, ALL)
