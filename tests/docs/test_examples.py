"""The Python on the pages runs, in the order in which it stands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import reading

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/python-api.md"])
def test_python_on_a_page_runs(
    page: str, example_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(example_folder)
    names: dict[str, object] = {}
    result = reading.blocks(ROOT / page, "python")
    assert result
    for block in result:
        # blank lines before it, so that a traceback names the page's own line
        code = compile("\n" * block.line + block.text, page, "exec")
        exec(code, names)
    assert capsys.readouterr().out
    assert names["image" if page.startswith("docs") else "picture"] is not None
