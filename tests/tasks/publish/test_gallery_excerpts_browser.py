"""Excerpts in the gallery, in a real browser: found, marked, and played from where they begin."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.release.options import BuildOptions, SourceRoot
from tasks.publish.gallery.write import write_gallery
from tasks.recipe import Lengths, Recipe
from tests.flows.small_builds import AddFilm, only
from tests.inline import build_inline
from tests.tasks.publish.test_gallery_browser import TIMES, text, wait

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def first_page(tmp_path_factory: pytest.TempPathFactory, add_film: AddFilm, small_recipe: Recipe) -> Path:
    folder = tmp_path_factory.mktemp("excerpts")
    add_film(folder / "videos", 1)
    options = BuildOptions(
        store=str(folder / "store"), sources=(SourceRoot(path=str(folder / "videos")),), recipe=small_recipe
    )
    lengths = Lengths(shares=(0.5, 0.75), positions=("early", "late"))
    release = build_inline(only(options, "aesthetics", lengths=lengths, name="with-lengths")).release
    return write_gallery(release.store, release, folder / "gallery")


def test_excerpts_are_listed_and_linked(open_page: Callable[..., Any], first_page: Path) -> None:
    page = open_page(first_page.as_uri())
    assert page.locator(".card").count() == 1
    page.locator("#show").select_option("excerpts")
    count = page.locator(".card").count()
    assert count > 3
    assert text(page, "#pairs-count") == f"{count} excerpts"
    assert page.locator(".card .tag", has_text="Excerpt, 50 %, early damage").count() == 1
    page.locator("#show").select_option("pairs")
    with page.expect_navigation(wait_until="load"):
        page.get_by_role("link", name="Aesthetics: film1").click()
    chips = page.locator("#excerpt-chips .chip")
    assert chips.count() == count
    page.locator("#excerpt-chips").get_by_role("link", name="50 %, early damage").click()
    assert text(page, "h1") == "Aesthetics, excerpt of 50 %, early damage"
    assert "of 0:42 around the same damage" in text(page, "#pair-text")
    assert page.locator(".chip[aria-current=page]").inner_text().startswith("50 %, early damage")


@pytest.mark.parametrize("width", [1280, 390])
def test_players_show_only_the_excerpt(open_page: Callable[..., Any], first_page: Path, width: int) -> None:
    page = open_page(next((first_page.parent / "sources").iterdir()).as_uri(), width)
    page.locator("#excerpt-chips").get_by_role("link", name="50 %, early damage").click()
    wait(page, "gallery.players.begin.high > 0")
    begin, low_begin, length = page.evaluate(
        "[gallery.players.begin.high, gallery.players.begin.low, gallery.players.length('high')]"
    )
    assert begin == low_begin
    page.evaluate("gallery.players.seek('high', 0.5)")
    wait(page, f"{TIMES}.every((time) => Math.abs(time - {begin + 0.5}) < 0.05)")
    # only the captions in it, and their times
    shown = page.locator("#captions li:visible .caption-time")
    assert shown.count() == length / 3
    assert "· 0:00–0:03" in shown.first.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    # it stops where the excerpt ends, though the film continues
    page.evaluate(f"gallery.players.seek('high', {length - 2})")
    wait(page, f"!gallery.players.target && Math.abs({TIMES}[0] - {begin + length - 2}) < 0.3")
    page.evaluate("gallery.players.play()")
    wait(page, "!gallery.players.playing")
    assert page.evaluate(TIMES)[0] == pytest.approx(begin + length, abs=1)
    assert page.locator("#low-veil").is_hidden()
