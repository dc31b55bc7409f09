"""A small source with frames, as the pair tests need it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from storage_schemas.store import Store
from tests.tasks.pairs.synthetic import Made, make_source


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., Made]:
    """Makes sources in one store; see :func:`make_source`."""
    return partial(make_source, tmp_path / "store")


@pytest.fixture
def source(made: Callable[..., Made]) -> Made:
    """A source whose clips all name what the aspects need."""
    return made()


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Made:
    source = make_source(tmp_path_factory.mktemp("built") / "store")
    assert not source.degrade().set_aside
    return source


@pytest.fixture
def built(built_once: Made, tmp_path: Path) -> Made:
    """A source of one's own whose pairs are all there."""
    shutil.copytree(built_once.store.root, tmp_path / "built")
    return replace(built_once, store=Store.open(tmp_path / "built"))
