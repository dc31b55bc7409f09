"""The conformance test of evaluators accepts the documentation's example and finds each kind of violation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

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
from storage_schemas.errors import IntegrityError
from storage_schemas.judgements import JudgementsStore
from storage_schemas.store import Store

PAGE = Path(__file__).parents[2] / "docs" / "adding-an-evaluator.md"
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def breaches(evaluator: Any, **options: Any) -> str:
    with pytest.raises(ConformanceError) as caught:
        check_evaluator(evaluator, **options)
    return "\n".join(caught.value.breaches)


def test_the_documentations_example_conforms() -> None:
    module = SimpleNamespace(__name__="colourful")
    exec(compile(BLOCKS[0][1], str(PAGE), "exec"), module.__dict__)
    check_evaluator(module.Colourful())
    assert "check_evaluator(Colourful())" in BLOCKS[-1][1]


def test_the_documentations_example_is_installed_and_judges(judged_store: Path, tmp_path: Path) -> None:
    package = tmp_path / "site"
    (package / "my_package").mkdir(parents=True)
    (package / "my_package" / "colourful.py").write_text(BLOCKS[0][1], encoding="utf-8")
    (package / "my_package" / "__init__.py").touch()
    points = tomllib.loads(BLOCKS[1][1])["project"]["entry-points"]
    info = package / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in some.items())
            for group, some in points.items()
        )
    )
    words = (
        "evaluate -e colourful -e colourful?frames=64&label=colourful-64 --direct --quiet --workers 1 --store"
    )
    root = str(Path(__file__).parents[2])
    ran = subprocess.run(
        [sys.executable, "-m", "slvmeval", *words.split(), str(judged_store)],
        env={**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{root}"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert "colourful-64" in ran.stdout
    rows = JudgementsStore(Store.open(judged_store)).rows(["colourful", "colourful-64"])
    assert len(rows) == 12
    assert len({row.settings for row in rows}) == 2
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
