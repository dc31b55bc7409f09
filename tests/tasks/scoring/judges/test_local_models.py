"""Where models of scorers are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks.models.hub import ModelHub
from tasks.scoring.judges import local_models
from tasks.scoring.judges.local_models import HubSource


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_models_are_loaded_on_the_gpu_where_one_is_seen(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[tuple[str, str, dict[str, Any]]] = []

    def get(self: ModelHub, name: str, **options: Any) -> str:
        loaded.append((self.device, name, options))
        return "a model"

    monkeypatch.setattr(ModelHub, "get", get)
    monkeypatch.setattr(local_models, "device_of", lambda pool: device if pool == "h100" else "cpu")
    # a hub knows no device before the work is done
    source = HubSource(ModelHub([tmp_path]), "tiny", "bfloat16")
    assert source.loaded() == "a model"
    assert loaded == [(device, "tiny", {"dtype": "bfloat16"})]
