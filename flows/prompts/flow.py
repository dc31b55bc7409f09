"""The flow `prompts-slvmeval`: what it is given, what runs, what its pages show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flows.declaration import Artifact, FlowDeclaration, RunLabel
from flows.prompts.run import PromptsOptions, PromptsParameters, PromptsResult, PromptsRun
from infra.prefect_server import PROMPTS_FLOW_NAME
from infra.progress import BuildProgress


class PromptsFlow(FlowDeclaration[PromptsOptions, PromptsRun, PromptsResult]):
    """Makes prompts of videos."""

    name = PROMPTS_FLOW_NAME
    parameters = PromptsParameters
    counted = "videos"

    @contextmanager
    def prepared(self, options: PromptsOptions, progress: BuildProgress) -> Iterator[PromptsRun]:
        """Give a prepared run."""
        run = PromptsRun(options, progress)
        run.prepare()
        yield run

    def label(self, run: PromptsRun) -> RunLabel:
        """Count the videos."""
        return RunLabel(f"prompts · {len(run.videos)} videos", (), "prompts")

    def artifacts(self, run: PromptsRun, result: PromptsResult) -> Iterator[Artifact]:
        """Show in words and as a table what became of the videos."""
        says = result.in_words()
        yield Artifact("prompts-made", says, markdown=says)
        if rows := result.rows():
            yield Artifact("prompts", "Prompts", rows=rows)


PROMPTS = PromptsFlow()
