"""`deploy` and `run` without a server; tests/flows/test_deployed.py tests them with one."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.slvmeval.cli.running import Run, lacks

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    for name in ("PREFECT_API_URL", "SLVMEVAL_PROFILE", "SLVMEVAL_PREFECT_API_URL"):
        monkeypatch.delenv(name, raising=False)


def profile(folder: Path, *lines: str) -> str:
    path = folder / f"site-{len(list(folder.iterdir()))}.toml"
    path.write_text("\n".join(['store = "store"', *lines]), encoding="utf-8")
    return str(path)


def test_what_is_wrong_in_the_profile_is_reported_before_any_server(tmp_path: Path, run: Run) -> None:
    # the settings of the runs have to be named
    assert "--profile" in run("deploy", code=2).err
    assert "names no sources" in run("deploy", "--profile", profile(tmp_path), code=1).err
    typo = profile(tmp_path, 'sources = ["vrip:/x"]')
    assert "Did you mean 'vript:/x'?" in run("deploy", "--profile", typo, code=1).err
    good = profile(tmp_path, 'sources = ["/x"]')
    refusal = run("deploy", "--profile", good, "--recipe", "cpu-aprox", code=1).err
    assert "Did you mean 'cpu-approx'?" in refusal


@pytest.mark.slow
def test_a_server_that_is_not_named_or_does_not_answer(tmp_path: Path) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        # nobody listens there
        address = f"http://127.0.0.1:{held.getsockname()[1]}/api"
        unnamed = profile(tmp_path, 'sources = ["/x"]')
        away = profile(tmp_path, 'sources = ["/x"]', f'prefect_api_url = "{address}"')
        all_words = [["deploy", "--profile", unnamed], ["run", "nightly", "--profile", unnamed]]
        # in a process of their own: they import Prefect
        code = "import json, sys; from slvmeval.cli.main import main\nfor one in json.loads(sys.argv[1]):\n"
        code += "    assert main(one) == 1; print('\\f', file=sys.stderr)"
        given = [sys.executable, "-c", code, json.dumps([*all_words, ["deploy", "--profile", away]])]
        ran = subprocess.run(given, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    deploy, nightly, unanswered, _ = ran.stderr.split("\f")
    for said in (deploy, nightly):
        assert "set prefect_api_url in the profile, or PREFECT_API_URL" in said
    assert not lacks(unanswered, f"the Prefect server at {address} does not answer", "prefect server start")
    assert "Traceback" not in ran.stderr
