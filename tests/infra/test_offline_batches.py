"""Batches for a model without a server, answered by a program like vLLM's `run-batch`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra.offline_batches import answer_batches
from storage_schemas.errors import PrerequisiteError
from storage_schemas.offline_batches import answers_path, failure_path, requests_path, waiting_batches

COMMAND = [sys.executable, str(Path(__file__).parent / "small_run_batch.py"), "run-batch", "--model", "m"]


def hand_over(folder: Path, batch: str, *ids: str) -> None:
    lines = [{"custom_id": id_, "url": "/v1/chat/completions", "body": {"model": "m"}} for id_ in ids]
    requests_path(folder, batch).write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def ids_answered(folder: Path, batch: str) -> list[str]:
    return [json.loads(line)["custom_id"] for line in answers_path(folder, batch).read_text().splitlines()]


def test_all_that_waits_is_answered_by_one_start_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAN", str(tmp_path / "ran"))
    folder = tmp_path / "batches"
    folder.mkdir()
    hand_over(folder, "one", "a", "b")
    hand_over(folder, "two", "c")
    assert waiting_batches(folder) == ["one", "two"]
    assert answer_batches(folder, COMMAND) == 2
    assert (ids_answered(folder, "one"), ids_answered(folder, "two")) == (["a", "b"], ["c"])
    assert (tmp_path / "ran").read_text() == "ran\n"
    assert waiting_batches(folder) == []
    hand_over(folder, "three", "d")
    assert answer_batches(folder, COMMAND) == 1
    assert not list(folder.glob(".answering-*"))


def test_a_request_that_waits_in_two_batches_is_asked_once(tmp_path: Path) -> None:
    hand_over(tmp_path, "given-up", "a", "b")
    hand_over(tmp_path, "new", "b")
    code = "import sys, pathlib as p; p.Path(sys.argv[-1]).write_bytes(p.Path(sys.argv[-3]).read_bytes())"
    assert answer_batches(tmp_path, [sys.executable, "-c", code]) == 2
    assert (ids_answered(tmp_path, "given-up"), ids_answered(tmp_path, "new")) == (["a", "b"], ["b"])


def test_the_program_takes_requests_with_any_number_of_frames(tmp_path: Path) -> None:
    hand_over(tmp_path, "one", "a")
    code = (
        "import os, sys, pathlib; "
        "limit = os.environ['VLLM_MAX_MEDIA_REQUEST_DECODE_BYTES']; "
        'pathlib.Path(sys.argv[-1]).write_text(\'{"custom_id": "a", "limit": "%s"}\\n\' % limit)'
    )
    assert answer_batches(tmp_path, [sys.executable, "-c", code]) == 1
    assert json.loads(answers_path(tmp_path, "one").read_text())["limit"] == "0"


def test_a_bad_line_costs_no_other(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    hand_over(tmp_path, "one", "a", "b")
    lines = ['{"custom_id": "a"}', "null", '{"custom_id": "zz"}', '{"custom_']
    code = f"import sys, pathlib; pathlib.Path(sys.argv[-1]).write_text({chr(10).join(lines)!r})"
    assert answer_batches(tmp_path, [sys.executable, "-c", code]) == 1
    assert ids_answered(tmp_path, "one") == ["a"]
    told = capfd.readouterr().out
    assert [number for number in range(1, 5) if f"line {number} answers no request" in told] == [2, 3, 4]


def test_a_program_that_fails_gives_the_batches_up(tmp_path: Path) -> None:
    hand_over(tmp_path, "one", "a")
    with pytest.raises(PrerequisiteError, match="ended with status 3, without answers"):
        answer_batches(tmp_path, [*COMMAND, "--status", "3"])
    assert "status 3" in failure_path(tmp_path, "one").read_text()
    assert waiting_batches(tmp_path) == []
    hand_over(tmp_path, "two", "b")
    with pytest.raises(PrerequisiteError, match="cannot be started"):
        answer_batches(tmp_path, ["/no/vllm"])
    # a wrong name of the program is not a reason to give up
    assert waiting_batches(tmp_path) == ["two"]


def test_a_job_that_is_ended_leaves_its_batches_to_the_next(tmp_path: Path) -> None:
    hand_over(tmp_path, "one", "a")
    words = [sys.executable, "-m", "infra.offline_batches", str(tmp_path), "--", *COMMAND]
    running = subprocess.Popen([*words, "--seconds", "60"], stdout=subprocess.DEVNULL)
    end = time.monotonic() + 30
    while not list(tmp_path.glob(".answering-*/requests.jsonl")):
        assert time.monotonic() < end
        time.sleep(0.05)
    with pytest.raises(PrerequisiteError, match="another process"):
        answer_batches(tmp_path, COMMAND)
    os.kill(running.pid, signal.SIGTERM)
    assert running.wait(30) == 128 + signal.SIGTERM
    assert waiting_batches(tmp_path) == ["one"]
    assert not list(tmp_path.glob(".answering-*"))
    assert answer_batches(tmp_path, COMMAND) == 1
