from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import typer.main

from tests.tasks.publish.conftest import build_small

__all__ = ["build_small"]


@pytest.fixture(scope="session", autouse=True)
def _commands_are_made_once() -> Iterator[None]:
    """Keep the command that Typer otherwise makes again, of all our functions, at each call of `main`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield
