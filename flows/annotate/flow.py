"""The flow `annotate-slvmeval`: translate, publish, collect, filter; each step runs only if it is due."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

from flows.annotate.options import AnnotateOptions, annotate_options
from flows.annotate.parameters import AnnotateParameters
from flows.annotate.run import Annotation, AnnotationResult, annotation, table
from flows.declaration import Artifact, FlowDeclaration, RunLabel, artifact_key
from infra.prefect_server import ANNOTATE_FLOW_NAME
from infra.profile import Profile
from infra.progress import BuildProgress


class AnnotateFlow(FlowDeclaration[AnnotateOptions, Annotation, AnnotationResult]):
    """Publishes a release for annotation and collects the votes."""

    name = ANNOTATE_FLOW_NAME
    runs_as = "annotation"
    parameters = AnnotateParameters
    counted = "sources"

    def options(self, parameters: AnnotateParameters, site: Profile) -> AnnotateOptions:
        """Resolve parameters into options."""
        return annotate_options(parameters, site)

    def prepared(
        self, options: AnnotateOptions, progress: BuildProgress
    ) -> AbstractContextManager[Annotation]:
        """Yield a prepared annotation with an open database."""
        return annotation(options, progress)

    def label(self, run: Annotation) -> RunLabel:
        """Return the campaign's name and number of pairs."""
        campaign = run.campaign.name
        tags = (f"release:{run.release.name}", f"campaign:{campaign}")
        return RunLabel(f"{campaign} · {len(run.shown.records)} pairs", tags, f"annotate-{campaign}")

    def artifacts(self, run: Annotation, result: AnnotationResult) -> Iterator[Artifact]:
        """Yield a summary and a table of the result."""
        campaign, summary = run.campaign.name, result.in_words()
        key = artifact_key(campaign)
        yield Artifact(f"annotated-{key}", summary, markdown=summary)
        yield Artifact(f"votes-{key}", f"Campaign {campaign}", rows=table(result))


ANNOTATE = AnnotateFlow()
