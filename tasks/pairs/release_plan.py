"""Plan a release: which source provides a pair for which aspect, and the frames and bytes required."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from storage_schemas.errors import Reason, SetAside
from storage_schemas.model import Frozen
from storage_schemas.pair import ReleasePlan, SourceReport
from storage_schemas.rng import keyed_rank
from storage_schemas.sizes import size_text
from storage_schemas.store import Store


class SourceSummary(Frozen):
    """Input of the candidate draw for one source.

    `aspects` are those for which the source can have a pair at the recipe's main severity point.
    """

    source_id: str
    duration_s: float
    aspects: tuple[str, ...]


class Candidate(Frozen):
    """One source that provides a pair (at each severity point) for one aspect."""

    source_id: str
    aspect: str
    bin_s: int


def duration_bin(duration_s: float, bin_seconds: int) -> int:
    """Return the lower edge of a duration's bin, in seconds."""
    return int(duration_s // bin_seconds) * bin_seconds


def draw_candidates(
    summaries: Sequence[SourceSummary],
    *,
    aspects: Sequence[str],
    seed: int,
    bin_seconds: int,
    pairs_per_bin: int,
    inherited: Collection[Candidate] = (),
    excluded: Collection[tuple[str, str]] = (),
    unknown: Collection[str] = (),
) -> list[Candidate]:
    """Draw the candidates of every aspect; return them by aspect and rank.

    Parameters
    ----------
    summaries
        The sources, in any order.
    inherited
        Candidates of a parent release; each keeps its place, even if its source no longer exists.
    excluded
        (source id, aspect) combinations that cannot be built; the next in rank takes their places.
    unknown
        Ids of sources that are not inspected yet: only candidates that are drawn whatever these turn out to
        be are returned.
    """
    chosen: list[Candidate] = []
    for aspect in aspects:
        kept_candidates: Mapping[str, Candidate] = {c.source_id: c for c in inherited if c.aspect == aspect}
        bins: dict[int, list[str]] = defaultdict(list)
        for summary in summaries:
            if aspect not in summary.aspects or (summary.source_id, aspect) in excluded:
                continue
            if summary.source_id not in kept_candidates:
                bins[duration_bin(summary.duration_s, bin_seconds)].append(summary.source_id)
        chosen += kept_candidates.values()
        for edge, ids in sorted(bins.items()):
            free = pairs_per_bin - sum(candidate.bin_s == edge for candidate in kept_candidates.values())
            may_come = [id_ for id_ in unknown if id_ not in kept_candidates]
            ranked = sorted([*ids, *may_come], key=lambda id_: keyed_rank(seed, "candidate", aspect, id_))
            chosen += [
                Candidate(source_id=id_, aspect=aspect, bin_s=edge)
                for id_ in ranked[: max(free, 0)]
                if id_ not in unknown
            ]
    return chosen


#: Ratio of stored to raw 4:2:0 bytes. Measured 0.59 on rendered film; camera noise compresses less.
STORED_SHARE = 0.75
#: Bytes of manifests and tables per pair.
PAIR_OVERHEAD = 64 * 1024


def frame_bytes(width: int, height: int) -> int:
    """Return the raw bytes of one frame's planes."""
    return width * height * 3 // 2


def plan_release(
    store: Store,
    reports: Mapping[str, SourceReport],
    candidates: Sequence[Candidate],
    aspects: Sequence[str],
    inherited: Collection[tuple[str, str]] = (),
) -> ReleasePlan:
    """Return the plan of a release: all its pairs, and the cost of making the missing ones.

    `inherited` are the (source id, aspect) whose pairs come unchanged from a parent release.
    """
    chosen = {(c.source_id, c.aspect) for c in candidates}
    missing_sources: set[str] = set()
    decode, missing = 0, 0
    degrade: Counter[str] = Counter()
    frames_bytes = degraded_bytes = 0
    planned: Counter[str] = Counter()
    eligible: Counter[str] = Counter()
    drawn: Counter[str] = Counter(c.aspect for c in candidates)
    for source_id, report in reports.items():
        eligible.update(report.aspects)
        size = frame_bytes(report.width, report.height)
        for pair in report.pairs:
            if (source_id, pair.aspect) not in chosen:
                continue
            planned[pair.aspect] += 1
            if pair.done or (source_id, pair.aspect) in inherited:
                continue
            missing += 1
            missing_sources.add(source_id)
            degrade[pair.aspect] += pair.new_frames
            degraded_bytes += int(pair.new_frames * size * STORED_SHARE) + PAIR_OVERHEAD
        if source_id in missing_sources and not report.has_frames:
            decode += report.frames
            frames_bytes += int(report.frames * size * STORED_SHARE)
    return ReleasePlan(
        sources=len(reports),
        planned={aspect: planned[aspect] for aspect in aspects},
        missing_pairs=missing,
        missing_sources=len(missing_sources),
        frames_to_decode=decode,
        frames_to_degrade={aspect: degrade[aspect] for aspect in aspects if degrade[aspect]},
        bytes_frames=frames_bytes,
        bytes_degraded=degraded_bytes,
        bytes_free=store.free_bytes(),
        not_drawn={
            aspect: eligible[aspect] - drawn[aspect] for aspect in aspects if eligible[aspect] > drawn[aspect]
        },
    )


def check_space(plan: ReleasePlan, store: Store, quota_bytes: int | None) -> None:
    """Refuse to start a build that does not fit on the disk.

    Raises
    ------
    SetAside
        `out_of_space`, with the required and the available bytes.
    """
    problem = space_problem(plan.bytes_frames + plan.bytes_degraded, store.root, plan.bytes_free, quota_bytes)
    if problem:
        raise SetAside(Reason.OUT_OF_SPACE, problem)


def space_problem(needed: int, root: Path, free: int, quota_bytes: int | None) -> str:
    """Return why a build does not fit, empty if it does.

    Parameters
    ----------
    needed, free
        The bytes it needs, and those free on the disk.
    root
        The store's folder, which may not exist yet.
    """
    limit = "free"
    if quota_bytes is not None:
        used = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        if quota_bytes - used < free:
            free, limit = quota_bytes - used, "left of the profile's quota_bytes"
    if needed <= free:
        return ""
    return (
        f"this build needs about {size_text(needed)} in {root}, {size_text(max(free, 0))} are "
        f"{limit}: free space (slvmeval gc frames), choose another --store, or build fewer sources"
    )
