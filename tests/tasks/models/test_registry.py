"""The table of built-in models."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

from storage_schemas.errors import UserInputError
from tasks.models.loaders import check_kind
from tasks.models.mirror import PICKLED
from tasks.models.registry import MODEL_SPECS, HubRepository, model_spec


@pytest.mark.parametrize("name", MODEL_SPECS)
def test_an_entry_is_complete(name: str) -> None:
    spec = model_spec(name)
    assert check_kind(spec.kind)
    assert spec.licence
    assert spec.role
    assert spec.memory_bytes > spec.size
    assert all(file.size > 0 for file in spec.files)
    assert all(file.sha256 is None or re.fullmatch("[0-9a-f]{64}", file.sha256) for file in spec.files)


@pytest.mark.parametrize("name", [n for n, s in MODEL_SPECS.items() if isinstance(s.source, HubRepository)])
def test_a_hubs_model_is_pinned_and_its_patterns_fetch_its_weights_but_nothing_pickled(name: str) -> None:
    spec = model_spec(name)
    assert isinstance(spec.source, HubRepository)
    assert re.fullmatch("[0-9a-f]{40}", spec.revision)

    def fetched(path: str) -> bool:
        allowed = any(fnmatchcase(path, pattern) for pattern in spec.source.allow)  # type: ignore[union-attr]
        return allowed and not any(fnmatchcase(path, p) for p in spec.source.ignore)  # type: ignore[union-attr]

    assert all(fetched(file.path) for file in spec.files)
    assert all(fetched(path) for path in ("model_index.json", "tokenizer/merges.txt", "LICENSE.md"))
    assert not any(fetched(f"unet/model{suffix}") for suffix in (*PICKLED, ".py", ".onnx", ".msgpack"))


def test_the_inpainting_model_is_fetched_in_half_precision_without_its_safety_checker() -> None:
    source = model_spec("stable-diffusion-inpainting").source
    assert isinstance(source, HubRepository)
    assert not any(fnmatchcase("unet/diffusion_pytorch_model.safetensors", p) for p in source.allow)
    assert any(fnmatchcase("safety_checker/model.fp16.safetensors", p) for p in source.ignore)


def test_an_unknown_name_is_told_the_nearest() -> None:
    with pytest.raises(UserInputError, match=r"did you mean qwen3-8b\?"):
        model_spec("qwen3-8")
    with pytest.raises(UserInputError, match="there are u2net"):
        model_spec("zzz")
