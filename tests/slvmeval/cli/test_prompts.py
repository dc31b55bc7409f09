"""`slvmeval prompts`: listed, exported, edited, checked, and used."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.score.options import evaluate_options
from flows.score.parameters import EvaluateParameters
from infra.profile import load_profile
from storage_schemas.errors import UserInputError
from tasks.llm.prompt_files import prompt_catalogue, prompt_text
from tests.slvmeval.cli.running import Run, every_command
from tests.tasks.llm.made_up_paper import SLVMEVAL

PAINT = "operations/color_instruction.txt: the placeholder {object} is missing"


def test_all_prompts_are_listed_with_where_a_paper_has_their_words(run: Run) -> None:
    listed = run("list", "prompts", "--format", "json").json
    assert set(listed) == set(prompt_catalogue())
    assert listed["judges/video_judge_user"]["words"] == "SLVMEval, G.1"
    assert listed["descriptions/color"]["words"] == "SLVMEval, table 6"
    shown = run("list", "prompts", "operations").out
    assert "operations/color_instruction" in shown
    assert "judges/" not in shown
    run("list", "prompts", "operation", code=1)
    # the commands that send a prompt exist
    senders = {command for one in prompt_catalogue().values() for command in one.used_by.split(", ")}
    assert senders <= every_command().keys()


def test_the_wording_of_a_paper_s_text_becomes_a_folder(tmp_path: Path, run: Run) -> None:
    paper, folder = tmp_path / "paper.txt", tmp_path / "exact"
    paper.write_text(SLVMEVAL.replace("| color |", "| hue |"), encoding="utf-8")
    printed = run("prompts", folder, "--from-paper", paper, code=3).out
    assert "descriptions/color: not found" in printed
    # the made-up paper's words are not those of the real one
    assert "judges/caption_user: differs from the known wording of the paper" in printed
    assert "16 prompts of SLVMEval written, 0 existed" in printed
    assert "16 prompts in place of built-in ones" in run("prompts", folder, "--dry-run").out
    found = run("prompts", folder, "--from-paper", paper, "--format", "json", code=3).json
    assert (found["written"], found["existed"]) == (0, 16)
    run("prompts", paper, "--from-paper", paper, code=1)


def test_an_export_is_ours_and_keeps_what_is_there(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "mine"
    run("prompts", folder, "judges")
    names = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.txt")}
    assert names == {key for key in prompt_catalogue() if key.startswith("judges/")}
    mine = folder / "judges" / "caption_user.txt"
    mine.write_text("Describe it for {dimension}: {description}")
    printed = run("prompts", folder, "--dry-run").out.splitlines()
    assert printed[0] == "judges/caption_user: yours"
    assert printed[-1].endswith("0 mistakes, 1 prompt in place of built-in ones")
    assert len(list(folder.rglob("*.txt"))) == len(names)
    exported = run("prompts", folder).out
    assert f"{len(names)} existed" in exported
    assert mine.read_text() == "Describe it for {dimension}: {description}"
    assert (folder / "judges" / "video_score.txt").read_text().strip() == prompt_text("judges/video_score")
    assert len(list(folder.rglob("*.txt"))) == len(prompt_catalogue())


def test_mistakes_are_told_one_a_line_and_refuse_a_build(tmp_path: Path, run: Run) -> None:
    own = tmp_path / "own"
    run("prompts", own, "operations")
    (own / "operations" / "color_instruction.txt").write_text("Paint it {color}.")
    (own / "operations" / "colour.txt").write_text("Paint.")
    first, second, _ = run("prompts", own, "operations", code=1).out.splitlines()
    assert first == PAINT
    assert second.startswith("operations/colour.txt: there is no such prompt")
    run("prompts", tmp_path / "none", "--dry-run", code=1)
    assert "did you mean judges?" in run("prompts", tmp_path / "x", "jugdes", code=1).err
    (own / "operations" / "colour.txt").unlink()
    (tmp_path / "videos").mkdir()
    given = ("--sources", tmp_path / "videos", "--store", tmp_path / "store")
    assert PAINT in run("build", *given, "--recipe", "paper", "--prompts", own, code=1).err
    assert not (tmp_path / "store").exists()


def test_prompts_of_one_evaluator_are_checked_and_found_from_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "mine" / "judges"
    own.mkdir(parents=True)
    (own / "video_judge_system.txt").write_text("Which?")
    site = load_profile(None, {"store": str(tmp_path / "store")}, {})
    parameters = EvaluateParameters(evaluators=("gpt-5-video", "gpt-5-video?label=mine&prompts=mine"))
    ours, mine = evaluate_options(parameters, site).evaluators
    assert "prompts" not in ours.settings
    assert mine.settings["prompts"] == str(tmp_path / "mine")
    # a folder of such folders is one of wordings, which are asked beside the judge's own
    several = EvaluateParameters(evaluators=("gpt-5-video", "clipscore"), prompts=str(tmp_path))
    made = evaluate_options(several, site)
    assert [one.wording for one in made.evaluators] == ["", "", "mine"]
    assert (made.evaluators[2].settings, made.prompts) == ({"prompts": str(tmp_path / "mine")}, "")
    (own / "video_judge_sytem.txt").write_text("Which?")
    with pytest.raises(UserInputError, match=r"video_judge_sytem\.txt: there is no such prompt"):
        evaluate_options(parameters, site)
