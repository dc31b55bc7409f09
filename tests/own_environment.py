"""Takes back the environment variables that a command sets in a process that other tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_environment() -> Iterator[None]:
    """Take back each variable that the block changes; servers in other threads read the others meanwhile."""
    before = dict(os.environ)
    try:
        yield
    finally:
        changed = {name for name in {*before, *os.environ} if os.environ.get(name) != before.get(name)}
        # pytest's own, which it changes between set-up and end
        for name in changed - {"PYTEST_CURRENT_TEST"}:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]
