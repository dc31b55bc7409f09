"""How packages ask a model: answers, kept answers, costs and limits, with each provider's protocol."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from slvmeval.cli.evaluate.evaluators import Shape, write_package
from slvmeval.evaluators import AspectText, Failure, NotJudged, UserInputError
from slvmeval.model_servers import Frames, ModelAnswer, ModelJudge, ModelQuestion, ServerModel, Setup
from storage_schemas.judgements import JudgementsStore
from storage_schemas.model import ModelServer
from storage_schemas.store import Store
from storage_schemas.store_check import check_path, checked_paths
from tasks.llm.chat import client_of
from tasks.llm.usage import Price, Prices, usage_fields
from tasks.scoring.base import BatchJudge
from tests.tasks.scoring.sides import ASPECT, FrameList, noise
from tests.tiny_models.provider_server import KEY, ProviderServer, Said

each_provider = pytest.mark.parametrize("provider", ["anthropic", "google", "openai"])
VIDEO, OTHER = FrameList([noise(1), noise(2), noise(3)]), FrameList([noise(1), noise(4)])
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
#: A dollar a token of the request, and of the answer.
PRICES = Prices(models={"m-2026": Price(input_per_million=1e6, output_per_million=1e6)})


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", KEY)


def setup_of(server: ProviderServer, folder: Path) -> Setup:
    store = folder / "store"
    entry = ModelServer(url=server.url, provider=server.provider, key_variable="THE_KEY", patience_s=0.1)
    if not store.exists():
        Store.create(store)
    return Setup(store_path=str(store), model_servers={"s": entry})


def question(**fields: Any) -> ModelQuestion:
    content = ["See:", Frames.evenly(VIDEO, 2), "How many?"]
    return ModelQuestion(**{"content": content, "schema": NUMBER, **fields})


@each_provider
def test_an_answer_has_its_value_and_cost(provider: str, tmp_path: Path) -> None:
    with ProviderServer(provider, lambda _: Said('```json\n{"n": 3}\n```')) as server:
        model = ServerModel(setup_of(server, tmp_path), "m", "s", temperature=0.5)
        answer = model.ask(question(system="Count.", read=lambda value: value["n"] + 1))
        bare = model.ask(question())
        assert [len(server.seen), model.concurrency] == [2, 32]
    assert (answer.value, answer.model, bare.value) == (4, "m-2026", {"n": 3})
    assert (answer.usage.frames, answer.usage.tokens_in, answer.usage.cached_in) == (2, 100, 60)
    assert answer.details["found"] == "in a code fence"
    # Google's library sends the alphabet of base64 that is for addresses
    body = json.dumps(server.seen[0].body).replace("_", "/")
    assert ("Count." in body, body.count("/9j/")) == (True, 2)
    # an empty system message is none: Anthropic refuses it
    assert not {"system", "systemInstruction"} & set(server.seen[1].body)
    assert "Count." not in json.dumps(server.seen[1].body)


def invalid(text: str, read: Any = None) -> Any:
    return pytest.param(text, read, id=text[:30])


def refuse(value: Any) -> None:
    raise ValueError("no such number")


@pytest.mark.parametrize(
    ("text", "read"),
    [invalid("three"), invalid("[3]"), invalid('{"m": 3}'), invalid('{"n": 3}', refuse), invalid("")],
)
def test_an_answer_of_another_form_is_paid_and_says_why(text: str, read: Any, tmp_path: Path) -> None:
    with ProviderServer("openai", lambda _: Said(text)) as server:
        model = ServerModel(setup_of(server, tmp_path), "m", "s")
        for asked in (model.ask, model.ask_once):
            with pytest.raises(NotJudged) as problem:
                asked(question(read=read))
            assert problem.value.failure in (Failure.NOT_UNDERSTOOD, Failure.NO_ANSWER)
            assert (problem.value.usage.tokens_in, problem.value.usage.frames) == (100, 2)


@pytest.mark.parametrize("text", ['{"better": "third"}', '{"better": "first"} Or rather the second.'])
def test_a_choice_is_never_guessed(text: str, tmp_path: Path) -> None:
    with ProviderServer("openai", lambda _: Said(text)) as server:
        judge = Asking(ServerModel(setup_of(server, tmp_path), "m", "s"))
        with pytest.raises(NotJudged, match="not_understood"):
            judge.compare("a ball", VIDEO, OTHER, ASPECT)


def test_a_shared_answer_is_asked_for_once_and_is_free_afterwards(tmp_path: Path) -> None:
    with ProviderServer("anthropic", lambda _: Said('{"n": 3}')) as server:
        setup = setup_of(server, tmp_path)
        model = ServerModel(setup, "m", "s")
        assert model.estimate(question(), ASPECT, once=True) is not None
        first = model.ask_once(question())
        again = ServerModel(setup, "m", "s").ask_once(question())
        assert model.estimate(question(), ASPECT, once=True) is None
        # every part of a question counts
        others = [
            question(content=["See:", Frames(VIDEO, [0, 1]), "How many?"]),
            question(system="Count."),
            question(schema={**NUMBER, "title": "other"}),
        ]
        for other in others:
            model.ask_once(other)
        ServerModel(setup, "m", "s", temperature=0.1).ask_once(question())
        assert len(server.seen) == 5
    assert (first.value, again.value) == ({"n": 3}, {"n": 3})
    assert (first.usage.tokens_in, again.usage.tokens_in, again.usage.paid) == (100, 0, False)
    (file,) = (setup.store.root / "judgements" / "answers").iterdir()
    path = file.relative_to(setup.store.root).as_posix()
    assert path in checked_paths(setup.store), "verification reads it"
    assert not check_path(setup.store, path)


def test_the_cost_of_earlier_answers_is_that_of_the_row(tmp_path: Path) -> None:
    said = [Said('{"n": 3}'), Said("?"), Said('{"n": 5}')]
    with ProviderServer("openai", lambda number: said[number]) as server:
        model = ServerModel(setup_of(server, tmp_path), "m", "s")
        seen = model.ask_once(question())
        with pytest.raises(NotJudged) as problem:
            model.ask(question(), after=[seen])
        answer = model.ask(question(), after=[seen])
    dollars = [usage_fields(PRICES, "m-2026", one)["cost_usd"] for one in (problem.value.usage, answer.usage)]
    assert dollars == [240, 240]
    assert answer.judged("first", why=1).usage == answer.usage
    # another model's tokens have its own price
    other = ModelAnswer(None, "", "other", usage=seen.usage)
    with ProviderServer("openai", lambda _: Said('{"n": 5}')) as server:
        mixed = ServerModel(setup_of(server, tmp_path / "b"), "m", "s").ask(question(), after=[other])
    assert [(one.model, one.tokens_in) for one in mixed.usage.others] == [("other", 100)]
    assert mixed.usage.tokens_in == 100


class Asking(ModelJudge):
    name = "asking"

    def question(self, prompt: str, first: Any, second: Any, aspect: AspectText) -> ModelQuestion:
        return ModelQuestion([Frames.evenly(first, 1), Frames.evenly(second, 1), prompt])


@each_provider
def test_a_judge_of_one_question_can_be_asked_in_batches(provider: str, tmp_path: Path) -> None:
    with ProviderServer(provider) as server:
        judge = Asking(ServerModel(setup_of(server, tmp_path), "m", "s"))
        assert isinstance(judge, BatchJudge)
        live = judge.compare("a ball", VIDEO, OTHER, ASPECT)
        request = judge.make_request("a ball", VIDEO, OTHER, ASPECT)
        batch = judge.read_answer(client_of(judge.server).ask(request), "a ball", VIDEO, OTHER, ASPECT)
        assert server.seen[0].body == server.seen[1].body
    assert (live.choice, live.details, live.usage.tokens_in) == (batch.choice, batch.details, 100)
    estimate = judge.estimate("a ball", VIDEO, OTHER, ASPECT)
    assert estimate is not None
    assert (estimate.images, estimate.model, estimate.tokens_in > 0) == (2, "m", True)


def test_what_does_not_fit_is_not_sent_and_the_judges_own_settings_are_refused(tmp_path: Path) -> None:
    with ProviderServer("openai") as server:
        setup = setup_of(server, tmp_path)
        few = ServerModel(setup, "m", "s", most_images=2)
        with pytest.raises(NotJudged, match="context_too_long"):
            few.ask(question(content=[Frames.evenly(VIDEO, 3)]))
        small = ServerModel(setup, "m", "s", context_tokens=1024, answer_tokens=900)
        with pytest.raises(NotJudged, match="context_too_long"):
            small.ask(question(content=["word " * 1000]))
        assert not server.seen
        with pytest.raises(UserInputError, match="frames_as is a setting of the built-in judges"):
            ServerModel(setup, "m", "s", frames_as="video")
        with pytest.raises(UserInputError, match="no predefined VLM 'm'"):
            ServerModel(setup, "m")


def installed_command(folder: Path, store: Path, server: ProviderServer) -> tuple[list[str], dict[str, str]]:
    """Install the package of the template `asking-judge`; return a command that judges by it, and where."""
    site, name = folder / "site", "asking-judge"
    write_package(name, Shape.model_judge, site)
    info = site / "asking_judge-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[slvmeval.evaluators]\n{name} = asking_judge:AskingJudge\n")
    (folder / "site.toml").write_text(
        f'[model_servers.s]\nurl = "{server.url}"\nprovider = "{server.provider}"\n'
        'key_variable = "THE_KEY"\nconcurrency = 1\n'
    )
    price = "input_per_million = 1e6\noutput_per_million = 1e6\n"
    (folder / "prices.toml").write_text(f"[models.listed]\n{price}[models.m-2026]\n{price}")
    words = f"evaluate -e {name}?model=listed&server=s --direct --workers 1 --quiet --format json".split()
    words += ["--profile", f"{folder}/site.toml", "--set", f"prices={folder}/prices.toml"]
    path = f"{site}{os.pathsep}{Path(__file__).parents[2]}"
    command = [sys.executable, "-m", "slvmeval", *words, "--store", str(store)]
    return command, {**os.environ, "PYTHONPATH": path}


def kill_with_workers(command: subprocess.Popen[bytes]) -> None:
    """Kill a command, its workers first: one that outlives it stores an answer and asks for the next."""
    process = psutil.Process(command.pid)
    for one in (*process.children(recursive=True), process):
        one.kill()


@pytest.mark.slow
def test_a_packages_judge_is_never_paid_twice_and_has_limits(judged_store: Path, tmp_path: Path) -> None:
    killed: list[subprocess.Popen[bytes]] = []

    def plan(number: int) -> Said:
        if number == 5 and killed:
            kill_with_workers(killed[0])
        return Said()

    with ProviderServer("openai", plan) as server:
        command, environment = installed_command(tmp_path, judged_store, server)

        def run(*words: str, code: int = 0) -> Any:
            ran = subprocess.run([*command, *words], env=environment, capture_output=True, text=True)
            assert ran.returncode == code, ran.stderr
            return json.loads(ran.stdout)

        dry = run("--dry-run")["rows"]
        assert sum(row["calls"] for row in dry) == 12
        assert all(row["usd"] > 0 for row in dry)
        assert not server.seen
        killed.append(subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL))
        assert killed[0].wait(120) == -signal.SIGKILL
        killed.clear()
        # a request costs 120; after two, a third of the estimated cost does not fit
        one = max(row["usd"] / row["requests"] for row in dry)
        limited = run("--max-dollars", f"{one + 150}", code=3)
        assert limited["evaluators"]["asking-judge"]["usd"] == 240
        assert len(server.seen) == 6 + 2
        for _ in range(2):
            run()
            # the one in flight at the kill was asked for again
            assert len(server.seen) == 13
    rows = list(JudgementsStore(Store.open(judged_store)).rows(["asking-judge"]))
    assert [row.choice for row in rows] == ["first"] * 12
    costs = {(row.tokens_in, row.tokens_out, row.cost_usd, row.frames) for row in rows}
    assert costs == {(100, 20, 120.0, 16)}
