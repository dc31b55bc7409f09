"""Settings of the visual dimensions; "not from the paper" marks what the paper leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from storage_schemas.model import Frozen
from tasks.extras.locot2v.pixel_metrics import PixelSettings
from tasks.extras.locot2v.transitions import CutSettings, TransitionSettings


class PictureModel(Frozen):
    """A model that gives features of pictures.

    Parameters
    ----------
    model
        Its name in a model folder: of kind ``clip`` (CLIP, SigLIP) or ``picture-features`` (DINO).
    dtype
        Of its weights and computations.
    """

    model: str
    dtype: Literal["bfloat16", "float16", "float32"] = "float32"


_SIGLIP = PictureModel(model="siglip-so400m-patch14-384")
_CLIP = PictureModel(model="clip-vit-large-patch14")
_DINO = PictureModel(model="dinov2-base")


class AestheticSettings(Frozen):
    """Aesthetic quality.

    Parameters
    ----------
    pictures
        The SigLIP that the predictor was trained on; the published head needs this one.
    head
        The predictor's head in a model folder, of kind ``aesthetic-head``.
    fps
        Frames per second that are scored (the paper: 1).
    upper_bound
        Score that counts as 1: the mean of the best tenth of a set of pictures (appendix B.5), which the
        paper does not print; ``slvmeval suite aesthetics-bound`` computes it. None leaves scores as the
        predictor gives them, up to 10, called raw and in no mean.
    """

    pictures: PictureModel = _SIGLIP
    head: str = "aesthetic-predictor-v2.5"
    fps: float = Field(default=1.0, gt=0)
    upper_bound: float | None = Field(default=None, gt=0)


class TechnicalSettings(Frozen):
    """Technical quality.

    Parameters
    ----------
    model
        DOVER++ as an ONNX file in a model folder, of kind ``dover``.
    score
        The technical branch alone, or both branches together as DOVER's authors weigh them. The paper says
        DOVER++ without saying which. Not from the paper: technical.
    piece_s
        Upper limit of a piece's length, seconds (the paper: 10).
    clips
        Clips of a piece for the technical branch, if the file leaves it open (DOVER's options: 3).
    technical_mean, technical_deviation, aesthetic_mean, aesthetic_deviation, technical_weight
        Normalisation of the branches' raw numbers before the logistic function: those of DOVER's authors for
        DOVER. They give none for DOVER++. Not from the paper.
    """

    model: str = "dover-plus-plus"
    score: Literal["technical", "fused"] = "technical"
    piece_s: float = Field(default=10.0, gt=0)
    clips: int = Field(default=3, ge=1, le=16)
    technical_mean: float = 0.1107
    technical_deviation: float = Field(default=0.07355, gt=0)
    aesthetic_mean: float = -0.08285
    aesthetic_deviation: float = Field(default=0.03774, gt=0)
    technical_weight: float = Field(default=0.6104, ge=0, le=1)


class ConsistencySettings(Frozen):
    """Consistency of subjects and backgrounds.

    Parameters
    ----------
    detector
        A Grounding DINO in a model folder, of kind ``detector``.
    masks
        ``sam2``: the pixels that SAM 2 finds in the detector's boxes, which is Grounded-SAM-2 as in the
        paper. ``boxes``: all pixels of the boxes; a stand-in that needs no segmenter.
    segmenter
        A SAM 2 in a model folder, of kind ``segmenter``. The paper does not say which: the large one of
        version 2.1.
    box_threshold, text_threshold
        Minimum score of a box, and of a word in it (Grounding DINO's own defaults; not from the paper).
    subjects, backgrounds
        Models of features of subjects (VBench: DINO) and of backgrounds (VBench: CLIP); not from the paper.
    one_background
        Events that share a background: ``all`` events of a video, or those with the same words for their
        ``setting``. Not from the paper: all, since events rarely name a place in the same words; a prompt
        with a change of place then lowers the score.
    fps
        Frames per second of an event that are used. Not from the paper.
    most_frames
        Maximum frames of one event; longer ones are sampled evenly. Not from the paper.
    """

    detector: PictureModel = PictureModel(model="grounding-dino-base")
    masks: Literal["sam2", "boxes"] = "sam2"
    segmenter: PictureModel = PictureModel(model="sam2.1-hiera-large")
    box_threshold: float = Field(default=0.35, ge=0, le=1)
    text_threshold: float = Field(default=0.25, ge=0, le=1)
    subjects: PictureModel = _DINO
    backgrounds: PictureModel = _CLIP
    one_background: Literal["all", "setting"] = "all"
    fps: float = Field(default=1.0, gt=0)
    most_frames: int = Field(default=64, ge=2)


#: Settings under one name, as recipes have them: those that differ from the defaults.
BASES: Mapping[str, Mapping[str, Any]] = {
    "paper": {},
    # what needs a GPU is replaced by approximations with other names
    "cpu-approx": {
        "pixels": {"long_side": 320, "flow": {"method": "dis"}},
        "transitions": {"long_side": 320, "flow": {"method": "dis"}},
        "consistency": {"masks": "boxes"},
    },
}


class VisualSettings(Frozen):
    """Settings of all visual dimensions; a name of `BASES` stands for its settings.

    Parameters
    ----------
    base
        The settings to start from: ``paper``, or ``cpu-approx``, which replaces RAFT by OpenCV's DIS and
        SAM 2's masks by boxes. What else is given overrides them.
    pixels
        Flicker, dynamic degree, motion smoothness and warping error.
    worst_warping
        Warping error that counts as 0. Not from the paper.
    cuts, transitions, transition_pictures
        Transition smoothness: how cuts are found, what is compared, and the model of features (SigLIP).
    semantic_pictures
        Model of features for semantic consistency (EvalCrafter: CLIP).
    aesthetics, technical, consistency
        The other dimensions.
    """

    base: Literal["paper", "cpu-approx"] = "paper"
    pixels: PixelSettings = PixelSettings()
    worst_warping: float = Field(default=0.05, gt=0)
    cuts: CutSettings = CutSettings()
    transitions: TransitionSettings = TransitionSettings()
    transition_pictures: PictureModel = _SIGLIP
    semantic_pictures: PictureModel = _CLIP
    aesthetics: AestheticSettings = AestheticSettings()
    technical: TechnicalSettings = TechnicalSettings()
    consistency: ConsistencySettings = ConsistencySettings()

    @model_validator(mode="before")
    @classmethod
    def _based(cls, given: Any) -> Any:
        values = {"base": given} if isinstance(given, str) else given
        if not isinstance(values, Mapping) or not isinstance(values.get("base", ""), str):
            return values
        return _over(BASES.get(values.get("base", "paper"), {}), values)


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested settings with others over them."""
    joined = {**below, **above}
    for key in below.keys() & above.keys():
        if isinstance(below[key], Mapping) and isinstance(above[key], Mapping):
            joined[key] = _over(below[key], above[key])
    return joined
