"""The example of docs/statistics.md prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import reading

PAGE = Path(__file__).parents[3] / "docs" / "statistics.md"


def test_the_worked_example_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    (code,), (printed,) = reading.blocks(PAGE, "python"), reading.blocks(PAGE, "text")
    exec(compile("\n" * code.line + code.text, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == printed.text
