"""The report in a real browser: on a desk and a phone, light and dark, on paper, by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.judgements import JudgementsStore
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.publish.leaderboard import write_leaderboard
from tasks.publish.submission import Card, UsedPrices, check_submission, make_submission, submission_bytes
from tasks.report.judged_release import load_judged_release
from tasks.report.release_report import report_of
from tasks.report.write import write_report
from tests.tasks.publish.conftest import EVIL, Small
from tests.tasks.publish.judging import build_wide, judged, scored, skilled

pytestmark = pytest.mark.browser

WIDTH = "document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def reports(build_small: Callable[[Path], Small], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Give a report with all figures but the filter's, and one with frames and hostile texts."""
    folder = tmp_path_factory.mktemp("reports")
    wide, small = build_wide(folder / "wide", 12, severe=True), build_small(folder).release
    for release in (wide, small):
        store, pairs = JudgementsStore(release.store), release.pairs()
        store.add(judged("a-vision-language-model-video", pairs, skilled("vlm", 0.9, 0.2, 0.3), raw=EVIL))
        for name in ("clipscore", "<b>scorer</b>", "coin"):
            store.add(scored(name, pairs, skilled(name, 0.3)))
        store.add(scored("duration", pairs, lambda *_: "high"))
    return [
        write_report(report_of(load_judged_release(wide)), folder / "wide" / "report"),
        write_report(report_of(load_judged_release(small)), folder / "small-report"),
    ]


def luminance(page: Any, expression: str) -> float:
    red, green, blue = page.evaluate(f"{expression}.match(/[\\d.]+/g).slice(0, 3).map(Number)")
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_no_page_scrolls_sideways(
    open_page: Callable[..., Any], reports: list[Path], width: int, scheme: str
) -> None:
    for index in reports:
        pages = [index, *sorted((index.parent / "pairs").glob("*.html"))[:2]]
        for path in pages:
            page = open_page(path.as_uri(), width, scheme)
            for summary in page.locator("details:not([open]) > summary").element_handles():
                summary.click()
            assert page.evaluate(WIDTH) == width, path
            assert "owned" not in page.title()
    ground = luminance(page, "getComputedStyle(document.body).backgroundColor")
    ink = luminance(page, "getComputedStyle(document.body).color")
    assert (ground < 60 and ink > 200) if scheme == "dark" else (ground > 240 and ink < 60)


def test_figures_and_numbers_fit_the_page(open_page: Callable[..., Any], reports: list[Path]) -> None:
    label = "getComputedStyle(document.querySelector('svg.figure text')).fill"
    page = open_page(reports[0].as_uri())
    assert luminance(page, label) < 100
    # numbers of a column stand below each other
    for column in range(2, 7):
        boxes = [
            value.bounding_box() for value in page.locator(f".matrix tr > :nth-child({column}) .value").all()
        ]
        rights = [box["x"] + box["width"] for box in boxes]
        # the tint of the best is wider than its number
        assert max(rights) - min(rights) < 6
    page = open_page(reports[0].as_uri(), scheme="dark")
    assert luminance(page, label) > 150
    drawn = len(list((reports[0].parent / "figures").glob("*.svg")))
    assert drawn == 7
    assert page.locator("svg.figure").count() == drawn
    assert page.locator("svg.figure[role=img][aria-label]").count() == drawn
    box = page.locator("svg.figure").first.bounding_box()
    assert box["width"] > 300
    assert box["height"] > 80


def test_phone_and_keyboard_reach_every_cell(open_page: Callable[..., Any], reports: list[Path]) -> None:
    page = open_page(reports[0].as_uri(), 360)
    box = page.locator(".matrix td").first.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    before = page.evaluate("getComputedStyle(document.querySelector('.matrix td'), '::before').content")
    assert before.strip('"') == "<b>scorer</b>"
    assert page.locator(".matrix .best .value").first.is_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName + '.' + document.activeElement.className"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert {"A.", "DIV.box", "SUMMARY."} <= reached


def test_from_the_list_to_a_pair_and_back(open_page: Callable[..., Any], reports: list[Path]) -> None:
    page = open_page(reports[1].as_uri())
    with page.expect_navigation():
        page.locator("#disagreement a").first.click()
    assert page.evaluate("document.querySelector('img').naturalWidth") > 100
    assert page.locator(".judge").count() >= 2
    with page.expect_navigation():
        page.get_by_role("link", name="All pairs").click()
    assert page.url.endswith("#disagreement")


@pytest.mark.parametrize("width", [1280, 360])
def test_a_long_list_of_pairs_is_searched_and_paged(
    open_page: Callable[..., Any], reports: list[Path], tmp_path: Path, width: int
) -> None:
    store = Store.open(reports[0].parents[1] / "store")
    release = load_judged_release(Release.open(store, "wide"))
    page = open_page(write_report(report_of(release), tmp_path / "report", most=60).as_uri(), width)
    rows, said = page.locator("#disputed tbody tr:visible"), page.locator("#disputed-bar output")
    assert (rows.count(), said.inner_text()) == (25, "1 to 25 of 60")
    following, back = page.get_by_role("button", name="Next"), page.get_by_role("button", name="Back")
    following.click()
    following.click()
    assert (rows.count(), said.inner_text()) == (10, "51 to 60 of 60")
    assert following.is_disabled()
    all_ = page.locator("#disputed tbody tr").all_text_contents()
    there = sum("film-03" in text and "clipscore" in text for text in all_)
    page.get_by_role("searchbox").fill("FILM-03 clipscore")
    assert said.inner_text() == f"1 to {there} of {there}"
    assert all("film-03" in text for text in rows.all_text_contents())
    assert back.is_disabled()
    page.get_by_role("searchbox").fill("nothing has this")
    assert (rows.count(), said.inner_text()) == (0, "No pair has these words.")
    assert page.evaluate(WIDTH) <= width
    # all pairs are printed
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert rows.count() == 60
    assert not open_page(reports[1].as_uri(), width).locator("#disputed-bar").is_visible()


def test_on_paper_tables_are_whole(open_page: Callable[..., Any], reports: list[Path]) -> None:
    # as wide as A4 across, without its margins
    page = open_page(reports[0].as_uri(), 1030)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(WIDTH) == 1030
    assert luminance(page, "getComputedStyle(document.body).backgroundColor") > 254
    assert luminance(page, "getComputedStyle(document.body).color") < 60
    assert page.locator("nav").first.is_hidden()
    assert page.evaluate("getComputedStyle(document.querySelector('.box')).overflowX") == "visible"
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.fixture(scope="module")
def leaderboard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    release = build_wide(folder, 12)
    checked = []
    for name, skill in (("Second <b>judge</b>", 0.7), ("Best", 0.95), ("A silent one", 0.9)):
        rows = judged(name, release.pairs(), skilled(name, skill, fails=0.9 if "silent" in name else 0.0))
        card = Card(name=name, authors=("A. Person",), url="https://example.org")
        path = folder / "one.json"
        path.write_bytes(submission_bytes(make_submission(release, list(rows), card, UsedPrices())))
        checked.append(check_submission(path, release))
    return write_leaderboard(release, checked, folder / "board", refused={"bad.json": EVIL})


def names(page: Any) -> list[str]:
    return [name.split()[0] for name in page.locator("#board tbody th").all_inner_texts()]


def test_a_leaderboard_sorts_by_mouse_and_keyboard(open_page: Callable[..., Any], leaderboard: Path) -> None:
    page = open_page(leaderboard.as_uri())
    assert names(page) == ["Best", "Second", "A"]
    mean = page.locator("#board thead th").nth(2)
    assert mean.get_attribute("aria-sort") == "descending"
    mean.get_by_role("button").click()
    assert names(page) == ["Second", "Best", "A"], "who has no mean stays last"
    assert mean.get_attribute("aria-sort") == "ascending"
    page.get_by_role("button", name="Judge").focus()
    page.keyboard.press("Enter")
    assert names(page) == ["A", "Best", "Second"]
    page.keyboard.press("Enter")
    assert names(page) == ["Second", "Best", "A"]
    page.get_by_role("button", name="Failed").click()
    assert names(page)[2] == "A"
    assert page.locator("[aria-sort]").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_leaderboard_on_a_phone(open_page: Callable[..., Any], leaderboard: Path, scheme: str) -> None:
    page = open_page(leaderboard.as_uri(), 360, scheme)
    assert page.evaluate(WIDTH) == 360
    page.get_by_label("Sort by").select_option(label="name")
    assert names(page) == ["A", "Best", "Second"]
    for summary in page.locator("summary").element_handles():
        summary.click()
    assert page.evaluate(WIDTH) == 360
    assert "owned" not in page.title()
