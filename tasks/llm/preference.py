"""How probable a model found each of two words of its answer, from the log probabilities of its tokens."""

from __future__ import annotations

import math
import re
from typing import Any

from tasks.llm.exchange import ChatAnswer

#: Number of log probabilities requested for each token: both words are among them unless one is very
#: unlikely.
TOP_LOGPROBS = 10
_BEFORE = " \t\r\n\"'`:{*"


def first_share(
    answer: ChatAnswer, key: str = "better", words: tuple[str, str] = ("first", "second")
) -> float | None:
    """Return the probability of the first of two words over that of both, at the token that decides.

    That is the token with which the value of `key` begins in the answer's JSON object, or with which an
    answer without JSON begins. Each alternative token counts for the word that it begins or equals; a word
    without any counts 0.

    Returns
    -------
    float or None
        None if the server gave no log probabilities, or none for either word.
    """
    text = "".join(token for token, _ in answer.logprobs)
    ends = [match.end() for match in re.finditer(rf'"{re.escape(key)}"\s*:\s*"\s*', text)]
    if not ends and text.strip(_BEFORE).casefold().startswith(words):
        ends = [len(text) - len(text.lstrip(_BEFORE))]
    end = 0
    for token, chances in answer.logprobs:
        begin, end = end, end + len(token)
        # the last match: a model may quote the format in its reasoning
        if ends and begin <= ends[-1] < end:
            return _share(chances, token[: ends[-1] - begin], words)
    return None


def _share(chances: dict[str, float], before: str, words: tuple[str, str]) -> float | None:
    sums = dict.fromkeys(words, 0.0)
    for token, logprob in chances.items():
        own = token.removeprefix(before) if token.startswith(before) else token
        begun = own.lstrip(_BEFORE).casefold()
        for word in words:
            if begun and (word.startswith(begun) or re.match(rf"{word}\b", begun)):
                sums[word] += math.exp(min(logprob, 0.0))
    total = sum(sums.values())
    return sums[words[0]] / total if total else None


def preference_in(answer: ChatAnswer) -> dict[str, Any]:
    """Return the preference for a judgement's details; empty without log probabilities."""
    share = first_share(answer)
    return {} if share is None else {"p_first": round(share, 6)}
