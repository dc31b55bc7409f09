"""Where an output cannot be: below a file, or in place of a folder, a pipe or a device."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slvmeval.cli.main import main


@pytest.mark.parametrize(
    "words",
    [
        ["demo", "--folder"],
        ["export", "--recipe-only", "--store", "store", "--out"],
        ["gallery", "--store", "store", "--out"],
        ["materialise", "--quiet", "--store", "store", "--out"],
        ["models", "add", "mine", "checkpoint", "--kind", "detector", "--models"],
        ["prompts", "export"],
    ],
)
@pytest.mark.usefixtures("judged_store")
def test_a_file_in_the_way_of_a_folder_is_named(
    tmp_path: Path, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "config.json").write_text("{}")
    (tmp_path / "taken").write_text("mine")
    assert main([*words, "taken/inner"]) == 1
    said = capsys.readouterr().err
    assert f"error: {tmp_path}/taken is a file, and a folder is needed there" in said
    assert (tmp_path / "taken").read_text() == "mine"


def test_where_the_summary_cannot_be_is_said_before_the_build(
    judged_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "taken").write_text("mine")
    build = ["build", "--direct", "--quiet", "--recipe", "cpu-approx", "--store", str(tmp_path / "new")]
    build += ["--sources", str(judged_store.parent)]
    assert main([*build, "--summary", str(tmp_path / "pipe")]) == 1
    assert "pipe cannot be written: it is a named pipe" in capsys.readouterr().err
    assert main([*build, "--summary", str(tmp_path / "taken" / "s.json")]) == 1
    assert "taken is a file, and a folder is needed there" in capsys.readouterr().err
    assert (tmp_path / "pipe").is_fifo()
    assert not (tmp_path / "new").exists()
