"""CLIPScore of long videos: how well the centre frame of each scene fits the prompt (SLVMEval, section 5.2).

``2.5 · max(cos, 0)`` of picture and text (Hessel et al., 2021), averaged over the scenes detected on the
video's own frames.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from storage_schemas.errors import PrerequisiteError
from storage_schemas.placement import Hardware
from tasks.llm.servers import Servers
from tasks.llm.usage import Usage
from tasks.models.base import Models
from tasks.models.clip_server.loaders import JINA, JINA_CODE, JINA_REVISIONS
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, Need, PointwiseScorer, Score, Sight
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.clip_models import (
    ClipEmbedding,
    ClipSource,
    HubClip,
    ServedClipSource,
    server_failures,
)
from tasks.scoring.judges.frame_choice import FrameLimit, FramePolicy, choose_frames
from tasks.scoring.judges.prompt_length import FittedPrompt, check_policy, fit_prompt
from tasks.scoring.judges.scenes import THRESHOLD

#: Weight of the cosine (Hessel et al., 2021, section 3).
WEIGHT = 2.5
#: Name of Jina CLIP's server in profiles and in its announcement.
JINA_SERVER = "jina-clip-v2"
#: Number of prompts whose embedding is kept.
_MAX_PROMPTS = 512
#: Frames decoded and held at once.
_BATCH = 32


class ClipScore(PointwiseScorer):
    """Similarity of the centre frames of a video's scenes to the prompt.

    Parameters
    ----------
    source
        The CLIP.
    cache
        Where embeddings of frames are kept.
    policy
        What happens to a prompt that is too long, see :mod:`tasks.scoring.judges.prompt_length`.
    threshold
        What FFmpeg's scene score must exceed at a cut.
    """

    name = "clipscore"
    by_aspect = False
    hardware: ClassVar[Hardware] = "gpu"
    sees: ClassVar[tuple[Sight, ...]] = ("frames", "captions")
    needs: ClassVar[tuple[Need, ...]] = ("server", "weights")

    def __init__(
        self, source: ClipSource, cache: FeatureCache, policy: str = "truncate", threshold: float = THRESHOLD
    ) -> None:
        self._source, self._cache = source, cache
        self.policy = check_policy(policy)
        self.frames = FramePolicy(policy="clips", threshold=threshold)
        self._feature = ClipEmbedding(source)
        self._prompts: OrderedDict[str, tuple[FittedPrompt, NDArray[np.float64]]] = OrderedDict()
        self._lock = threading.Lock()

    def settings(self) -> dict[str, Any]:
        """Return model, prompt policy and frame policy."""
        return {
            **self._source.settings(),
            "prompt": self.policy,
            "frames": self.frames.model_dump(mode="json"),
            "weight": WEIGHT,
        }

    def check(self) -> None:
        """Check that the model is present.

        Raises
        ------
        PrerequisiteError
            If its weights are missing, with the command that fetches them, or its server does not answer.
        """
        self._source.check()
        if self.policy == "ignore-max":
            self._source.check_length()

    def score(self, prompt: str, video: Side, aspect: AspectText) -> Score:
        """Return the mean over the scenes, whatever the aspect.

        Raises
        ------
        NotJudged
            `video_unreadable` for a video without frames, `context_too_long` where the policy leaves nothing
            of a caption, `server_down`.
        """
        start = time.perf_counter()
        choice = choose_frames((video,), self.frames, FrameLimit(), self._cache)[0]
        with server_failures():
            fitted, text = self._prompt(prompt)
            embeddings = self._cache.compute_missing(video, choice.indices, self._feature, batch=_BATCH)
        cosines = embeddings.rows.astype(np.float64) @ text
        # exactly rounded: the order of the scenes does not change the score
        value = math.fsum(WEIGHT * np.maximum(cosines, 0.0)) / len(cosines)
        return Score(
            value,
            model=next(iter(self._source.settings()["model"])),
            usage=Usage(frames=len(choice.indices), seconds=time.perf_counter() - start),
            details={
                "frames": choice.details(),
                "prompt": fitted.details(),
                "features": embeddings.counts(),
                "scenes_below_zero": int((cosines < 0).sum()),
                "libraries": self._source.libraries(),
            },
        )

    def _prompt(self, prompt: str) -> tuple[FittedPrompt, NDArray[np.float64]]:
        """Return the fitted prompt and its embedding; both videos of a pair share them."""
        with self._lock:
            cached = self._prompts.get(prompt)
            if cached is None:
                encoder = self._source.encoder()
                fitted = fit_prompt(prompt, self.policy, encoder)
                row = encoder.texts([fitted.text], fitted.most_tokens)[0]
                cached = self._prompts[prompt] = (fitted, row.astype(np.float64))
            self._prompts.move_to_end(prompt)
            while len(self._prompts) > _MAX_PROMPTS:
                self._prompts.popitem(last=False)
            return cached


class ServedClipScore(ClipScore):
    """CLIPScore with its model behind a server: needs no GPU here."""

    hardware = "cpu"

    @property
    def concurrency(self) -> int:
        """A few, so that reading frames overlaps with the server's work."""
        return 4


def clip_score(
    cache: FeatureCache,
    models: Models,
    servers: Servers,
    model: str = JINA,
    server: str = "",
    revision: str | None = None,
    code_revision: str | None = None,
    policy: str = "truncate",
    threshold: float = THRESHOLD,
    dtype: str = "float32",
) -> ClipScore:
    """Make CLIPScore; by default with Jina CLIP v2 behind its server, as in the paper.

    Parameters
    ----------
    model
        A CLIP of the model folder (kind ``clip``), or what a server calls its model.
    server
        Name of the server in the profile or the store; empty for a model that is loaded here. Jina CLIP v2
        has its own, ``jina-clip-v2``.
    revision, code_revision
        For a served model: what its server must state about its version. Jina's are known.
    policy, threshold
        As for :class:`ClipScore`.
    dtype
        For a model that is loaded here.
    """
    if model == JINA:
        server = server or JINA_SERVER
        revision, code_revision = revision or JINA_REVISIONS[JINA], code_revision or JINA_CODE
    if not server:
        return ClipScore(HubClip(models, model, dtype), cache, policy, threshold)
    try:
        where = servers.find(server, model)
    except PrerequisiteError as problem:
        raise PrerequisiteError(
            f"clipscore asks model server {server!r} for {model}, and neither the profile nor the store has "
            "one: docs/scorers.md says how to start it (`slvmeval serve-llm` is for language models)"
        ) from problem
    return ServedClipScore(ServedClipSource(where, revision, code_revision), cache, policy, threshold)
