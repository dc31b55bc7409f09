"""Words and lengths of prompt suites as tables (LoCoT2V-Bench, appendix B.3)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from tasks.extras.prompt_suite.complexity import words_in
from tasks.report.table import Column, Table
from tasks.scoring.suites.base import SuitePrompt

#: Words of one step of the table of lengths.
STEP = 50
#: Words of the table of words.
MAX_WORDS = 80
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
#: English words that say nothing of what a prompt is about.
_FUNCTION_WORDS = frozenset(
    "a about above across after against all along also although am among an and another any are around as "
    "at away back be because been before behind being below beneath beside between beyond both but by can "
    "could did do does down during each either else ever every few for from further had has have he her "
    "here hers him his how i if in inside into is it its itself just like many may might more most much "
    "must my near neither no nor not now of off on once one only onto or other others our out outside "
    "over own per same several she should since so some such than that the their theirs them then there "
    "these they this those though through throughout to together too toward towards under until up upon "
    "us used using very was we were what when where whether which while who whom whose why will with "
    "within without would yet you your".split()
)


def counted_words(prompts: Sequence[SuitePrompt]) -> list[tuple[str, int]]:
    """Return the most frequent words, without English function words, in lower case; ties by the alphabet.

    Words are letters with inner apostrophes and hyphens.
    """
    counts = Counter(
        word
        for prompt in prompts
        for word in _WORD.findall(prompt.text.lower())
        if len(word) > 1 and word not in _FUNCTION_WORDS
    )
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_WORDS]


def length_table(suites: Mapping[str, Sequence[SuitePrompt]]) -> Table:
    """Return how many prompts of each suite have how many words, in steps of `STEP` words."""
    bins = {name: Counter(words_in(one.text) // STEP for one in prompts) for name, prompts in suites.items()}
    rows = [
        {"suite": name, "least": count * STEP, "below": (count + 1) * STEP, "prompts": counts[count]}
        for name, counts in bins.items()
        if counts
        for count in range(min(counts), max(counts) + 1)
    ]
    columns = (
        Column("suite", "suite"),
        Column("least", "words from", "count"),
        Column("below", "below", "count"),
        Column("prompts", "prompts", "count"),
    )
    return Table("prompt-lengths", "Lengths of prompts", columns, tuple(rows), "Words as in the table above.")


def word_table(suites: Mapping[str, Sequence[SuitePrompt]]) -> Table:
    """Return the most frequent words of all suites together."""
    words = counted_words([prompt for prompts in suites.values() for prompt in prompts])
    return Table(
        "prompt-words",
        "Frequent words",
        (Column("word", "word"), Column("count", "count", "count")),
        tuple({"word": word, "count": count} for word, count in words),
        f"The {MAX_WORDS} most frequent words of all prompts, without English function words.",
        "" if words else "The prompts have no words.",
    )
