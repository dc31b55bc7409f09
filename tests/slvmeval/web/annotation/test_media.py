"""Videos by signed links: complete, in ranges, to the right worker only, and without a hint of the side."""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import FileResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from slvmeval.web.annotation import files
from slvmeval.web.annotation.files import ByteRange, Unsatisfiable, parse_range, range_counts, unchanged
from tasks.annotation.desk.viewing import Viewing
from tasks.annotation.installation import media_folder
from tasks.annotation.pair_task import Place
from tests.slvmeval.web.annotation.conftest import Study
from tests.slvmeval.web.annotation.pieces import NAME, SECONDS, Browser, pair, reason

ANNOTATION_PAGE = Path(__file__).parents[4] / "docs" / "annotation.md"


def file_at(study: Study, browser: Browser, place: Place) -> Path:
    """Return the file at a place, from the desk's own records."""
    with study.desk() as desk:
        assignment = desk.answers.assignment(NAME, study.id_of(browser.token), browser.data["view"]["id"])
        return media_folder(study.root) / assignment.file_at(place)


def test_ranges_are_what_another_implementation_gives(shared: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = shared.worker()
    path = file_at(shared, browser, "left")
    size = path.stat().st_size
    draw = random.Random(1)
    firsts = [draw.randrange(size) for _ in range(6)]
    edges = ["0-", "0-0", f"{size - 1}-", f"{size}-", "-1", "0-99999999"]
    edges += [f"{first}-{first + draw.randrange(size)}" for first in firsts]
    edges += [text for first in firsts[:2] for text in (f"{first}-", f"-{first}")]
    pieces = [f"0-{size - 1}", "0-63", "0-64", "63-65", "5-500"]
    app = Starlette(routes=[Route("/", lambda _: FileResponse(path, media_type="video/mp4"))])
    with TestClient(app) as other:
        for text in edges + pieces:
            if text == pieces[0]:
                monkeypatch.setattr(files, "PIECE", 64)
            request = f"bytes={text}"
            ours, theirs = browser.video("left", Range=request), other.get("/", headers={"Range": request})
            assert ours.status_code == theirs.status_code, request
            if ours.status_code == 416:
                assert ours.headers["content-range"] == f"bytes */{size}"
                assert not ours.content
                continue
            assert ours.content == theirs.content, request
            for name in ("content-range", "content-length", "content-type", "accept-ranges"):
                assert ours.headers.get(name) == theirs.headers.get(name), (request, name)
    whole = browser.video("left")
    assert (whole.status_code, whole.content) == (200, path.read_bytes())
    assert "content-range" not in whole.headers


def test_range_of_something_else_gives_the_whole(shared: Study) -> None:
    browser = shared.worker()
    tag = browser.video("left").headers["etag"]
    assert browser.video("left", **{"Range": "bytes=0-9", "If-Range": tag}).status_code == 206
    for other in ('"other"', f"W/{tag}", "Wed, 21 Oct 2026 07:28:00 GMT"):
        assert browser.video("left", **{"Range": "bytes=0-9", "If-Range": other}).status_code == 200
    assert browser.video("left", **{"If-None-Match": tag}).status_code == 304
    assert browser.video("left", **{"If-None-Match": '"other"'}).status_code == 200
    head = browser.video("left", "HEAD", Range="bytes=0-9")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(file_at(shared, browser, "left").stat().st_size)


def test_video_is_for_the_worker_whose_task_it_is_and_by_its_link(shared: Study) -> None:
    mine, theirs = shared.worker(), shared.worker()
    url = mine.data["urls"]["left"]
    assert mine.video("left").status_code == 200
    refused = theirs.http.get(url)
    assert reason(refused, 403) == "media_link"
    assert refused.json()["next_page"] == f"/c/{NAME}/task"
    assert reason(shared.stranger().http.get(url), 401) == "no_session"
    base, _, signed = url.rpartition("/")
    body, signature = signed.rsplit(".", 1)
    other = theirs.data["urls"]["left"].rpartition("/")[2].rsplit(".", 1)[0]
    flipped = ("A" if signature[0] != "A" else "B") + signature[1:]
    changed = (body, f"{body}.", f"{body}.{flipped}", f"{other}.{signature}", f"x{signed}", signed[:-1], "x")
    for link in changed:
        assert reason(mine.http.get(f"{base}/{link}"), 403) == "media_link", link


def test_video_link_is_worth_as_much_as_the_task(study: Study) -> None:
    study.begin(pairs=1, workers_per_pair=1, lease_minutes=10)
    slow, quick = study.worker(), study.browser()
    page = quick.enter()
    assert page.url.path.endswith("/done")
    assert "others are doing the rest" in page.text, "where all is taken a worker comes back later"
    study.clock.on(3600)
    assert quick.enter().url.path.endswith("/task")
    quick.answer(study.clock.on)
    assert reason(slow.video("left"), 410) == "expired"
    assert reason(quick.video("left"), 410) == "media_link"


def test_desk_is_told_what_was_sent_and_nothing_else(shared: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = shared.worker()
    told: list[tuple[str, int, int]] = []
    before = Viewing.serve

    def serve(self: Viewing, campaign: str, assignment: str, place: str, first: int, last: int) -> None:
        told.append((place, first, last))
        before(self, campaign, assignment, place, first, last)

    monkeypatch.setattr(Viewing, "serve", serve)
    browser.video("left", Range="bytes=100-199")
    browser.video("right", Range="bytes=-10")
    size = file_at(shared, browser, "right").stat().st_size
    assert told == [("left", 100, 199), ("right", size - 10, size - 1)]
    tag = browser.video("left", "HEAD").headers["etag"]
    browser.video("left", **{"If-None-Match": tag})
    browser.video("left", Range=f"bytes={10**9}-")
    assert len(told) == 2


def test_video_that_was_not_fetched_cannot_have_been_seen(study: Study) -> None:
    study.begin([pair(0, high_bytes=300_000, low_bytes=300_000)])
    browser = study.worker()
    browser.video("left", Range="bytes=0-9999")
    browser.video("right", Range="bytes=0-")
    study.clock.on(SECONDS)
    seen = browser.look()["seen"]
    assert seen["right"] == [[0, SECONDS]]
    assert sum(end - start for start, end in seen["left"]) < SECONDS / 2
    # with files of the same size, nothing but its bytes tells one side from the other
    left, right = (browser.video(place) for place in ("left", "right"))
    same = [{k: v for k, v in one.headers.items() if k not in ("etag", "date")} for one in (left, right)]
    assert same[0] == same[1]
    assert "last-modified" not in left.headers
    assert len(left.headers["etag"]) == len(right.headers["etag"])
    for place, video in (("left", left), ("right", right)):
        answer = f"{browser.data['urls'][place]}{video.headers}"
        assert not any(
            name in answer for name in (study.pairs[0].high_file, study.pairs[0].low_file, "high", "low")
        )
    # a video that is missing is reported
    file_at(study, browser, "left").unlink()
    refused = browser.video("left")
    assert reason(refused, 503) == "media_gone"
    assert int(refused.headers["retry-after"]) > 0


def test_file_outside_the_media_folder_is_never_sent(study: Study) -> None:
    study.begin([pair(0, high_file="../outside.mp4", low_file="../../outside.mp4")])
    assert (study.root / "outside.mp4").is_file()
    assert (study.root / "annotation" / "outside.mp4").is_file()
    browser = study.worker()
    for place in ("left", "right"):
        assert reason(browser.video(place), 404) == "not_found"


BEHIND = {"trusted_proxies": "127.0.0.1"}


@pytest.mark.parametrize("header", ["X-Accel-Redirect", "X-Sendfile"])
def test_proxy_is_told_which_video_to_send(study: Study, header: str) -> None:
    study.begin(pairs=1, serving={**BEHIND, "send_files": header})
    browser = study.worker()
    path = file_at(study, browser, "left")
    reply = browser.video("left", Range="bytes=0-")
    assert (reply.status_code, reply.content) == (200, b"")
    assert reply.headers[header] == (
        f"/slvmeval-media/{path.name}" if header == "X-Accel-Redirect" else str(path)
    )
    assert browser.video("left", **{"If-None-Match": reply.headers["etag"]}).status_code == 304
    # what was asked for counts as sent: it can be played, in time
    browser.video("right")
    study.clock.on(SECONDS)
    assert browser.look()["can_prefer"]


@pytest.mark.skipif(shutil.which("nginx") is None, reason="no nginx here")
def test_nginx_sends_the_videos_with_ranges(study: Study, tmp_path: Path) -> None:
    study.begin(pairs=1, serving={**BEHIND, "send_files": "X-Accel-Redirect"})
    browser = study.worker()
    data = file_at(study, browser, "left").read_bytes()
    with nginx(tmp_path, study.address, media_folder(study.root)) as address:
        url = f"{address}{browser.data['urls']['left']}"
        whole = browser.http.get(url, headers={"Accept-Encoding": "identity"})
        assert (whole.status_code, whole.content) == (200, data)
        part = browser.http.get(url, headers={"Range": "bytes=100-199"})
        assert (part.status_code, part.content) == (206, data[100:200])
        assert part.headers["content-type"] == "video/mp4"
        assert "x-accel-redirect" not in part.headers
        # nobody gets a video by its name
        inside = f"{address}/slvmeval-media/{file_at(study, browser, 'left').name}"
        assert browser.http.get(inside).status_code == 404
        with httpx.Client() as stranger:
            assert stranger.get(url).status_code in (401, 403)


@contextmanager
def nginx(folder: Path, upstream: str, media: Path) -> Iterator[str]:
    """Run nginx with the configuration of the documents in front of a server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    documented = re.search(r"```nginx\n(.*?)```", ANNOTATION_PAGE.read_text(), re.DOTALL)
    assert documented is not None
    rules = documented[1].replace("http://127.0.0.1:8017", upstream)
    rules = rules.replace("/data/store/annotation/media/", f"{media}/")
    configuration = folder / "nginx.conf"
    temporary = "".join(
        f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration.write_text(
        f"{'user root; ' if os.getuid() == 0 else ''}daemon off; worker_processes 1; pid {folder}/pid;"
        f"events {{}} http {{ access_log off; {temporary} server {{ listen 127.0.0.1:{port}; {rules} }} }}"
    )
    process = subprocess.Popen(
        ["nginx", "-p", str(folder), "-c", str(configuration), "-e", f"{folder}/error.log"]
    )
    try:
        for _ in range(100):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


# -- which ranges are met --------------------------------------------------------------------------------

SIZE = 1000


@pytest.mark.parametrize(
    ("header", "first", "last"),
    [
        *(("bytes=0-0", 0, 0), ("bytes=0-", 0, 999), ("bytes=0-1", 0, 1), ("bytes=10-19", 10, 19)),
        *(("bytes=999-", 999, 999), ("bytes=990-5000", 990, 999), ("bytes=-1", 999, 999)),
        *(("bytes=-200", 800, 999), ("bytes=-5000", 0, 999), ("BYTES=5-6", 5, 6), ("bytes= 5-6 ", 5, 6)),
        ("bytes=5-99999999999999999999999999999999", 5, 999),
        ("bytes=000000000000000000000000005-06", 5, 6),
    ],
)
def test_ranges_that_are_met(header: str, first: int, last: int) -> None:
    assert parse_range(header, SIZE) == ByteRange(first, last)


@pytest.mark.parametrize(
    "header",
    [
        *(None, "", "bytes", "bytes=", "bytes=-", "lines=0-1", "bytes=1-2,5-6", "bytes=6-5", "bytes=a-b"),
        *("bytes=--5", "bytes=1-2-3", "bytes=+1-2", "bytes=１-２", "bytes=0x1-2", "bytes 1-2", "=1-2"),
    ],
)
def test_what_is_not_understood_gives_the_whole_file(header: str | None) -> None:
    assert parse_range(header, SIZE) is None


@pytest.mark.parametrize(
    ("header", "size"),
    [
        *((f"bytes={text}", SIZE) for text in ("1000-", "1000-2000", "-0", "99999999999999999999999999-")),
        # an empty file has no range
        *((f"bytes={text}", 0) for text in ("0-", "-5", "0-0")),
    ],
)
def test_ranges_outside_the_file_cannot_be_met(header: str, size: int) -> None:
    with pytest.raises(Unsatisfiable):
        parse_range(header, size)


def test_tags_compare_as_the_rfc_says() -> None:
    tag = '"abc"'
    assert [range_counts(one, tag) for one in (None, tag)] == [True] * 2
    for other in ('W/"abc"', '"abd"', "Wed, 21 Oct 2026 07:28:00 GMT"):
        assert not range_counts(other, tag)
    assert [unchanged(one, tag) for one in (tag, 'W/"abc"', '"x", "abc"', "*")] == [True] * 4
    assert [unchanged(one, tag) for one in (None, '"x"', "")] == [False] * 3
