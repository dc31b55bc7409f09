"""The nine dimensions with their scales (Video-Bench, section 3.1), and the authors' prompt file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from storage_schemas.errors import UserInputError
from storage_schemas.regular_files import read_regular_text
from tasks.scoring.suites.base import Dimension, SuitePrompt

#: Groups as in the paper's table 1.
QUALITY, ALIGNMENT = "video quality", "video-condition alignment"
_BATCH = "few-shot scoring by a multimodal model"
_CHAIN = "chain of query: a multimodal and a language model"


def _quality(name: str, title: str, about: str, source: str) -> Dimension:
    return Dimension(
        name=name, title=title, group=QUALITY, low=1, high=5, about=about, behind=_BATCH, source=source
    )


def _alignment(name: str, title: str, high: int, about: str, source: str) -> Dimension:
    return Dimension(
        name=name, title=title, group=ALIGNMENT, low=1, high=high, about=about, behind=_CHAIN, source=source
    )


#: In the order of the paper's table 1.
DIMENSIONS: tuple[Dimension, ...] = (
    _quality(
        "imaging_quality",
        "Imaging quality",
        "How clean the pictures are technically: sharpness, noise, exposure, distortion.",
        "3.1.2, A.2.1",
    ),
    _quality(
        "aesthetic_quality",
        "Aesthetic quality",
        "How the video looks as a picture: composition, colour, light, unity.",
        "3.1.2, A.2.2",
    ),
    _quality(
        "temporal_consistency",
        "Temporal consistency",
        "Whether look and content hold from frame to frame, without flicker or sudden changes.",
        "3.1.2, A.2.3",
    ),
    _quality(
        "motion_effects",
        "Motion effects",
        "How well movement obeys physics, with blur, contact and light; a still video gets 1 or 2.",
        "3.1.2 (motion quality), A.2.4",
    ),
    _alignment(
        "video_text_consistency",
        "Video-text consistency",
        5,
        "Whether the video shows all main elements that the prompt asks for.",
        "3.1.1, A.1.5",
    ),
    _alignment(
        "object_class_consistency",
        "Object-class consistency",
        3,
        "Whether the things of the prompt are there, recognisable and sound.",
        "3.1.1, A.1.1",
    ),
    _alignment(
        "color_consistency",
        "Colour consistency",
        3,
        "Whether things have the colours of the prompt, in the right place and steadily.",
        "3.1.1, A.1.3",
    ),
    _alignment(
        "action_consistency",
        "Action consistency",
        3,
        "Whether the action of the prompt takes place, recognisable and complete.",
        "3.1.1, A.1.2",
    ),
    _alignment(
        "scene_consistency",
        "Scene consistency",
        3,
        "Whether the video takes place where the prompt says.",
        "3.1.1, A.1.4",
    ),
)

#: By name.
BY_NAME: Mapping[str, Dimension] = {dimension.name: dimension for dimension in DIMENSIONS}

#: Names in the authors' files.
PUBLISHED_NAMES: Mapping[str, str] = {
    **{name: name for name in BY_NAME},
    "overall_consistency": "video_text_consistency",
    "video-text consistency": "video_text_consistency",
    "object_class": "object_class_consistency",
    "color": "color_consistency",
    "action": "action_consistency",
    "scene": "scene_consistency",
}

#: Further dimensions in which a prompt's videos are scored; the published file gives each prompt only one.
#: The prompts on actions serve both moving dimensions (section 3.2), those on everything both still ones.
SCORED_BESIDES: Mapping[str, tuple[str, ...]] = {
    "action_consistency": ("temporal_consistency", "motion_effects"),
    "video_text_consistency": ("imaging_quality", "aesthetic_quality"),
}


def read_published(path: Path) -> Sequence[SuitePrompt] | None:
    """Return the prompts of a published file; None where the file has another form.

    Published prompts have no ids: they are numbered within their dimension, such as ``color-007``, in the
    file's order. A prompt with one dimension is also scored in those that use its videos besides
    (``SCORED_BESIDES``); with a list of dimensions, in those. An entry may also have a ``kind``.

    Raises
    ------
    UserInputError
        If the form is theirs but an entry is invalid.
    """
    try:
        value = json.loads(read_regular_text(path))
    except (OSError, ValueError, RecursionError):
        return None
    if isinstance(value, dict) and value and all(str(key).isdigit() for key in value):
        return [_own(path, number, text) for number, text in value.items()]
    if not isinstance(value, list) or not value or not isinstance(value[0], dict):
        return None
    if not ({"prompt", "prompt_en"} & set(value[0]) and "dimension" in value[0]):
        return None
    counts: Counter[str] = Counter()
    return [_published(f"{path}: entry {number}", entry, counts) for number, entry in enumerate(value, 1)]


def _own(path: Path, number: str, text: Any) -> SuitePrompt:
    if not isinstance(text, str) or not text.strip():
        raise UserInputError(f"{path}: prompt {number} is not text")
    return SuitePrompt(prompt_id=number, text=text.strip())


def _published(where: str, entry: Any, counts: Counter[str]) -> SuitePrompt:
    if not isinstance(entry, Mapping):
        raise UserInputError(f"{where} is not an object with prompt and dimension")
    text = entry.get("prompt", entry.get("prompt_en"))
    if not isinstance(text, str) or not text.strip():
        raise UserInputError(f"{where} has no prompt")
    given = entry.get("dimension")
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not names:
        raise UserInputError(f"{where} has no dimension: give one name, or a list of them")
    for name in names:
        if name not in PUBLISHED_NAMES:
            listed = ", ".join(PUBLISHED_NAMES)
            raise UserInputError(f"{where}: there is no dimension {name!r}; there are {listed}")
    dimensions = [PUBLISHED_NAMES[name] for name in names]
    if isinstance(given, str):
        dimensions += SCORED_BESIDES.get(dimensions[0], ())
    theme = str(names[0])
    counts[theme] += 1
    return SuitePrompt(
        prompt_id=f"{theme.replace(' ', '-')}-{counts[theme]:03d}",
        text=text.strip(),
        dimensions=tuple(dict.fromkeys(dimensions)),
        theme=theme,
        kind=str(entry.get("kind") or ""),
    )
