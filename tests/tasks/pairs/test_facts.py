"""A video's packets are read once for its inspection and its ingest, unless it changes between them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import Reason, SetAside
from tasks.pairs import facts


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the files that were opened, as they are opened."""
    files: list[Path] = []

    class Sampler:
        def __init__(self, path: Path, **_: Any) -> None:
            if not path.exists():
                raise SetAside(Reason.VIDEO_MISSING, str(path))
            files.append(path)

    facts._sampler.cache_clear()
    monkeypatch.setattr(facts, "FrameSampler", Sampler)
    return files


def sampler(path: Path, fps: int = 1) -> Any:
    return facts.video_sampler(str(path), Fraction(fps), 512, "refuse")


def test_video_sampler_is_the_last_one_until_the_file_changes(opened: list[Path], tmp_path: Path) -> None:
    one, two = tmp_path / "one.mp4", tmp_path / "two.mp4"
    one.write_bytes(b"1")
    two.write_bytes(b"2")
    assert sampler(one) is sampler(one)
    sampler(two)
    sampler(one)
    first = sampler(one, fps=2)
    one.write_bytes(b"12")
    assert sampler(one, fps=2) is not first
    one.unlink()
    with pytest.raises(SetAside):
        sampler(one, fps=2)
    assert opened == [one, two, one, one, one]
