"""`deploy` and `run` without a server; tests/flows/test_deployed.py tests them with one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slvmeval.cli.main import main

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    for name in ("PREFECT_API_URL", "SLVMEVAL_PROFILE", "SLVMEVAL_PREFECT_API_URL"):
        monkeypatch.delenv(name, raising=False)


def profile(folder: Path, *lines: str) -> str:
    path = folder / "site.toml"
    path.write_text("\n".join(['store = "store"', *lines]), encoding="utf-8")
    return str(path)


def command(*words: str) -> tuple[int, str]:
    """Run a command that imports Prefect in a separate process; return its exit code and output."""
    done = subprocess.run(
        [sys.executable, "-m", "slvmeval", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ,
        check=False,
    )
    return done.returncode, done.stderr


def test_the_settings_of_the_runs_have_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["deploy"]) == 2
    assert "--profile" in capsys.readouterr().err


def test_what_is_wrong_in_the_profile_is_said_before_any_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["deploy", "--profile", profile(tmp_path)]) == 1
    assert "names no sources" in capsys.readouterr().err
    assert main(["deploy", "--profile", profile(tmp_path, 'sources = ["vrip:/x"]')]) == 1
    assert "Did you mean 'vript:/x'?" in capsys.readouterr().err
    good = profile(tmp_path, 'sources = ["/x"]')
    assert main(["deploy", "--profile", good, "--recipe", "cpu-aprox"]) == 1
    assert "Did you mean 'cpu-approx'?" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["deploy", "run"])
def test_a_server_that_is_not_named(word: str, tmp_path: Path) -> None:
    words = [
        word,
        *(["nightly"] if word == "run" else []),
        "--profile",
        profile(tmp_path, 'sources = ["/x"]'),
    ]
    code, output = command(*words)
    assert code == 1
    assert "set prefect_api_url in the profile, or PREFECT_API_URL" in output


def test_a_server_that_does_not_answer(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        # nobody listens there
        address = f"http://127.0.0.1:{held.getsockname()[1]}/api"
        file = profile(tmp_path, 'sources = ["/x"]', f'prefect_api_url = "{address}"')
        code, output = command("deploy", "--profile", file)
    assert code == 1
    assert f"the Prefect server at {address} does not answer" in output
    assert "prefect server start" in output
    assert "Traceback" not in output
