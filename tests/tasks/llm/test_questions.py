"""Questions to one server, each asked again until its answer is valid."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from storage_schemas.errors import PrerequisiteError
from tasks.llm.answers import UnusableAnswer
from tasks.llm.exchange import ChatAnswer, ChatRequest, Sampling
from tasks.llm.questions import Question, Unanswered, as_data, ask_questions, whole_text
from tasks.llm.servers import ChatServer
from tests.tiny_models.faulty_server import FaultyServer, Reply


class Number(Question[int]):
    """Wants a whole number; an answer of another kind is shown to the model again."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def request(self) -> ChatRequest:
        content = " ".join([self.name, *self.unfit])
        sampling = Sampling(seed=len(self.unfit))
        return ChatRequest(messages=({"role": "user", "content": content},), sampling=sampling)

    def accepted(self, answer: ChatAnswer) -> int:
        _, text = whole_text(answer, 99)
        if not text.isdigit():
            raise UnusableAnswer(f"{text} is not a number")
        return int(text)


def ask(server: FaultyServer, questions: Sequence[Number], tries: int = 3) -> dict[str, Any]:
    """Return the result of each question, in the order in which they came."""
    results: dict[str, Any] = {}

    def on_result(question: Number, result: Any) -> None:
        assert question.name not in results, "one result each"
        results[question.name] = result

    asked = ChatServer(name="s", url=server.url, model="tiny", patience_s=1.0)
    ask_questions(asked, questions, tries, "numbers", "number", on_result, "leave it out")
    return results


def by_name(**replies: Reply) -> FaultyServer:
    """Return a server that answers by the first word of a request; the first time only, then 7."""
    first = dict(replies)
    return FaultyServer(lambda _, body: first.pop(body["messages"][0]["content"].split()[0], Reply("7")))


def numbers(*names: str) -> list[Number]:
    return [Number(name) for name in names]


def test_each_question_has_one_result_as_answers_arrive() -> None:
    there = {name: threading.Event() for name in "ac"}

    class Noted(Number):
        def accepted(self, answer: ChatAnswer) -> int:
            there[self.name].set()
            return super().accepted(answer)

    def b_last(_: int, body: dict[str, Any]) -> Reply:
        name = body["messages"][0]["content"]
        assert name != "b" or all(other.wait(60) for other in there.values())
        return Reply(str("abc".index(name)))

    with FaultyServer(b_last) as server:
        results = ask(server, [Noted("a"), Number("b"), Noted("c")])
        assert results == {"a": 0, "b": 1, "c": 2}
        assert list(results)[-1] == "b"
        assert ask(server, []) == {}
        assert len(server.seen) == 3


def test_an_invalid_answer_is_asked_for_again_by_the_question_itself() -> None:
    question = Number("a")
    with by_name(a=Reply("one")) as server:
        assert ask(server, [question]) == {"a": 7}
    first, second = (seen.body for seen in server.seen)
    assert (first["seed"], second["seed"]) == (0, 1)
    assert second["messages"][0]["content"] == "a one is not a number"
    assert [answer.text for answer in question.answers] == ["one", "7"], "the raw text of each stays"
    assert question.unfit == ["one is not a number"]


def test_attempts_are_limited_and_each_reason_is_given_once() -> None:
    with FaultyServer([Reply("one"), Reply("two"), Reply("one"), Reply("7")]) as server:
        results = ask(server, numbers("a"), tries=3)
        assert len(server.seen) == 3
    message = "tiny gave no number in 3 attempts: one is not a number; two is not a number"
    assert results == {"a": Unanswered(message=message)}


REFUSED = Reply(status=400, text="no field seed")


def test_a_refused_request_is_not_sent_again_and_does_not_affect_the_others() -> None:
    with by_name(b=REFUSED) as server:
        results = ask(server, numbers("a", "b", "c"))
        assert len(server.seen) == 3
    assert (results["a"], results["c"], results["b"].refused) == (7, 7, True)
    assert "no field seed" in results["b"].message


def test_a_server_that_refuses_all_for_one_reason_cannot_be_used() -> None:
    said = r"server s at .* rejected all 3 numbers .*no field seed.*leave it out"
    with FaultyServer([REFUSED]) as server, pytest.raises(PrerequisiteError, match=said):
        ask(server, numbers("a", "b", "c"))


def test_equal_rejections_end_before_all_are_sent() -> None:
    with FaultyServer([REFUSED]) as server:
        with pytest.raises(PrerequisiteError, match="rejected all 10 numbers"):
            ask(server, numbers(*(f"n{number}" for number in range(400))))
        # those that were under way are ended
        assert len(server.seen) < 100


@pytest.mark.parametrize(
    "third",
    [{}, {"c": Reply(status=400, text="another reason")}, {"c": Reply("7")}, {"c": Reply("one")}],
    ids=["two are too few to tell", "for two reasons", "but one", "one is invalid"],
)
def test_refusals_that_differ_are_those_of_each_question(third: dict[str, Reply]) -> None:
    replies = {"a": REFUSED, "b": REFUSED} | third
    with by_name(**replies) as server:
        results = ask(server, numbers(*replies), tries=1)
    assert results.keys() == replies.keys()
    assert isinstance(results["a"], Unanswered)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ChatAnswer(text="7", finish_reason="length"), "cut off after 99 tokens"),
        (ChatAnswer(text=" \n"), "it is empty"),
        (ChatAnswer(text="<think>Seven.</think> "), "nothing after the reasoning"),
        (ChatAnswer(text="<think>Seven."), "reasoning did not end"),
    ],
)
def test_an_answer_without_a_whole_text_is_invalid(answer: ChatAnswer, reason: str) -> None:
    with pytest.raises(UnusableAnswer, match=reason):
        whole_text(answer, 99)


def test_reasoning_is_split_from_the_text() -> None:
    for answer in (ChatAnswer(text="<think>Seven.</think> 7"), ChatAnswer(text=" 7\n", reasoning="Seven.")):
        assert whole_text(answer, 99) == ("Seven.", "7")


def test_data_can_neither_end_its_message_nor_break_its_encoding() -> None:
    assert as_data(caption="<|im_end|> \ud800") == '{"caption": "\\u003c|im_end|> ?"}'
