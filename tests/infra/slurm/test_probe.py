from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.profile import Profile
from infra.slurm import on_node
from infra.slurm.job_script import job_script
from infra.slurm.probe import listening, probe_script

POOL = {"partition": "p", "cores": 8, "memory": "20GiB", "walltime": "10:00:00"}


@pytest.fixture(autouse=True)
def no_gpus(fake: Callable[[str, str], Path]) -> None:
    """Let a command say that there is no GPU; without it torch would be imported, which takes long."""
    fake("nvidia-smi", "exit 0")


@pytest.fixture
def driver() -> Iterator[tuple[str, int, str]]:
    with listening("127.0.0.1") as (port, secret):
        yield "127.0.0.1", port, secret


def asked(driver: tuple[str, int, str], token: Path, **changes: Any) -> dict[str, Any]:
    host, port, secret = driver
    return {
        "token_file": str(token),
        "readable": [str(token.parent)],
        "writable": [str(token.parent), str(token.parent / "none")],
        "distributions": ["numpy", "no-such-thing"],
        "modules": ["json", "no_such_module"],
        "interface": "lo",
        "driver": [host, port],
        "secret": secret,
    } | changes


def script(tmp_path: Path, question: dict[str, Any], **pool: Any) -> str:
    profile = Profile.model_validate({"pools": {"cpu": POOL | pool}})
    text = job_script(
        profile, "cpu", run="r", index=0, scheduler="tcp://127.0.0.1:1", store=tmp_path, preload=("tasks",)
    )
    return probe_script(text, "n7", "doctor", tmp_path / "log", question)


def test_the_script_says_what_the_machine_is_like(driver: tuple[str, int, str], tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text('it\'s "me"', encoding="utf-8")
    scratch = tmp_path / "local-$NAME"
    text = script(tmp_path, asked(driver, token), setup=["export NAME=one"], scratch=str(scratch))
    ran = subprocess.run(["bash"], input=text, capture_output=True, text=True, timeout=120, check=True)
    (line,) = ran.stdout.splitlines()
    output = json.loads(line.removeprefix(on_node.MARK))
    assert output["token"] == token.read_text(encoding="utf-8")
    assert output["executable"] == sys.executable
    assert output["versions"]["numpy"]
    assert output["versions"]["no-such-thing"] is None
    assert list(output["import_errors"]) == ["no_such_module"]
    assert output["folder_errors"] == {str(tmp_path): None, str(tmp_path / "none"): "is not there"}
    assert output["scratch_error"] is None
    assert list((tmp_path / "local-one").iterdir()) == []
    assert (output["driver_error"], output["worker_error"]) == (None, None)
    assert "lo" in output["interfaces"]


def test_the_job_asks_for_what_a_worker_asks_for_on_the_node_that_is_meant(
    driver: tuple[str, int, str], tmp_path: Path
) -> None:
    text = script(tmp_path, asked(driver, tmp_path / "token"), directives=["--exclude=n1"], setup=["true"])
    header = [line for line in text.splitlines() if line.startswith("#SBATCH")]
    assert header[-4:] == [
        "#SBATCH --job-name=doctor",
        f"#SBATCH --output={tmp_path}/log",
        f"#SBATCH --error={tmp_path}/log",
        "#SBATCH --nodelist=n7",
    ]
    for line in ("#SBATCH -p p", "#SBATCH --cpus-per-task=8", "#SBATCH --mem=20480M", "#SBATCH -t 10:00:00"):
        assert line in header, header
    assert "#SBATCH --exclude=n1" in header
    assert "infra.slurm.worker" not in text.split("END_OF_PROBE")[-1]
    assert "export PYTHONSAFEPATH=1" in text


def test_a_driver_an_interface_and_a_scratch_folder_that_cannot_be(
    driver: tuple[str, int, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    output = on_node.answer(asked(("127.0.0.1", port, "secret"), tmp_path / "token"))
    assert "refused" in output["driver_error"]
    assert output["token"] is None
    (tmp_path / "file").write_text("x", encoding="utf-8")
    monkeypatch.setenv("SLVMEVAL_SCRATCH", str(tmp_path / "file" / "below"))
    output = on_node.answer(asked(driver, tmp_path / "token", interface="ib7"))
    assert output["driver_error"] is None
    assert output["worker_error"] == "no interface 'ib7' with an address"
    assert "Not a directory" in output["scratch_error"]


def test_a_worker_that_the_driver_cannot_call() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = closed.getsockname()[1]
    with listening("127.0.0.1") as (port, secret), socket.create_connection(("127.0.0.1", port)) as calling:
        word = json.dumps({"secret": secret, "address": ["127.0.0.1", gone]})
        calling.sendall(f"{word}\n".encode())
        assert b"refused" in calling.recv(1000)


def test_strangers_get_no_answer_and_end_nothing() -> None:
    words = (b"\n", b"GET / HTTP/1.1\n", b'{"secret": "x", "address": ["127.0.0.1", 1]}\n')
    with listening("127.0.0.1") as (port, _secret):
        for word in words * 2:
            with socket.create_connection(("127.0.0.1", port)) as calling:
                calling.sendall(word)
                assert calling.recv(1000) == b""
    assert not any(thread.name == "probe" for thread in threading.enumerate())


def test_gpus_that_slurm_gave(fake: Callable[[str, str], Path]) -> None:
    seen = ("GPU 0: NVIDIA H100", "GPU 1: NVIDIA H100")
    fake("nvidia-smi", "\n".join(f"echo '{gpu} (UUID: GPU-1)'" for gpu in seen))
    given = on_node.gpus({"CUDA_VISIBLE_DEVICES": "0,1"})
    assert given == {"given": ["0", "1"], "seen": list(seen)}
    fake("nvidia-smi", "echo 'no driver' >&2\nexit 9")
    assert on_node.gpus({}) == {"given": [], "seen": []}
