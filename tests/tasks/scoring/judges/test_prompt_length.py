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
        return [result.end() for result in re.finditer(r"\n|[^\s]{1,3}", text)]

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
    result = fitted(captions, "each-truncate", limit)
    least = sum(min(len(tokens.ends(caption)), 1) for caption in captions) + len(captions) - 1 + 2
    # there is no answer exactly where not even one token of each caption fits
    assert (result is None) == (least > limit)
    if result is None:
        return
    assert tokens.count(result.text) <= limit
    assert result.tokens_read == tokens.count(result.text)
    lines = result.text.split("\n")
    assert len(lines) == len(captions) == result.captions
    # the same captions in the same order, each a beginning of what it was
    assert all(caption.startswith(line) for caption, line in zip(captions, lines, strict=True))
    kept = [len(tokens.ends(line)) for line in lines]
    had = [len(tokens.ends(caption)) for caption in captions]
    cut = [here < there for here, there in zip(kept, had, strict=True)]
    assert sum(cut) == result.captions_cut
    assert result.cut == any(cut)
    if any(cut):
        # all that were cut have the same length, and no caption that was left whole is longer
        (length,) = {here for here, was_cut in zip(kept, cut, strict=True) if was_cut}
        assert length == result.caption_tokens == max(kept)
        # and one token more of each would not fit
        more = sum(min(length + 1, there) for there in had) + len(captions) - 1 + 2
        assert more > limit


@given(CAPTIONS, LIMITS)
@settings(deadline=None)
def test_prompt_that_fits_stays_and_truncate_reads_its_beginning(captions: list[str], limit: int) -> None:
    prompt = "\n".join(captions)
    count = Pieces(limit).count(prompt)
    result = fit_prompt(prompt, "truncate", Pieces(limit))
    # the model's own tokenizer cuts it off there
    assert result.text == prompt
    assert (result.tokens, result.tokens_read, result.most_tokens) == (count, min(count, limit), limit)
    assert result.cut == (count > limit)
    if not result.cut:
        each = fit_prompt(prompt, "each-truncate", Pieces(limit))
        assert (each.text, each.cut) == (prompt, False)
        assert (each.tokens, each.tokens_read, each.most_tokens) == (count, count, limit)


def test_ignore_max_reads_past_the_limit_up_to_its_own() -> None:
    prompt = "abc " * 40_000
    result = fit_prompt(prompt, "ignore-max", Pieces(100))
    assert (result.most_tokens, result.tokens, result.tokens_read) == (31_000, 40_002, 31_000)
    assert result.cut
    assert result.text == prompt
    short = fit_prompt("abc " * 500, "ignore-max", Pieces(100))
    assert not short.cut
    assert short.tokens_read == 502
    # a model with fewer places than that takes what it can
    assert fit_prompt(prompt, "ignore-max", Pieces(100, positions=512)).most_tokens == 512
    assert IGNORE_MAX_TOKENS == 31_000
    with pytest.raises(UserInputError, match=r"positions for 77 tokens only.*each-truncate"):
        fit_prompt("a", "ignore-max", Pieces(77, positions=77))
    assert check_policy("ignore-max") == "ignore-max"
    with pytest.raises(UserInputError, match=r"'cut'.*truncate, ignore-max, each-truncate"):
        check_policy("cut")


def test_details_say_what_was_cut() -> None:
    result = fit_prompt("abc abc abc\nabc\nabc abc", "each-truncate", Pieces(8))
    assert result.text == "abc\nabc\nabc"
    assert result.details() == {
        "policy": "each-truncate",
        "most_tokens": 8,
        "tokens": 10,
        "tokens_read": 7,
        "cut": True,
        "captions": 3,
        "captions_cut": 2,
        "caption_tokens": 1,
    }
