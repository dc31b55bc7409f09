"""The flow `build-slvmeval`: its options, its run and its artifacts in Prefect's UI."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows.declaration import Artifact, FlowDeclaration, RunLabel, artifact_key
from flows.parameters import check_absolute
from flows.release.options import BuildOptions, build_options, remember
from flows.release.parameters import BuildParameters
from flows.release.result import BuildResult
from flows.release.run import Build
from infra.prefect_server import FLOW_NAME
from infra.profile import Profile
from infra.progress import BuildProgress
from storage_schemas.counts import count_text
from storage_schemas.errors import SlvmevalError, StoreError
from storage_schemas.store import FRAMES
from tasks.publish.gallery.write import gallery_once
from tasks.report.pictures import contact_sheet, data_uri

log = logging.getLogger(__name__)


class BuildFlow(FlowDeclaration[BuildOptions, Build, BuildResult]):
    """Builds a release."""

    name = FLOW_NAME
    runs_as = "build"
    parameters = BuildParameters
    counted = "sources"

    def options(self, parameters: BuildParameters, site: Profile) -> BuildOptions:
        """Resolve parameters into options for a worker, whose builds are repeated."""
        options = build_options(parameters, site)
        for root in options.sources:
            check_absolute("sources", root.path)
        return options.model_copy(update={"leave_unsettled": True})

    @contextmanager
    def prepared(self, options: BuildOptions, progress: BuildProgress) -> Iterator[Build]:
        """Yield a prepared build, and store its options for `slvmeval build --retry`."""
        # first, so that nothing is written to a folder other than a store
        remember(options.open_store(), options)
        build = Build(options, progress)
        build.prepare()
        yield build

    def label(self, run: Build) -> RunLabel:
        """Return the label: release, sources and recipe."""
        release, recipe = run.options.release, run.recipe.name
        name = " · ".join((release, count_text(len(run.state.sources), "source"), recipe))
        return RunLabel(name, (f"recipe:{recipe}", f"release:{release}"), release)

    def artifacts(self, run: Build, result: BuildResult) -> Iterator[Artifact]:
        """Yield a summary, a table with reasons, the folder, and a contact sheet per aspect."""
        release = result.release
        name, summary = release.name, release.summary()
        key, text, path = artifact_key(name), result.in_words(), str(release.path)
        version = f"{name}, version {release.version}"
        yield Artifact(f"result-{key}", text, markdown=text)
        yield Artifact(f"summary-{key}", f"Release {version}", rows=_reason_rows(summary))
        # not a link: browsers do not open local files from a web page
        folder = f"```\n{path}\n```\n"
        yield Artifact(f"release-{key}", f"Folder of release {version}: {path}", markdown=folder)
        for aspect in summary:
            # frames of an older source may have been evicted
            records = [r for r in release.pairs(aspect) if run.store.has(FRAMES, r.frames_id)]
            if not records:
                continue
            try:
                clips = release.clips(records[0].source_id)
                sheet = data_uri(contact_sheet(run.store, records[0], clips))
            except StoreError:
                # the release is written: a failed contact sheet must not fail the build
                log.exception("%s has no contact sheet", aspect)
                continue
            yield Artifact(
                f"sheet-{key}-{artifact_key(aspect)}",
                f"{aspect}: high quality above, degraded below",
                markdown=f"### {aspect}\n\n![High quality above, degraded below]({sheet})\n",
            )

    def finish_on_worker(self, result: BuildResult, site: Profile) -> tuple[str, Sequence[Artifact]]:
        """Write the gallery to the profile's folder, and link it."""
        if site.gallery is None:
            return "", ()
        folder = Path(site.gallery).expanduser()
        try:
            page = gallery_once(result.release, folder)
        except (SlvmevalError, OSError):
            # the release is written: a failed gallery must not fail the build
            log.exception("the gallery could not be written to %s", folder)
            return f" The gallery could not be written to {folder}, see the log.", ()
        return "", (gallery_link(page, site.gallery_url),)


BUILD = BuildFlow()


def _reason_rows(summary: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per aspect with its reasons in words, from ``Release.summary``."""
    return [
        {
            "aspect": aspect,
            "planned": counts["planned"],
            "built": counts["built"],
            "set aside": counts["set_aside"],
            "reasons": ", ".join(f"{reason} {n}" for reason, n in counts["reasons"].items()),
        }
        for aspect, counts in summary.items()
    ]


def gallery_link(page: Path, url: str | None) -> Artifact:
    """Return a link to a served gallery, or else the path of its first page."""
    words = "Pages of the release: "
    if url:
        link = f"{url.rstrip('/')}/{page.name}"
        return Artifact("gallery", words + link, link=link)
    text = f"```\n{page}\n```\nSet `gallery_url` in the profile to get a link.\n"
    return Artifact("gallery", f"{words}{page}", markdown=text)
