"""The review pages as the command serves them, over real HTTP."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from slvmeval.cli.main import main
from slvmeval.web.annotation.security import HEADERS
from tasks.prompt_suite.drafts import Version
from tasks.prompt_suite.project import Draft, Project
from tasks.prompt_suite.videos import SourceVideo
from tests.slvmeval.web.prompt_review.reviewing import reviewing
from tests.tasks.scoring.judges.short_films import short_film

ODD = '</textarea><script>alert(1)</script> & "quotes" {{ 7777777 * 7 }}'


@dataclass
class Page:
    address: str
    project: Project
    http: httpx.Client

    def fields(self, prompt_id: str) -> dict[str, str]:
        text = self.http.get(f"{self.address}prompt/{prompt_id}").text
        matches = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', text)
        return dict(matches)

    def save(self, prompt_id: str, **fields: str) -> httpx.Response:
        given = {**self.fields(prompt_id), "verdict": "accepted", "text": "A ball.", **fields}
        return self.http.post(f"{self.address}prompt/{prompt_id}", data=given)


def draft(prompt_id: str, video: Path) -> Draft:
    source = SourceVideo(prompt_id=prompt_id, path=str(video), digest="d", theme=f"<i>{prompt_id}</i>")
    return Draft(video=source, versions=(Version(text="First.", faults=(ODD,)), Version(text=ODD)))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, ffmpeg: str) -> Iterator[tuple[Path, str]]:
    """A folder with a film, whose subfolder ``prompts`` the command serves, once for all tests."""
    folder = tmp_path_factory.mktemp("served")
    film = short_film(ffmpeg, folder / "a.mp4", 3.0)
    Project(folder / "prompts").keep_draft(draft("p1", film))
    with reviewing(folder / "prompts", "--by", "Anna") as (_, address):
        yield folder, address


@pytest.fixture
def page(served: tuple[Path, str]) -> Iterator[Page]:
    folder, address = served
    project = Project(folder / "prompts")
    for id_, video in (("p1", "a.mp4"), ("p2", "a.mp4"), ("p3", "gone.mp4")):
        project.keep_draft(draft(id_, folder / video))
    (project.folder / "reviews.jsonl").unlink(missing_ok=True)
    with httpx.Client(timeout=30) as client:
        yield Page(address, project, client)


def test_a_person_looks_corrects_and_goes_on(page: Page) -> None:
    overview = page.http.get(page.address)
    assert overview.status_code == 200
    assert "3 drafts, 3 to review" in overview.text
    first = page.http.get(f"{page.address}prompt/p1")
    stills = re.findall(r'src="\.\./(still/p1/\d+)"', first.text)
    assert len(stills) == 12
    pictures = [page.http.get(f"{page.address}{still}") for still in stills]
    assert all(one.headers["content-type"] == "image/jpeg" for one in pictures)
    assert all(one.content[:2] == b"\xff\xd8" for one in pictures)
    assert len({one.content for one in pictures}) == 12
    part = page.http.get(f"{page.address}video/p1", headers={"Range": "bytes=0-9"})
    assert (part.status_code, len(part.content)) == (206, 10)
    assert page.http.get(f"{page.address}style.css").headers["content-type"].startswith("text/css")
    saved = page.save("p1", text="A ball.\r\nIt stops.\r\n", by="Anna", note="")
    assert saved.status_code == 303
    assert saved.headers["location"].endswith("/prompt/p2")
    page.save("p3", verdict="left_out")
    assert page.save("p2").headers["location"].count("/") == 2
    reviews = {one.prompt_id: (one.verdict, one.text) for one in page.project.reviews()}
    assert reviews == {
        "p1": ("accepted", "A ball.\nIt stops."),
        "p3": ("left_out", ""),
        "p2": ("accepted", "A ball."),
    }
    assert "3 drafts, 0 to review" in page.http.get(page.address).text
    # the accepted text is in the form and can be changed
    assert "A ball.\nIt stops.</textarea>" in page.http.get(f"{page.address}prompt/p1").text


def test_no_text_becomes_part_of_the_page(page: Page) -> None:
    page_text = page.http.get(f"{page.address}prompt/p1").text
    assert re.findall("<script[^>]*>", page_text) == ['<script src="../keep.js" defer>']
    assert "alert(1)</script>" not in page_text
    assert "<i>" not in page_text
    assert "54444439" not in page_text
    (text,) = re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", page_text, re.S)
    assert html.unescape(text) == ODD
    refused = page.save("p1", verdict="<b>maybe</b>", text=ODD, by='"><b>', note="'><b>")
    assert refused.status_code == 422
    assert "<b>" not in refused.text
    # and what the person wrote is still there
    assert html.escape(ODD, quote=False).split("&amp;")[0] in refused.text
    assert page.project.reviews() == []


def test_a_video_that_is_gone_leaves_the_text(page: Page) -> None:
    reply = page.http.get(f"{page.address}prompt/p3")
    assert reply.status_code == 200
    assert "The video cannot be shown" in reply.text
    for gone in (
        "still/p3/0",
        "still/p1/12",
        "still/p1/-1",
        "video/p3",
        "prompt/p9",
        "prompt/..%2Fp1",
        "etc",
    ):
        assert page.http.get(f"{page.address}{gone}").status_code == 404, gone


def test_nobody_else_comes_in(page: Page) -> None:
    root = page.address.rsplit("/", 2)[0]
    fields = page.fields("p1")
    for elsewhere in (f"{root}/", f"{root}/guess/", f"{root}/guess/prompt/p1", f"{root}/guess/video/p1"):
        assert page.http.get(elsewhere).status_code == 404
    assert page.http.get(page.address, headers={"Host": "evil.example"}).status_code == 421
    assert page.save("p1", csrf="guess").status_code == 403
    given = {**fields, "verdict": "accepted", "text": "Mine."}
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert page.http.post(f"{page.address}prompt/p1", data=given, headers=headers).status_code == 403
    assert page.http.post(f"{page.address}prompt/p1", data={"text": "Mine."}).status_code == 422
    assert page.save("p1", text="x" * 300_000).status_code == 413
    assert page.project.reviews() == []


def test_a_draft_that_changed_meanwhile_is_not_accepted(page: Page) -> None:
    fields = page.fields("p1")
    changed = draft("p1", page.project.folder.parent / "a.mp4")
    versions = (Version(text="Another."),)
    page.project.keep_draft(Draft(video=changed.video, versions=versions))
    refused = page.save("p1", draft=fields["draft"], text="My work.")
    assert refused.status_code == 422
    assert "its draft has changed" in refused.text
    assert "My work." in refused.text
    assert page.project.reviews() == []


def test_two_people_with_one_prompt_do_not_lose_what_either_wrote(page: Page) -> None:
    both = page.fields("p1")
    assert page.save("p1", **both, text="Anna's text.", by="Anna").status_code == 303
    refused = page.save("p1", **both, text="Berta's text.", by="Berta")
    assert refused.status_code == 422
    assert "Anna has accepted a text of it meanwhile" in refused.text
    assert "Anna&#39;s text.</p>" in refused.text
    assert "Berta's text.</textarea>" in html.unescape(refused.text)
    assert [one.by for one in page.project.reviews()] == ["Anna"]
    again = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', refused.text))
    assert page.save("p1", **again, text="Berta's text.", by="Berta").status_code == 303
    assert [one.by for one in page.project.reviews()] == ["Anna", "Berta"]


def test_who_looks_now_is_named(page: Page) -> None:
    """The command was started with --by Anna."""
    page.save("p1", by="Berta")
    assert 'name="by" maxlength="200" value="Anna"' in page.http.get(f"{page.address}prompt/p1").text


def test_a_form_that_does_not_fit_is_answered_by_a_page(page: Page) -> None:
    refused = page.save("p1", by="B" * 300)
    assert refused.status_code == 422
    assert refused.headers["content-type"].startswith("text/html")
    assert "by: must have at most 200 characters" in refused.text


def test_every_answer_forbids_what_the_page_does_not_need(page: Page) -> None:
    for path in ("", "prompt/p1", "still/p1/0", "video/p1", "style.css", "keep.js", "nothing"):
        reply = page.http.get(f"{page.address}{path}")
        for header in HEADERS:
            assert header in reply.headers, (path, header)
        assert "server" not in reply.headers


def test_a_folder_without_drafts_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suite", "prompts", "review", str(tmp_path)]) == 1
    assert "has no drafts" in capsys.readouterr().err
