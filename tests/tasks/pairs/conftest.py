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


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make_source(tmp_path_factory.mktemp("made") / "store")


@pytest.fixture(scope="session")
def built_once(made_once: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    built = copied(made_once, tmp_path_factory.mktemp("built") / "store")
    assert not built.degrade().set_aside
    return built


def copied(made: Made, root: Path) -> Made:
    shutil.copytree(made.store.root, root)
    return replace(made, store=Store.open(root))


@pytest.fixture
def source(made_once: Made, tmp_path: Path) -> Made:
    """Your own source, whose clips all name what the aspects need."""
    return copied(made_once, tmp_path / "source")


@pytest.fixture
def built(built_once: Made, tmp_path: Path) -> Made:
    """Your own source, whose pairs are all there."""
    return copied(built_once, tmp_path / "built")
