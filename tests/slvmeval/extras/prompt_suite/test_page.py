"""The review pages as the command serves them, over real HTTP."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import pytest
import uvicorn

from slvmeval.cli.main import main
from slvmeval.web.annotation.security import HEADERS
from slvmeval.web.local_server import LocalServer
from tasks.extras.prompt_suite.drafts import Version
from tasks.extras.prompt_suite.project import Draft, Project
from tasks.extras.prompt_suite.videos import SourceVideo
from tests.slvmeval.cli.running import Run, has, lacks
from tests.slvmeval.web.annotation.pieces import client
from tests.tasks.scoring.judges.short_films import short_film

ODD = '</textarea><script>alert(1)</script> & "quotes" {{ 7777777 * 7 }}'


def draft(prompt_id: str, video: Path) -> Draft:
    source = SourceVideo(prompt_id=prompt_id, path=str(video), digest="d", theme=f"<i>{prompt_id}</i>")
    return Draft(video=source, versions=(Version(text="First.", faults=(ODD,)), Version(text=ODD)))


@dataclass
class Page:
    """The pages of a project, at paths below their secret address."""

    project: Project
    secret: str
    http: httpx.Client

    def get(self, path: str = "", **more: Any) -> httpx.Response:
        return self.http.get(f"/{self.secret}/{path}", **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.http.post(f"/{self.secret}/{path}", **more)

    def fields(self, prompt_id: str) -> dict[str, str]:
        return hidden(self.get(f"prompt/{prompt_id}").text)

    def save(self, prompt_id: str, **fields: str) -> httpx.Response:
        given = {**self.fields(prompt_id), "verdict": "accepted", "text": "A ball.", **fields}
        return self.post(f"prompt/{prompt_id}", data=given)


def hidden(text: str) -> dict[str, str]:
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', text))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, ffmpeg: str) -> Iterator[Page]:
    """What the command serves of a folder ``prompts`` beside a film, for all tests."""
    folder = tmp_path_factory.mktemp("served")
    film = short_film(ffmpeg, folder / "a.mp4", 3.0)
    project = Project(folder / "prompts")
    project.keep_draft(draft("p1", film))
    words = ["suite", "prompts", "review", str(project.folder), "--port", "0", "--by", "Anna"]
    started: Queue[LocalServer] = Queue()
    servers: list[uvicorn.Server] = []
    run = LocalServer.run

    class Server(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            servers.append(self)

    def noted(server: LocalServer) -> None:
        started.put(server)
        run(server)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as pool:
        patch.setattr(uvicorn, "Server", Server)
        patch.setattr(LocalServer, "run", noted)
        done = pool.submit(main, words)
        root, secret, _ = started.get(timeout=60).address.rsplit("/", 2)
        with client(root) as http:
            yield Page(project, secret, http)
        servers[0].should_exit = True
    assert done.result() == 0


@pytest.fixture
def page(served: Page) -> Page:
    for id_, video in (("p1", "a.mp4"), ("p2", "a.mp4"), ("p3", "gone.mp4")):
        served.project.keep_draft(draft(id_, served.project.folder.parent / video))
    (served.project.folder / "reviews.jsonl").unlink(missing_ok=True)
    return served


def test_a_person_looks_corrects_and_continues(page: Page) -> None:
    overview = page.get()
    assert overview.status_code == 200
    assert "3 drafts, 3 to review" in overview.text
    first = page.get("prompt/p1")
    stills = re.findall(r'src="\.\./(still/p1/\d+)"', first.text)
    assert len(stills) == 12
    pictures = [page.get(still) for still in stills]
    assert all(one.headers["content-type"] == "image/jpeg" for one in pictures)
    assert all(one.content[:2] == b"\xff\xd8" for one in pictures)
    assert len({one.content for one in pictures}) == 12
    part = page.get("video/p1", headers={"Range": "bytes=0-9"})
    assert (part.status_code, len(part.content)) == (206, 10)
    assert page.get("style.css").headers["content-type"].startswith("text/css")
    saved = page.save("p1", text="A ball.\r\nIt stops.\r\n", by="Anna", note="")
    assert saved.status_code == 303
    assert saved.headers["location"].endswith("/prompt/p2")
    page.save("p3", verdict="left_out")
    assert page.save("p2").headers["location"].count("/") == 2
    reviews = {(one.prompt_id, one.verdict, one.text) for one in page.project.reviews()}
    accepted = {("p1", "accepted", "A ball.\nIt stops."), ("p2", "accepted", "A ball.")}
    assert reviews == {("p3", "left_out", ""), *accepted}
    assert "3 drafts, 0 to review" in page.get().text
    # the accepted text is in the form and can be changed
    assert "A ball.\nIt stops.</textarea>" in page.get("prompt/p1").text


def test_no_text_becomes_part_of_the_page(page: Page) -> None:
    page_text = page.get("prompt/p1").text
    assert re.findall("<script[^>]*>", page_text) == ['<script src="../keep.js" defer>']
    assert not has(page_text, "alert(1)</script>", "<i>", "54444439")
    (text,) = re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", page_text, re.S)
    assert html.unescape(text) == ODD
    refused = page.save("p1", verdict="<b>maybe</b>", text=ODD, by='"><b>', note="'><b>")
    assert refused.status_code == 422
    assert "<b>" not in refused.text
    # and what the person wrote is still there
    assert html.escape(ODD, quote=False).split("&amp;")[0] in refused.text
    assert page.project.reviews() == []


def test_a_video_that_is_gone_leaves_the_text(page: Page) -> None:
    reply = page.get("prompt/p3")
    assert reply.status_code == 200
    assert "The video cannot be shown" in reply.text
    stills = ("still/p3/0", "still/p1/12", "still/p1/-1")
    for gone in (*stills, "video/p3", "prompt/p9", "prompt/..%2Fp1", "etc"):
        assert page.get(gone).status_code == 404, gone


def test_nobody_else_comes_in(page: Page) -> None:
    fields = page.fields("p1")
    for elsewhere in ("/", "/guess/", "/guess/prompt/p1", "/guess/video/p1"):
        assert page.http.get(elsewhere).status_code == 404
    assert page.get(headers={"Host": "evil.example"}).status_code == 421
    assert page.save("p1", csrf="guess").status_code == 403
    given = {**fields, "verdict": "accepted", "text": "Mine."}
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert page.post("prompt/p1", data=given, headers=headers).status_code == 403
    assert page.post("prompt/p1", data={"text": "Mine."}).status_code == 422
    assert page.save("p1", text="x" * 300_000).status_code == 413
    assert page.project.reviews() == []


def test_a_draft_that_changed_meanwhile_is_not_accepted(page: Page) -> None:
    fields = page.fields("p1")
    video = draft("p1", page.project.folder.parent / "a.mp4").video
    page.project.keep_draft(Draft(video=video, versions=(Version(text="Another."),)))
    refused = page.save("p1", draft=fields["draft"], text="My work.")
    assert refused.status_code == 422
    assert not lacks(refused.text, "its draft has changed", "My work.")
    assert page.project.reviews() == []


def test_two_people_with_one_prompt_do_not_lose_what_either_wrote(page: Page) -> None:
    both = page.fields("p1")
    assert page.save("p1", **both, text="Anna's text.", by="Anna").status_code == 303
    refused = page.save("p1", **both, text="Berta's text.", by="Berta")
    assert refused.status_code == 422
    assert not lacks(refused.text, "Anna has accepted a text of it meanwhile", "Anna&#39;s text.</p>")
    assert "Berta's text.</textarea>" in html.unescape(refused.text)
    assert [one.by for one in page.project.reviews()] == ["Anna"]
    assert page.save("p1", **hidden(refused.text), text="Berta's text.", by="Berta").status_code == 303
    assert [one.by for one in page.project.reviews()] == ["Anna", "Berta"]


def test_who_looks_now_is_named_and_a_form_that_does_not_fit_is_answered_by_a_page(page: Page) -> None:
    page.save("p1", by="Berta")
    # the command was started with --by Anna
    assert 'name="by" maxlength="200" value="Anna"' in page.get("prompt/p1").text
    refused = page.save("p1", by="B" * 300)
    assert refused.status_code == 422
    assert refused.headers["content-type"].startswith("text/html")
    assert "by: must have at most 200 characters" in refused.text


def test_every_answer_forbids_what_the_page_does_not_need(page: Page) -> None:
    for path in ("", "prompt/p1", "still/p1/0", "video/p1", "style.css", "keep.js", "nothing"):
        headers = page.get(path).headers
        assert set(headers) >= {header.lower() for header in HEADERS}, path
        assert "server" not in headers


def test_a_folder_without_drafts_is_reported(tmp_path: Path, run: Run) -> None:
    assert "has no drafts" in run("suite", "prompts", "review", tmp_path, code=1).err
