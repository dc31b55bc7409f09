"""The contract of paid requests for every kind of work: settled, tried again, died of, stopped, left."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from storage_schemas.json_checksum import with_checksum
from storage_schemas.judgements import Failure
from tasks.llm import meter
from tasks.llm.providers.batches import Attempt
from tasks.llm.usage import Prices
from tasks.scoring.engine import MAX_DEATHS, CannotContinue, Outcome, Work, batches
from tasks.scoring.submitted import BatchAnswers, BatchService, HandOverUnknown, Submitted
from tests.tasks.scoring.kinds import HARNESSES, NAME, Harness, Script, limits, new_store


@pytest.fixture(params=HARNESSES)
def kind(request: pytest.FixtureRequest) -> Harness:
    """A kind of work."""
    return HARNESSES[request.param]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_store(tmp_path)


def stopped(work: Any) -> str:
    return str(work.spending.stopped(NAME))


class Killed(BaseException):
    """Ends a process at once, as kill -9 does."""


def test_every_unit_is_answered_once_whatever_becomes_of_its_task(kind: Harness, folder: Path) -> None:
    script = Script()
    work, units = kind.work(folder, script), kind.units(5)
    assert kind.answer(work, units) == Outcome("run-0", NAME, 5)
    assert script.asked == [0, 1, 2, 3, 4]
    assert kind.known(work) == {f"key{n}": "" for n in range(5)}
    # an orchestrator may run a task again whose result it lost
    assert kind.answer(work, units) == Outcome("run-0", NAME)
    # another process has read nothing before
    assert kind.answer(kind.work(folder, script), units) == Outcome("run-0", NAME)
    assert len(script.asked) == 5


def test_a_failure_costs_nothing_and_does_not_affect_the_others(kind: Harness, folder: Path) -> None:
    script = Script(plan={1: "raises", 2: Failure.REFUSED}.get)
    work = kind.work(folder, script, limits=limits(usd=2))
    assert kind.answer(work, kind.units(4)).rows == ("key1", "key2")
    assert kind.known(work) == {"key0": "", "key1": "internal_error", "key2": "refused", "key3": ""}
    counts = work.spending.counts()[NAME]
    assert (counts["usd"], counts["unpriced"], counts["reserved_usd"]) == (pytest.approx(2), 0, 0)
    assert not stopped(work)


def test_a_refused_key_leaves_the_rest(kind: Harness, folder: Path) -> None:
    script = Script(plan={1: Failure.NOT_ALLOWED}.get)
    work = kind.work(folder, script)
    kind.answer(work, kind.units(4))
    assert script.asked == [0, 1]
    assert stopped(work).endswith("planned not_allowed")
    # nor does a further task of the run ask
    assert kind.answer(work, kind.units(4), "run-1") == Outcome("run-1", NAME)


def test_failures_in_a_row_end_the_run(kind: Harness, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert meter.MAX_IN_A_ROW == 20
    monkeypatch.setattr(meter, "MAX_IN_A_ROW", 3)
    script = Script(plan=lambda n: None if n == 2 else "raises")
    work = kind.work(folder, script)
    kind.answer(work, kind.units(9))
    assert script.asked == [0, 1, 2, 3, 4, 5]
    assert stopped(work).startswith("3 requests in a row failed, the last with: ")
    assert stopped(work).endswith("then run the same command again to continue")


@pytest.mark.parametrize(("limit", "asked"), [({"usd": 2.5}, 2), ({"tokens": 300}, 3)])
@pytest.mark.parametrize("uncounted", [False, True])
def test_limit_ends_a_run_resumably(
    kind: Harness, folder: Path, limit: dict[str, float], asked: int, uncounted: bool
) -> None:
    """What is not counted costs its estimate."""
    script = Script(plan=lambda number: "uncounted" if uncounted else None)
    work = kind.work(folder, script, limits=limits(**limit))
    kind.answer(work, kind.units(5))
    assert len(script.asked) == asked
    assert stopped(work).endswith("is reached: run the same command again to continue")
    counts = work.spending.counts()[NAME]
    assert (counts["asked"], counts["unpriced"], counts["reserved_tokens"]) == (asked, 0, 0)
    assert counts["usd"] == pytest.approx(asked, rel=0.02 if uncounted else 1e-6)
    if uncounted:
        assert counts["estimated"] == asked
    else:
        assert counts["tokens"] == asked * 100
    kind.answer(kind.work(folder, script, run="next"), kind.units(5), "next-0")
    assert script.asked == [0, 1, 2, 3, 4]


def test_equal_rejections_without_an_answer_end_the_run(kind: Harness, folder: Path) -> None:
    script = Script(plan=lambda number: Failure.REFUSED)
    work = kind.work(folder, script)
    kind.answer(work, kind.units(40))
    assert script.asked == list(range(meter.MAX_EQUAL_REJECTIONS))
    assert "rejected 10 requests for the same reason, and answered none: " in stopped(work)
    # a server that answers some has nothing against the others in general
    script = Script(plan=lambda number: Failure.REFUSED if number else None)
    kind.answer(kind.work(folder / "other", script, run="other"), kind.units(40), "other-0")
    assert len(script.asked) == 40


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"limits": limits(usd=0.5)}, "the limit of 0.5 dollars is too small for the next request"),
        ({"limits": limits(usd=9), "prices": Prices()}, "model 'toy' has no price"),
    ],
)
def test_engine_asks_nothing_under_a_limit_too_small_or_unpriced(
    kind: Harness, folder: Path, given: dict[str, Any], said: str
) -> None:
    script = Script(threads=4)
    work = kind.work(folder, script, **given)
    kind.answer(work, kind.units(2))
    assert said in stopped(work)
    assert not script.asked
    assert not kind.known(work)


def test_a_stop_elsewhere_is_noticed(kind: Harness, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "_LOOK_EVERY_S", 0.0)

    def plan(number: int) -> None:
        if number == 1:
            work.spending.stop(NAME, "by another process")

    script = Script(plan=plan)
    work = kind.work(folder, script)
    kind.answer(work, kind.units(5))
    assert script.asked == [0, 1]


def test_a_run_that_is_killed_asks_only_for_the_rest_again(kind: Harness, folder: Path) -> None:
    def plan(number: int) -> None:
        if number == 2 and script.asked.count(2) == 1:
            raise Killed

    script = Script(plan=plan)
    with pytest.raises(Killed):
        kind.answer(kind.work(folder, script), kind.units(4))
    work = kind.work(folder, script, run="next")
    kind.answer(work, kind.units(4), "next-0")
    assert script.asked == [0, 1, 2, 2, 3]
    assert kind.known(work) == {f"key{n}": "" for n in range(4)}


def test_faults_of_the_machine_are_tried_again_without_a_request(kind: Harness, folder: Path) -> None:
    script = Script(plan={0: "raises", 1: Failure.REFUSED}.get)
    work = kind.work(folder, script)
    kind.answer(work, kind.units(3))
    # rows are known where another run has joined their files, also to the task that made them
    work.rows().add([])
    work.rows().pack()
    assert kind.answer(kind.work(folder, script), kind.units(3)[1:]).made == 0
    assert script.asked == [0, 1, 2]
    kind.answer(kind.work(folder, script, run="next"), kind.units(3), "next-0")
    assert script.asked == [0, 1, 2, 0]
    kind.answer(kind.work(folder, script, run="more", retry=frozenset({"refused"})), kind.units(3), "more-0")
    assert script.asked == [0, 1, 2, 0, 0, 1]


@pytest.mark.parametrize(
    ("planned", "said", "unusable"),
    [
        (Failure.LIMIT_REACHED, "planned limit_reached", ""),
        ("lacks", "weights are missing", "weights are missing"),
    ],
)
def test_stop_of_all_units_leaves_no_rows(
    kind: Harness, folder: Path, planned: Failure | str, said: str, unusable: str
) -> None:
    work = kind.work(folder, Script(plan={1: planned}.get), limits=limits(usd=9))
    assert kind.answer(work, kind.units(3)).unusable == unusable
    assert kind.known(work) == {"key0": ""}
    assert stopped(work) == said
    assert work.spending.counts()[NAME]["reserved_usd"] == 0


def test_work_that_units_share_is_set_aside_once(kind: Harness, folder: Path) -> None:
    script = Script(once="shared")
    work = kind.work(folder, script, limits=limits(usd=2.0))
    kind.answer(work, kind.units(5))
    # the first is expected to take a dollar, and so each turns out: the limit ends the third
    assert script.asked == [0, 1]


def test_threads_answer_at_once(kind: Harness, folder: Path) -> None:
    together = threading.Barrier(4, timeout=60)

    def plan(number: int) -> None:
        together.wait()

    script = Script(threads=4, plan=plan)
    work = kind.work(folder, script)
    assert kind.answer(work, kind.units(12)).made == 12
    assert script.most_at_once == 4
    assert sorted(script.asked) == list(range(12))


@pytest.mark.parametrize("deaths", range(MAX_DEATHS + 1))
def test_unit_that_kills_its_process_is_tried_alone(kind: Harness, folder: Path, deaths: int) -> None:
    script = Script(threads=4)
    work, units = kind.work(folder, script), kind.units(8)
    running = work.rows().running
    running.mkdir(parents=True)
    for number in range(deaths):
        (running / f"elsewhere.1.run-0.{number}.jsonl").write_bytes(
            with_checksum('{"begun": "key3"}') + b"\n"
        )
    kind.answer(work, units)
    assert sorted(script.asked) == [n for n in range(8) if n != 3 or deaths < MAX_DEATHS]
    if 0 < deaths < MAX_DEATHS:
        assert script.asked[-1] == 3, "last, and alone"
    assert kind.known(work)["key3"] == ("internal_error" if deaths == MAX_DEATHS else "")


# -- handed over now, collected later ------------------------------------------------------------------


class FakeProvider(BatchService[Any]):
    """Batches of a provider, which outlive the processes that hand them over."""

    most = 4

    def __init__(self) -> None:
        self.batches: dict[str, list[Any]] = {}
        self.ready: set[str] = set()
        self.expired = False
        self.kill_at = ""
        self.kind: Any = None

    def form(self, kind: Any) -> Submitted[Any]:
        self.kind = kind
        return Submitted(self)

    def hand_over(self, name: str, units: Sequence[Any]) -> str:
        if self.kill_at == "before":
            raise Killed
        if self.kill_at == "lacks":
            raise CannotContinue("no batches here")
        self.batches[name] = [unit.key for unit in units]
        if self.kill_at == "after":
            raise Killed
        if self.kill_at == "unknown":
            raise HandOverUnknown("no answer")
        return name

    def find(self, attempt: Attempt, taken: Collection[str]) -> str | None:
        return attempt.name if attempt.name in self.batches else None

    def collect(self, handle: str, units: Sequence[Any]) -> BatchAnswers:
        if self.kill_at == "collect":
            raise Killed
        rows = {unit.key: self.kind.answer(unit) for unit in units if unit.key in self.ready}
        return BatchAnswers(rows, self.expired or self.ready >= set(self.batches[handle]))

    @property
    def handed_over(self) -> list[str]:
        return [key for keys in self.batches.values() for key in keys]


KEYS = [f"key{n}" for n in range(6)]


def records(work: Work[Any]) -> list[Path]:
    return list((work.rows().path / "submitted").glob("*"))


def test_units_are_handed_over_and_collected_by_the_next_run(kind: Harness, folder: Path) -> None:
    provider = FakeProvider()
    script = Script(form=provider.form, plan={1: Failure.REFUSED}.get)
    work, units = kind.work(folder, script), kind.units(6)
    assert kind.answer(work, units).made == 0
    assert provider.handed_over == KEYS
    assert sorted(map(len, provider.batches.values())) == [2, 4]
    # some are there, one with an error of its own
    provider.ready = {"key0", "key1", "key4"}
    again = kind.work(folder, script, run="next")
    assert kind.answer(again, units, "next-0").made == 3
    assert kind.known(again) == {"key0": "", "key1": "refused", "key4": ""}
    assert again.spending.counts()[NAME]["asked"] == 3
    provider.ready = set(KEYS)
    last = kind.work(folder, script, run="last")
    left = [unit for unit in units if unit.key not in kind.known(last)]
    assert kind.answer(last, left, "last-0").made == 3
    assert provider.handed_over == KEYS, "nothing is handed over twice"
    assert not records(last)


@pytest.mark.parametrize("kill_at", ["before", "after", "collect", "unknown"])
def test_neither_a_kill_nor_a_lost_answer_pays_twice(kind: Harness, folder: Path, kill_at: str) -> None:
    provider = FakeProvider()
    provider.kill_at = kill_at
    script = Script(form=provider.form)
    work, units = kind.work(folder, script), kind.units(3)
    if kill_at == "unknown":
        assert kind.answer(work, units).unusable == "no answer"
    else:
        with pytest.raises(Killed):
            kind.answer(work, units)
    assert len(records(work)) == 1, "what is handed over is on disk before"
    provider.kill_at, provider.ready = "", set(KEYS)
    again = kind.work(folder, script, run="next")
    assert kind.answer(again, units, "next-0").made == 3
    assert provider.handed_over == KEYS[:3]
    assert not records(again)


def test_a_task_is_as_large_as_a_batch_may_be(kind: Harness, folder: Path) -> None:
    work = kind.work(folder, Script(form=FakeProvider().form, threads=32))
    form = work.kind(NAME).form
    assert isinstance(form, Submitted)
    assert list(map(len, batches(kind.units(10), 32, 1000, most_units=form.most_units))) == [4, 4, 2]


def test_limits_are_kept_before_units_are_handed_over(kind: Harness, folder: Path) -> None:
    provider = FakeProvider()
    provider.ready = set(KEYS)
    work = kind.work(folder, Script(form=provider.form), limits=limits(usd=2.5))
    assert kind.answer(work, kind.units(6)).made == 2
    assert provider.handed_over == KEYS[:2]
    counts = work.spending.counts()[NAME]
    assert (counts["usd"], counts["reserved_usd"]) == (pytest.approx(2), 0)
    # a provider that takes no batches is told
    provider.kill_at = "lacks"
    other = kind.work(folder, Script(form=provider.form), run="next", limits=limits(usd=9))
    assert kind.answer(other, kind.units(4), "next-0").unusable == "no batches here"
    assert not records(other)
    assert other.spending.counts()[NAME]["reserved_usd"] == 0


def test_expired_units_are_handed_over_again(kind: Harness, folder: Path) -> None:
    provider = FakeProvider()
    provider.expired, provider.ready = True, {"key0"}
    script = Script(form=provider.form)
    for run, made, known in (("run", 1, ["key0"]), ("next", 2, KEYS[:3])):
        work = kind.work(folder, script, run=run)
        left = [unit for unit in kind.units(3) if unit.key not in kind.known(work)]
        assert kind.answer(work, left, f"{run}-0").made == made
        assert kind.known(work) == dict.fromkeys(known, "")
        assert not records(work)
        provider.ready = set(KEYS)
    assert provider.handed_over == ["key0", "key1", "key2", "key1", "key2"]
