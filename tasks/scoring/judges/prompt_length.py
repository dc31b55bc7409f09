"""Policies for prompts longer than a model's context (SLVMEval, appendix F.2).

``truncate``: cut at the model's own limit. ``ignore-max``: all of it, up to 31,000
tokens. ``each-truncate``: every caption (a line of the prompt) loses its end so that the whole fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from storage_schemas.errors import UserInputError
from storage_schemas.judgements import Failure
from tasks.llm.usage import NotJudged

PromptPolicy = Literal["truncate", "ignore-max", "each-truncate"]
POLICIES: tuple[PromptPolicy, ...] = get_args(PromptPolicy)

#: Maximum tokens under ``ignore-max`` (SLVMEval, appendix F.2: limited by GPU memory).
IGNORE_MAX_TOKENS = 31_000


class Tokens(Protocol):
    """A model's token counter."""

    @property
    def limit(self) -> int:
        """Maximum tokens the model is made for, including start and end marks."""

    @property
    def positions(self) -> int | None:
        """Maximum tokens it can accept at all; None for no limit."""

    def count(self, text: str) -> int:
        """Return the number of a text's tokens, including start and end marks."""

    def ends(self, text: str) -> Sequence[int]:
        """Return the end of each token in characters, ascending, without marks."""


class ApproximateTokens:
    """Counts a text's tokens by its characters, for a model whose tokenizer is not here."""

    positions = None

    def __init__(self, limit: int, characters_per_token: float) -> None:
        self.limit, self._characters = limit, characters_per_token

    def count(self, text: str) -> int:
        """Return the approximate number of a text's tokens."""
        return math.ceil(len(text) / self._characters)

    def ends(self, text: str) -> Sequence[int]:
        """Return the approximate end of each token in characters."""
        return [min(len(text), round(self._characters * n)) for n in range(1, self.count(text) + 1)]


@dataclass(frozen=True)
class FittedPrompt:
    """A prompt fitted to a model's context.

    Parameters
    ----------
    policy
        By which it was fitted.
    text
        What is given to the model.
    most_tokens
        Where the model's tokenizer cuts it off.
    tokens, tokens_read
        Of the whole prompt, and of what is read.
    captions, captions_cut
        Lines of the prompt, and how many of them lost their end by ``each-truncate``.
    caption_tokens
        Most tokens of a caption by ``each-truncate``; None where none was cut.
    """

    policy: PromptPolicy
    text: str
    most_tokens: int
    tokens: int
    tokens_read: int
    captions: int
    captions_cut: int = 0
    caption_tokens: int | None = None

    @property
    def cut(self) -> bool:
        """Whether any part is not read."""
        return self.tokens_read < self.tokens or self.captions_cut > 0

    def details(self) -> dict[str, Any]:
        """Return policy and counts, JSON-compatible, for a judgement's details."""
        return {
            "policy": self.policy,
            "most_tokens": self.most_tokens,
            "tokens": self.tokens,
            "tokens_read": self.tokens_read,
            "cut": self.cut,
            "captions": self.captions,
            "captions_cut": self.captions_cut,
            "caption_tokens": self.caption_tokens,
        }


def check_policy(policy: str) -> PromptPolicy:
    """Return a policy by its name.

    Raises
    ------
    UserInputError
        With those there are.
    """
    for allowed in POLICIES:
        if policy == allowed:
            return allowed
    raise UserInputError(f"there is no prompt policy {policy!r}: choose one of {', '.join(POLICIES)}")


def check_positions(positions: int | None, limit: int) -> None:
    """Raise UserInputError if the model cannot accept more tokens than it is made for."""
    if positions is not None and positions <= limit:
        raise UserInputError(
            f"this model has positions for {positions} tokens only, so the prompt policy "
            "'ignore-max' is not possible: choose truncate or each-truncate, or another model"
        )


def most_tokens(policy: PromptPolicy, tokens: Tokens) -> int:
    """Return the number of tokens a model reads under a policy.

    Raises
    ------
    UserInputError
        For ``ignore-max`` with a model that cannot accept more than it is made for.
    """
    if policy != "ignore-max":
        return tokens.limit
    check_positions(tokens.positions, tokens.limit)
    return min(IGNORE_MAX_TOKENS, tokens.positions or IGNORE_MAX_TOKENS)


def fit_prompt(prompt: str, policy: PromptPolicy, tokens: Tokens) -> FittedPrompt:
    """Fit a prompt to a model's context.

    Parameters
    ----------
    prompt
        All captions, one a line.
    policy
        How to shorten a prompt that is too long.
    tokens
        How the model counts.

    Raises
    ------
    NotJudged
        `context_too_long` where ``each-truncate`` cannot leave one token of every caption.
    UserInputError
        As :func:`most_tokens`.
    """
    most = most_tokens(policy, tokens)
    count = tokens.count(prompt)
    captions = prompt.split("\n")
    if count <= most or policy != "each-truncate":
        return FittedPrompt(policy, prompt, most, count, min(count, most), len(captions))
    ends = [tokens.ends(caption) for caption in captions]

    def shortened(length: int) -> str:
        return "\n".join(
            caption if len(caption_ends) <= length else caption[: caption_ends[length - 1]]
            for caption, caption_ends in zip(captions, ends, strict=True)
        )

    length = _longest(max(map(len, ends)), lambda length: tokens.count(shortened(length)) <= most)
    if not length:
        raise NotJudged(
            Failure.CONTEXT_TOO_LONG,
            f"{most} tokens do not hold one token of each of {len(captions)} captions (each-truncate)",
        )
    text = shortened(length)
    cut = sum(len(caption_ends) > length for caption_ends in ends)
    return FittedPrompt(policy, text, most, count, tokens.count(text), len(captions), cut, length)


def _longest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the longest length up to `most` that fits, assuming shorter texts have fewer tokens; else 0."""
    least, above = 0, most + 1
    while above - least > 1:
        middle = (least + above) // 2
        if fits(middle):
            least = middle
        else:
            above = middle
    return least
