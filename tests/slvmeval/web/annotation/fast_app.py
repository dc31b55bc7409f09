"""A server with a fast clock, a process: ``python -m tests.slvmeval.web.annotation.fast_app PROCESSES``."""

from __future__ import annotations

import sys

from fastapi import FastAPI

from slvmeval.web.annotation.app import create_app
from slvmeval.web.annotation.serve import Serving, prepare, run_server
from tests.slvmeval.web.annotation.pieces import NAME, fast_clock


def create() -> FastAPI:
    """Return the application; each server process creates its own."""
    return create_app(Serving.from_environment(), fast_clock)


if __name__ == "__main__":
    count = int(sys.argv[1])
    with prepare(Serving.from_environment(), NAME, private=True, processes=count) as ready:
        run_server(ready, count, "tests.slvmeval.web.annotation.fast_app:create")
