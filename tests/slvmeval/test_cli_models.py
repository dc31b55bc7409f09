from __future__ import annotations

import json
from pathlib import Path

import pytest

from slvmeval.cli import main


def test_missing_models_say_how_to_get_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "list", "--models", str(tmp_path)]) == 0
    assert "slvmeval models fetch u2netp" in capsys.readouterr().out
    assert main(["models", "path", "u2netp", "--models", str(tmp_path)]) == 1
    assert "slvmeval models fetch u2netp" in capsys.readouterr().err
    assert main(["models", "fetch", "u2nett", "--models", str(tmp_path)]) == 1
    assert "no model 'u2nett'" in capsys.readouterr().err


def test_verify_tells_wrong_from_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["models", "verify", "--models", str(tmp_path)]
    assert main(words) == 0
    assert main([*words, "u2netp"]) == 1
    (tmp_path / "u2netp.onnx").write_bytes(b"no weights")
    capsys.readouterr()
    assert main(words) == 1
    assert "wrong    u2netp" in capsys.readouterr().out


def test_list_as_json_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "u2netp.onnx").write_bytes(b"x")
    assert main(["models", "list", "--models", str(tmp_path), "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["u2netp"]["path"] == str(tmp_path / "u2netp.onnx")
    assert rows["u2net"]["path"] is None


@pytest.mark.parametrize("what", ["recipe", "profile"])
def test_schemas_are_json_schema(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "show", what]) == 0
    assert json.loads(capsys.readouterr().out)["additionalProperties"] is False


def test_tables_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "show", "tables"]) == 0
    shown = capsys.readouterr().out
    for name in ("sources", "clips", "pairs", "edits", "degraded_clips", "set_aside", "analyses"):
        assert f"\n{name}\n" in f"\n{shown}"
