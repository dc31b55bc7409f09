"""The flow `suite-slvmeval`: what it is given, what runs, what its pages show."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from flows.declaration import Artifact, FlowDeclaration, RunLabel, artifact_key
from flows.score.results import RequestProgress, SuiteResult
from flows.score.suite_options import SuiteOptions, SuiteParameters
from flows.score.suite_run import SuiteExecutor, SuiteRun
from infra.executor import Executor
from infra.prefect_server import SUITE_FLOW_NAME
from infra.progress import BuildProgress
from tasks.report.suite_leaderboard import board_table
from tasks.scoring.suites.leaderboard import board_of, current, means_of

#: So many rows of files that could not be used are shown.
_SHOWN_LEFT_OUT = 200


class SuiteFlow(FlowDeclaration[SuiteOptions, SuiteRun, SuiteResult]):
    """Lets a suite score videos."""

    name = SUITE_FLOW_NAME
    parameters = SuiteParameters
    progress = RequestProgress
    # several processes would load the same models several times
    one_loads = True

    @contextmanager
    def prepared(self, options: SuiteOptions, progress: BuildProgress) -> Iterator[SuiteRun]:
        """Give a prepared run."""
        assert isinstance(progress, RequestProgress)
        run = SuiteRun(options, progress)
        run.prepare()
        yield run

    def label(self, run: SuiteRun) -> RunLabel:
        """Name the suite, and count videos and dimensions."""
        name = f"{run.name} · {run.material.count} videos · {len(run.asked)} dimensions"
        return RunLabel(name, (f"suite:{run.name}",), f"suite-{run.options.suite}")

    def artifacts(self, run: SuiteRun, result: SuiteResult) -> Iterator[Artifact]:
        """Show what was scored in words, by dimension, as a leaderboard, and what was left out."""
        key, says = artifact_key(run.name), result.in_words()
        yield Artifact(f"scored-{key}", says, markdown=says)
        left_out = [vars(one) for one in result.left_out[:_SHOWN_LEFT_OUT]]
        first = f"What of the files was left out, the first {_SHOWN_LEFT_OUT} of {len(result.left_out)}"
        for name, title, rows in (
            ("dimensions", result.title, result.rows()),
            ("leaderboard", f"{result.title}: leaderboard", leaderboard_rows(run)),
            ("left-out", first, left_out),
        ):
            if rows:
                yield Artifact(f"{name}-{key}", title, rows=rows)

    def without_cluster(self, options: SuiteOptions) -> SuiteOptions:
        """Return options by which a GPU is looked for on this machine, not in the site's pools."""
        return options.model_copy(update={"pools": ()})

    def processes(self, workers: int, pools: Collection[str] = ()) -> Executor:
        """Return processes of this machine, one alone for loaded models."""
        return SuiteExecutor(workers, pools)


SUITE = SuiteFlow()


def leaderboard_rows(run: SuiteRun) -> list[dict[str, Any]]:
    """Return the leaderboard of all scores of the run's suite, a row a model."""
    rows, others = current(run.scores.rows(run.name))
    table = board_table(board_of(run.suite.title, run.suite.dimensions, means_of(rows), others))
    titles = [column.title for column in table.shown]
    return [dict(zip(titles, cells, strict=True)) for cells in table.cells()]
