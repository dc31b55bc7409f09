"""The state of a build: its sources, the pairs that were drawn, and what cannot be built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flows.release.fixed_pairs import InheritedPairs
from storage_schemas.pair import PlannedPair, SourceReport
from storage_schemas.set_aside import CONTROL_STAGE, LENGTH_STAGE, SetAsideRow
from storage_schemas.source import Source
from tasks.pairs.release_plan import Candidate
from tasks.pairs.stages import StageResult
from tasks.recipe import Recipe


@dataclass
class BuildState:
    """What a build knows.

    Parameters
    ----------
    sources, reports
        The usable sources and their inspection reports, by id.
    rows
        Items set aside.
    excluded
        Source and aspect of main pairs that cannot be built: other sources take their place.
    settled
        Ids of planned pairs that cannot be built.
    candidates
        The drawn sources of each aspect.
    inherited, newest
        The pairs and the version of the release that is extended.
    """

    recipe: Recipe
    sources: dict[str, Source] = field(default_factory=dict)
    reports: dict[str, SourceReport] = field(default_factory=dict)
    rows: list[SetAsideRow] = field(default_factory=list)
    excluded: set[tuple[str, str]] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    candidates: list[Candidate] = field(default_factory=list)
    inherited: InheritedPairs = field(default_factory=InheritedPairs)
    newest: int = 0

    def pairs_of(self, source_id: str) -> tuple[PlannedPair, ...]:
        """Return the pairs that a source can provide, or that the recipe pins."""
        report = self.reports.get(source_id)
        pairs = report.pairs if report is not None else ()
        if self.recipe.pins:
            pinned = {pin.pair_id for pin in self.recipe.pins}
            return tuple(pair for pair in pairs if pair.pair_id in pinned)
        return pairs

    def lose_source(self, source: Source, row: SetAsideRow) -> None:
        """Exclude a source that cannot be used."""
        self.sources.pop(source.id, None)
        self.reports.pop(source.id, None)
        self.rows.append(row)

    def lose_pair(self, pair: PlannedPair, row: SetAsideRow) -> None:
        """Leave out a planned pair that cannot be built; another source may take a main pair's place."""
        self.settled.add(pair.pair_id)
        self.rows.append(row)
        if pair.main:
            self.excluded.add((row.source_id, row.aspect))

    def use_failures(self, failures: Mapping[str, SetAsideRow]) -> None:
        """Leave out the pairs that failed in earlier builds."""
        for report in self.reports.values():
            for pair in report.pairs:
                failure = failures.get(pair.pair_id)
                if failure is not None and not pair.done and pair.pair_id not in self.settled:
                    self.lose_pair(pair, failure)

    def take(self, outcome: StageResult) -> bool:
        """Record a stage's outcome; return whether its source continues to the next stage."""
        source = self.sources.get(outcome.source_id)
        if source is None:
            return False
        if outcome.report is not None:
            self.reports[source.id] = outcome.report
        planned = {pair.pair_id: pair for pair in self.pairs_of(source.id)}
        for row in outcome.rows:
            if row.aspect and row.key in planned:
                self.lose_pair(planned[row.key], row)
            elif row.aspect:
                self.rows.append(row)
                if row.stage not in (CONTROL_STAGE, LENGTH_STAGE):
                    self.excluded.add((row.source_id, row.aspect))
            else:
                self.lose_source(source, row)
                return False
        return True
