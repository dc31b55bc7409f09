"""The flow `annotate-slvmeval`: translate, publish, collect, filter, each as far as it is due."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from flows.annotate.options import AnnotateOptions, AnnotateParameters
from flows.annotate.run import Annotation, AnnotationResult, annotation, table
from flows.declaration import Artifact, FlowDeclaration, RunLabel, artifact_key
from infra.prefect_server import ANNOTATE_FLOW_NAME
from infra.progress import BuildProgress


class AnnotateFlow(FlowDeclaration[AnnotateOptions, Annotation, AnnotationResult]):
    """Puts a release before people and takes over their votes."""

    name = ANNOTATE_FLOW_NAME
    parameters = AnnotateParameters
    counted = "sources"

    def prepared(
        self, options: AnnotateOptions, progress: BuildProgress
    ) -> AbstractContextManager[Annotation]:
        """Give a prepared annotation; its database is open."""
        return annotation(options, progress)

    def label(self, run: Annotation) -> RunLabel:
        """Name the campaign, and count its pairs."""
        campaign = run.campaign.name
        tags = (f"release:{run.release.name}", f"campaign:{campaign}")
        return RunLabel(f"{campaign} · {len(run.shown.records)} pairs", tags, f"annotate-{campaign}")

    def artifacts(self, run: Annotation, result: AnnotationResult) -> Iterator[Artifact]:
        """Show in words and as a table what was done."""
        campaign, says = run.campaign.name, result.in_words()
        key = artifact_key(campaign)
        yield Artifact(f"annotated-{key}", says, markdown=says)
        yield Artifact(f"votes-{key}", f"Campaign {campaign}", rows=table(result))


ANNOTATE = AnnotateFlow()
