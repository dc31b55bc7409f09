"""What a build still has to do, from its state alone: planned minus existing items."""

from __future__ import annotations

from flows.release.state import BuildState
from storage_schemas.source import Source


def unknown_sources(state: BuildState) -> list[Source]:
    """Return the sources that have not been inspected."""
    return [source for id_, source in state.sources.items() if id_ not in state.reports]


def missing_aspects(state: BuildState) -> dict[str, tuple[str, ...]]:
    """Return, by source, the aspects without a pair."""
    missing: dict[str, list[str]] = {}
    for candidate in state.candidates:
        if state.inherited.has(candidate.source_id, candidate.aspect):
            continue
        for pair in state.pairs_of(candidate.source_id):
            # an existing pair also needs its source's timeline, which only ingest creates
            is_built = pair.done and state.reports[candidate.source_id].exact
            if pair.aspect == candidate.aspect and not is_built and pair.pair_id not in state.settled:
                missing.setdefault(candidate.source_id, []).append(candidate.aspect)
                break
    return {source_id: tuple(aspects) for source_id, aspects in missing.items()}
