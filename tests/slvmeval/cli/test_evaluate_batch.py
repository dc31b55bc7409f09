"""`evaluate --batch`, against servers that speak the providers' batch interfaces."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.offline_batches import answer_batches
from slvmeval.cli.main import main
from storage_schemas.errors import PrerequisiteError
from storage_schemas.judgements import Judgement, JudgementsStore
from storage_schemas.offline_batches import batches_folder, waiting_batches
from storage_schemas.store import Store
from tests.infra.test_offline_batches import COMMAND
from tests.tasks.scoring.judges.short_films import short_film, write_lines
from tests.tiny_models.batch_server import BatchServer
from tests.tiny_models.provider_server import KEY, Said

Capture = pytest.CaptureFixture[str]
PRICES = (
    'as_of = "2026"\nsource = "a list"\n[models.m]\ninput_per_million = 1000\noutput_per_million = 5000\n'
)
PRICES += "[models.m-2026]\ninput_per_million = 1000\noutput_per_million = 5000\n"
#: 3 aspects with 2 pairs each, in both orders.
ALL = 12

pytestmark = pytest.mark.slow
each_provider = pytest.mark.parametrize("provider", ["anthropic", "google", "openai"])


class Run:
    """Evaluations of a store by a judge at one server."""

    def __init__(
        self, server: BatchServer, store: Path, folder: Path, capture: Capture, kind: str = "video"
    ) -> None:
        self.server, self.store, self._capture = server, store, capture
        (folder / "site.toml").write_text(
            f'[model_servers.s]\nurl = "{server.url}"\nprovider = "{server.protocol}"\n'
            'key_variable = "THE_KEY"\npatience_s = 1\n'
        )
        (folder / "prices.toml").write_text(PRICES)
        self.name = f"mine-{kind}"
        judge = f"vlm-{kind}?vlm=mine&model=m&server=s"
        self.words = ["evaluate", "-e", judge, "--store", str(store), "--profile", str(folder / "site.toml")]
        self.words += ["--prices", str(folder / "prices.toml"), "--workers", "1", "--direct", "--json"]

    def __call__(self, *words: str, code: int = 0) -> dict[str, Any]:
        assert main([*self.words, "--quiet", *words]) == code, self._capture.readouterr().err
        result: dict[str, Any] = json.loads(self._capture.readouterr().out)["evaluators"][self.name]
        return result

    def rows(self) -> list[Judgement]:
        return list(JudgementsStore(Store.open(self.store)).rows())


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", KEY)


@each_provider
@pytest.mark.usefixtures("key")
def test_requests_are_handed_over_and_collected_by_the_next_command(
    provider: str, judged_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    with BatchServer(provider) as server:
        run = Run(server, judged_store, tmp_path, capsys)
        handed = run("--batch", "--no-wait", code=3)
        assert (handed["asked"], len(server.handed_over)) == (0, ALL)
        # without --batch it would be paid twice
        assert main([*run.words, "--quiet"]) == 1
        assert f"{ALL} of its requests wait in a batch" in capsys.readouterr().err
        assert server.asked_live == 0
        refusal, broken, said = (
            Said(refusal="I will not"),
            Said(error="bad"),
            Said(text='{"better": "first"}'),
        )
        server.answer(lambda number: (refusal, broken, said)[min(number, 2)])
        collected = run("--batch", code=3)
    assert (collected["asked"], len(server.handed_over)) == (ALL, ALL)
    rows = run.rows()
    failures = sorted(row.failure.value for row in rows if row.failure is not None)
    assert failures == ["model_refused", "refused"]
    assert any("bad image" in row.message for row in rows)
    row = next(row for row in rows if row.answered)
    assert (row.choice, row.model, row.tokens_in, row.tokens_out) == ("first", "m-2026", 100, 20)
    # half of 100 tokens at 0.001 and of 20 at 0.005
    assert row.cost_usd == pytest.approx(0.1)
    assert not list((run.store / "judgements").rglob("submitted/*.json"))


@each_provider
@pytest.mark.usefixtures("key")
def test_what_expires_is_handed_over_again(
    provider: str, judged_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    with BatchServer(provider) as server:
        run = Run(server, judged_store, tmp_path, capsys)
        run("--batch", "--no-wait", code=3)
        server.answer(lambda number: None if number < 5 else Said())
        assert run("--batch", code=3)["asked"] == ALL - 5
        run("--batch", "--no-wait", code=3)
        assert len(server.handed_over) == ALL + 5
        server.answer()
        assert run("--batch")["asked"] == 5


@pytest.mark.usefixtures("key")
def test_the_limit_holds_before_anything_is_handed_over(
    judged_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    with BatchServer("openai") as server:
        run = Run(server, judged_store, tmp_path, capsys)
        assert main([*run.words, "--quiet", "--batch", "--dry-run"]) == 0
        rows = json.loads(capsys.readouterr().out)["rows"]
        assert main([*run.words, "--quiet", "--dry-run"]) == 0
        full = json.loads(capsys.readouterr().out)["rows"]
        total = sum(row["usd"] for row in rows)
        assert total == pytest.approx(sum(row["usd"] for row in full) / 2)
        run("--batch", "--no-wait", "--most-dollars", str(0.5 * total), code=3)
        assert 0 < len(server.handed_over) < ALL
        first = len(server.handed_over)
        # what waits counts in the next run too
        run("--batch", "--no-wait", "--most-dollars", str(0.5 * total), code=3)
        assert len(server.handed_over) == first
        server.answer()
        assert run("--batch", "--no-wait", "--most-dollars", str(0.5 * total), code=3)["asked"] == first


@each_provider
@pytest.mark.usefixtures("key")
def test_a_kill_while_a_batch_is_handed_over_pays_nothing_twice(
    provider: str, judged_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    running: list[subprocess.Popen[bytes]] = []

    def kill() -> None:
        os.kill(running[0].pid, signal.SIGKILL)

    with BatchServer(provider, kill) as server:
        run = Run(server, judged_store, tmp_path, capsys)
        command = [sys.executable, "-m", "slvmeval", *run.words, "--batch", "--no-wait"]
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        assert running[0].wait(120) == -signal.SIGKILL
        first = list(server.handed_over)
        assert first, "the provider has it, and the process does not know"
        server.on_hand_over = lambda: None
        run("--batch", "--no-wait", code=3)
        assert sorted(server.handed_over) == sorted(set(server.handed_over))
        assert len(server.handed_over) == ALL
        server.answer()
        assert run("--batch")["asked"] == ALL


@pytest.mark.usefixtures("key")
def test_a_run_waits_for_its_batches(
    judged_store: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.score.evaluate_run.time.sleep", lambda _s: server.answer())
    with BatchServer("openai") as server:
        run = Run(server, judged_store, tmp_path, capsys)
        assert run("--batch")["asked"] == ALL


def test_a_model_without_a_server_is_answered_by_a_job(
    judged_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    run = Run(BatchServer("offline"), judged_store, tmp_path, capsys)
    folder = batches_folder(judged_store, "s")
    assert main([*run.words, "--quiet"]) == 1
    assert "add --batch" in capsys.readouterr().err
    assert run("--batch", "--no-wait", code=3)["asked"] == 0
    assert len(waiting_batches(folder)) > 0
    with pytest.raises(PrerequisiteError, match="status 4"):
        answer_batches(folder, [*COMMAND, "--status", "4"])
    capsys.readouterr()
    # what was given up is told, and the next run hands it over again
    assert "status 4" in run("--batch", "--no-wait", code=3)["stopped"]
    run("--batch", "--no-wait", code=3)
    answer_batches(folder, COMMAND)
    capsys.readouterr()
    assert run("--batch")["asked"] == ALL
    assert {row.choice for row in run.rows()} == {"first"}


# -- judges that compare descriptions: first a batch of these, then one of comparisons -------------------

DESCRIPTION = Said(text='{"description": "A red ball rolls over a lawn."}')


def fitting(server: BatchServer) -> Callable[[int], Said]:
    """Say a description where one is asked for, and a choice elsewhere."""
    asked = [json.dumps(body) for batch in server.batches.values() for body in batch.requests.values()]
    return lambda number: Said() if '"better"' in asked[number].replace("\\", "") else DESCRIPTION


@each_provider
@pytest.mark.usefixtures("key")
def test_descriptions_go_first_and_then_what_compares_them(
    provider: str, judged_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    with BatchServer(provider) as server:
        run = Run(server, judged_store, tmp_path, capsys, "text")
        assert run("--batch", "--no-wait", code=3)["asked"] == 0
        # both videos of a pair, once for both orders
        assert len(server.handed_over) == len(set(server.handed_over)) == ALL
        run("--batch", "--no-wait", code=3)
        assert len(server.handed_over) == ALL, "nothing can be compared yet, and nothing is asked twice"
        # without --batch they would be paid twice
        assert main([*run.words, "--quiet"]) == 1
        assert f"{ALL} of its requests wait in a batch" in capsys.readouterr().err
        server.answer(fitting(server))
        assert run("--batch", "--no-wait", code=3)["asked"] == 0
        assert len(server.handed_over) == len(set(server.handed_over)) == 2 * ALL
        server.answer(fitting(server))
        assert run("--batch")["asked"] == ALL
    assert server.asked_live == 0
    rows = run.rows()
    assert {row.choice for row in rows} == {"first"}
    # each answer and each description is paid for once, at half of 100 tokens at 0.001 and 20 at 0.005
    assert sum(row.cost_usd or 0 for row in rows) == pytest.approx(2 * ALL * 0.1)
    assert not list((run.store / "judgements").rglob("submitted/*.json"))


@pytest.mark.usefixtures("key")
def test_judges_with_the_same_captioner_share_its_descriptions(
    judged_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    with BatchServer("openai") as server:
        run = Run(server, judged_store, tmp_path, capsys, "text")
        both = ["-e", "vlm-text?vlm=other&model=m&server=s", "--batch", "--no-wait"]
        run(*both, code=3)
        assert len(server.handed_over) == ALL
        server.answer(fitting(server))
        run(*both, code=3)
        assert len(server.handed_over) == 3 * ALL
        server.answer(fitting(server))
        run(*both)
    rows = run.rows()
    assert len(rows) == 2 * ALL
    assert sum(row.cost_usd or 0 for row in rows) == pytest.approx(3 * ALL * 0.1)


@pytest.mark.usefixtures("key")
def test_equal_videos_are_described_once(
    ffmpeg: str, judged_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    for name in ("a.mp4", "b.mp4"):
        short_film(ffmpeg, tmp_path / name, 2.0)
    line = {"id": "p", "video_a": "a.mp4", "video_b": "b.mp4", "prompt": "A.", "aspect": "color", "gold": "a"}
    write_lines(tmp_path / "pairs.jsonl", [line])
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()
    with BatchServer("openai") as server:
        run = Run(server, judged_store, tmp_path, capsys, "text")
        own = ["--pairs", f"pairs:{tmp_path / 'pairs.jsonl'}", "--batch", "--no-wait"]
        run(*own, code=3)
        assert len(server.handed_over) == 1
        server.answer(fitting(server))
        run(*own, code=3)
        # one comparison in each order
        assert len(server.handed_over) == 3
        server.answer(fitting(server))
        assert run(*own)["asked"] == 2


@pytest.mark.usefixtures("key")
def test_a_run_waits_for_both_steps(
    judged_store: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.score.evaluate_run.time.sleep", lambda _s: server.answer(fitting(server)))
    with BatchServer("openai") as server:
        run = Run(server, judged_store, tmp_path, capsys, "text")
        assert run("--batch", "--most-dollars", "1000")["asked"] == ALL
        assert len(server.handed_over) == 2 * ALL


@pytest.mark.usefixtures("key")
def test_a_description_that_is_refused_fails_what_needs_it(
    judged_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    with BatchServer("openai") as server:
        run = Run(server, judged_store, tmp_path, capsys, "text")
        run("--batch", "--no-wait", code=3)
        # of three pairs
        odd = {0: Said(refusal="I will not"), 2: None, 4: Said(text="no JSON")}
        server.answer(lambda number: odd.get(number, DESCRIPTION))
        run("--batch", "--no-wait", code=3)
        rows = run.rows()
        failed = sorted(row.failure.value for row in rows if row.failure is not None)
        assert failed == ["model_refused"] * 2 + ["not_understood"] * 2, "in both orders"
        paid = [row.cost_usd for row in rows if row.cost_usd]
        assert paid == pytest.approx([0.1] * len(paid))
        assert len(paid) == 2, "each description is paid for once"
        # the expired one is handed over again
        for _ in range(3):
            server.answer(fitting(server))
            run("--batch", "--no-wait", code=3)
        assert len(server.handed_over) == 2 * ALL + 1 - len(failed)
        assert sum(row.answered for row in run.rows()) == ALL - len(failed)


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("at", [1, 2])
def test_a_kill_in_either_step_pays_nothing_twice(
    at: int, judged_store: Path, tmp_path: Path, capsys: Capture
) -> None:
    running: list[subprocess.Popen[bytes]] = []

    def kill() -> None:
        os.kill(running[0].pid, signal.SIGKILL)

    with BatchServer("openai") as server:
        run = Run(server, judged_store, tmp_path, capsys, "text")
        if at == 2:
            run("--batch", "--no-wait", code=3)
            server.answer(fitting(server))
        server.on_hand_over = kill
        command = [sys.executable, "-m", "slvmeval", *run.words, "--batch", "--no-wait"]
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        assert running[0].wait(120) == -signal.SIGKILL
        server.on_hand_over = lambda: None
        # what was handed over has to be found first, and comparisons follow their descriptions
        for _ in range(4):
            assert main([*run.words, "--quiet", "--batch", "--no-wait"]) in (0, 3)
            server.answer(fitting(server))
        assert len(server.handed_over) == len(set(server.handed_over)) == 2 * ALL
    rows = run.rows()
    assert len(rows) == ALL
    assert sum(row.cost_usd or 0 for row in rows) == pytest.approx(2 * ALL * 0.1)


def test_what_cannot_be_asked_in_batches_is_told(
    judged_store: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "another")
    with BatchServer("openai") as server:
        run = Run(server, judged_store, tmp_path, capsys)
        assert main(["evaluate", "-e", "coin", "--batch", *run.words[3:]]) == 1
        assert "coin cannot be asked in batches" in capsys.readouterr().err
        assert main([*run.words, "--batch", "--quiet"]) == 1
        assert "key" in capsys.readouterr().err
    assert not server.batches
