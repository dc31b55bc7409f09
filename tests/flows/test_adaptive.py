"""Adaptive evaluations of a ladder release: few requests, none twice, continued after a kill."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from flows.score.adaptive_rounds import AdaptiveJudge, points_of
from flows.score.evaluate_run import Evaluation, estimate
from flows.score.options import EvaluateOptions
from flows.score.results import RequestProgress
from storage_schemas.errors import UserInputError
from storage_schemas.judgements import JudgementsStore
from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.recipe import Severity
from tasks.scoring.registry import choice_from_text
from tasks.scoring.release_pairs import Selection
from tests.flows.small_builds import only
from tests.inline import build_inline, evaluate_inline
from tests.small_films import FilmsOfModule

FILMS = 3
STRENGTHS = ("0.2", "0.4", "0.7")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def ladder(films_of_module: FilmsOfModule) -> Path:
    """A store with a release of four strengths of one and more clips, and one of one severity."""
    options = films_of_module(*range(FILMS))
    severity = Severity(clips=(1,), strengths=STRENGTHS, crossed=True)
    build_inline(only(options, "aesthetics", name="ladder", severity=severity))
    plain = options.model_copy(update={"release": "plain"})
    return build_inline(only(plain, "aesthetics", name="plain")).release.store.root


@pytest.fixture
def store(ladder: Path, tmp_path: Path) -> Path:
    shutil.copytree(ladder, tmp_path / "store")
    return tmp_path / "store"


def asked(store: Path, *evaluators: str, **fields: object) -> EvaluateOptions:
    given = {
        "store": str(store),
        "evaluators": tuple(choice_from_text(text) for text in evaluators),
        "release": "main",
        "adaptive": True,
        "round_pairs": 4,
        **fields,
    }
    return EvaluateOptions.model_validate(given)


def pairs_of(store: Path) -> int:
    return len(Release.open(Store.open(store), "main").pairs())


def requests(log: Path) -> Counter[str]:
    return Counter(log.read_text().splitlines()) if log.exists() else Counter()


@pytest.mark.slow
def test_adaptive_run_asks_few_pairs_and_nothing_twice(store: Path, seeing: Path) -> None:
    count = pairs_of(store)
    assert count == FILMS * 8
    options = asked(store, "seeing", "seeing?steps=30&name=weaker", precision=50.0)
    result = evaluate_inline(options)
    assert result.exit_code == 0
    for one in result.evaluators:
        assert (one.total.left, one.total.answered) == (0, one.total.requests)
        assert one.total.requests < 2 * count
        assert one.asked == one.total.requests
    assert max(requests(seeing).values()) == 1
    rows = JudgementsStore(Store.open(store)).rows()
    assert len(rows) == sum(requests(seeing).values())
    # all is known: nothing is asked, however often
    again = evaluate_inline(options)
    assert [one.asked for one in again.evaluators] == [0, 0]
    assert [one.total.requests for one in again.evaluators] == [
        one.total.requests for one in result.evaluators
    ]
    # a narrower interval continues from there
    more = evaluate_inline(asked(store, "seeing", precision=1.5))
    (one,) = more.evaluators
    assert one.found_before == result.evaluators[0].total.requests
    assert max(requests(seeing).values()) == 1


@pytest.mark.slow
def test_killed_adaptive_run_continues_and_pays_no_answer_twice(store: Path, seeing: Path) -> None:
    program = (
        "from tests.flows.test_adaptive import asked, evaluate_inline\n"
        "from pathlib import Path\nimport sys\n"
        "evaluate_inline(asked(Path(sys.argv[1]), 'seeing?kill_after=13', precision=3.0))\n"
    )
    command = [sys.executable, "-c", program, str(store)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert sum(requests(seeing).values()) == 13
    before = len(JudgementsStore(Store.open(store)).rows(["seeing"]))
    assert before == 12
    (one,) = evaluate_inline(asked(store, "seeing", precision=3.0)).evaluators
    assert (one.found_before, one.total.left) == (before, 0)
    counts = requests(seeing)
    # the request that was on its way when the process died
    assert sorted(counts.values())[-2:] in ([1, 2], [1, 1])
    assert one.total.answered == len(counts)


def test_adaptive_run_respects_a_budget_of_pairs_and_of_tokens(store: Path, seeing: Path) -> None:
    limited = asked(store, "seeing", selection=Selection(most_per_aspect=4), precision=1.01)
    (one,) = evaluate_inline(limited).evaluators
    assert (one.total.requests, one.total.left) == (8, 0)
    (one,) = evaluate_inline(asked(store, "seeing", limits={"tokens": 5000}, precision=1.01)).evaluators
    assert "limit" in one.stopped
    assert one.asked == 5
    assert max(requests(seeing).values()) == 1


def test_adaptive_run_asks_all_repeats_of_a_pair_and_nothing_twice(store: Path, seeing: Path) -> None:
    options = asked(store, "seeing", repeats=3, precision=50.0)
    (one,) = evaluate_inline(options).evaluators
    rows = JudgementsStore(Store.open(store)).rows()
    repeats = {
        pair: Counter(row.repeat for row in rows if row.pair_id == pair)
        for pair in {row.pair_id for row in rows}
    }
    assert all(counts == {0: 2, 1: 2, 2: 2} for counts in repeats.values()), repeats
    assert one.asked == one.total.requests == 6 * len(repeats)
    assert len(repeats) < pairs_of(store)
    (again,) = evaluate_inline(options).evaluators
    assert again.asked == 0


def test_release_without_severities_says_how_to_build_them(store: Path, seeing: Path) -> None:
    with pytest.raises(UserInputError, match=r"release plain, version 1 has only one severity.*\[severity\]"):
        evaluate_inline(asked(store, "seeing", release="plain"))
    assert not requests(seeing)


def test_estimate_is_of_the_requests_that_are_expected(store: Path, seeing: Path) -> None:
    evaluation = Evaluation(asked(store, "seeing", precision=4.0), RequestProgress(quiet=True))
    evaluation.prepare(ask_servers=False)
    (row,) = estimate(evaluation)
    assert 8 <= row.requests <= 2 * pairs_of(store)
    assert row.cost.tokens_in == 1000 * row.requests
    assert not requests(seeing)


@pytest.mark.parametrize("probe", ["blind", "equal"])
def test_adaptive_run_of_a_probe_asks_what_pairs_share_once(store: Path, seeing: Path, probe: str) -> None:
    choice = choice_from_text("seeing").model_copy(update={"probe": probe})
    (one,) = evaluate_inline(asked(store, precision=1.2, evaluators=(choice,))).evaluators
    rows = JudgementsStore(Store.open(store)).rows()
    keys = {row.key for row in rows}
    # a film is judged in two orders at most, and all films have the same prompt
    assert one.asked == len(keys) <= FILMS * 2
    assert one.total.left == 0


def test_pairs_with_requests_in_a_batch_are_begun(store: Path, seeing: Path) -> None:
    evaluation = Evaluation(asked(store, "seeing"), RequestProgress(quiet=True))
    evaluation.prepare(ask_servers=False)
    (judge,) = evaluation.judges
    assert judge.adaptive is not None
    chosen = {unit.pair.pair_id for unit in judge.units}
    waiting = next(some[0].key for pair_id, some in judge.adaptive.requests.items() if pair_id not in chosen)
    # of a run that has ended: what is paid for is not left behind
    fresh = AdaptiveJudge(judge.adaptive.searches, judge.adaptive.requests, 4)
    assert waiting in {one.key for one in fresh.next_requests({}, waiting={waiting})}


def test_a_pair_counts_once_each_order_has_an_answer(store: Path, seeing: Path) -> None:
    evaluate_inline(asked(store, "seeing", precision=50.0))
    evaluation = Evaluation(asked(store, "seeing", precision=50.0), RequestProgress(quiet=True))
    evaluation.prepare(ask_servers=False)
    (judge,) = evaluation.judges
    assert judge.adaptive is not None
    rows = JudgementsStore(Store.open(store)).rows()
    pair_id = rows[0].pair_id
    requests_of = judge.adaptive.requests[pair_id]
    answers = [row for row in rows if row.pair_id == pair_id]
    assert len(points_of(requests_of, answers)) == 2
    assert points_of(requests_of, answers[:1]) == []
