from __future__ import annotations

from pathlib import Path

import pytest

from tasks.report.owned_folder import OwnedFolder


def test_owned_folder_hides_secrets_of_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGES_API_KEY", "sk-of-a-page")
    owned = OwnedFolder(tmp_path / "report", "files.json")
    owned.write("index.html", b"<p>\xff sk-of-a-page</p>")
    owned.write("a.png", b"sk-of-a-page")
    assert (tmp_path / "report" / "index.html").read_bytes() == b"<p>\xff [PAGES_API_KEY removed]</p>"
    assert (tmp_path / "report" / "a.png").read_bytes() == b"sk-of-a-page"
