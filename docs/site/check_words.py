"""Find the words that the glossary lists as not used, in code, names and documents, for `make lint`.

A name's underscores count as spaces.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs/glossary.md"
THEMSELVES = {GLOSSARY, Path(__file__), ROOT / "tests/docs/test_words.py"}
FOLDERS = ("bench", "docs", "flows", "infra", "slurm", "slvmeval", "storage_schemas", "tasks", "tests")
#: The table's "is no X": it leaves "there is no X" and "is no longer" alone.
IS_NO = r"(?<!\bthere )(?<!\bhere )\b(?:is|are|was|were|be) no (?!(?:longer|more|one|way|need|such|and)\b)"


def not_used(glossary: str) -> re.Pattern[str]:
    """Return a pattern of what stands in the first column of the glossary's last table."""
    table = glossary.partition("## Words that are not used")[2]
    cells = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)[1:]
    words = [word for cell in cells for word in cell.split(", ") if word != "is no X"]
    return re.compile("|".join([IS_NO, *(rf"\b{re.escape(word)}\b" for word in words)]), re.IGNORECASE)


def uses(text: str, words: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yield number, from 1, and word of each line that uses one."""
    for number, line in enumerate(text.splitlines(), 1):
        if match := words.search(line.replace("_", " ")):
            yield number, match.group().strip()


def main() -> int:
    """Print each use; return 1 if there is one."""
    words = not_used(GLOSSARY.read_text(encoding="utf-8"))
    kinds = ("py", "md", "html", "j2")
    files = {file for folder in FOLDERS for kind in kinds for file in (ROOT / folder).rglob(f"*.{kind}")}
    found = 0
    for file in sorted({*files, *ROOT.glob("*.md")} - THEMSELVES):
        for number, word in uses(file.read_text(encoding="utf-8"), words):
            print(f'{file.relative_to(ROOT)}:{number}: "{word}": write the word of docs/glossary.md')
            found += 1
    return found > 0


if __name__ == "__main__":
    sys.exit(main())
