"""A run of a suite, whoever runs its tasks: what is wanted and not there, in tasks by dimension."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, cast

from flows.evaluate_progress import RequestProgress
from flows.suite_options import SuiteOptions
from flows.suite_result import DimensionResult, SuiteResult
from flows.suite_wanted import Wanted, missing_of, settled
from flows.through_stages import Item, through_stages
from infra.executor import Executor, InlineExecutor
from storage_schemas.ids import digest_text
from storage_schemas.judgement import Failure
from tasks.evaluators.shared_state import only_one
from tasks.pairs.stages import Stage
from tasks.suites.run import SuiteOutcome, SuiteTask, score_stage
from tasks.suites.score_unit import failed_rows

#: So many tasks whose processes died again and again end a dimension's run.
MOST_DEAD_TASKS = 5
#: Units of one task for each thread that works on it: few wait for the slowest at its end.
_ROUNDS = 8


@dataclass
class SuiteRun(Wanted):
    """One run; call :meth:`prepare`, then :meth:`run`."""

    _again: list[Item[SuiteTask]] = field(default_factory=list)

    def idle(self) -> bool:
        """Return whether nothing has to be scored."""
        return not self._tasks()

    def run(self, open_executor: Callable[[Collection[str]], Executor]) -> SuiteResult:
        """Score what is missing.

        Parameters
        ----------
        open_executor
            Called once, if there is work, with the pools that it needs.
        """
        known = self.scores.known(self.name)
        with ExitStack() as stack:
            for one in self.asked:
                if one.refused or not missing_of(one, known, self.options.retry):
                    continue
                held = digest_text(f"{self.name} {one.dimension.name} {one.settings}")[:32]
                path = self.store.cache / "suites" / f"{held}.held"
                if not stack.enter_context(only_one(path)):
                    one.busy = True
                    one.refused = "another run scores it now: run this again when that one has ended"
                    self.progress.say(f"{one.dimension.name} is left out: {one.refused}")
            return self._run(open_executor)

    def _run(self, open_executor: Callable[[Collection[str]], Executor]) -> SuiteResult:
        tasks = self._tasks()
        if tasks:
            self.progress.watch(
                self.work.spending, sum(len(unit.videos) for item in tasks for unit in item.source.units)
            )
            for item in tasks:
                self.progress.expect(item.source.dimension, 1)
            with open_executor({item.next.pool for item in tasks}) as executor:
                while tasks:
                    self._again = []
                    through_stages(executor, self.work, tasks, self.progress, self._came, self._died)
                    tasks = self._again
                    for item in tasks:
                        self.progress.expect(item.source.dimension, 1)
            self.copy_known()
        self.keep_reasons()
        self.scores.pack(lambda task: task.startswith(self.run_id))
        result = self._result()
        self.work.spending.remove()
        return result

    def _tasks(self) -> list[Item[SuiteTask]]:
        items: list[Item[SuiteTask]] = []
        known = self.scores.known(self.name)
        for one in self.asked:
            if one.scorer is None or one.refused:
                continue
            threads = self.options.concurrency or one.scorer.concurrency
            stage = Stage(one.dimension.name, one.scorer.pool, cast(Any, score_stage))
            left = iter(missing_of(one, known, self.options.retry))
            while units := tuple(islice(left, _ROUNDS * threads)):
                first = units[0]
                title = f"{one.dimension.name} of {first.prompt.prompt_id}"
                task = SuiteTask(f"{self.run_id}-{len(items)}", title, one.dimension.name, units)
                items.append(Item(task, (), [stage]))
        return items

    def _came(self, outcome: SuiteOutcome) -> bool:
        """Note what a process lacks, so that rows say why there is no score; no task has a next stage."""
        (one,) = [one for one in self.asked if one.dimension.name == outcome.dimension]
        if outcome.unusable and not one.refused:
            one.refused = outcome.unusable
            self.progress.say(f"{outcome.dimension} cannot be used: {one.refused}")
        return False

    def _died(self, item: Item[SuiteTask], message: str) -> SuiteOutcome:
        """Make failures of the units that their processes died of, and let the others be scored again."""
        task = item.source
        self.progress.say(message)
        suspects = self.scores.begun(task.id)
        known = self.scores.known(self.name)
        (one,) = [one for one in self.asked if one.dimension.name == task.dimension]
        open_ = [unit for unit in task.units if not settled(unit, known, self.options.retry)]
        lost = [unit for unit in open_ if unit.key in suspects]
        others = tuple(unit for unit in open_ if unit.key not in suspects)
        for unit in lost:
            self.scores.add(failed_rows(self.name, unit, Failure.INTERNAL_ERROR, message))
        one.deaths += 1
        if one.deaths >= MOST_DEAD_TASKS:
            why = f"its processes died again and again; the last time: {message}"
            self.work.spending.stop(task.dimension, why)
        elif lost and others:
            rest = replace(task, id=f"{task.id}-{one.deaths}", units=others)
            self._again.append(Item(rest, (), list(item.stages)))
        return SuiteOutcome(task.id, task.dimension, rows=tuple(key for unit in lost for key in unit.keys))

    def _result(self) -> SuiteResult:
        known, counts = self.scores.known(self.name), self.work.spending.counts()
        found = []
        for one in self.asked:
            spent = counts.get(one.dimension.name, {})
            result = DimensionResult(
                dimension=one.dimension.name,
                found_before=one.found_before,
                asked=spent.get("asked", 0),
                tokens=spent.get("tokens", 0),
                usd=None if spent.get("unpriced") else spent.get("usd", 0.0),
                stopped=one.refused or spent.get("stopped", ""),
            )
            for id_ in (id_ for unit in one.units for id_ in unit.ids):
                failure = known.get(id_)
                result.videos += 1
                result.scored += failure == ""
                result.left += failure is None
                if failure:
                    result.failures[failure] += 1
            found.append(result)
        return SuiteResult(
            self.name,
            self.suite.title,
            self.material.count,
            tuple(found),
            tuple(self.left_out),
            self.progress.seconds,
        )


def suite_inline(options: SuiteOptions, progress: RequestProgress | None = None) -> SuiteResult:
    """Run a suite in this process, without any executor: for tests and small things."""
    with progress or RequestProgress(quiet=True) as shown:
        run = SuiteRun(options, shown)
        run.prepare()
        return run.run(lambda _pools: InlineExecutor())
