"""Descriptions that several processes and judges want are made once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tasks.llm.answer_store import AnswerStore, StoredAnswer

WANTS = """
import sys, time
from pathlib import Path
from tasks.llm.answer_store import AnswerStore, StoredAnswer
kept = AnswerStore(Path(sys.argv[1]))
kept.get_or_make("first", lambda: StoredAnswer(key="first", text="t", model="m"))
print("ready", flush=True)
sys.stdin.readline()
def make(key):
    print(key, flush=True)
    time.sleep(float(sys.argv[2]))
    return StoredAnswer(key=key, text=key, model="m")
for key in ("a", "b", "c"):
    assert kept.get_or_make(key, lambda: make(key))[0].text == key
"""


def wants(folder: Path, seconds: float) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WANTS, str(folder), str(seconds)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def caption(key: str) -> StoredAnswer:
    return StoredAnswer(key=key, text=key, model="m")


def test_processes_that_want_the_same_captions_make_each_once(tmp_path: Path) -> None:
    processes = [wants(tmp_path / "captions", 0.2) for _ in range(2)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    made = [key for process in processes for key in process.communicate(timeout=120)[0].split()]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(made) == ["a", "b", "c"]


def test_a_caption_is_made_again_where_its_process_was_killed(tmp_path: Path) -> None:
    process = wants(tmp_path / "captions", 60)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "a\n"
    kept, result = AnswerStore(tmp_path / "captions"), []
    waiting = threading.Thread(target=lambda: result.append(kept.get_or_make("a", lambda: caption("a"))))
    waiting.start()
    waiting.join(0.5)
    assert not result, "another process is making it"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    waiting.join(60)
    assert result == [(caption("a"), True)]
    process.stdin.close()
    process.stdout.close()


def test_two_judges_share_what_each_has_made(tmp_path: Path) -> None:
    one, other = AnswerStore(tmp_path / "captions"), AnswerStore(tmp_path / "captions")
    one.get_or_make("a", lambda: caption("a"))
    other.get_or_make("b", lambda: caption("b"))
    assert one.get_or_make("b", lambda: pytest.fail("it is there")) == (caption("b"), False)
    assert other.get_or_make("a", lambda: pytest.fail("it is there")) == (caption("a"), False)
