"""Drafts and what people say of them: records that stay, edited files, videos, and what does not fit."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.errors import StoreError, UserInputError
from tasks.extras.locot2v.settings import READY
from tasks.extras.prompt_suite.drafts import Version
from tasks.extras.prompt_suite.edit_files import import_edits, write_edit_files
from tasks.extras.prompt_suite.project import MAX_TEXT, Draft, Project, Review
from tasks.extras.prompt_suite.settings import prompt_suite_settings
from tasks.extras.prompt_suite.videos import SourceVideo, load_videos
from tasks.scoring.suites.base import SuitePrompt
from tests.tasks.scoring.judges.short_films import write_lines

TEXT = "A red ball rolls.\n\n---\nverdict: accepted\nIt stops."


def draft(prompt_id: str = "p1", text: str = TEXT) -> Draft:
    video = SourceVideo(prompt_id=prompt_id, path=f"/videos/{prompt_id}.mp4", digest="d")
    return Draft(video=video, versions=(Version(text=text),))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    for id_ in ("p1", "p2", "p3"):
        made.keep_draft(draft(id_))
    return made


def say(project: Project, text: str = "One.", **more: Any) -> Review:
    """Say something of the first draft; it is accepted unless said otherwise."""
    given = {"prompt_id": "p1", "draft": draft().digest, "verdict": "accepted", "text": text}
    return project.review(**{**given, **more})


def texts(project: Project) -> list[str]:
    return [one.text for one in project.reviews()]


def approved(project: Project) -> Review:
    result = project.approved(draft())
    assert result is not None
    return result


def test_the_newest_record_counts_and_the_old_ones_stay(project: Project) -> None:
    say(project, "One.  \r\nTwo.\r\n", by="Anna\nB", note="fine")
    say(project, "One.\nTwo.", by="Anna B", note="fine")
    say(project, "whatever", verdict="left_out")
    first, second = project.reviews()
    assert (first.text, first.by, second.verdict, second.text) == ("One.\nTwo.", "Anna B", "left_out", "")
    assert approved(project).verdict == "left_out"
    assert project.approved(draft("p2")) is None


def test_reviews_pass_over_torn_lines_and_name_strange_ones(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "reviews.jsonl"
    record = say(project)
    whole = path.read_text()
    with path.open("a") as file:
        file.write('{"prompt_id": "p1", "dra')
    assert texts(project) == ["One."]
    say(project, "Two.")
    assert texts(project) == ["One.", "Two."]
    with path.open("a") as file:
        file.write('{"strange": 1}\n')
    with pytest.raises(StoreError, match="line 4, is not a valid review"):
        project.reviews()
    line = whole.strip()
    for odd in ("no JSON", line.replace(record.at, "yesterday"), line.replace("+00:00", "")):
        path.write_text(f"{whole}{odd}\n{whole}")
        with pytest.raises(StoreError, match="line 2, is not a valid review"):
            project.reviews()


def test_who_comes_second_sees_what_the_first_one_said(project: Project) -> None:
    anna = say(project, "Anna's.", by="Anna", seen="")
    with pytest.raises(UserInputError, match="Anna has accepted a text of it meanwhile"):
        say(project, "Berta's.", by="Berta", seen="")
    # the same again, by a double click
    assert say(project, "Anna's.", by="Anna", seen="") == anna
    say(project, "", verdict="left_out", by="Berta", seen=anna.id)
    with pytest.raises(UserInputError, match="Berta has left it out meanwhile"):
        say(project, "Mine.", by="Anna", seen=anna.id)
    assert [one.by for one in project.reviews()] == ["Anna", "Berta"]


def test_what_was_reported_of_a_draft_counts_again_when_it_comes_back(project: Project) -> None:
    say(project)
    other = draft("p1", "Another.")
    project.keep_draft(other)
    assert project.approved(other) is None
    say(project, "", draft=other.digest, verdict="left_out")
    project.keep_draft(draft())
    assert approved(project).text == "One."


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"prompt_id": "p9"}, "no draft 'p9'"),
        ({"prompt_id": "../p1"}, "no draft"),
        ({"draft": "other"}, "its draft has changed"),
        ({"verdict": "maybe"}, "write accepted or left_out"),
        ({"text": " \n "}, "the text is empty"),
        ({"text": "x" * (MAX_TEXT + 1)}, "more than"),
    ],
)
def test_what_does_not_fit_is_not_stored(project: Project, change: dict[str, str], why: str) -> None:
    with pytest.raises(UserInputError, match=why):
        say(project, **change)
    assert project.reviews() == []


def test_a_broken_draft_is_reported(project: Project, tmp_path: Path) -> None:
    (tmp_path / "drafts" / "p1.json").write_text("{")
    with pytest.raises(StoreError, match="at no cost"):
        project.drafts()


def test_review_or_lock_that_is_not_a_file_is_named(project: Project, tmp_path: Path) -> None:
    (tmp_path / ".reviews.lock").mkdir()
    with pytest.raises(UserInputError, match=r"\.reviews\.lock cannot be written"):
        project.prepare()
    with pytest.raises(StoreError, match=r"\.reviews\.lock is a folder or a link"):
        say(project)
    (tmp_path / ".reviews.lock").rmdir()
    (tmp_path / ".reviews.lock").symlink_to("/elsewhere")
    with pytest.raises(StoreError, match=r"\.reviews\.lock is a folder or a link"):
        say(project)
    (tmp_path / "reviews.jsonl").mkdir()
    with pytest.raises(StoreError, match=r"reviews\.jsonl cannot be read \(it is a folder, not a file\)"):
        project.reviews()


def test_files_go_out_and_come_back(project: Project) -> None:
    written, there = write_edit_files(project)
    assert ([path.name for path in written], there) == (["p1.md", "p2.md", "p3.md"], [])
    first, second, third = written
    first.write_text(first.read_text().replace("verdict: open", "verdict: accepted", 1))
    corrected = second.read_text().replace("verdict: open", "verdict: left_out", 1)
    second.write_text("\ufeff" + corrected.replace("\n", "\r\n").replace("by:", "by: Anna"))
    taken = import_edits(project)
    assert [(one.prompt_id, one.verdict, one.text, one.by) for one in taken.reviews] == [
        ("p1", "accepted", TEXT, ""),
        ("p2", "left_out", "", "Anna"),
    ]
    assert (taken.open, taken.unfit) == (("p3",), ())
    # again: nothing is there twice, and what a person works on is not replaced
    import_edits(project)
    assert len(project.reviews()) == 2
    assert write_edit_files(project) == ([], [third])


def test_an_old_file_replaces_nothing_that_was_reported_since(project: Project) -> None:
    first, second, _ = write_edit_files(project)[0]
    for path in (first, second):
        path.write_text(path.read_text().replace("verdict: open", "verdict: accepted"))
        os.utime(path, (1_000_000_000, 1_000_000_000))
    import_edits(project)
    say(project, "Better.", by="Anna")
    # taken over before: nothing to do, and nothing to complain of
    again = import_edits(project)
    assert again.unfit == ()
    # and it does not count as feedback on the prompt
    assert ([one.prompt_id for one in again.reviews], again.replaced) == (["p2"], ("p1",))
    assert len(project.reviews()) == 3
    first.write_text(first.read_text() + "Corrected.")
    os.utime(first, (1_000_000_000, 1_000_000_000))
    (unfit,) = import_edits(project).unfit
    assert "Anna has accepted a text of it meanwhile" in unfit.message
    assert approved(project).text == "Better."
    # saved after that
    later = approved(project).seconds + 5
    os.utime(first, (later, later))
    assert import_edits(project).unfit == ()
    assert approved(project).text.endswith("Corrected.")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("\n---\n", "\n", "no line ---"),
        ("verdict: open", "verdict: yes", "'yes'"),
        ("verdict: open\n", "", "no verdict"),
        ("prompt: p1", "prompt: p7", "no draft 'p7'"),
        ("by:", "who:", "none of prompt, draft"),
        ("draft: ", "draft: 0", "its draft has changed"),
    ],
)
def test_a_file_that_does_not_fit_stops_no_other(project: Project, old: str, new: str, why: str) -> None:
    project.keep_draft(draft("p1", "A ball."))
    first, second, _ = write_edit_files(project)[0]
    text = first.read_text().replace(old, new, 1)
    first.write_text(text.replace("verdict: open", "verdict: accepted"))
    second.write_text(second.read_text().replace("verdict: open", "verdict: accepted", 1))
    taken = import_edits(project)
    assert [one.prompt_id for one in taken.reviews] == ["p2"]
    (unfit,) = taken.unfit
    assert unfit.where == "p1.md"
    assert why in unfit.message


def test_an_empty_folder_is_reported(tmp_path: Path) -> None:
    for call in (write_edit_files, import_edits):
        with pytest.raises(UserInputError, match="has no drafts"):
            call(Project(tmp_path))


def test_prompts_are_lines_of_json(project: Project) -> None:
    project.keep_prompts([SuitePrompt(prompt_id="p1", text="Grün\u2028und rot.")])
    (line,) = project.prompts_path.read_text().split("\n")[:-1]
    assert json.loads(line)["text"] == "Grün\u2028und rot."


def test_an_unreadable_video_stops_no_other(tmp_path: Path, film_folder: Path) -> None:
    shutil.copy(film_folder / "sea.mp4", tmp_path / "a.mp4")
    (tmp_path / "b.mp4").write_bytes(b"no video")
    (tmp_path / "c.mp4").symlink_to(tmp_path / "gone.mp4")
    result = load_videos(tmp_path)
    assert [one.prompt_id for one in result.videos] == ["a"]
    assert [(one.where, one.reason) for one in result.left_out] == [
        ("b.mp4", "not_a_video"), ("c.mp4", "video_missing")
    ]  # fmt: skip


def test_a_list_names_prompts_and_themes(tmp_path: Path, film_folder: Path) -> None:
    shutil.copy(film_folder / "sea.mp4", tmp_path / "a.mp4")
    rows = [
        {"file": "a.mp4", "prompt_id": "cake_1", "theme": "food"},
        {"file": "a.mp4", "prompt_id": "cake_1"},
        {"file": "../a.mp4", "prompt_id": "out"},
        {"file": "a.mp4", "prompt_id": "../up"},
        {"file": "gone.mp4"},
        {"theme": "food"},
    ]
    result = load_videos(write_lines(tmp_path / "list.jsonl", rows))
    assert [(one.prompt_id, one.theme) for one in result.videos] == [("cake_1", "food")]
    reasons = [one.reason for one in result.left_out]
    assert reasons == ["duplicate_id", "unsafe_path", "malformed_row", "video_missing", "malformed_row"]
    with pytest.raises(UserInputError, match="no usable video"):
        load_videos(write_lines(tmp_path / "empty.jsonl", []))


def test_the_papers_models_are_the_defaults() -> None:
    settings = prompt_suite_settings({})
    names = {name: READY[getattr(settings, name)].model for name in ("multimodal", "language")}
    assert names == {"multimodal": "Qwen/Qwen2.5-VL-72B-Instruct", "language": "deepseek-ai/DeepSeek-V3.1"}


def test_settings_that_do_not_fit_are_reported() -> None:
    with pytest.raises(UserInputError, match="did you mean rounds"):
        prompt_suite_settings({"round": 2})
    with pytest.raises(UserInputError, match="least_words 9 is above most_words 8"):
        prompt_suite_settings({"least_words": 9, "most_words": 8})
    with pytest.raises(UserInputError, match=r"^tries"):
        prompt_suite_settings({"tries": 0})
