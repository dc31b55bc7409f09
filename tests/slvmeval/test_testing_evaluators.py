"""The conformance test of evaluators accepts the documentation's example and finds each kind of violation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slvmeval.cli.evaluate.evaluators import Shape, write_package
from slvmeval.evaluators import (
    AspectText,
    Failure,
    JudgeAnswer,
    NotJudged,
    PairwiseJudge,
    PointwiseScorer,
    PrerequisiteError,
    Score,
    Side,
    Usage,
)
from slvmeval.testing import ConformanceError, check_evaluator
from storage_schemas.errors import IntegrityError, UserInputError
from storage_schemas.judgements import JudgementsStore
from storage_schemas.store import Store
from tests.slvmeval.cli.running import lacks

PAGE = Path(__file__).parents[2] / "docs" / "adding-an-evaluator.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(("name", "shape"), [("my-judge", Shape.judge), ("colourful", Shape.scorer)])
def test_a_new_package_is_what_the_page_shows_and_conforms(name: str, shape: Shape, tmp_path: Path) -> None:
    write_package(name, shape, tmp_path / "package")
    module = name.replace("-", "_")
    code = (tmp_path / "package" / f"{module}.py").read_text(encoding="utf-8")
    assert code in [text for kind, text in BLOCKS if kind == "python"]
    shown = SimpleNamespace(__name__=module)
    exec(compile(code, str(PAGE), "exec"), shown.__dict__)
    check_evaluator(next(one for one in vars(shown).values() if getattr(one, "name", "") == name)())


@pytest.mark.slow
def test_a_new_package_that_asks_a_model_is_what_the_page_shows_and_conforms(tmp_path: Path) -> None:
    write_package("asking-judge", Shape.model_judge, tmp_path / "package")
    for name in ("asking_judge.py", "test_asking_judge.py"):
        code = (tmp_path / "package" / name).read_text(encoding="utf-8")
        assert code in [text for kind, text in BLOCKS if kind == "python"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "package")]
    root = str(Path(__file__).parents[2])
    ran = subprocess.run(command, env={**os.environ, "PYTHONPATH": root}, cwd=tmp_path, capture_output=True)
    assert ran.returncode == 0, ran.stdout.decode()


def test_the_page_shows_the_new_packages_test_and_entry_point(tmp_path: Path) -> None:
    write_package("my-judge", Shape.judge, tmp_path / "package")
    code = (tmp_path / "package" / "test_my_judge.py").read_text(encoding="utf-8")
    assert code in [text for kind, text in BLOCKS if kind == "python"]
    points = next(text for kind, text in BLOCKS if kind == "toml")
    assert points in (tmp_path / "package" / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["My-Judge", "my_judge", "-judge", "judge-", "1st", "class", "", "../judge"])
def test_a_name_that_no_package_can_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="cannot be the name"):
        write_package(name, Shape.judge, tmp_path / "package")
    assert not list(tmp_path.iterdir())


def test_a_new_package_overwrites_nothing_and_hides_no_module(tmp_path: Path) -> None:
    for name, what in (("duration", "evaluator duration"), ("numpy", "a Python module numpy")):
        with pytest.raises(UserInputError, match=f"{what} already"):
            write_package(name, Shape.scorer, tmp_path / "package")
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(UserInputError, match="another one"):
            write_package("my-judge", Shape.judge, place)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_new_package_may_fill_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    monkeypatch.chdir(tmp_path / "link")
    write_package("my-judge", Shape.judge, Path())
    names = ["README.md", "my_judge.py", "pyproject.toml", "test_my_judge.py"]
    assert sorted(path.name for path in Path.cwd().iterdir()) == names


@pytest.mark.slow
def test_new_packages_are_installed_and_judge(judged_store: Path, tmp_path: Path) -> None:
    write_package("my-judge", Shape.judge, tmp_path / "judge")
    write_package("colourful", Shape.scorer, tmp_path / "scorer")
    site = tmp_path / "site"
    install = f"-m pip install -q --no-deps --no-build-isolation --no-index --target {site}"
    packages = [str(tmp_path / name) for name in ("judge", "scorer")]
    subprocess.run([sys.executable, *install.split(), *packages], check=True)
    words = "evaluate -e my-judge -e colourful?frames=64&label=colourful-64 --direct --workers 1 --quiet"
    command = [sys.executable, "-m", "slvmeval", *words.split(), "--store", str(judged_store)]
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{Path(__file__).parents[2]}"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert not lacks(ran.stdout, "my-judge", "colourful-64")
    rows = JudgementsStore(Store.open(judged_store)).rows(["my-judge", "colourful-64"])
    # a judge is asked in both orders
    assert len(rows) == 18
    assert all(row.answered for row in rows)


class Good(PointwiseScorer):
    name = "good"

    def settings(self) -> dict[str, Any]:
        return {}

    def check(self) -> None:
        pass

    def score(self, prompt: str, video: Side, aspect: AspectText) -> Score:
        return Score(float(video.rgb(0).mean()))


class GoodJudge(PairwiseJudge):
    name = "good-judge"

    def settings(self) -> dict[str, Any]:
        return {}

    def check(self) -> None:
        pass

    def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
        one, two = first.rgb(0).mean(), second.rgb(0).mean()
        return JudgeAnswer("first" if one > two else "second")


def made(base: type[Any], **body: Any) -> Any:
    """An evaluator like `base`, with other attributes."""
    return type("Made", (base,), body)()


def scoring(score: Any, **body: Any) -> Any:
    return made(Good, score=score, **body)


def comparing(compare: Any, **body: Any) -> Any:
    return made(GoodJudge, compare=compare, **body)


def raising(problem: Exception) -> Any:
    def fail(*_: Any) -> None:
        raise problem

    return fail


def writes(_self: Any, _prompt: str, video: Side, _aspect: AspectText) -> Score:
    video.planes([0])[...] = 0
    return Score(1.0)


def greedy(_self: Any, _prompt: str, video: Side, _aspect: AspectText) -> Score:
    return Score(float(video.planes(range(len(video))).mean()))


def swallows(_self: Any, _prompt: str, video: Side, _aspect: AspectText) -> Score:
    try:
        return Score(float(video.planes([0]).mean()))
    except IntegrityError:
        return Score(0.0)


def by_aspect(_self: Any, _prompt: str, _video: Side, aspect: AspectText) -> Score:
    return Score(float(len(aspect.name)))


def fickle() -> Any:
    turns = count(1)
    return lambda *_: JudgeAnswer("first" if next(turns) % 3 else "tie")


def growing() -> Any:
    turns = count(1)
    return lambda *_: Score(float(next(turns)))


MISTYPED: Any = {"raw": None, "usage": Usage(tokens_in=1.5)}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("evaluator", "words"),
    [
        (
            made(
                Good,
                **{"name": "Not a name", "version": 0, "hardware": "tpu", "pool": "h100", "concurrency": 0},
                settings=lambda _: {"at": time.perf_counter(), "what": object()},
                check=raising(ZeroDivisionError()),
            ),
            [
                *("name must", "version is 0", "hardware 'tpu' is neither", "pool = 'h100' has no effect"),
                *("concurrency is 0", "not JSON", "check() raises"),
            ],
        ),
        (made(Good, settings=lambda _: {"at": time.perf_counter()}), ["a different value the second time"]),
        (made(Good, check=raising(PrerequisiteError("fetch the weights"))), ["fetch the weights"]),
        (object(), ["neither"]),
        (scoring(lambda *_: 1.0), ["not a Score"]),
        (scoring(lambda *_: Score(float("nan"))), ["is not a number"]),
        (scoring(lambda *_: Score(1.0, details={"x": object()})), ["not JSON"]),
        (scoring(lambda *_: Score(1.0, model=3)), ["its model is 3"]),  # type: ignore[arg-type]
        (scoring(raising(NotJudged(Failure.NO_ANSWER, "never"))), ["no answer for an ordinary video"]),
        (scoring(writes), ["frames are read-only"]),
        # scores that depend on more than the video
        (scoring(growing()), ["the second time"]),
        (scoring(by_aspect, by_aspect=False), ["differs by aspect"]),
        # videos are read in parts, and errors go through
        (scoring(greedy), ["reads 96 frames at once"]),
        (scoring(swallows), ["although the video could not be read"]),
        (
            comparing(lambda *_: JudgeAnswer("high"), both_orders=1),  # type: ignore[arg-type]
            ["both_orders", "not a JudgeAnswer"],
        ),
        (
            comparing(fickle(), estimate=lambda *_: 3),
            ["answer differs the second time", "not an Estimate"],
        ),
        # answers that no table can hold
        (
            comparing(lambda *_: JudgeAnswer("first", **MISTYPED)),
            ["its raw is None", "not a Usage of counts"],
        ),
    ],
)
def test_each_violation_is_named(evaluator: Any, words: list[str]) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_evaluator(evaluator)
    violations = "\n".join(caught.value.breaches)
    for word in words:
        assert word in violations


def test_good_ones_pass() -> None:
    check_evaluator(Good())
    check_evaluator(GoodJudge())
    check_evaluator(scoring(growing()), repeatable=False)


@pytest.mark.parametrize("declares", [True, False])
def test_check_evaluator_finds_settings_that_are_in_no_key(declares: bool) -> None:
    def judge(threshold: float) -> Any:
        def compare(_self: object, _prompt: str, first: Side, *_: object) -> JudgeAnswer:
            return JudgeAnswer("first" if first.rgb(0).mean() > threshold else "second")

        return comparing(compare, settings=lambda _self: {"threshold": threshold} if declares else {})

    def scorer(factor: float) -> Any:
        return scoring(
            lambda _self, _prompt, video, _aspect: Score(factor * float(video.rgb(0).mean())),
            settings=lambda _self: {"factor": factor} if declares else {},
        )

    for same, one, other in ((judge(80.0), judge(80.0), judge(1e9)), (scorer(1.0), scorer(1.0), scorer(2.0))):
        check_evaluator(same, others=[one])
        if declares:
            check_evaluator(same, others=[one, other])
            continue
        with pytest.raises(ConformanceError, match=r"number 2 of `others` .* the same settings\(\)"):
            check_evaluator(same, others=[one, other])
