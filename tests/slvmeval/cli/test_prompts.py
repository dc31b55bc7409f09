"""`slvmeval prompts`: listed, exported, edited, checked, and used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.score.options import EvaluateParameters
from infra.profile import load_profile
from slvmeval.cli.main import main
from storage_schemas.errors import UserInputError
from tasks.llm.prompt_files import prompt_catalogue, prompt_text


def test_all_prompts_are_listed_with_where_a_paper_has_their_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["prompts", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert set(listed) == set(prompt_catalogue())
    assert listed["judges/video_judge_user"]["words"] == "SLVMEval, G.1"
    assert listed["descriptions/color"]["words"] == "SLVMEval, table 6"
    assert main(["prompts", "list", "operations"]) == 0
    shown = capsys.readouterr().out
    assert "operations/color_instruction" in shown
    assert "judges/" not in shown
    assert main(["prompts", "list", "operation"]) == 2


def test_an_export_is_ours_and_keeps_what_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    assert main(["prompts", "export", str(folder), "--area", "judges"]) == 0
    names = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.txt")}
    assert names == {key for key in prompt_catalogue() if key.startswith("judges/")}
    mine = folder / "judges" / "caption_user.txt"
    mine.write_text("Describe it for {dimension}: {description}")
    capsys.readouterr()
    assert main(["prompts", "check", str(folder)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "judges/caption_user: yours"
    assert printed[1].startswith("1 prompts of")
    assert main(["prompts", "export", str(folder)]) == 0
    assert "1 prompts" not in (printed := capsys.readouterr().out)
    assert f"{len(names)} existed" in printed
    assert mine.read_text() == "Describe it for {dimension}: {description}"
    assert (folder / "judges" / "video_score.txt").read_text().strip() == prompt_text("judges/video_score")
    assert len(list(folder.rglob("*.txt"))) == len(prompt_catalogue())


def test_mistakes_are_told_one_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prompts", "export", str(tmp_path), "--area", "operations"]) == 0
    (tmp_path / "operations" / "color_instruction.txt").write_text("Paint it {color}.")
    (tmp_path / "operations" / "colour.txt").write_text("Paint.")
    capsys.readouterr()
    assert main(["prompts", "check", str(tmp_path)]) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first == "operations/color_instruction.txt: the placeholder {object} is missing"
    assert second.startswith("operations/colour.txt: there is no such prompt")
    assert main(["prompts", "check", str(tmp_path / "none")]) == 1
    assert main(["prompts", "export", str(tmp_path / "x"), "--area", "jugdes"]) == 2


def test_a_build_is_refused_before_it_begins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own" / "operations"
    own.mkdir(parents=True)
    (own / "color_instruction.txt").write_text("Paint it {color}.")
    (tmp_path / "videos").mkdir()
    given = ["--sources", str(tmp_path / "videos"), "--store", str(tmp_path / "store")]
    assert main(["build", *given, "--recipe", "paper", "--prompts", str(own.parent)]) == 1
    assert "color_instruction.txt: the placeholder {object} is missing" in capsys.readouterr().err
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
    ours, mine = parameters.options(site).evaluators
    assert "prompts" not in ours.settings
    assert mine.settings["prompts"] == str(tmp_path / "mine")
    (own / "video_judge_sytem.txt").write_text("Which?")
    with pytest.raises(UserInputError, match=r"video_judge_sytem\.txt: there is no such prompt"):
        parameters.options(site)


def test_the_commands_that_send_a_prompt_exist(capsys: pytest.CaptureFixture[str]) -> None:
    commands = {command for prompt in prompt_catalogue().values() for command in prompt.used_by.split(", ")}
    for command in sorted(commands):
        assert main([*command.split(), "--help"]) == 0, command
    capsys.readouterr()
