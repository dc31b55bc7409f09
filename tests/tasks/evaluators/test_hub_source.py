"""Where models of scorers are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks.evaluators import hub_source
from tasks.evaluators.hub_source import HubSource
from tasks.models.hub import ModelHub


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_models_are_loaded_on_the_gpu_where_one_is_seen(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[tuple[str, str, dict[str, Any]]] = []

    def get(self: ModelHub, name: str, **options: Any) -> str:
        loaded.append((self.device, name, options))
        return "a model"

    monkeypatch.setattr(ModelHub, "get", get)
    monkeypatch.setattr(hub_source, "device_of", lambda pool: device if pool == "h100" else "cpu")
    # a hub knows no device before the work is done
    source = HubSource(ModelHub([tmp_path]), "tiny", "bfloat16")
    assert source.loaded() == "a model"
    assert loaded == [(device, "tiny", {"dtype": "bfloat16"})]
