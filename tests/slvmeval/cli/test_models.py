from __future__ import annotations

import json
from pathlib import Path

import pytest

from slvmeval.cli.main import main
from tests.tasks.models.checkpoints import mirror, write


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
    assert rows["u2netp"]["path"] is None
    assert rows["u2netp"]["state"] == "wrong"
    assert rows["u2net"]["path"] is None
    assert rows["u2net"]["state"] == "missing"
    dino = rows["grounding-dino-base"]
    assert (dino["kind"], dino["licence"], dino["bytes"]) == ("detector", "Apache-2.0", 933400872)
    assert dino["memory_bytes"] > dino["bytes"]
    assert dino["repository"] == "IDEA-Research/grounding-dino-base"


def test_a_model_of_ones_own_is_added_listed_verified_and_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = ["--models", str(tmp_path / "models")]
    folder = write(tmp_path / "checkpoint")
    adding = ["models", "add", "my-detector", str(folder), "--kind", "detector", "--memory", "1.5", *weights]
    assert main([*adding, "--link", "--in-place"]) == 2
    assert main([*adding, "--licence", "MIT"]) == 0
    place = tmp_path / "models" / "my-detector"
    assert capsys.readouterr().out == f"{place}\n"
    assert main([*adding]) == 1
    assert "already exists" in capsys.readouterr().err
    assert main(["models", "list", *weights]) == 0
    output = capsys.readouterr().out
    assert "my-detector: your own model\n  detector, 320.0 kB, needs 1.5 GB of memory, MIT\n" in output
    assert f"  present: {place}\n" in output
    assert main(["models", "verify", *weights]) == 0
    assert f"ok       my-detector  {place}" in capsys.readouterr().out
    (place / "config.json").write_text("[]")
    assert main(["models", "verify", "my-detector", "--again", *weights]) == 1
    assert "wrong    my-detector" in capsys.readouterr().out


def test_a_damaged_folder_is_listed_as_wrong_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (mirror(tmp_path, "mine") / "config.json").unlink()
    write(tmp_path / "grounding-dino-base")
    assert main(["models", "list", "--models", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "  wrong: " in output
    assert "config.json is missing" in output
    assert "slvmeval models add grounding-dino-base" in output


@pytest.mark.parametrize("what", ["recipe", "profile"])
def test_schemas_are_json_schema(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "show", what]) == 0
    assert json.loads(capsys.readouterr().out)["additionalProperties"] is False


def test_tables_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "show", "tables"]) == 0
    output = capsys.readouterr().out
    for name in ("sources", "clips", "pairs", "edits", "degraded_clips", "set_aside", "analyses"):
        assert f"\n{name}\n" in f"\n{output}"
