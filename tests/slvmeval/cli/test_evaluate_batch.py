"""`evaluate --batch`, against servers that speak the providers' batch interfaces."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from flows.release.options import BuildOptions, SourceRoot
from flows.score import evaluate_run
from infra.offline_batches import answer_batches
from storage_schemas.errors import PrerequisiteError
from storage_schemas.judgements import Judgement, JudgementsStore
from storage_schemas.offline_batches import batches_folder, waiting_batches
from storage_schemas.store import Store
from tasks.llm.preference import TOP_LOGPROBS
from tasks.recipe import Recipe, Severity
from tests.flows.small_builds import AddFilm, only
from tests.infra.test_offline_batches import COMMAND
from tests.inline import build_inline
from tests.own_time import own_time
from tests.slvmeval.cli.running import Printed, Run
from tests.tasks.scoring.judges.short_films import short_film, write_lines
from tests.tiny_models.batch_server import BatchServer
from tests.tiny_models.provider_server import KEY, Said

PRICE = "input_per_million = 1000\noutput_per_million = 5000\n"
PRICES = f'as_of = "2026"\nsource = "a list"\n[models.m]\n{PRICE}[models.m-2026]\n{PRICE}'
#: 3 aspects with 2 pairs each, in both orders.
ALL = 12

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("key")]
PROVIDERS = ("anthropic", "google", "openai")
each_provider = pytest.mark.parametrize("provider", PROVIDERS)
COSTS_WAITING = f"{ALL} of its requests wait in a batch"


class Judge:
    """Evaluations of a store by a judge of one kind at one server."""

    def __init__(
        self, server: BatchServer, store: Path, run: Run, kind: str = "video", more: str = ""
    ) -> None:
        self.server, self.store, self._run, folder = server, store, run, store.parent
        (folder / "site.toml").write_text(
            f'[model_servers.s]\nurl = "{server.url}"\nprovider = "{server.protocol}"\n'
            'key_variable = "THE_KEY"\npatience_s = 1\n'
        )
        (folder / "prices.toml").write_text(PRICES)
        self.name = f"mine-{kind}"
        judge = f"vlm-{kind}?vlm=mine&model=m&server=s{more}"
        site = ["--store", str(store), "--profile", f"{folder}/site.toml"]
        self.words = ["evaluate", "-e", judge, *site, "--set", f"prices={folder}/prices.toml"]
        self.words += "--workers 1 --direct --format json".split()

    def run(self, *words: str, code: int | tuple[int, ...] = 0) -> Printed:
        return self._run(*self.words, "--quiet", *words, code=code)

    def batch(self, *words: str, code: int | tuple[int, ...] = 3) -> dict[str, Any]:
        """Ask in batches; return the judge's summary."""
        result: dict[str, Any] = self.run("--batch", *words, code=code).json["evaluators"][self.name]
        return result

    def hand_over(self, *words: str, code: int | tuple[int, ...] = 3) -> dict[str, Any]:
        return self.batch("--no-wait", *words, code=code)

    def killed_at_hand_over(self) -> None:
        """Let a process ask, and kill it once the provider has its batch."""
        command = [sys.executable, "-m", "slvmeval", *self.words, "--batch", "--no-wait"]
        running: list[subprocess.Popen[bytes]] = []
        self.server.on_hand_over = lambda: os.kill(running[0].pid, signal.SIGKILL)
        running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        assert running[0].wait(120) == -signal.SIGKILL
        self.server.on_hand_over = lambda: None

    def rows(self) -> list[Judgement]:
        return list(JudgementsStore(Store.open(self.store)).rows())


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", KEY)


@each_provider
def test_requests_are_collected_by_the_next_command(provider: str, judged_store: Path, run: Run) -> None:
    with BatchServer(provider) as server:
        judge = Judge(server, judged_store, run)
        assert judge.hand_over()["asked"] == 0
        assert len(server.handed_over) == ALL
        # without --batch it would be paid twice
        assert COSTS_WAITING in judge.run(code=1).err
        assert server.asked_live == 0
        # what expires is handed over again
        odd = [Said(refusal="I will not"), Said(error="bad"), *(None,) * 5]
        said = Said(text='{"better": "first"}')
        server.answer(lambda number: odd[number] if number < len(odd) else said)
        assert judge.batch()["asked"] == ALL - 5
        assert len(server.handed_over) == ALL
        judge.hand_over()
        assert len(server.handed_over) == ALL + 5
        server.answer()
        assert judge.batch()["asked"] == 5
    rows = judge.rows()
    failures = sorted(row.failure.value for row in rows if row.failure is not None)
    assert failures == ["model_refused", "refused"]
    assert any("bad image" in row.message for row in rows)
    row = next(row for row in rows if row.answered)
    assert (row.choice, row.model, row.tokens_in, row.tokens_out) == ("first", "m-2026", 100, 20)
    # half of 100 tokens at 0.001 and of 20 at 0.005
    assert row.cost_usd == pytest.approx(0.1)
    assert not list((judge.store / "judgements").rglob("submitted/*.json"))


def four_to_one(_provider: str, body: dict[str, Any]) -> dict[str, Any]:
    """Give the tokens of an answer their log probabilities: 0.8 for "first", 0.2 for "second"."""
    odds = [{"token": word, "logprob": math.log(p)} for word, p in (("first", 0.8), ("second", 0.2))]
    tokens = [('{"better": "', []), ("first", odds), ('"}', [])]
    content = [
        {"token": token, "logprob": math.log(0.8 if top else 1), "top_logprobs": top} for token, top in tokens
    ]
    body["choices"][0]["logprobs"] = {"content": content}
    return body


def test_log_probabilities_are_asked_for_and_read_in_batches(judged_store: Path, run: Run) -> None:
    with BatchServer("openai") as server:
        judge = Judge(server, judged_store, run, more="&logprobs=true")
        judge.hand_over()
        bodies = [body for batch in server.batches.values() for body in batch.requests.values()]
        asked = {(body["logprobs"], body["top_logprobs"]) for body in bodies}
        server.answer(lambda _: Said(change=four_to_one))
        assert judge.batch(code=0)["asked"] == ALL
    assert (len(bodies), asked) == (ALL, {(True, TOP_LOGPROBS)})
    assert {(row.choice, row.p_first) for row in judge.rows()} == {("first", 0.8)}


def test_what_waits_is_listed_and_can_be_given_up(judged_store: Path, run: Run) -> None:
    with BatchServer("openai") as server:
        judge = Judge(server, judged_store, run)
        judge.hand_over()
        (batch,) = judge.run("--batch", "--no-wait", code=3).json["batches"]
        assert (batch["id"], batch["of"], batch["requests"]) == ("batch_0", judge.name, ALL)
        assert batch["state"] == "in_progress"
        listed = run("list", "batches", "--store", str(judged_store)).out
        assert f"batch batch_0 of {judge.name}: {ALL} requests" in " ".join(listed.split())
        give_up = ("gc", "--set", "batch=batch_0", "--store", str(judged_store))
        assert "only forgets a batch" in run(*give_up, "frames", code=2).error
        # nothing else is dropped
        assert "freed" not in run(*give_up).out
        assert "there is no waiting batch batch_0" in run(*give_up, code=1).err
        judge.hand_over()
        assert len(server.handed_over) == 2 * ALL


def test_the_limit_holds_before_anything_is_handed_over(judged_store: Path, run: Run) -> None:
    with BatchServer("openai") as server:
        judge = Judge(server, judged_store, run)
        total = sum(row["usd"] for row in judge.run("--batch", "--dry-run").json["rows"])
        full = sum(row["usd"] for row in judge.run("--dry-run").json["rows"])
        assert total == pytest.approx(full / 2)
        limit = ("--max-dollars", str(0.5 * total))
        judge.hand_over(*limit)
        first = len(server.handed_over)
        assert 0 < first < ALL
        # what waits counts in the next run too
        judge.hand_over(*limit)
        assert len(server.handed_over) == first
        server.answer()
        assert judge.hand_over(*limit)["asked"] == first


def test_a_model_without_a_server_is_answered_by_a_job(judged_store: Path, run: Run) -> None:
    judge = Judge(BatchServer("offline"), judged_store, run)
    folder = batches_folder(judged_store, "s")
    assert "add --batch" in judge.run(code=1).err
    assert judge.hand_over()["asked"] == 0
    assert len(waiting_batches(folder)) > 0
    with pytest.raises(PrerequisiteError, match="status 4"):
        answer_batches(folder, [*COMMAND, "--status", "4"])
    # what was given up is told, and the next run hands it over again
    assert "status 4" in judge.hand_over()["stopped"]
    judge.hand_over()
    answer_batches(folder, COMMAND)
    assert judge.batch(code=0)["asked"] == ALL
    assert {row.choice for row in judge.rows()} == {"first"}


# -- judges that compare descriptions: first a batch of these, then one of comparisons -------------------

DESCRIPTION = Said(text='{"description": "A red ball rolls over a lawn."}')


def fitting(server: BatchServer) -> Callable[[int], Said]:
    """Say a description where one is asked for, and a choice elsewhere."""
    asked = [json.dumps(body) for batch in server.batches.values() for body in batch.requests.values()]
    return lambda number: Said() if '"better"' in asked[number].replace("\\", "") else DESCRIPTION


def check_paid(judge: Judge, judgements: int, requests: int) -> None:
    """Check that each request is paid for once, at half of 100 tokens at 0.001 and 20 at 0.005."""
    rows = judge.rows()
    assert len(rows) == judgements
    assert sum(row.cost_usd or 0 for row in rows) == pytest.approx(requests * 0.1)


@each_provider
def test_descriptions_go_first_then_what_compares_them(provider: str, judged_store: Path, run: Run) -> None:
    with BatchServer(provider) as server:
        judge = Judge(server, judged_store, run, "text")
        assert judge.hand_over()["asked"] == 0
        # both videos of a pair, once for both orders
        assert len(server.handed_over) == len(set(server.handed_over)) == ALL
        judge.hand_over()
        assert len(server.handed_over) == ALL, "nothing can be compared yet, and nothing is asked twice"
        # without --batch they would be paid twice
        assert COSTS_WAITING in judge.run(code=1).err
        server.answer(fitting(server))
        assert judge.hand_over()["asked"] == 0
        assert len(server.handed_over) == len(set(server.handed_over)) == 2 * ALL
        server.answer(fitting(server))
        assert judge.batch(code=0)["asked"] == ALL
    assert server.asked_live == 0
    check_paid(judge, ALL, 2 * ALL)
    assert {row.choice for row in judge.rows()} == {"first"}
    assert not list((judge.store / "judgements").rglob("submitted/*.json"))


def test_judges_with_the_same_captioner_share_its_descriptions(judged_store: Path, run: Run) -> None:
    with BatchServer("openai") as server:
        judge = Judge(server, judged_store, run, "text")
        other = ("-e", "vlm-text?vlm=other&model=m&server=s")
        judge.hand_over(*other)
        assert len(server.handed_over) == ALL
        server.answer(fitting(server))
        judge.hand_over(*other)
        assert len(server.handed_over) == 3 * ALL
        server.answer(fitting(server))
        judge.hand_over(*other, code=0)
    check_paid(judge, 2 * ALL, 3 * ALL)


def test_equal_videos_are_described_once(ffmpeg: str, judged_store: Path, tmp_path: Path, run: Run) -> None:
    for name in ("a.mp4", "b.mp4"):
        short_film(ffmpeg, tmp_path / name, 2.0)
    line = {"id": "p", "video_a": "a.mp4", "video_b": "b.mp4", "prompt": "A.", "aspect": "color", "gold": "a"}
    write_lines(tmp_path / "pairs.jsonl", [line])
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()
    with BatchServer("openai") as server:
        judge = Judge(server, judged_store, run, "text")
        own = ("--pairs", f"pairs:{tmp_path / 'pairs.jsonl'}")
        # one description, and then one comparison in each order
        for requests in (1, 3):
            judge.hand_over(*own)
            assert len(server.handed_over) == requests
            server.answer(fitting(server))
        assert judge.hand_over(*own, code=0)["asked"] == 2


@pytest.mark.parametrize(("kind", "steps"), [("video", 1), ("text", 2)])
def test_a_run_waits_for_all_steps(
    kind: str, steps: int, judged_store: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_time(monkeypatch, evaluate_run, sleep=lambda _s: server.answer(fitting(server)))
    with BatchServer("openai") as server:
        judge = Judge(server, judged_store, run, kind)
        limit = ("--max-dollars", "1000") if kind == "text" else ()
        assert judge.batch(*limit, code=0)["asked"] == ALL
        assert len(server.handed_over) == steps * ALL


def test_a_description_that_is_refused_fails_what_needs_it(judged_store: Path, run: Run) -> None:
    with BatchServer("openai") as server:
        judge = Judge(server, judged_store, run, "text")
        judge.hand_over()
        # of three pairs
        odd = {0: Said(refusal="I will not"), 2: None, 4: Said(text="no JSON")}
        server.answer(lambda number: odd.get(number, DESCRIPTION))
        judge.hand_over()
        rows = judge.rows()
        failed = sorted(row.failure.value for row in rows if row.failure is not None)
        assert failed == ["model_refused"] * 2 + ["not_understood"] * 2, "in both orders"
        # each description is paid for once
        assert [row.cost_usd for row in rows if row.cost_usd] == pytest.approx([0.1] * 2)
        # the expired one is handed over again
        for _ in range(3):
            server.answer(fitting(server))
            judge.hand_over()
        assert len(server.handed_over) == 2 * ALL + 1 - len(failed)
        assert sum(row.answered for row in judge.rows()) == ALL - len(failed)


@pytest.mark.parametrize(
    ("provider", "kind", "step"),
    [*((one, "video", 1) for one in PROVIDERS), ("openai", "text", 1), ("openai", "text", 2)],
)
def test_a_kill_while_a_batch_is_handed_over_pays_nothing_twice(
    provider: str, kind: str, step: int, judged_store: Path, run: Run
) -> None:
    with BatchServer(provider) as server:
        judge = Judge(server, judged_store, run, kind)
        if step == 2:
            judge.hand_over()
            server.answer(fitting(server))
        judge.killed_at_hand_over()
        assert server.handed_over, "the provider has it, and the process does not know"
        if kind == "video":
            judge.hand_over()
            assert len(server.handed_over) == ALL
            server.answer()
            assert judge.batch(code=0)["asked"] == ALL
        else:
            # what was handed over has to be found first, and comparisons follow their descriptions
            for _ in range(4):
                judge.hand_over(code=(0, 3))
                server.answer(fitting(server))
        requests = ALL if kind == "video" else 2 * ALL
        assert len(server.handed_over) == len(set(server.handed_over)) == requests
    check_paid(judge, ALL, requests)


def test_what_cannot_be_asked_in_batches_is_told(
    judged_store: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "another")
    with BatchServer("openai") as server:
        judge = Judge(server, judged_store, run)
        coin = run("evaluate", "-e", "coin", "--batch", *judge.words[3:], code=1).err
        assert "coin cannot be asked in batches" in coin
        assert "key" in judge.run("--batch", code=1).err
    assert not server.batches


@pytest.fixture
def ladder_store(tmp_path: Path, add_film: AddFilm, small_recipe: Recipe) -> Path:
    """A store with two films and six severities of one aspect."""
    for number in (1, 2):
        add_film(tmp_path / "videos", number)
    sources = (SourceRoot(path=str(tmp_path / "videos")),)
    options = BuildOptions(store=str(tmp_path / "store"), sources=sources, recipe=small_recipe)
    severity = Severity(clips=(1,), strengths=("0.2", "0.4"), crossed=True)
    build_inline(only(options, "aesthetics", name="ladder", severity=severity))
    return tmp_path / "store"


def test_rounds_of_an_adaptive_run_are_batches_with_all_repeats(ladder_store: Path, run: Run) -> None:
    round_pairs, repeats = 2, 2
    words = ("--adaptive", "--set", f"round_pairs={round_pairs}", "--repeats", f"{repeats}")
    words += ("--set", "precision=1.5", "--max-per-aspect", "4")
    with BatchServer("openai") as server:
        judge = Judge(server, ladder_store, run)
        handed = [0]
        while True:
            judge.hand_over(*words, code=(0, 3))
            if len(server.handed_over) == handed[-1]:
                break
            handed.append(len(server.handed_over))
            # while a round waits, the same command asks nothing
            judge.hand_over(*words)
            assert len(server.handed_over) == handed[-1]
            # always "first" is right and wrong once a pair: no search ends early
            server.answer()
            # one command collects a round, the next one hands over another
            judge.hand_over(*words, code=(0, 3))
            assert len(server.handed_over) == handed[-1]
        assert server.asked_live == 0
    assert len(handed) == 3
    assert {after - before for before, after in pairwise(handed)} == {2 * repeats * round_pairs}
    rows = judge.rows()
    asked = Counter((row.pair_id, row.order, row.repeat) for row in rows)
    assert len(rows) == handed[-1] == len(asked)
    assert set(Counter(row.pair_id for row in rows).values()) == {2 * repeats}
