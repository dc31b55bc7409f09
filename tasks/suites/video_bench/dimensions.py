"""The nine dimensions with their scales (Video-Bench, section 3.1)."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.suites.base import Dimension

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

#: What the authors' files call them.
PUBLISHED_NAMES: Mapping[str, str] = {
    **{name: name for name in BY_NAME},
    "overall_consistency": "video_text_consistency",
    "video-text consistency": "video_text_consistency",
    "object_class": "object_class_consistency",
    "color": "color_consistency",
    "action": "action_consistency",
    "scene": "scene_consistency",
}

#: In a published file that gives a prompt one dimension, what its videos are scored in besides: the prompts
#: on actions serve both moving dimensions (section 3.2), those on everything both still ones.
SCORED_BESIDES: Mapping[str, tuple[str, ...]] = {
    "action_consistency": ("temporal_consistency", "motion_effects"),
    "video_text_consistency": ("imaging_quality", "aesthetic_quality"),
}
