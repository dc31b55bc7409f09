"""The 26 sub-dimensions of LoCoT2V-Bench in their five groups; each from 0 to 1, greater is better."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.scoring.suites.base import Dimension

#: Groups in the order of the paper's table 2.
STATIC = "static quality"
ALIGNMENT = "text-video alignment"
TEMPORAL = "temporal quality"
CLARITY = "content clarity"
HERD = "human expectation realization degree"

#: Names of the four dimensions of content clarity, as models are asked for them.
CLARITY_NAMES = ("theme_clarity", "logical_structure", "information_completeness", "information_consistency")
#: Names of the seven attributes of the human expectation realization degree, as in a prompt's `questions`.
HERD_NAMES = (
    "emotional_response",
    "narrative_flow",
    "character_development",
    "visual_style",
    "themes",
    "interpretive_depth",
    "overall_impression",
)

#: The categories of themes with their numbers of videos, as the paper prints them; it does not print which of
#: the 18 themes is in which.
CATEGORIES: Mapping[str, int] = {
    "Human Real Life": 101,
    "Nature Exploration": 74,
    "Virtual Entertainment": 65,
}

_SAYS = "a multimodal model"
_ASKS = "a multimodal model answers binary questions whose polarity is known"


def _dimension(
    group: str, name: str, about: str, behind: str, source: str, needs: tuple[str, ...] = ()
) -> Dimension:
    return Dimension(
        name=name,
        title=name.replace("_", " ").capitalize(),
        group=group,
        low=0,
        high=1,
        needs=needs,
        about=about,
        behind=behind,
        source=source,
    )


def _herd(name: str, about: str) -> Dimension:
    return _dimension(HERD, name, about, _ASKS, "method, HERD; appendix B.8", ("questions",))


def _clarity(name: str, about: str) -> Dimension:
    return _dimension(
        CLARITY, name, about, f"{_SAYS} gives 0 to 4 in several rounds", "method, content clarity"
    )


#: In the order of the paper's tables.
DIMENSIONS: tuple[Dimension, ...] = (
    _dimension(
        STATIC,
        "aesthetic_quality",
        "How beautiful the single pictures are, against the best of a set of reference pictures.",
        "Aesthetic Predictor V2.5 on SigLIP",
        "method, static quality; appendix B.5",
    ),
    _dimension(
        STATIC,
        "technical_quality",
        "How free the pictures are of blur, noise and compression.",
        "DOVER++ on pieces under 10 s",
        "method, static quality",
    ),
    _dimension(
        ALIGNMENT,
        "overall_alignment",
        "How near a description of the video is to the prompt in meaning.",
        f"{_SAYS} describes, text embeddings compare",
        "method, text-video alignment",
    ),
    _dimension(
        ALIGNMENT,
        "event_alignment",
        "How well the events of the video fit those of the prompt, one by one and in their order.",
        f"{_SAYS} describes, a language model extracts events, text embeddings and SciPy match them",
        "method, text-video alignment",
    ),
    _dimension(
        TEMPORAL,
        "dynamic_degree",
        "Whether things move at all.",
        "RAFT",
        "method, temporal quality (VBench)",
    ),
    _dimension(
        TEMPORAL,
        "motion_smoothness",
        "How well a frame can be predicted from its neighbours.",
        "RAFT; neighbours moved along its flow in place of AMT",
        "method, temporal quality (VBench)",
    ),
    _dimension(
        TEMPORAL,
        "human_action",
        "Whether the actions of people in the prompt take place, and smoothly.",
        f"a language model extracts actions, {_SAYS} looks for them",
        "method, temporal quality; appendix C.4",
    ),
    _dimension(
        TEMPORAL,
        "temporal_flickering",
        "How little the pixels of still stretches change from frame to frame.",
        "arithmetic on pixels; RAFT says what is still",
        "method, temporal quality (VBench)",
    ),
    _dimension(
        TEMPORAL,
        "transition_smoothness",
        "How evenly pictures change around cuts.",
        "PySceneDetect; pixels, SSIM, SigLIP, RAFT",
        "method, temporal quality; appendix B.6",
    ),
    _dimension(
        TEMPORAL,
        "warping_error",
        "How well a frame agrees with the one before once that is moved along the optical flow.",
        "RAFT",
        "method, temporal quality (EvalCrafter)",
    ),
    _dimension(
        TEMPORAL,
        "semantic_consistency",
        "How alike neighbouring frames are in meaning.",
        "picture embeddings",
        "method, temporal quality (EvalCrafter)",
    ),
    _dimension(
        TEMPORAL,
        "intra_event_subject",
        "How steady subjects are within an event.",
        "event intervals, Grounding DINO, SAM 2, picture embeddings",
        "method, temporal quality; appendix B.7",
    ),
    _dimension(
        TEMPORAL,
        "intra_event_background",
        "How steady the background is within an event.",
        "event intervals, Grounding DINO, SAM 2, picture embeddings",
        "method, temporal quality; appendix B.7",
    ),
    _dimension(
        TEMPORAL,
        "inter_event_subject",
        "How alike a subject stays from one event to another.",
        "event intervals, Grounding DINO, SAM 2, picture embeddings",
        "method, temporal quality; appendix B.7",
    ),
    _dimension(
        TEMPORAL,
        "inter_event_background",
        "How alike the background stays from one event to another.",
        "event intervals, Grounding DINO, SAM 2, picture embeddings",
        "method, temporal quality; appendix B.7",
    ),
    _clarity("theme_clarity", "Whether the video has a recognisable theme and keeps to it."),
    _clarity("logical_structure", "Whether its parts follow from each other in a comprehensible order."),
    _clarity("information_completeness", "Whether what is begun is shown to its end, without gaps."),
    _clarity("information_consistency", "Whether nothing that is shown contradicts the rest."),
    _herd("emotional_response", "Whether the video moves people as the prompt wants it to."),
    _herd("narrative_flow", "Whether the story moves on as expected."),
    _herd("character_development", "Whether characters are shown, and change, as expected."),
    _herd("visual_style", "Whether the video has the look that is expected."),
    _herd("themes", "Whether the expected themes come across."),
    _herd("interpretive_depth", "Whether the video leaves as much to think about as expected."),
    _herd("overall_impression", "Whether the whole leaves the expected impression."),
)

#: By name.
BY_NAME: Mapping[str, Dimension] = {dimension.name: dimension for dimension in DIMENSIONS}
#: Aesthetic quality without an upper bound: the predictor's own numbers.
RAW_AESTHETICS = BY_NAME["aesthetic_quality"].model_copy(
    update={
        "title": "Aesthetic quality (raw)",
        "high": 10,
        "averaged": False,
        "about": "How beautiful the single pictures are, as the predictor scores it, without an upper bound.",
    }
)
