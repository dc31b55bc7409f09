"""The papers' texts, in the folder that SLVMEVAL_PAPER_TEXTS names; they are not part of the project."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("SLVMEVAL_PAPER_TEXTS", "build/papers"))
#: What the beginning of each text has; SLVMEval's short version in Japanese is another text.
_BEGINS = {
    "SLVMEval": "SLVMEval: Synthetic",
    "SLVMEval JA": "長尺動画生成タスク",
    "Video-Bench": "Video-Bench",
    "LoCoT2V-Bench": "LoCoT2V-Bench",
}


def paper_text(name: str) -> str:
    """Return the text of a paper, or skip the test, saying so."""
    begins = _BEGINS[name]
    for path in sorted(FOLDER.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        if begins in text[:200] and (name != "SLVMEval" or "Appendix" in text):
            return text
    pytest.skip(f"no text of {name} in {FOLDER}: the numbers are not held against it")


def printed_numbers(line: str) -> list[str]:
    """Return the numbers of a printed row without its first cell, as they stand there."""
    bare = re.sub(r"</?b>|\[\d+\]", "", line).replace("−", "-")
    return re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?", bare.partition("\t")[2])
