"""The wording of prompts out of a paper's text: made-up papers, and the real ones where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_schemas.errors import UserInputError
from tasks.llm.printed_prompts import (
    AS_PRINTED,
    bare_digest,
    is_as_printed,
    known_digests,
    prompts_label,
    take_prompts,
    write_prompts,
)
from tasks.llm.prompt_files import check_prompts
from tests.papers.at_hand import FOLDER
from tests.tasks.llm.made_up_paper import CARD, SLVMEVAL, VIDEO_BENCH

JUDGES = ("judges", "descriptions")


def written(folder: Path, text: str) -> Path:
    path = folder / "paper.txt"
    path.write_text(text, encoding="utf-8")
    return path


def real(title: str) -> Path:
    """Return the text of a paper that is at hand, or skip the test."""
    for path in sorted(FOLDER.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        if title in text[:200] and "Table 9" in text:
            return path
    pytest.skip(f"no text of {title} in {FOLDER}")


def test_a_paper_s_prompts_are_found_by_their_sections(tmp_path: Path) -> None:
    taken = take_prompts(written(tmp_path, SLVMEVAL))
    assert (taken.paper, taken.missing, taken.mistakes) == ("SLVMEval", (), {})
    texts = taken.texts
    assert len(texts) == 17
    assert texts["caption-analysis/caption_analysis"].endswith("List what is mentioned. ```txt {caption} ```")
    assert texts["judges/video_judge_system"] == "Look at both."
    assert texts["judges/video_judge_user"] == "On {dimension}, {description}: {prompt}"
    assert texts["judges/text_judge_user"].endswith("{prompt} {first} {second}")
    assert texts["judges/caption_system"] == "Say what {dimension} is like: {description}"
    assert texts["judges/caption_user"] == "Say it."
    assert texts["descriptions/comprehensiveness"] == "It shows scene as it should."
    # it is a paper, and not the paper
    assert set(taken.strange) == set(known_digests()) & set(texts)
    assert write_prompts(tmp_path / "exact", texts) == (17, 0)
    assert check_prompts(tmp_path / "exact") == []
    assert write_prompts(tmp_path / "exact", texts) == (0, 17)
    assert prompts_label(tmp_path / "exact", JUDGES).startswith("exact, ")


def test_steps_stand_in_fences_that_pages_interrupt(tmp_path: Path) -> None:
    taken = take_prompts(written(tmp_path, VIDEO_BENCH))
    assert (taken.paper, taken.missing) == ("Video-Bench", ())
    steps = {key.rpartition("consistency_")[2]: text for key, text in taken.texts.items()}
    assert steps == {
        "describe": "### Task: describe it.\n\nAnd more of it.",
        "first_assistant": "ask, first.",
        "second_assistant": "ask, second.",
        "answer": "answer.",
        "score": "score.",
    }
    write_prompts(tmp_path / "exact", taken.texts)
    assert check_prompts(tmp_path / "exact") == []


def test_the_model_card_has_room_for_frames(tmp_path: Path) -> None:
    taken = take_prompts(written(tmp_path, CARD))
    assert taken.texts == {"judges/video_score": 'Rate the video of "{prompt}".\n{frames}'}


def test_what_is_not_there_or_does_not_fit_is_named(tmp_path: Path) -> None:
    text = SLVMEVAL.replace("{input_text}\nAlgorithm 2", "no more\nAlgorithm 2")
    text = text.replace("| color |", "| hue |")
    taken = take_prompts(written(tmp_path, text))
    assert taken.missing == ("descriptions/color",)
    assert taken.mistakes == {"judges/video_judge_user": "the placeholder {prompt} is missing"}
    assert "judges/video_judge_user" not in taken.texts
    with pytest.raises(UserInputError, match="has no prompt where SLVMEval, Video-Bench, VideoScore print"):
        take_prompts(written(tmp_path, "SLVMEval is a paper."))
    with pytest.raises(UserInputError, match="cannot be read"):
        take_prompts(tmp_path / "none.txt")


def test_copies_differ_in_spaces_and_quotation_marks() -> None:
    assert bare_digest("A “b”\n’’’ c") == bare_digest("A 'b' ``` c".replace("`", "'"))
    assert bare_digest("a") != bare_digest("A")


def test_the_papers_own_words_are_known_by_their_checksums(tmp_path: Path) -> None:
    taken = take_prompts(real("SLVMEval"))
    assert (taken.missing, taken.mistakes, taken.strange) == ((), {}, ())
    write_prompts(tmp_path / "mine", taken.texts)
    label = prompts_label(tmp_path / "mine", JUDGES)
    assert label.startswith(f"{AS_PRINTED}, ")
    # one other word, or one more text of the user's, and they are not
    assert is_as_printed({k: v for k, v in taken.texts.items() if k.partition("/")[0] in JUDGES}, JUDGES)
    place = tmp_path / "mine" / "judges" / "caption_user.txt"
    place.write_text("Say it.", encoding="utf-8")
    assert prompts_label(tmp_path / "mine", JUDGES).startswith("mine, ")
    place.unlink()
    assert prompts_label(tmp_path / "mine", JUDGES).startswith("mine, ")


def test_video_bench_s_own_words_are_known_by_their_checksums() -> None:
    taken = take_prompts(real("Video-Bench"))
    assert (taken.missing, taken.mistakes, taken.strange) == ((), {}, ())
    assert len(taken.texts) == 5
