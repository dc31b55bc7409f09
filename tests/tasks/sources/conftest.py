from __future__ import annotations

from pathlib import Path

import pytest

from tests.tasks.sources.vript_layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "Vript")
