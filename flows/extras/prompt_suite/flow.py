"""The flow `prompts-slvmeval`: its options, its run and its artifacts in Prefect's UI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flows.declaration import Artifact, FlowDeclaration, RunLabel
from flows.extras.prompt_suite.parameters import PromptsParameters
from flows.extras.prompt_suite.run import PromptsOptions, PromptsResult, PromptsRun, prompts_options
from infra.profile import Profile
from infra.progress import BuildProgress


class PromptsFlow(FlowDeclaration[PromptsOptions, PromptsRun, PromptsResult]):
    """Makes prompts from videos."""

    name = "prompts-slvmeval"
    runs_as = "prompts"
    parameters = PromptsParameters
    counted = "videos"

    def options(self, parameters: PromptsParameters, site: Profile) -> PromptsOptions:
        """Resolve parameters into options."""
        return prompts_options(parameters, site)

    @contextmanager
    def prepared(self, options: PromptsOptions, progress: BuildProgress) -> Iterator[PromptsRun]:
        """Yield a prepared run."""
        run = PromptsRun(options, progress)
        run.prepare()
        yield run

    def label(self, run: PromptsRun) -> RunLabel:
        """Return the label with the number of videos."""
        return RunLabel(f"prompts · {len(run.videos)} videos", (), "prompts")

    def artifacts(self, run: PromptsRun, result: PromptsResult) -> Iterator[Artifact]:
        """Yield a summary and a table of the videos."""
        summary = result.in_words()
        yield Artifact("prompts-made", summary, markdown=summary)
        if rows := result.rows():
            yield Artifact("prompts", "Prompts", rows=rows)


PROMPTS = PromptsFlow()
