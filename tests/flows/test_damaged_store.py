"""A build does not use what is damaged, and reads nothing where nothing is new."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.build.options import BuildOptions
from storage_schemas.errors import IntegrityError
from storage_schemas.store import ANALYSIS, TIMELINE, Store
from tests.inline import build_inline

AddFilm = Callable[[Path, int], Path]


@pytest.fixture
def one_aspect(options: BuildOptions, add_film: AddFilm, tmp_path: Path) -> BuildOptions:
    add_film(tmp_path / "videos", 1)
    aspects = {"temporal_flow": options.recipe.aspects["temporal_flow"]}
    return options.model_copy(update={"recipe": options.recipe.model_copy(update={"aspects": aspects})})


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    os.utime(path, (1, 1))


@pytest.mark.parametrize(("kind", "name"), [(ANALYSIS, "analyses.parquet"), (TIMELINE, "timeline.parquet")])
@pytest.mark.parametrize("manifest_too", [False, True])
def test_a_damaged_artifact_is_made_again(
    kind: str, name: str, manifest_too: bool, one_aspect: BuildOptions
) -> None:
    before = build_inline(one_aspect)
    store = before.release.store
    (stored,) = store.manifests(kind)
    folder = store.artifact_path(kind, stored.id)
    flip(folder / name)
    if manifest_too:
        flip(folder / "manifest.json")
    after = build_inline(one_aspect)
    assert (after.new, after.exit_code) == (False, 0)
    (again,) = store.manifests(kind)
    assert (again.content_checksum, again.files) == (stored.content_checksum, stored.files)
    assert store.read(kind, stored.id, name)


def test_a_damaged_version_is_not_extended(one_aspect: BuildOptions) -> None:
    release = build_inline(one_aspect).release
    flip(release.path / "pairs.parquet")
    with pytest.raises(IntegrityError, match=r"pairs\.parquet does not match its manifest"):
        build_inline(one_aspect)


def test_where_nothing_is_new_no_artifact_is_read(
    one_aspect: BuildOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_inline(one_aspect)
    monkeypatch.setattr(Store, "read", None)
    monkeypatch.setattr(Store, "manifest", None)
    assert not build_inline(one_aspect).new
