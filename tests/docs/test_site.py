"""The site of documents, opened from the disk in a real browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; a broken link is an error."""
    pytest.importorskip("mkdocs", reason="make docs installs it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture
def page(site: Path, chromium: Any) -> Any:
    """The first page, from a file address; no request may leave the disk."""
    shown = chromium.new_page(viewport={"width": 1280, "height": 900})
    requests: list[str] = []
    shown.on("request", lambda request: requests.append(request.url))
    shown.goto((site / "index.html").as_uri())
    yield shown
    shown.close()
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_search_finds_a_word_from_the_disk(page: Any) -> None:
    page.locator("[data-md-component=search-query]").press_sequentially("resume")
    page.locator(".md-search-result__item").first.wait_for(timeout=60_000)
    assert "resum" in page.locator(".md-search-result__list").inner_text().lower()


def test_menu_leads_to_every_page(page: Any, site: Path) -> None:
    """Pages of sources and single decisions are reached from other pages."""
    menu = set()
    for tab in page.locator(".md-tabs__link").evaluate_all("links => links.map((link) => link.href)"):
        page.goto(tab)
        links = page.locator(".md-nav--primary a.md-nav__link").all()
        menu |= {link.evaluate("link => link.href.split('#')[0]") for link in links}
    pages = {path for path in site.rglob("*.html") if path.relative_to(site).parts[0] != "source"}
    single = set((site / "decisions").glob("0*.html")) | {site / "404.html"}
    assert {path.as_uri() for path in pages - single} - menu == set()


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_the_window(page: Any, site: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for name in ("reference/command-line/evaluate", "storage-format", "papers/slvmeval", "status"):
        page.goto((site / f"{name}.html").as_uri())
        # a table in a box that scrolls may be wider than it
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name


def test_code_is_shown_without_roles_and_escapes(page: Any, site: Path) -> None:
    shown = {path: path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    shown = {path: text for path, text in shown.items() if "/source/" not in path.as_posix()}
    assert [path for path, text in shown.items() if ":func:" in text or ":class:" in text] == []
    page.goto((site / "reference" / "command-line" / "models.html").as_uri())
    cells = page.locator("td code").all_inner_texts()
    assert [cell for cell in cells if r"\|" in cell] == []
