"""The browser of the tests: a real Chromium that talks to nobody by itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any, Literal

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def _scope(fixture_name: str, config: pytest.Config) -> Literal["session", "module"]:
    """One for all tests, where they all are of the browser: beside it no other test can run an event loop."""
    return "session" if config.getoption("markexpr").startswith("browser") else "module"


@pytest.fixture(scope=_scope)
def chromium() -> Iterator[Any]:
    """Give a running Chromium; the test is skipped where there is none."""
    result = next((path for name in NAMES if (path := shutil.which(name))), None)
    if result is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=result, args=ARGUMENTS)
        yield browser
        browser.close()
