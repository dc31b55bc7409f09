"""A small source with frames, as the pair tests need it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.tasks.pairs.synthetic import Made, make_source


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Made]:
    """Makes sources in one store; see :func:`make_source`."""
    return partial(make_source, tmp_path / "store")


@pytest.fixture
def source(made: Callable[..., Made]) -> Made:
    """A source whose clips all name what the aspects need."""
    return made()
