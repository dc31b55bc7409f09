"""The flow `build-slvmeval`: what it is given, what runs, what its pages show."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows.build.options import BuildOptions, BuildParameters, remember
from flows.build.run import Build, BuildResult, counted
from flows.declaration import Artifact, FlowDeclaration, RunLabel, artifact_key
from infra.prefect_server import FLOW_NAME
from infra.profile import Profile
from infra.progress import BuildProgress
from storage_schemas.errors import SlvmevalError, StoreError
from storage_schemas.store import FRAMES
from tasks.publish.gallery.write import gallery_once
from tasks.report.pictures import contact_sheet, data_uri

log = logging.getLogger(__name__)


class BuildFlow(FlowDeclaration[BuildOptions, Build, BuildResult]):
    """Builds a release."""

    name = FLOW_NAME
    parameters = BuildParameters
    counted = "sources"

    @contextmanager
    def prepared(self, options: BuildOptions, progress: BuildProgress) -> Iterator[Build]:
        """Give a prepared build, and keep its options for `slvmeval retry`."""
        # first of all: nothing is written into a folder that turns out to be no store
        remember(options.open_store(), options)
        build = Build(options, progress)
        build.prepare()
        yield build

    def label(self, run: Build) -> RunLabel:
        """Name release, sources and recipe."""
        release, recipe = run.options.release, run.recipe.name
        name = " · ".join((release, counted(len(run.sources), "source"), recipe))
        return RunLabel(name, (f"recipe:{recipe}", f"release:{release}"), release)

    def artifacts(self, run: Build, result: BuildResult) -> Iterator[Artifact]:
        """Show what was made: in words, as a table with reasons, its folder, a contact sheet an aspect."""
        release = result.release
        name, summary = release.name, release.summary()
        key, says, path = artifact_key(name), result.in_words(), str(release.path)
        version = f"{name}, version {release.version}"
        yield Artifact(f"result-{key}", says, markdown=says)
        yield Artifact(f"summary-{key}", f"Release {version}", rows=summary_rows(summary))
        # no link: from a page of a server, browsers open no files
        folder = f"```\n{path}\n```\n"
        yield Artifact(f"release-{key}", f"Folder of release {version}: {path}", markdown=folder)
        for aspect in summary:
            # frames of an older source may have been evicted since
            records = [r for r in release.pairs(aspect) if run.store.has(FRAMES, r.frames_id)]
            if not records:
                continue
            try:
                clips = release.clips(records[0].source_id)
                sheet = data_uri(contact_sheet(run.store, records[0], clips))
            except StoreError:
                # the release is written: a picture of it that fails is no failed build
                log.exception("%s has no contact sheet", aspect)
                continue
            yield Artifact(
                f"sheet-{key}-{artifact_key(aspect)}",
                f"{aspect}: high quality above, degraded below",
                markdown=f"### {aspect}\n\n![High quality above, degraded below]({sheet})\n",
            )

    def finish_on_worker(self, result: BuildResult, site: Profile) -> tuple[str, Sequence[Artifact]]:
        """Write the gallery that the profile names, and link it."""
        if site.gallery is None:
            return "", ()
        folder = Path(site.gallery).expanduser()
        try:
            page = gallery_once(result.release, folder)
        except (SlvmevalError, OSError):
            # the release is written, and only that must not be lost
            log.exception("the gallery could not be written into %s", folder)
            return f" The gallery could not be written into {folder}, see the log.", ()
        return "", (gallery_link(page, site.gallery_url),)


BUILD = BuildFlow()


def summary_rows(summary: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of the table, from ``Release.summary``."""
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
    """Link a gallery where it is served, else say where its first page is."""
    words = "Pages to look at the release: "
    if url:
        link = f"{url.rstrip('/')}/{page.name}"
        return Artifact("gallery", words + link, link=link)
    says = f"```\n{page}\n```\n`gallery_url` in the profile makes this a link.\n"
    return Artifact("gallery", f"{words}{page}", markdown=says)
