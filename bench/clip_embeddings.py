"""Sharing in CLIPScore: computed embeddings relative to those needed without sharing between videos.

``python -m bench.clip_embeddings STORE [RELEASE]`` with a tiny CLIP of random weights: which frames are
embedded depends on the videos only, not on the model.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.models.add import add_model
from tasks.models.hub import ModelHub
from tasks.pairs.view import Pair, open_pair
from tasks.scoring.base import AspectText
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.clip_models import HubClip
from tasks.scoring.judges.clip_score import ClipScore


def embeddings(pairs: Sequence[Pair], scorer: ClipScore) -> Iterator[dict[str, Any]]:
    """Score both videos of each pair and yield the score and its embeddings' counts."""
    for pair in pairs:
        text = AspectText(name=pair.aspect, dimension=pair.aspect, description="…")
        for side, video in (("high", pair.high), ("low", pair.low)):
            score = scorer.score(pair.prompt, video, text)
            yield {"aspect": pair.aspect, "side": side, "score": score.value, **score.details["features"]}


def main(store_path: str, release_name: str = "demo") -> None:
    """Print a line for each pair, and the ratio."""
    from tests.tiny_models.clip import tiny_clip

    store = Store.open(Path(store_path))
    release = Release.open(store, release_name)
    pairs = [open_pair(store, release, record.pair_id) for record in release.pairs()]
    with tempfile.TemporaryDirectory() as folder:
        add_model(
            "tiny", tiny_clip(Path(folder) / "made"), Path(folder) / "weights", kind="clip", licence="-"
        )
        scorer = ClipScore(HubClip(ModelHub([Path(folder) / "weights"]), "tiny", "float32"), FeatureCache())
        start = time.perf_counter()
        rows = list(embeddings(pairs, scorer))
        seconds = time.perf_counter() - start
    for high, low in zip(rows[::2], rows[1::2], strict=True):
        print(
            f"{high['aspect']:24} high {high['computed']:4} of {high['needed']:4}   "
            f"low {low['computed']:4} of {low['needed']:4}"
        )
    needed, computed = (sum(row[name] for row in rows) for name in ("needed", "computed"))
    print(f"{computed} embeddings computed, {needed} needed: {computed / needed:.3f} ({seconds:.1f} s)")


if __name__ == "__main__":
    main(*sys.argv[1:])
