"""Checkpoint folders of a few bytes, and a model table that knows them: no torch is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage_schemas.ids import digest_text
from tasks.models import registry
from tasks.models.mirror import MANIFEST, MirrorFile, MirrorManifest
from tasks.models.registry import HubRepository, KnownFile, ModelSpec

REVISION = "0123456789abcdef0123456789abcdef01234567"
WEIGHTS = "weights " * 40_000
FILES = {"README.md": "a toy", "config.json": "{}", "unet/model.safetensors": WEIGHTS}
#: Of the hub's repository, but not needed.
LEFT_OUT = {"toy.ckpt": "pickled", "unet/model.py": "code"}


def toy_spec(text: str = WEIGHTS, sha256: str | None = "", **source: object) -> ModelSpec:
    """A model of a hub's repository, whose weights are one file; its checksum by default is the true one."""
    known = digest_text(text) if sha256 == "" else sha256
    files = (KnownFile("unet/model.safetensors", len(text), known),)
    repository = HubRepository("someone/toy", REVISION, **source)  # type: ignore[arg-type]
    return ModelSpec("toy", "a toy", "detector", "CC0-1.0", 1000, files, repository)


def know(monkeypatch: pytest.MonkeyPatch, spec: ModelSpec) -> ModelSpec:
    """Make a model a built-in one."""
    monkeypatch.setattr(registry, "MODEL_SPECS", {**registry.MODEL_SPECS, spec.name: spec})
    for module in ("hub", "add"):
        monkeypatch.setattr(f"tasks.models.{module}.MODEL_SPECS", registry.MODEL_SPECS)
    return spec


def write(folder: Path, files: dict[str, str] = FILES) -> Path:
    """Write a checkpoint folder, without a manifest."""
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def mirror(models: Path, called: str = "toy", **fields: object) -> Path:
    """Write a checkpoint folder with its manifest below a model folder."""
    folder = write(models / called)
    known: dict[str, object] = {
        "name": called,
        "kind": "detector",
        "repository": "someone/toy",
        "revision": REVISION,
        "licence": "CC0-1.0",
        "memory_bytes": 1000,
        "files": tuple(
            MirrorFile(path=path, size=len(text), sha256=digest_text(text)) for path, text in FILES.items()
        ),
    }
    (folder / MANIFEST).write_bytes(MirrorManifest.model_validate({**known, **fields}).to_bytes())
    return folder
