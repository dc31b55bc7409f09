"""A filtered release: the pairs that passed the human filter, as a separate release that contains the votes.

Its name differs from that of its parent release, so that builds continue to extend the parent
(docs/decisions/0021). The votes in it have no worker ids, times or comments: workers are renumbered in each
release, so that a release can be shared and contains no personal data.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from storage_schemas.commit import Manifest, commit_folder, payload_files, staging_folder
from storage_schemas.errors import UserInputError
from storage_schemas.ids import canonical_json, digest_text, digest_value
from storage_schemas.names import NAME_RULE, is_name
from storage_schemas.pair import PairRecord
from storage_schemas.parquet import write_rows
from storage_schemas.provenance import provenance, utc_now
from storage_schemas.release import RELEASE, Release, release_versions
from storage_schemas.store import Store
from storage_schemas.votes import VOTES, Vote
from tasks.publish.release import release_checksum, write_tables
from tasks.votes.filter import FilterRule, PairOutcome
from tasks.votes.release_votes import FILTERED_FROM, OUTCOMES_FILE, VOTES_FILE, ReleaseVotes, filtered_from

OUTCOMES = pa.schema(
    [
        ("pair_id", pa.string()),
        ("source_id", pa.string()),
        ("aspect", pa.string()),
        ("verdict", pa.string()),
        ("a", pa.int32()),
        ("b", pa.int32()),
        ("c", pa.int32()),
        ("clear", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Filtered:
    """A filtered release, and whether this version of it is new."""

    release: Release
    new: bool


def filtered_name(name: str) -> str:
    """Return the default name of a filtered release."""
    return f"{name}-filtered"


def write_filtered(parent: Release, people: ReleaseVotes, name: str | None = None) -> Filtered:
    """Write the pairs that passed the filter as the next version of the filtered release.

    If nothing changed since the newest version, that one is returned.

    Parameters
    ----------
    parent
        The annotated release.
    people
        The votes on it, see :func:`tasks.votes.release_votes.read_release_votes`.
    name
        Name of the new release; :func:`filtered_name` by default.

    Raises
    ------
    UserInputError
        If the release is itself filtered, no pair passes, or the name belongs to another release.
    SetAside
        If the disk is full or cannot be written.
    """
    started = time.monotonic()
    name = filtered_name(parent.name) if name is None else name
    _check(parent, people, name)
    passed = {one.pair_id for one in people.outcomes if one.kept}
    records = [record for record in parent.pairs() if record.pair_id in passed]
    votes = anonymous(people.votes, parent.manifest.content_checksum)
    recipe = {**parent.recipe, "annotation": people.rule.model_dump(mode="json")}
    origin = {
        "name": parent.name,
        "version": parent.version,
        "checksum": parent.manifest.content_checksum,
    }
    consumes = {
        "parent": {**origin, "consumes": digest_value(parent.manifest.consumes)},
        "rule": recipe["annotation"],
        "pairs": release_checksum(records),
        "votes": digest_value([vote.model_dump(mode="json") for vote in votes]),
    }
    info = {
        "name": name,
        "created_at": utc_now(),
        "recipe": parent.info["recipe"],
        "fps": parent.info["fps"],
        "planned": _planned(parent, records),
        "extends": None,
        "licences": sorted({parent.source(record.source_id).licence for record in records}),
        FILTERED_FROM: origin,
    }
    store = parent.store
    _, same = _newest(store, name, consumes)
    if same is not None:
        return Filtered(same, False)
    with staging_folder(store.staging, RELEASE) as folder:
        _write(folder, parent, records, votes, people.outcomes)
        (folder / "recipe.json").write_text(json.dumps(recipe, indent=1), encoding="utf-8")
        (folder / "info.json").write_text(json.dumps(info, indent=1), encoding="utf-8")
        while True:
            # checked each time: another process may just have written the same version
            newest, same = _newest(store, name, consumes)
            if same is not None:
                return Filtered(same, False)
            number = newest + 1
            manifest = Manifest(
                kind=RELEASE,
                id=f"{name}/{number}",
                consumes=consumes,
                content_checksum=release_checksum(records),
                content={
                    "pairs": len(records),
                    "sources": len({record.source_id for record in records}),
                    "votes": len(votes),
                },
                files=payload_files(folder),
                provenance=provenance(started),
            )
            # a number is taken exclusively; the second process checks again
            if commit_folder(folder, store.versions(name) / str(number), manifest):
                return Filtered(Release.open(store, name, number), True)


def anonymous(votes: Sequence[Vote], salt: str) -> list[Vote]:
    """Return votes without anything that identifies a person.

    Workers are numbered in the order of a checksum, so that the same votes give the same numbers. Vote ids,
    times of day and comments are removed; the durations of answers remain.
    """
    ranked = sorted({vote.worker for vote in votes}, key=lambda worker: digest_text(f"{salt}/{worker}"))
    numbers = {worker: f"w{index:04}" for index, worker in enumerate(ranked, 1)}
    ordered = sorted(votes, key=lambda vote: (vote.pair_id, numbers[vote.worker], vote.campaign))
    return [
        vote.model_copy(
            update={
                "vote_id": f"v{index:06}",
                "worker": numbers[vote.worker],
                "comment": "",
                "opened_at": "",
                "at": "",
            }
        )
        for index, vote in enumerate(ordered, 1)
    ]


def _check(parent: Release, people: ReleaseVotes, name: str) -> None:
    if people.filtered:
        origin = filtered_from(parent) or {}
        raise UserInputError(
            f"release {parent.name} is already filtered: filter its parent {origin.get('name')}"
        )
    if not any(one.kept for one in people.outcomes):
        open_ = sum(one.kept is None for one in people.outcomes)
        raise UserInputError(
            f"no pair of release {parent.name} passed the filter: {open_} of {len(people.outcomes)} pairs "
            f"{_undecided(people.rule)}, the others were excluded"
        )
    if not is_name(name):
        raise UserInputError(f"{name!r} is not a valid release name ({NAME_RULE}): choose one with --as")
    if name == parent.name:
        raise UserInputError(f"a filtered release needs a name other than {name!r}: choose one with --as")
    versions = release_versions(parent.store, name)
    if versions:
        other = filtered_from(Release.open(parent.store, name, versions[-1]))
        if other is None or other["name"] != parent.name:
            what = "was built" if other is None else f"is filtered from {other['name']}"
            raise UserInputError(f"release {name} already exists and {what}: choose another name with --as")


def _undecided(rule: FilterRule) -> str:
    if rule.until_certain:
        return "have too few votes to be certain"
    return f"have fewer than {rule.workers_per_pair} votes"


def _newest(store: Store, name: str, consumes: Mapping[str, Any]) -> tuple[int, Release | None]:
    """Return the newest version's number (0 if there is none), and that version if it has the same inputs."""
    versions = release_versions(store, name)
    if not versions:
        return 0, None
    last = Release.open(store, name, versions[-1])
    return last.version, last if last.manifest.consumes == json.loads(canonical_json(consumes)) else None


def _planned(parent: Release, records: Sequence[PairRecord]) -> dict[str, int]:
    """Return the number of pairs by aspect: a filtered release has everything that it plans."""
    counts = Counter(record.aspect for record in records)
    planned: Mapping[str, int] = parent.info["planned"]
    return {aspect: counts[aspect] for aspect in planned}


def _write(
    folder: Path,
    parent: Release,
    records: Sequence[PairRecord],
    votes: Sequence[Vote],
    outcomes: Sequence[PairOutcome],
) -> None:
    used = {record.source_id for record in records}
    sources = [row for row in parent.sources() if row.source_id in used]
    clips = [row for source in sources for row in parent.clips(source.source_id)]
    degraded = {row.degraded_clip: row for row in parent.degraded_clips()}
    write_tables(folder, records, sources, clips, [], degraded.__getitem__)
    write_rows(folder / VOTES_FILE, VOTES, votes)
    schema = OUTCOMES
    for name in ("control", "excerpt"):
        if any(getattr(one, name) for one in outcomes):
            schema = schema.append(pa.field(name, pa.bool_()))
    rows: list[dict[str, Any]] = [{name: getattr(one, name) for name in schema.names} for one in outcomes]
    write_rows(folder / OUTCOMES_FILE, schema, rows)
