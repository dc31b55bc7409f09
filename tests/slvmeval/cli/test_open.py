"""The address of the store's page, which is its key, is not on the command line of the browser."""

from __future__ import annotations

from pathlib import Path

from slvmeval.cli.store.status import _redirection


def test_the_browser_gets_a_page_that_leads_to_the_address(tmp_path: Path) -> None:
    page = _redirection(tmp_path, 'http://127.0.0.1:1/?key=a&b="c"')
    assert "127.0.0.1" not in page.as_uri()
    assert 'content="0; url=http://127.0.0.1:1/?key=a&amp;b=&quot;c&quot;"' in page.read_text()
