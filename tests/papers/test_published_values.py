"""SLVMEval's published values, against the paper's text if it is at hand."""

from __future__ import annotations

import re

from tasks.report.published import read_published
from tests.papers.at_hand import paper_text

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
