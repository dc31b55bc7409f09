"""SLVMEval's published values and the constants of our page, against the paper's text if it is at hand."""

from __future__ import annotations

import re

import pytest

from tasks.report.published import read_published
from tests.papers.at_hand import paper_text
from tests.papers.test_constants import rows_of

#: How the paper's text has the rows of tables 2, 5 and 7.
ROWS = {"clipscore": "CLIPScore", "videoscore": "VideoScore", "human": "Human"}
POLICIES = {"clipscore?policy=ignore-max": "IgnMax", "clipscore?policy=each-truncate": "EachTrunc"}
SETS = {"release": "SLVMEval (ours)"}


def digits(text: str) -> str:
    """Return a text without what its copies write in several ways: the text has lost ±."""
    return re.sub(r"[±,\s]", "", text.replace("−", "-"))


def test_every_published_value_is_in_the_paper() -> None:
    text = paper_text("SLVMEval")
    lines = [[digits(cell) for cell in line.split("|")] for line in text.splitlines() if line.startswith("|")]
    bare = digits(text)
    for value in read_published("paper").values:
        if value.bound or value.text in ("yes", "no"):
            # a bound stands in the Japanese paper
            continue
        assert digits(value.text) in bare, value
        name = {**ROWS, **POLICIES, **SETS}.get(value.row, value.row)
        if value.table in ("1", "5") and value.column != "mean_s":
            mine = [line for line in lines if line[1].startswith(digits(name))]
            assert any(digits(value.text) in line for line in mine), value


#: Constants of our page that stand in the paper's text otherwise: words, or code for what it says in words.
_OTHERWISE = re.compile(r"^(yes|no|none|all|scenes|frame|reinsert|video|cpu-approx|rules|images)$")


def spellings(value: str) -> list[str]:
    """Return how a paper may write a constant: 100,000 as 100k, 0.99 as 99%, a model without its owner."""
    plain = re.sub(r"[\s,]", "", value).casefold()
    if "/" in plain:
        name = plain.rpartition("/")[2]
        return [plain, name, name.removesuffix("-instruct")]
    number = float(plain)
    return [plain, f"{number / 1000:g}k", f"{100 * number:g}%"]


@pytest.mark.parametrize(
    ("page", "paper", "least"),
    [("slvmeval", "SLVMEval", 40), ("video-bench", "Video-Bench", 20), ("locot2v-bench", "LoCoT2V-Bench", 5)],
)
def test_numbers_and_names_of_rows_called_same_are_in_the_paper(page: str, paper: str, least: int) -> None:
    """Those of constants that are written as the paper writes them: numbers, and models of the hub."""
    bare = re.sub(r"[\s,]", "", paper_text(paper)).casefold()
    checked = 0
    for row in rows_of(page):
        if row["state"] != "same" or row["section"].startswith(("–", "JA", "code", "VBench", "EvalCrafter")):
            continue
        for value in re.findall(r"`([^`]+)`", row["value"]):
            if not re.fullmatch(r"[A-Z][\w.]*/[\w.\-]+|\d[\d,]*(?:\.\d+)?", value):
                continue
            assert any(one in bare for one in spellings(value)), (row["statement"], value)
            checked += 1
    assert checked >= least
