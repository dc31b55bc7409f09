"""What gives way where a prompt is longer than a model reads."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Failure
from tasks.llm.usage import NotJudged
from tasks.scoring.judges.prompt_length import (
    IGNORE_MAX_TOKENS,
    FittedPrompt,
    PromptPolicy,
    check_policy,
    fit_prompt,
)


class Pieces:
    """Counts pieces of up to three letters of a word, and each line break; two marks.

    A piece that is cut off by itself is the same piece, as with the tokenizers of real models.
    """

    def __init__(self, limit: int, positions: int | None = None) -> None:
        self.limit, self.positions = limit, positions

    def ends(self, text: str) -> Sequence[int]:
        return [found.end() for found in re.finditer(r"\n|[^\s]{1,3}", text)]

    def count(self, text: str) -> int:
        return len(self.ends(text)) + 2


CAPTIONS = st.lists(
    st.lists(st.text("abcdé", min_size=1, max_size=9), max_size=12).map(" ".join), min_size=1, max_size=8
)
LIMITS = st.integers(3, 90)


def fitted(captions: Sequence[str], policy: PromptPolicy, limit: int) -> FittedPrompt | None:
    try:
        return fit_prompt("\n".join(captions), policy, Pieces(limit))
    except NotJudged as problem:
        assert problem.failure is Failure.CONTEXT_TOO_LONG
        return None


@given(CAPTIONS, LIMITS)
@settings(deadline=None)
def test_each_truncate_fits_keeps_order_and_cuts_evenly(captions: list[str], limit: int) -> None:
    tokens = Pieces(limit)
    found = fitted(captions, "each-truncate", limit)
    least = sum(min(len(tokens.ends(caption)), 1) for caption in captions) + len(captions) - 1 + 2
    # there is no answer exactly where not even one token of each caption fits
    assert (found is None) == (least > limit)
    if found is None:
        return
    assert tokens.count(found.text) <= limit
    assert found.tokens_read == tokens.count(found.text)
    lines = found.text.split("\n")
    assert len(lines) == len(captions) == found.captions
    # the same captions in the same order, each a beginning of what it was
    assert all(caption.startswith(line) for caption, line in zip(captions, lines, strict=True))
    kept = [len(tokens.ends(line)) for line in lines]
    had = [len(tokens.ends(caption)) for caption in captions]
    cut = [here < there for here, there in zip(kept, had, strict=True)]
    assert sum(cut) == found.captions_cut
    assert found.cut == any(cut)
    if any(cut):
        # all that were cut have the same length, and no caption that was left whole is longer
        (length,) = {here for here, was_cut in zip(kept, cut, strict=True) if was_cut}
        assert length == found.caption_tokens == max(kept)
        # and one token more of each would not fit
        more = sum(min(length + 1, there) for there in had) + len(captions) - 1 + 2
        assert more > limit


@given(CAPTIONS, LIMITS, st.sampled_from(["truncate", "each-truncate"]))
@settings(deadline=None)
def test_what_fits_is_given_as_it_is(captions: list[str], limit: int, policy: PromptPolicy) -> None:
    prompt = "\n".join(captions)
    count = Pieces(limit).count(prompt)
    if count > limit:
        return
    found = fit_prompt(prompt, policy, Pieces(limit))
    assert found.text == prompt
    assert not found.cut
    assert (found.tokens, found.tokens_read, found.most_tokens) == (count, count, limit)


@given(CAPTIONS, LIMITS)
@settings(deadline=None)
def test_truncate_reads_the_beginning(captions: list[str], limit: int) -> None:
    prompt = "\n".join(captions)
    found = fit_prompt(prompt, "truncate", Pieces(limit))
    # the model's own tokenizer cuts it off there
    assert found.text == prompt
    assert found.most_tokens == limit
    assert found.tokens_read == min(found.tokens, limit)
    assert found.cut == (found.tokens > limit)


def test_ignore_max_reads_past_the_limit_up_to_its_own() -> None:
    prompt = "abc " * 40_000
    found = fit_prompt(prompt, "ignore-max", Pieces(100))
    assert (found.most_tokens, found.tokens, found.tokens_read) == (31_000, 40_002, 31_000)
    assert found.cut
    assert found.text == prompt
    short = fit_prompt("abc " * 500, "ignore-max", Pieces(100))
    assert not short.cut
    assert short.tokens_read == 502
    # a model with fewer places than that takes what it can
    assert fit_prompt(prompt, "ignore-max", Pieces(100, positions=512)).most_tokens == 512
    assert IGNORE_MAX_TOKENS == 31_000


def test_a_model_without_places_past_its_limit_cannot_ignore_it() -> None:
    with pytest.raises(UserInputError, match=r"positions for 77 tokens only.*each-truncate"):
        fit_prompt("a", "ignore-max", Pieces(77, positions=77))


def test_an_unknown_policy_is_told_those_there_are() -> None:
    assert check_policy("ignore-max") == "ignore-max"
    with pytest.raises(UserInputError, match=r"'cut'.*truncate, ignore-max, each-truncate"):
        check_policy("cut")


def test_details_say_what_was_cut() -> None:
    found = fit_prompt("abc abc abc\nabc\nabc abc", "each-truncate", Pieces(8))
    assert found.text == "abc\nabc\nabc"
    assert found.details() == {
        "policy": "each-truncate",
        "most_tokens": 8,
        "tokens": 10,
        "tokens_read": 7,
        "cut": True,
        "captions": 3,
        "captions_cut": 2,
        "caption_tokens": 1,
    }
