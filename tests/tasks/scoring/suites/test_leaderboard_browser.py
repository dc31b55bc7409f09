"""A suite's leaderboard in a real browser: wide tables on a desk, blocks on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks.report.suite_leaderboard import write_board
from tasks.scoring.suites.base import Dimension
from tasks.scoring.suites.leaderboard import Mean, board_of

pytestmark = pytest.mark.browser


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Give the page of a suite with as many dimensions as LoCoT2V-Bench."""
    dimensions = [
        Dimension(
            name=f"d{number}",
            title=f"Dimension {number}",
            group=f"group {number // 6}",
            low=0,
            high=1,
            about="What it means.",
            behind="a model",
            source="3.1",
        )
        for number in range(26)
    ]
    means = {one.name: {model: Mean(0.5, 3) for model in ("anna", "bert")} for one in dimensions}
    return write_board(board_of("Wide", dimensions, means), tmp_path / "board").as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_models_name_stays_in_sight_beside_many_columns(chromium: Any, url: str, scheme: str) -> None:
    page = chromium.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
    page.goto(url)
    box, name = page.locator(".box").first, page.locator("#board tbody th").first
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")
    box.evaluate("box => { box.scrollLeft = box.scrollWidth }")
    there, shown = box.bounding_box(), name.bounding_box()
    assert shown["x"] == pytest.approx(there["x"], abs=1)
    # and nothing shines through it
    middle = [shown["x"] + shown["width"] / 2, shown["y"] + shown["height"] / 2]
    assert page.evaluate("([x, y]) => document.elementFromPoint(x, y).closest('th') !== null", middle)
    assert name.evaluate("one => getComputedStyle(one).backgroundColor") == page.evaluate(
        "getComputedStyle(document.body).backgroundColor"
    )
    page.close()


def test_a_phone_shows_blocks_and_no_label_touches_what_it_says(chromium: Any, url: str) -> None:
    page = chromium.new_page(viewport={"width": 390, "height": 800})
    page.goto(url)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    gap = page.locator(".stack td").first.evaluate("cell => getComputedStyle(cell).columnGap")
    assert gap == "8px"
    page.close()
