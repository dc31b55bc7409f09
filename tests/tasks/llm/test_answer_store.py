"""Descriptions that several processes and judges want are made once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from storage_schemas.json_checksum import with_checksum
from tasks.llm import answer_store
from tasks.llm.answer_store import AnswerStore, StoredAnswer
from tasks.llm.chat import ChatClient
from tasks.llm.exchange import ChatAnswer
from tasks.llm.requests import Calls, usage_of_kept
from tasks.llm.servers import ChatServer
from tasks.llm.usage import ModelUsage
from tasks.llm.vision_models import VlmModel

#: Makes the captions that nobody has made yet, each when it is told to.
OTHER = """
import sys
from pathlib import Path
from tasks.llm.answer_store import AnswerStore, StoredAnswer
kept = AnswerStore(Path(sys.argv[1]))
def make(key):
    print(key, flush=True)
    sys.stdin.readline()
    return StoredAnswer(key=key, text=key, model="m")
for key in ("there", "a", "b"):
    kept.get_or_make(key, lambda: make(key))
"""


def caption(key: str) -> StoredAnswer:
    return StoredAnswer(key=key, text=key, model="m")


def test_a_kept_answer_has_the_prices_of_its_tokens(tmp_path: Path) -> None:
    model = VlmModel(model="tiny", server="s", context_tokens=9000, answer_tokens=100, most_images=4)
    server = ChatServer(name="s", url="http://127.0.0.1:1", model="tiny")
    calls = Calls(model, ChatClient(server), AnswerStore(tmp_path))
    cached = ChatAnswer(text="{}", model="m", tokens_in=90, tokens_out=5, cached_in=60, written_in=20)
    calls.keep("cached", cached, {}, None, {})
    calls.keep("half", ChatAnswer(text="{}", model="m", tokens_out=5), {}, None, {"expected_in": 80})
    first, second = (usage_of_kept(one) for one in map(calls.answers.find, ("cached", "half")) if one)
    assert first == ModelUsage("m", tokens_in=90, tokens_out=5, cached_in=60, written_in=20)
    assert second == ModelUsage("m", tokens_out=5, uncounted=1, estimated_in=80)


def test_caption_is_made_once_by_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()

    def look_again(_: float) -> None:
        waits.set()
        time.sleep(0.01)

    monkeypatch.setattr(answer_store, "time", SimpleNamespace(sleep=look_again))
    kept = AnswerStore(tmp_path / "captions")
    # two judges of a process share what each has made
    AnswerStore(tmp_path / "captions").get_or_make("there", lambda: caption("there"))
    assert kept.get_or_make("there", lambda: pytest.fail("it is there")) == (caption("there"), False)
    command = [sys.executable, "-c", OTHER, str(tmp_path / "captions")]
    with (
        ThreadPoolExecutor(1) as pool,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
    ):
        assert other.stdin is not None
        assert other.stdout is not None

        def want(key: str) -> Future[tuple[StoredAnswer, bool]]:
            """Want what the other process is making."""
            waits.clear()
            result = pool.submit(kept.get_or_make, key, lambda: caption(key))
            assert waits.wait(60)
            assert not result.done()
            return result

        assert other.stdout.readline() == "a\n", "what is there is not made"
        result = want("a")
        other.stdin.write("\n")
        other.stdin.flush()
        assert result.result(60) == (caption("a"), False)
        assert other.stdout.readline() == "b\n"
        result = want("b")
        other.kill()
        assert result.result(60) == (caption("b"), True)


def test_threads_that_want_one_caption_make_it_once(tmp_path: Path) -> None:
    kept, gate = AnswerStore(tmp_path), threading.Barrier(8, timeout=60)

    def want(_: int) -> tuple[StoredAnswer, bool]:
        gate.wait()
        return kept.get_or_make("k", lambda: caption("k"))

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(want, range(8)))
    assert {answer.text for answer, _ in results} == {"k"}
    assert sum(made for _, made in results) == 1


def test_a_torn_caption_is_made_again(tmp_path: Path) -> None:
    whole, made = caption("k"), caption("l")
    torn = with_checksum(whole.model_dump_json()) + b'\n{"key": "l", "te'
    (tmp_path / "a.jsonl").write_bytes(torn)
    kept = AnswerStore(tmp_path)
    assert kept.get_or_make("k", lambda: pytest.fail("it is there")) == (whole, False)
    assert kept.get_or_make("l", lambda: made) == (made, True)
    assert AnswerStore(tmp_path).get_or_make("l", lambda: pytest.fail("it is there"))[0] == made
