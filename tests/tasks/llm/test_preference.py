"""The probability of "first" from the log probabilities of tokens, however a vocabulary cuts the words."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.llm.exchange import ChatAnswer
from tasks.llm.preference import first_share
from tasks.llm.providers.openai_chat import read_answer

Token = tuple[str, dict[str, float]]


def answer(*tokens: Token | str) -> ChatAnswer:
    """Return an answer of tokens; one without chances is certain."""
    given = tuple((one, {one: 0.0}) if isinstance(one, str) else one for one in tokens)
    return ChatAnswer(text="".join(token for token, _ in given), logprobs=given)


def chances(**shares: float) -> dict[str, float]:
    return {word.replace("_", '"'): math.log(share) for word, share in shares.items()}


@pytest.mark.parametrize(
    ("tokens", "share"),
    [
        (('{"', "better", '":', ' "', ("first", chances(first=0.6, second=0.2)), '"}'), 0.75),
        # parts of a word, other letter case, and words that are neither
        (('{"better": "', ("f", chances(f=0.3, s=0.1, First=0.3, sec=0.1, the=0.2)), 'irst"}'), 0.75),
        # the quotation mark belongs to the token
        (('{"better":', (' "second', {' "second': math.log(0.4), ' "first': math.log(0.1)}), '"}'), 0.2),
        # the other word is not at the top
        (('{"better": "', ("second", chances(second=0.9)), '"}'), 0.0),
        # the form is quoted in the reasoning
        (('<think>{"better": "first"}?</think>{"better": "',
          ("second", chances(first=0.25, second=0.75)), '"}'), 0.25),
        # without JSON
        ((("First", chances(First=0.5, Second=0.5)), " video"), 0.5),
        # nothing decides
        (('{"better": "', ("third", chances(third=1.0)), '"}'), None),
        (('{"worse": "', ("first", chances(first=0.5, second=0.5)), '"}'), None),
        (("The ", ("first", chances(first=0.5, second=0.5))), None),
        ((), None),
    ],
)  # fmt: skip
def test_deciding_token_gives_both_shares(tokens: tuple[Token | str, ...], share: float | None) -> None:
    assert first_share(answer(*tokens)) == (None if share is None else pytest.approx(share))


@given(st.floats(0.001, 0.999), st.integers(0, 6), st.integers(1, 6))
def test_where_a_vocabulary_cuts_does_not_matter(share: float, before: int, letters: int) -> None:
    start, word = '{"better": "', "second"
    cut = len(start) - before
    prefix = start[cut:]
    token = prefix + word[:letters]
    odds = {token: math.log(1 - share), prefix + "first"[:letters]: math.log(share)}
    made = answer(start[:cut], (token, odds), f'{word[letters:]}"}}')
    assert first_share(made) == pytest.approx(share)


@pytest.mark.parametrize("logprobs", [None, [], {"content": None}, {"content": [None, {"token": 3}, {}]}])
def test_odd_log_probabilities_cost_no_answer(logprobs: object) -> None:
    choice = {"message": {"content": '{"better": "first"}'}, "logprobs": logprobs}
    read = read_answer({"choices": [choice]})
    assert read.text == '{"better": "first"}'
    assert first_share(read) is None
