"""The stored form: a store that was written by hand is a whole store."""

from __future__ import annotations

from storage_schemas.commit import SCHEMA_VERSION
from storage_schemas.release import Release
from storage_schemas.store import DEGRADED_CLIP, FRAMES, PAIR, Store, check_files
from tasks.pairs.verify import verify_deep, verify_pairs
from tasks.pairs.view import open_pair
from tests.storage_schemas.written_store import COUNT, picture


def test_a_store_written_by_hand_is_opened_and_verified(whole_store: Store) -> None:
    store, release = whole_store, Release.open(whole_store)
    release.check()
    pair_id = release.pairs()[0].pair_id
    for kind in (FRAMES, DEGRADED_CLIP, PAIR):
        for manifest in store.manifests(kind):
            assert manifest.schema_version == SCHEMA_VERSION
            check_files(store.artifact_path(kind, manifest.id))
    assert verify_pairs(store, [pair_id]) == {}
    assert verify_deep(store, release.pair(pair_id)) == []
    pair = open_pair(store, release, pair_id)
    assert pair.prompt == "A cat sleeps.\nA dog runs."
    assert len(pair.low) == COUNT
    assert (pair.low[3] == picture(3)).all()
    assert (pair.low[4] == 255 - picture(4)).all()
