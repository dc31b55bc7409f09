"""Prompts as files: every one of ours is listed and fits, and a user's folder replaces them or is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_schemas.errors import UserInputError
from tasks.llm.printed_prompts import write_prompts
from tasks.llm.prompt_files import (
    check_prompts,
    filled,
    own_description,
    own_prompts,
    prompt_catalogue,
    prompt_text,
    prompts_digest,
    require_prompts,
)

TASKS = Path(__file__).resolve().parents[3] / "tasks"
SYSTEM = "judges/video_judge_system"


def own(folder: Path, texts: dict[str, str]) -> None:
    """Write prompts, by area and name."""
    for key, text in texts.items():
        place = folder / f"{key}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


def test_the_catalogue_lists_every_prompt_of_the_project_and_each_fits() -> None:
    known = prompt_catalogue()
    listed = {f"{one.package.replace('.', '/')}/{one.folder}/{one.name}.txt" for one in known.values()}
    there = {f"tasks/{path.relative_to(TASKS).as_posix()}" for path in TASKS.rglob("*.txt")}
    # guides are read by people, and files of harnesses by these
    assert listed == {path for path in there if "/guides/" not in path and "/harness_files/" not in path}
    assert {key: one.mistakes(prompt_text(key)) for key, one in known.items()} == {key: [] for key in known}


def test_a_file_of_the_user_s_replaces_ours_and_the_others_stay(tmp_path: Path) -> None:
    own(tmp_path, {SYSTEM: "  Judge.\n"})
    assert prompt_text(SYSTEM, tmp_path) == "Judge."
    assert prompt_text("judges/caption_user", tmp_path) == prompt_text("judges/caption_user")
    assert own_prompts(tmp_path) == {SYSTEM: "Judge."}
    require_prompts(tmp_path)


def test_an_export_of_ours_is_read_as_ours(tmp_path: Path) -> None:
    texts = {key: prompt_text(key) for key in prompt_catalogue()}
    write_prompts(tmp_path, texts)
    require_prompts(tmp_path)
    assert {key: prompt_text(key, tmp_path) for key in texts} == texts
    for area in {prompt.area for prompt in prompt_catalogue().values()}:
        assert prompts_digest(tmp_path, [area]) == "", area


def test_the_digest_tells_wordings_apart_area_by_area(tmp_path: Path) -> None:
    assert prompts_digest(None, ["judges"]) == ""
    # a copy of ours is ours
    own(tmp_path, {SYSTEM: prompt_text(SYSTEM) + "\n"})
    assert prompts_digest(tmp_path, ["judges"]) == ""
    own(tmp_path, {"judges/caption_system": "Say what you see."})
    one = prompts_digest(tmp_path, ["judges"])
    assert one
    assert prompts_digest(tmp_path, ["video-bench"]) == ""
    own(tmp_path, {"video-bench/describe": "Describe."})
    assert prompts_digest(tmp_path, ["judges"]) == one
    own(tmp_path, {"judges/caption_system": "Say all you see."})
    assert prompts_digest(tmp_path, ["judges"]) not in ("", one)


def test_each_mistake_is_one_line_and_nothing_is_sent(tmp_path: Path) -> None:
    own(
        tmp_path,
        {
            "judges/video_judge_user": "{dimension} {description} {text}",
            "judges/caption_sytem": "Say.",
            "jugdes/caption_system": "Say.",
            "captions/x": "",
            "video-bench-criteria/motion_effects": "# meaning\nSharp?\n# look at\nEdges.\n# scale\n",
            "translation/translation": " \n",
        },
    )
    (tmp_path / "notes.md").write_text("mine")
    (tmp_path / ".DS_Store").write_text("")
    (tmp_path / "judges" / "text_judge_user.txt").write_bytes(b"\xff\xfe")
    mistakes = check_prompts(tmp_path)
    expected = [
        ("captions/x.txt", "the areas are caption-analysis, content-categories, descriptions"),
        ("judges/caption_sytem.txt", "judges has video_judge_system"),
        ("judges/text_judge_user.txt", "cannot be read"),
        ("judges/video_judge_user.txt", "{prompt} is missing"),
        ("judges/video_judge_user.txt", "{text} is unknown"),
        ("jugdes/caption_system.txt", "there is no such prompt"),
        ("notes.md", "AREA/NAME.txt"),
        ("translation/translation.txt", "it is empty"),
        ("video-bench-criteria/motion_effects.txt", "'scale' is missing or empty"),
        ("video-bench-criteria/motion_effects.txt", "'notes' is missing or empty"),
    ]
    for mistake, (file, reason) in zip(mistakes, expected, strict=True):
        assert mistake.startswith(f"{file}: ")
        assert reason in mistake
        assert "\n" not in mistake
    with pytest.raises(UserInputError) as refused:
        require_prompts(tmp_path)
    assert str(refused.value).splitlines()[1:] == mistakes
    with pytest.raises(UserInputError, match=r"video_judge_user\.txt: the placeholder \{prompt\} is missing"):
        prompt_text("judges/video_judge_user", tmp_path)


def test_a_folder_that_is_none_or_empty_is_refused(tmp_path: Path) -> None:
    require_prompts(None)
    require_prompts("")
    for check in (require_prompts, check_prompts, own_prompts):
        with pytest.raises(UserInputError, match="is not a folder"):
            check(tmp_path / "nowhere")
    (tmp_path / "judges").mkdir()
    assert len(check_prompts(tmp_path)) == 1
    with pytest.raises(UserInputError, match="contains no prompt"):
        require_prompts(tmp_path)


def test_a_package_s_aspect_may_be_described(tmp_path: Path) -> None:
    own(tmp_path, {"descriptions/loudness": "How loud it is."})
    assert own_description("loudness", tmp_path) == "How loud it is."
    assert own_description("color", tmp_path) is None
    assert check_prompts(tmp_path) == []
    own(tmp_path, {"descriptions/colour": "Misspelt."})
    (mistake,) = check_prompts(tmp_path)
    assert mistake.startswith("descriptions/colour.txt: there is no such prompt")
    (tmp_path / "descriptions" / "colour.txt").unlink()
    own(tmp_path, {"descriptions/loudness": ""})
    with pytest.raises(UserInputError, match="it is empty"):
        own_description("loudness", tmp_path)


def test_what_is_filled_in_is_not_looked_at_again() -> None:
    template = 'Answer {"color": "…"} for {prompt}, at most {most}.'
    assert filled(template, prompt="{most}", most="3") == 'Answer {"color": "…"} for {most}, at most 3.'
