"""The lint of words finds the words of the glossary's table in sentences and in names, and nothing else."""

import pytest

from docs.site.check_words import GLOSSARY, not_used, uses

WORDS = not_used(GLOSSARY.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("The file is no JSON.", "is no"),
        ("def test_a_folder_is_no_file():", "is no"),
        ("Then it goes on.", "goes on"),
        ("proxies_are_mended = 1", "mended"),
        ("There is no file, and it is no longer needed.", None),
        ("Recommended: the amended file.", None),
    ],
)  # fmt: skip
def test_uses_finds_the_words_of_the_table(line: str, word: str | None) -> None:
    assert list(uses(f"first\n{line}\n", WORDS)) == ([(2, word)] if word else [])
