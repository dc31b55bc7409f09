"""Reports on sources, kept between builds, so that known sources are neither opened nor drawn from again.

A report is used again only while everything that it came from is the same: the source with its captions and
the checksum of its video, the stored analysis and timeline, the recipe, the models, and the program.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

import storage_schemas
import tasks
from storage_schemas.commit import write_atomic
from storage_schemas.errors import IntegrityError, SetAside
from storage_schemas.ids import artifact_id, digest_value
from storage_schemas.json_checksum import read_checked_json, with_checksum
from storage_schemas.pair import PlannedPair, SourceReport
from storage_schemas.source import TIMELINE_FILE, Source
from storage_schemas.store import ANALYSIS, FRAMES, TIMELINE, Store
from tasks.aspects.registry import aspect as find_aspect
from tasks.captions.stage import ANALYSIS_FILE, analysis_consumes
from tasks.models.base import Models
from tasks.pairs.facts import as_analysed, file_stamp, frames_id, timeline_id
from tasks.pairs.stages import is_done
from tasks.recipe import Recipe

log = logging.getLogger(__name__)

#: Number of files kept, the newest: one for each recipe and state of the program.
MAX_FILES = 8

_REPORTS = TypeAdapter(dict[str, tuple[str, SourceReport]])


class KnownReports:
    """The reports of one recipe, in a file of the store's cache; a damaged one only costs time."""

    def __init__(self, store: Store, recipe: Recipe, models: Models) -> None:
        self._store, self._recipe = store, recipe
        self._file = store.cache / "reports" / f"{_origin(recipe, models)}.json"

    @cached_property
    def _known(self) -> dict[str, tuple[str, SourceReport]]:
        try:
            return _REPORTS.validate_json(read_checked_json(self._file))
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError, IntegrityError) as problem:
            log.warning("cannot read %s, inspecting all sources again: %s", self._file, problem)
            return {}

    def find(self, source: Source) -> SourceReport | None:
        """Return the report on a source, with what the store holds now; None if there is none."""
        stored = self._known.get(source.id)
        if stored is None or stored[0] != self._stamp(source, stored[1]):
            return None
        report = stored[1]
        if not report.exact and self._store.has(TIMELINE, timeline_id(source, self._recipe)):
            # another build stored the timeline between the inspection and the stamp
            return None
        return report.model_copy(
            update={
                "has_frames": self._store.has(FRAMES, frames_id(source, self._recipe)),
                "pairs": tuple(self._now(pair) for pair in report.pairs),
            }
        )

    def _now(self, pair: PlannedPair) -> PlannedPair:
        done = is_done(self._store, pair.pair_id)
        return pair if done == pair.done else pair.model_copy(update={"done": done})

    def keep(self, sources: Iterable[Source], reports: Mapping[str, SourceReport]) -> None:
        """Keep the reports on these sources, and no others."""
        try:
            kept = dict(self._kept(sources, reports))
            if kept != self._known:
                write_atomic(self._file, with_checksum(_REPORTS.dump_json(kept)))
                self._known = kept
                files = sorted(self._file.parent.glob("*.json"), key=lambda file: file.stat().st_mtime)
                for old in files[:-MAX_FILES]:
                    old.unlink(missing_ok=True)
        except (OSError, SetAside) as problem:
            log.warning("cannot keep reports in %s: %s", self._file, problem)

    def _kept(
        self, sources: Iterable[Source], reports: Mapping[str, SourceReport]
    ) -> Iterator[tuple[str, tuple[str, SourceReport]]]:
        for source in sources:
            report = reports.get(source.id)
            if report is not None:
                stored = self._known.get(source.id)
                # a stamp costs more than a comparison
                same = stored is not None and stored[1] == report
                yield (
                    source.id,
                    stored if stored is not None and same else (self._stamp(source, report), report),
                )

    def _stamp(self, source: Source, report: SourceReport) -> str:
        """Return the checksum of what a report on a source came from."""
        # a damaged video has fewer; of another number of clips too if the captions changed
        kept = source.model_copy(update={"clips": source.clips[: len(report.spans)]})
        counts = [count for _, count in report.spans[: len(kept.clips)]]
        seen = as_analysed(kept, counts)
        analysis = artifact_id(ANALYSIS, analysis_consumes(seen, self._recipe.caption_analysis))
        timeline = timeline_id(source, self._recipe)
        return digest_value(
            [
                source.model_dump_json(),
                file_stamp(self._store.artifact_path(ANALYSIS, analysis) / ANALYSIS_FILE),
                file_stamp(self._store.artifact_path(TIMELINE, timeline) / TIMELINE_FILE),
            ]
        )


def _origin(recipe: Recipe, models: Models) -> str:
    """Return the checksum of what the reports of all sources came from: recipe, models and program."""
    consumed: list[Any] = []
    modules = {type(find_aspect(name)).__module__ for name in recipe.aspects}
    for name in recipe.aspects:
        for operation, parameters in recipe.operations(name):
            # it may be another package's
            modules.add(type(operation).__module__)
            consumed.append([operation.consumed_models(parameters, models), operation.version])
    folders = (Path(package.__path__[0]) for package in (tasks, storage_schemas))
    program = {path for folder in folders for path in folder.rglob("*.py")}
    program |= {Path(file) for name in modules if (file := sys.modules[name].__file__) is not None}
    return digest_value(
        {
            "recipe": recipe.model_dump(mode="json", exclude={"pins", "annotation"}),
            "models": json.loads(json.dumps(consumed, default=str)),
            "program": [[str(path), *file_stamp(path)] for path in sorted(program)],
            "av": version("av"),
        }
    )
