from __future__ import annotations

from pathlib import Path

import pytest

from slvmeval.cli.main import main


def test_from_answers_to_a_leaderboard(
    judged_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = ["--store", str(judged_store)]
    card, file, board = tmp_path / "card.toml", tmp_path / "coin.json", tmp_path / "board"
    card.write_text('name = "A coin"\nauthors = ["A. Person"]\n')
    make = ["submission", "make", str(file), "-e", "coin", "--card", str(card), *store]
    assert main(make) == 1
    assert "here are none" in capsys.readouterr().err
    assert not file.exists()
    assert main(["evaluate", *store, "-e", "coin", "--direct", "--quiet", "--aspect", "aesthetics"]) == 0
    capsys.readouterr()
    assert main(make) == 1
    assert "nothing in place of" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".json"] == []
    assert main(["evaluate", *store, "-e", "coin", "--direct", "--quiet"]) == 0
    capsys.readouterr()
    assert main(make) == 0
    assert "answers, 0 of them failures" in capsys.readouterr().out
    assert main(["submission", "check", str(file), *store]) == 0
    assert "A coin: " in (output := capsys.readouterr().out)
    assert "aesthetics" in output
    assert main([*make[:2], str(tmp_path), *make[3:]]) == 2
    assert "directory" in capsys.readouterr().err
    broken = tmp_path / "broken.json"
    broken.write_text(file.read_text(encoding="utf-8").replace("high_first", "low_first", 1))
    assert main(["submission", "check", str(broken), *store]) == 1
    assert "is invalid" in capsys.readouterr().err
    card.rename(tmp_path / "folder.toml")
    assert main(["leaderboard", str(tmp_path), *store, "--out", str(board)]) == 3
    page = (board / "index.html").read_text(encoding="utf-8")
    assert "A coin" in page
    assert "broken.json" in page
    assert str(tmp_path) not in page
    assert main(["leaderboard", str(file), *store, "--out", str(board), "--interval", "wilson"]) == 0
    assert "broken.json" not in (board / "index.html").read_text(encoding="utf-8")
