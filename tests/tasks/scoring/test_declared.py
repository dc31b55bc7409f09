"""What evaluators declare is what their factories take."""

from __future__ import annotations

import inspect

import pytest

from tasks.llm.vision_models import VlmModel
from tasks.scoring.declared import declared
from tasks.scoring.judges.local_vlm import LocalVlm
from tasks.scoring.registry import BUILT_IN, factory


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_setting_is_listed_and_described(name: str) -> None:
    made, told = factory(name), declared(factory(name))
    parameters = inspect.signature(made).parameters
    # settings that come by ** are those of a model
    open_ended = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    assert not open_ended or len(told.settings) > len(parameters)
    names = [one.name for one in told.settings]
    assert len(names) == len(set(names))
    provided = {"store", "cache", "servers", "models", "setup"}
    own = {one.name for one in parameters.values() if one.kind is not one.VAR_KEYWORD} - provided
    assert own <= set(names)
    assert "any" not in {one.type for one in told.settings}
    assert name == "coin" or told.sees


def test_settings_models_are_whole_and_described() -> None:
    for name, model in (("vlm-video", VlmModel), ("hf", LocalVlm)):
        told = {one.name: one for one in declared(factory(name)).settings}
        assert set(model.model_fields) <= set(told)
        assert not [one.name for one in told.values() if not one.description and one.name != "prompts"]
    assert [one.name for one in declared(factory("hf")).settings if one.required] == ["model"]
    told = {one.name: one for one in declared(factory("gpt-5-video")).settings}
    assert (told["context_tokens"].default, told["intervals"].type) == (400_000, "true or false")
    assert told["detail"].type == "low or high or auto or none"


def test_what_is_needed() -> None:
    needs = {name: set(declared(factory(name)).needs) for name in BUILT_IN}
    assert needs["hf"] == {"weights", "package", "GPU"}
    assert needs["gpt-5-video"] == {"server", "network"}
    assert needs["qwen3-vl-video"] == {"server"}
    assert not needs["duration"]
    assert [name for name in BUILT_IN if declared(factory(name)).paid and "server" not in needs[name]] == []
