"""The conformance test of evaluators accepts the documentation's example and finds each kind of violation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
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

PAGE = Path(__file__).parents[2] / "docs" / "adding-an-evaluator.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def breaches(evaluator: Any, **options: Any) -> str:
    with pytest.raises(ConformanceError) as caught:
        check_evaluator(evaluator, **options)
    return "\n".join(caught.value.breaches)


@pytest.mark.parametrize(("name", "shape"), [("my-judge", Shape.judge), ("colourful", Shape.scorer)])
def test_a_new_package_is_what_the_page_shows_and_conforms(name: str, shape: Shape, tmp_path: Path) -> None:
    write_package(name, shape, tmp_path / "package")
    module = name.replace("-", "_")
    code = (tmp_path / "package" / f"{module}.py").read_text(encoding="utf-8")
    assert code in [text for kind, text in BLOCKS if kind == "python"]
    shown = SimpleNamespace(__name__=module)
    exec(compile(code, str(PAGE), "exec"), shown.__dict__)
    check_evaluator(next(one for one in vars(shown).values() if getattr(one, "name", "") == name)())


def test_the_page_shows_the_new_packages_test_and_entry_point(tmp_path: Path) -> None:
    write_package("my-judge", Shape.judge, tmp_path / "package")
    assert BLOCKS[-1][1] == (tmp_path / "package" / "test_my_judge.py").read_text(encoding="utf-8")
    points = next(text for kind, text in BLOCKS if kind == "toml")
    assert points in (tmp_path / "package" / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["My-Judge", "my_judge", "-judge", "judge-", "1st", "class", "", "../judge"])
def test_a_name_that_no_package_can_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="cannot be the name"):
        write_package(name, Shape.judge, tmp_path / "package")
    assert not list(tmp_path.iterdir())


def test_a_new_package_overwrites_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="an evaluator duration already"):
        write_package("duration", Shape.scorer, tmp_path / "package")
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(UserInputError, match="--folder"):
            write_package("my-judge", Shape.judge, place)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_new_package_may_fill_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(tmp_path / "link")
    write_package("my-judge", Shape.judge, Path())
    names = ["README.md", "my_judge.py", "pyproject.toml", "test_my_judge.py"]
    assert sorted(path.name for path in Path.cwd().iterdir()) == names


def test_a_new_package_hides_no_module(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match="a Python module numpy already"):
        write_package("numpy", Shape.judge, tmp_path / "package")
    assert not list(tmp_path.iterdir())


def test_new_packages_are_installed_and_judge(judged_store: Path, tmp_path: Path) -> None:
    write_package("my-judge", Shape.judge, tmp_path / "judge")
    write_package("colourful", Shape.scorer, tmp_path / "scorer")
    site = tmp_path / "site"
    install = "-m pip install -q --no-deps --no-build-isolation --no-index --target"
    subprocess.run(
        [sys.executable, *install.split(), str(site), str(tmp_path / "judge"), str(tmp_path / "scorer")],
        check=True,
    )
    words = "evaluate -e my-judge -e colourful?frames=64&label=colourful-64 --direct --quiet --store"
    root = str(Path(__file__).parents[2])
    ran = subprocess.run(
        [sys.executable, "-m", "slvmeval", *words.split(), str(judged_store)],
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{root}"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert "my-judge" in ran.stdout
    assert "colourful-64" in ran.stdout
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


def test_good_ones_pass() -> None:
    check_evaluator(Good())
    check_evaluator(GoodJudge())


def test_an_evaluators_own_fields() -> None:
    class Wrong(Good):
        name = "Not a name"
        version = 0
        pool = "gpu"  # type: ignore[assignment]
        concurrency = 0  # type: ignore[assignment]

        def settings(self) -> dict[str, Any]:
            return {"at": time.perf_counter(), "what": object()}

        def check(self) -> None:
            raise ZeroDivisionError

    violations = breaches(Wrong())
    for words in (
        "name must",
        "version is 0",
        "pool 'gpu'",
        "concurrency is 0",
        "not JSON",
        "check() raises",
    ):
        assert words in violations, words
    assert "neither" in breaches(object())


def test_settings_that_change_and_weights_that_are_missing() -> None:
    class Changing(Good):
        def settings(self) -> dict[str, Any]:
            return {"at": time.perf_counter()}

        def check(self) -> None:
            raise PrerequisiteError("fetch the weights")

    violations = breaches(Changing())
    assert "a different value the second time" in violations
    assert "fetch the weights" in violations


def scoring(score: Any, **fields: Any) -> PointwiseScorer:
    body: Mapping[str, Any] = {"score": score, **fields}
    made: PointwiseScorer = type("Made", (Good,), dict(body))()
    return made


def test_scores_that_are_none() -> None:
    assert "not a Score" in breaches(scoring(lambda *_: 1.0))
    assert "is not a number" in breaches(scoring(lambda *_: Score(float("nan"))))
    assert "not JSON" in breaches(scoring(lambda *_: Score(1.0, details={"x": object()})))

    def none(*_: Any) -> Score:
        raise NotJudged(Failure.NO_ANSWER, "never")

    assert "no answer for an ordinary video" in breaches(scoring(none))

    def writes(_self: Any, _prompt: str, video: Side, _aspect: AspectText) -> Score:
        video.planes([0])[...] = 0
        return Score(1.0)

    assert "frames are read-only" in breaches(scoring(writes))


def test_scores_that_depend_on_more_than_the_video() -> None:
    counted = iter(range(10_000))
    assert "the second time" in breaches(scoring(lambda *_: Score(float(next(counted)))))
    check_evaluator(scoring(lambda *_: Score(float(next(counted)))), repeatable=False)

    def by_aspect(_self: Any, _prompt: str, _video: Side, aspect: AspectText) -> Score:
        return Score(float(len(aspect.name)))

    assert "differs by aspect" in breaches(scoring(by_aspect, by_aspect=False))


def test_videos_are_read_in_parts_and_errors_go_through() -> None:
    def greedy(_self: Any, _prompt: str, video: Side, _aspect: AspectText) -> Score:
        return Score(float(video.planes(range(len(video))).mean()))

    assert "reads 96 frames at once" in breaches(scoring(greedy))

    def swallows(_self: Any, _prompt: str, video: Side, _aspect: AspectText) -> Score:
        try:
            return Score(float(video.planes([0]).mean()))
        except IntegrityError:
            return Score(0.0)

    assert "although the video could not be read" in breaches(scoring(swallows))


def test_judges_that_do_not_fit() -> None:
    class Odd(GoodJudge):
        both_orders = 1  # type: ignore[assignment]

        def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
            return JudgeAnswer("high")  # type: ignore[arg-type]

        def estimate(self, *_: Any) -> Any:
            return 3

    assert "both_orders" in breaches(Odd())
    assert "not a JudgeAnswer" in breaches(Odd())

    class Fickle(Odd):
        turns = 0

        def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
            self.turns += 1
            return JudgeAnswer("first" if self.turns % 3 else "tie")

    violations = breaches(Fickle())
    assert "answer differs the second time" in violations
    assert "not an Estimate" in violations


def test_answers_that_no_table_can_hold() -> None:
    class Mistyped(GoodJudge):
        def compare(self, prompt: str, first: Side, second: Side, aspect: AspectText) -> JudgeAnswer:
            return JudgeAnswer("first", raw=None, usage=Usage(tokens_in=1.5))  # type: ignore[arg-type]

    violations = breaches(Mistyped(), repeatable=False)
    assert "its raw is None" in violations
    assert "not a Usage of counts" in violations
    assert "its model is 3" in breaches(scoring(lambda *_: Score(1.0, model=3)))  # type: ignore[arg-type]
