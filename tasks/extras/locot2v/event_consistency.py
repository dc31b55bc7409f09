"""Consistency of subjects and backgrounds within events and between them (LoCoT2V-Bench, appendix B.7).

Each subject and each background has features in the frames of its events. Within an event they should stay
the same, and be similar from one event to another. The paper defines the cosines; their combination is ours.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from storage_schemas.judgements import Failure
from storage_schemas.placement import Hardware
from tasks.extras.locot2v.askers import roles_of
from tasks.extras.locot2v.events import UNSPECIFIED, EventClip, clip_instructions, event_clips
from tasks.extras.locot2v.picture_models import Pictures, VisualModel
from tasks.extras.locot2v.pixel_metrics import Features, Measured
from tasks.extras.locot2v.region_features import BATCH, Boxes, ThingRow, present
from tasks.extras.locot2v.settings import Locot2vSettings
from tasks.extras.locot2v.visual_settings import VisualSettings
from tasks.llm.conversation import DryRunAsker, LiveAsker, dry_run
from tasks.llm.usage import Estimate, NotJudged
from tasks.pairs.view import Side
from tasks.scoring.setup import Setup
from tasks.scoring.suites.base import Dimension, ScoredVideo, SuitePrompt, SuiteVideo, VideoScorer
from tasks.scoring.suites.conversation_scorer import ConversationScorer, sampled
from tasks.scoring.suites.shown_videos import readable

#: Features of one subject by event, each ``(frames, dimensions)``; an event without it is absent.
ByEvent = Mapping[int, NDArray[np.float64]]


def _unit(rows: Features) -> Features:
    normalised: Features = rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)
    return normalised


def within_event(rows: NDArray[np.float64]) -> float | None:
    """Return the stability of a thing in an event: mean cosine of each frame with the first and the previous
    one.

    This is VBench's subject consistency, for one event. None for fewer than two frames.
    """
    if len(rows) < 2:
        return None
    unit = _unit(np.asarray(rows, dtype=np.float64))
    to_first = unit[1:] @ unit[0]
    to_before = (unit[1:] * unit[:-1]).sum(1)
    return float(np.clip((to_first + to_before) / 2, 0, 1).mean())


def intra_event(things: Sequence[ByEvent]) -> Measured:
    """Return the mean stability over things and their events."""
    stabilities = [
        value for thing in things for rows in thing.values() if (value := within_event(rows)) is not None
    ]
    if not stabilities:
        return Measured(None, 0, "nothing was found in two frames of an event")
    return Measured(math.fsum(stabilities) / len(stabilities), len(stabilities))


def between_events(thing: ByEvent) -> float | None:
    """Return the mean cosine of a thing's mean features in every two events; None for fewer than two."""
    means = [_unit(_unit(np.asarray(rows, dtype=np.float64)).mean(0)) for rows in thing.values() if len(rows)]
    if len(means) < 2:
        return None
    values = [float(np.clip(first @ second, 0, 1)) for first, second in combinations(means, 2)]
    return math.fsum(values) / len(values)


def inter_event(things: Sequence[ByEvent]) -> Measured:
    """Return the mean similarity over the things found in at least two events."""
    similarities = [value for thing in things if (value := between_events(thing)) is not None]
    if not similarities:
        return Measured(None, 0, "nothing was found in two events")
    return Measured(math.fsum(similarities) / len(similarities), len(similarities))


#: Dimension → subject or background, within events or between them.
KINDS: Mapping[str, tuple[str, str]] = {
    "intra_event_subject": ("subject", "intra"),
    "intra_event_background": ("background", "intra"),
    "inter_event_subject": ("subject", "inter"),
    "inter_event_background": ("background", "inter"),
}


class EventConsistency(VideoScorer, ConversationScorer):
    """Similarity of features of subjects or of backgrounds."""

    hardware: ClassVar[Hardware] = "gpu"
    prompt_areas = ("locot2v-bench",)

    def __init__(
        self, dimension: Dimension, setup: Setup, settings: Locot2vSettings, visual: VisualSettings
    ) -> None:
        super().__init__(dimension, roles_of(setup, settings), ("language", "locating"))
        self._settings, self._constants, self._cache = settings, visual.consistency, setup.cache
        self._part, self._where = KINDS[dimension.name]
        model = self._constants.subjects if self._part == "subject" else self._constants.backgrounds
        self._pictures = Pictures(setup.models, model)
        detector = self._constants.detector
        self._detector = VisualModel(setup.models, detector.model, ("detector",), dtype=detector.dtype)
        segmenter, by_sam2 = self._constants.segmenter, self._constants.masks == "sam2"
        kinds, libraries = ("segmenter",), ("torch", "torchvision", "transformers")
        self._segmenter = (
            VisualModel(setup.models, segmenter.model, kinds, libraries, segmenter.dtype, instead="boxes")
            if by_sam2
            else None
        )

    @property
    def concurrency(self) -> int:
        """One video at a time: features are computed on one GPU."""
        return 1

    def instructions(self) -> Mapping[str, str]:
        """Return the instructions of each step."""
        return clip_instructions(self._settings)

    def settings(self) -> dict[str, Any]:
        """Return the models, the instructions and the constants."""
        given = self._settings
        return {
            **super().settings(),
            "shown": [given.fps, given.most_frames, given.most_events],
            "detector": self._detector.settings(),
            "pictures": self._pictures.settings(),
            "segmenter": None if self._segmenter is None else self._segmenter.settings(),
            **self._constants.model_dump(
                mode="json", exclude={"detector", "segmenter", "subjects", "backgrounds"}
            ),
            "version": 1,
        }

    def check(self) -> None:
        """Check that the models are present, and ask the servers whether they have theirs.

        Raises
        ------
        PrerequisiteError
            If something is missing, with what to do.
        """
        self._pictures.check()
        self._detector.check()
        if self._segmenter is not None:
            self._segmenter.check()
        super().check()

    def estimate_video(self, prompt: SuitePrompt, video: SuiteVideo, repeat: int = 0) -> Sequence[Estimate]:
        """Return the requests for events and their intervals whose answers are not kept."""
        return dry_run(
            DryRunAsker(self.roles),
            lambda asker: event_clips(asker, prompt, sampled(video), self._settings, repeat),
        )

    def score_video(self, prompt: SuitePrompt, video: SuiteVideo, repeat: int = 0) -> ScoredVideo | NotJudged:
        """Return the score of one video with its events, or why there is none."""
        start, asker = time.perf_counter(), LiveAsker(self.roles)
        try:
            with readable():
                clips = event_clips(asker, prompt, sampled(video), self._settings, repeat)
                things = self._things(video.video, clips)
        except NotJudged as problem:
            return asker.failed(problem)
        measured = (intra_event if self._where == "intra" else inter_event)(list(things.values()))
        if measured.value is None:
            return asker.failed(NotJudged(Failure.NO_ANSWER, measured.why))
        details = {
            "rests_on": measured.steps,
            "masks": self._constants.masks,
            "frames_by_thing": {
                name: {str(event): len(rows) for event, rows in by_event.items()}
                for name, by_event in things.items()
            },
            **asker.details(),
        }
        usage = replace(asker.usage(), seconds=time.perf_counter() - start)
        return ScoredVideo(measured.value, usage, asker.calls, asker.model, details)

    def _things(self, video: Side, clips: Sequence[EventClip]) -> dict[str, dict[int, NDArray[np.float64]]]:
        """Return the features of each subject, by its name, or of each background, by event."""
        features: dict[str, dict[int, NDArray[np.float64]]] = {}
        for clip in clips:
            phrase = phrase_of(clip.event.subject)
            boxes = Boxes(self._detector, phrase, self._constants) if phrase else None
            if self._part == "subject" and boxes is None:
                continue
            feature = ThingRow(self._part, boxes, self._segmenter, self._pictures, self._cache)
            indices = event_places(clip, video.fps, self._constants.fps, self._constants.most_frames)
            rows = present(self._cache.compute_missing(video, indices, feature, batch=BATCH).rows)
            if len(rows):
                features.setdefault(self._thing(phrase, clip), {})[clip.number] = rows
        return features

    def _thing(self, phrase: str, clip: EventClip) -> str:
        if self._part == "subject":
            return phrase
        return phrase_of(clip.event.setting) if self._constants.one_background == "setting" else "background"


def phrase_of(text: str) -> str:
    """Return a thing's normalised name; empty if an event names none.

    Examples
    --------
    >>> phrase_of(" A brown  Dog."), phrase_of("unspecified")
    ('brown dog', '')
    """
    words = text.lower().strip(" .").split()
    if words and words[0] in ("a", "an", "the"):
        words = words[1:]
    plain = " ".join(words)
    return "" if plain == UNSPECIFIED else plain


def event_places(clip: EventClip, video_fps: float, fps: float, most: int) -> list[int]:
    """Return the sampled frames of an event: at the rate, but at least two if it has them."""
    length = clip.end - clip.first
    wanted = round(length / video_fps * fps)
    count = min(length, most, max(2, wanted))
    return [clip.first + int((n + 0.5) * length / count) for n in range(count)]
