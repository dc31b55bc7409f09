"""Tables of the documents that repeat the code; ``python -m tests.docs.generated`` rewrites them.

Such a table stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from infra.vllm import VLLM_MODELS
from slvmeval.cli.store.upkeep import table_schemas
from tasks.aspects.base import FrameMapOperation, OrderOperation, PixelOperation
from tasks.aspects.registry import BUILT_IN as ASPECT_NAMES
from tasks.aspects.registry import aspect
from tasks.llm.vision_models import VLM_MODELS as VLM_MODELS_READY
from tasks.llm.vision_models import VlmModel
from tasks.models.registry import MODEL_SPECS
from tasks.recipe import BUILT_IN
from tasks.scoring.declared import declared, model_settings
from tasks.scoring.judges.vlm import vlm_model
from tasks.scoring.registry import factory

ROOT = Path(__file__).parents[2]
#: Those that readers of a release need; `slvmeval list schemas tables` prints all.
TABLES = ("sources", "clips", "pairs", "edits", "degraded_clips", "set_aside", "judgements")
SECTION = re.compile(r"(<!-- generated: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [list(head), ["---"] * len(head), *([str(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def aspects_table() -> str:
    rows = []
    for name in ASPECT_NAMES:
        result = aspect(name)
        least = "5" if result.least_clips == 1 else f"5, and {5 * result.least_clips} in the source"
        rows.append((f"`{name}`", result.category, f"`{result.dimension}`", result.needs, least))
    return table(("aspect", "category", "paper's dimension", "the caption names", "clips needed"), rows)


def operations_table() -> str:
    rows = []
    for name in ASPECT_NAMES:
        for operation in aspect(name).operations.values():
            match operation:
                case PixelOperation():
                    kind, threshold = f"new pixels, in {operation.works_on}", f"{operation.threshold:g}"
                case FrameMapOperation():
                    kind, threshold = "other frames of the clip", f"{operation.threshold:g}"
                case OrderOperation():
                    kind, threshold = "order of the clips", "–"
            head = (f"`{operation.name}`", operation.version, f"`{name}`", kind, threshold)
            rows.append((*head, ", ".join(operation.models) or "–"))
    return table(("operation", "version", "aspect", "what it makes", "threshold", "model, one of"), rows)


def controls_table() -> str:
    rows = []
    for name in ASPECT_NAMES:
        control = aspect(name).control
        assert control is not None
        operation = control.operation
        if isinstance(operation, PixelOperation | FrameMapOperation):
            threshold = f"{operation.threshold:g}"
        else:
            threshold = "–"
        most = f"{control.max_difference:g}" if control.max_difference < math.inf else "–"
        row = (f"`{name}`", f"`{operation.name}`", control.needs, control.reason, threshold, most)
        rows.append(row)
    return table(("aspect", "control", "a clip needs", "why no side is better", "threshold", "maximum"), rows)


def strengths_table() -> str:
    """The default strength of each operation with all parameters, the others with what differs from it."""
    rows = []
    for name in ASPECT_NAMES:
        for operation in aspect(name).operations.values():
            default = operation.default_strength
            usual = operation.parameters(default).model_dump(mode="json")
            for strength in sorted(operation.strengths, key=lambda one: one != default):
                chosen = operation.parameters(strength)
                number = operation.strength_of(chosen)
                mark = "–" if number is None else f"{number:.3g}"
                values = chosen.model_dump(mode="json")
                if strength != default:
                    values = {key: entry for key, entry in values.items() if entry != usual[key]}
                first = f"`{operation.name}`" if strength == default else ""
                rows.append((first, f"`{strength}`", mark, parameters(values)))
    return table(("operation", "strength", "number", "parameters"), rows)


def parameters(values: Mapping[str, Any]) -> str:
    return ", ".join(f"`{key}` {value(entry)}" for key, entry in values.items()) or "none"


def value(entry: Any) -> str:
    if isinstance(entry, list | tuple):
        return " ".join(map(str, entry))
    if isinstance(entry, bool):
        return "yes" if entry else "no"
    return "none" if entry is None else str(entry) or "empty"


def built_in_table() -> str:
    rows = []
    for name in ASPECT_NAMES:
        cells = [f"`{name}`"]
        for recipe in BUILT_IN.values():
            entry = recipe.aspects.get(name)
            if entry is None:
                cells.append("–")
                continue
            changed = f", {parameters(entry.parameters)}" if entry.parameters else ""
            cells.append(f"`{entry.operation}`, {recipe.strength(name)}{changed}")
        # an empty cell is as in the paper's recipe
        rows.append([*cells[:2], *("" if cell == cells[1] else cell for cell in cells[2:])])
    return table(("aspect", *(f"`{name}`" for name in BUILT_IN)), rows)


def tables() -> str:
    schemas = table_schemas()
    rows = [(f"`{name}`", ", ".join(f"`{one}`" for one in schemas[name].names)) for name in TABLES]
    return table(("table", "columns"), rows)


def models_table() -> str:
    rows = [
        (
            *(f"`{spec.name}`", spec.role, spec.kind, spec.origin),
            f"{spec.size / 1e9:.2f} GB" if spec.size > 1e9 else f"{spec.size / 1e6:.1f} MB",
            *(f"{spec.memory_bytes / 1e9:g} GB", spec.licence),
        )
        for spec in MODEL_SPECS.values()
    ]
    return table(("model", "role", "kind", "from", "size", "memory", "licence"), rows)


def served_table() -> str:
    rows = [
        (
            *(f"`{name}`", one.repository, f"`{one.server}`", f"{one.weights_gb:g} GB", one.gpus),
            *(f"{one.context:,}", f"{one.images:,}" if one.images else "–", one.videos or "–"),
        )
        for name, one in VLLM_MODELS.items()
    ]
    head = ("model", "repository", "server", "weights", "GPUs", "context, tokens", "images", "videos")
    return table(head, rows)


def vlm_table() -> str:
    """Every setting of vlm-video: its default for a user's model, and what differs for predefined models."""
    own = vlm_model("mine", {"model": "ORG/MODEL", "server": "NAME"})
    models = (own, *VLM_MODELS_READY.values())
    of_models = [{one.name: one for one in model_settings(VlmModel, model)} for model in models]
    rows: list[tuple[str, ...]] = []
    for one in declared(factory("vlm-video")).settings:
        if one.name in VlmModel.model_fields:
            defaults = [settings[one.name].default for settings in of_models]
        else:
            defaults = [one.default] * len(models)
        cells = [value(default) if default != {} else "none" for default in defaults]
        meaning = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", one.description).replace("``", "`")
        if rows and rows[-1][-1] == meaning:
            # settings that are explained together
            *before, _ = rows.pop()
            shown = (f"`{one.name}`", *cells)
            rows.append((*(f"{old}; {new}" for old, new in zip(before, shown, strict=True)), meaning))
        else:
            rows.append((f"`{one.name}`", *cells, meaning))
    head = ("setting", "a model of your own", *(f"`{name}`" for name in VLM_MODELS_READY), "meaning")
    differing = [
        (name, own, *("" if one == own else one for one in ready), meaning)
        for name, own, *ready, meaning in rows
    ]
    return table(head, differing)


def captions_table() -> str:
    rows = [(f"`{name}`", aspect(name).caption_advice) for name in ASPECT_NAMES]
    return table(("aspect", "what a caption must say"), rows)


GENERATED: Mapping[str, Callable[[], str]] = {
    "aspects": aspects_table,
    "operations": operations_table,
    "controls": controls_table,
    "strengths": strengths_table,
    "built-in": built_in_table,
    "captions": captions_table,
    "tables": tables,
    "models": models_table,
    "served": served_table,
    "vlm-video": vlm_table,
}


def documents() -> list[Path]:
    """Return every document of the repository that people read."""
    folders = ("", "docs/**/", "slurm/", "bench/")
    return sorted(path for folder in folders for path in ROOT.glob(f"{folder}*.md"))


def renewed(text: str) -> str:
    """Return a document's text with its tables made again."""
    return SECTION.sub(lambda found: found[1] + GENERATED[found[2]]() + found[4], text)


if __name__ == "__main__":
    for path in documents():
        before = path.read_text(encoding="utf-8")
        after = renewed(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(path.relative_to(ROOT))
