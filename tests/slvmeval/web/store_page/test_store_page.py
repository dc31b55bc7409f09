"""The page of a store: what it shows, whom it lets in, and which files it gives."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from infra.progress import BuildProgress
from slvmeval.web.annotation.serve import Serving
from slvmeval.web.store_page.app import StorePage, create_app
from storage_schemas.judgements import JudgementsStore
from storage_schemas.store import Store
from storage_schemas.written_pages import remember_page, written_pages
from tests.slvmeval.cli.running import Run, lacks
from tests.tasks.publish.conftest import Small
from tests.tasks.publish.judging import judged

SERVING = Serving(store="", database="", media="", campaigns=(), host="127.0.0.1", port=80)


def client(page: StorePage) -> TestClient:
    return TestClient(create_app(page, SERVING), base_url="http://127.0.0.1")


@pytest.fixture
def page(tmp_path: Path) -> StorePage:
    """The page of an empty store."""
    return StorePage(Store.create(tmp_path / "store"))


def test_it_shows_releases_judges_pages_and_sizes(
    build_small: Callable[[Path], Small], tmp_path: Path, run: Run
) -> None:
    small = build_small(tmp_path)
    page = StorePage(small.store)
    JudgementsStore(page.store).add(judged("coin", small.release.pairs(), lambda *_: "high"))
    written = tmp_path / "gallery" / "index.html"
    run("gallery", "--store", page.store.root, "--out", written.parent, "--quiet")
    report = tmp_path / "report.html"
    report.write_text("<h1>Report</h1>")
    remember_page(page.store, "report", report, "small, version 1")
    with client(page) as browser:
        text = browser.get(f"/{page.secret}/").text
        assert not lacks(text, "coin", "Gallery: ", "Report: ", "degraded clip", page.store.root.name)
        assert "http-equiv" not in text, "nothing runs, so nothing is read again"
        (link,) = re.findall(r'href="(releases/[^"]+)"', text)
        release = browser.get(f"/{page.secret}/{link}").text
        assert not lacks(release, "Pairs by aspect", "Gallery: ", f"{small.release.name}, version 1")
        assert browser.get(f"/{page.secret}/releases/none@1").status_code == 404
        (known,) = (one for one in written_pages(page.store) if one.kind == "gallery")
        shown = browser.get(f"/{page.secret}/pages/{known.id}")
        assert shown.status_code == 200
        assert str(shown.url).endswith("/index.html"), "so that what is beside it is found"
        assert shown.text == written.read_text(encoding="utf-8")


def test_a_running_build_is_followed(page: StorePage) -> None:
    with BuildProgress(page.store.cache, quiet=True) as progress:
        progress.expect("degrade", 7)
        progress.done("degrade", "a film")
        with client(page) as browser:
            text = browser.get(f"/{page.secret}/").text
        assert not lacks(text, '<meta http-equiv="refresh"', "degrade")


def test_only_who_has_the_address_gets_in(page: StorePage) -> None:
    with client(page) as browser:
        assert browser.get("/").status_code == 404
        assert browser.get("/guessed/").status_code == 404
        assert browser.get(f"/{page.secret}/", headers={"Host": "evil.example"}).status_code == 421
        assert browser.post(f"/{page.secret}/").status_code == 405
        policy = browser.get(f"/{page.secret}/").headers["content-security-policy"]
        assert "script-src 'self'" in policy


def test_of_a_folder_only_what_is_in_it_is_given(page: StorePage, tmp_path: Path) -> None:
    folder = tmp_path / "gallery"
    folder.mkdir()
    (folder / "index.html").write_text("<h1>Pairs</h1>")
    (folder / "clip.mp4").write_bytes(bytes(1000))
    (tmp_path / "secret.txt").write_text("no")
    (folder / "out").symlink_to(tmp_path / "secret.txt")
    remember_page(page.store, "gallery", folder / "index.html", "main, version 1")
    (written,) = written_pages(page.store)
    at = f"/{page.secret}/pages/{written.id}"
    with client(page) as browser:
        part = browser.get(f"{at}/clip.mp4", headers={"Range": "bytes=10-19"})
        assert (part.status_code, len(part.content)) == (206, 10), "players jump"
        for name in ("../secret.txt", "%2e%2e/secret.txt", "out", "nothing.html", "/etc/passwd"):
            assert browser.get(f"{at}/{name}").status_code == 404
        assert browser.get(f"/{page.secret}/pages/{'0' * 20}/index.html").status_code == 404
        (folder / "index.html").unlink()
        assert browser.get(f"{at}/index.html").status_code == 404
    assert written_pages(page.store) == []


def test_a_note_that_somebody_changed_leads_nowhere(page: StorePage) -> None:
    folder = page.store.cache / "pages"
    folder.mkdir(parents=True, exist_ok=True)
    note = {"kind": "gallery", "path": "/etc/passwd", "about": "x", "at": "2026-01-01T00:00:00+00:00"}
    (folder / f"{'a' * 20}.json").write_text(json.dumps(note))
    (folder / "torn.json").write_text("{")
    assert written_pages(page.store) == []


def test_a_part_that_is_damaged_is_reported_and_the_rest_is_shown(page: StorePage) -> None:
    parts = page.store.root / "judgements" / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    (parts / f"{'0' * 32}.parquet").write_bytes(b"not Parquet")
    with client(page) as browser:
        answer = browser.get(f"/{page.secret}/")
    assert answer.status_code == 200
    assert not lacks(answer.text, "Cannot be read:", "Disk")


def test_a_database_that_cannot_be_used_is_refused_at_once_and_later_said(page: StorePage, run: Run) -> None:
    words = ("status", "--open", "--set", "browser=false", "--port", "0", "--store", page.store.root)
    assert "not a valid database address" in run(*words, "--database", "nonsense", code=1).err
    # or it is gone while the page is open
    gone = StorePage(page.store, "sqlite:////proc/nowhere/desk.sqlite")
    with client(gone) as browser:
        answer = browser.get(f"/{gone.secret}/")
    assert answer.status_code == 200
    assert "Cannot be read:" in answer.text
