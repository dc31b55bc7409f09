"""All that the recipe `paper` needs, tiny: a model folder, and a recipe that names the models in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.captions.rules import RulesAnalyser
from tasks.models.add import How, add_model
from tasks.recipe import BUILT_IN, AspectRecipe, Recipe
from tests.tiny_models.detector import tiny_detector
from tests.tiny_models.faulty_server import Reply
from tests.tiny_models.image_editor import tiny_image_editor
from tests.tiny_models.inpainter import tiny_inpainter

#: What the tiny models need other values for: they know nothing, and a CPU is slow.
CHANGED: Mapping[str, dict[str, Any]] = {
    # random weights find something everywhere if anything counts as found
    "object_integrity": {
        "detector": "tiny-detector",
        "inpainter": "tiny-inpainter",
        "box_threshold": 0.0,
        "text_threshold": 0.0,
        "steps": 2,
        "dtype": "float32",
        "batch": 2,
    },
    "color": {"editor": "tiny-editor", "steps": 2, "dtype": "float32"},
    "background_consistency": {"model": "u2netp", "backgrounds": "procedural"},
    "technical_quality": {"long_side": 32},
}


def tiny_models(folder: Path, scratch: Path | None = None) -> Path:
    """Make the tiny checkpoints and add them to a model folder, as a user adds models; return it."""
    made = {
        "tiny-detector": (tiny_detector, "detector"),
        "tiny-inpainter": (tiny_inpainter, "inpainter"),
        "tiny-editor": (tiny_image_editor, "image-editor"),
    }
    for name, (make, kind) in made.items():
        checkpoint = make((scratch or folder) / name)
        how: How = "copy" if scratch else "in-place"
        add_model(name, checkpoint, folder, kind=kind, licence="Apache-2.0", how=how)
    return folder


def tiny_paper(name: str = "paper") -> Recipe:
    """Return a built-in recipe of the paper's operations, with the tiny models and two clips a pair."""
    paper = BUILT_IN[name]
    aspects = {
        aspect: AspectRecipe(
            operation=entry.operation, strength=entry.strength, parameters=CHANGED.get(aspect, {})
        )
        for aspect, entry in paper.aspects.items()
    }
    changes = {"name": f"tiny-{name}", "long_side": 64, "clips_per_pair": 2, "aspects": aspects}
    return paper.model_copy(update=changes)


def by_rules(number: int, body: dict[str, Any]) -> Reply:
    """Answer a request for an analysis as the rules do: a language model that knows what it reads."""
    user = next(message["content"] for message in body["messages"] if message["role"] == "user")
    analysis = RulesAnalyser().analyse([json.loads(user)["caption"]])[0]
    return Reply(analysis.model_dump_json(), reasoning="it says so")
