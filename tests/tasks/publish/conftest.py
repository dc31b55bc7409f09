"""A small release of two sources, written through the same functions as a real one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage_schemas.errors import Reason
from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.ids import artifact_id, digest_text
from storage_schemas.pair import PairRecord, Segment
from storage_schemas.release import CLIP_FILE, Release
from storage_schemas.set_aside import SetAsideRow
from storage_schemas.source import ClipRow, SourceRow
from storage_schemas.store import DEGRADED_CLIP, FRAMES, Store
from tasks.aspects.base import ClipSpan
from tasks.pairs.intervals import degraded_intervals, reordered, replaced, units
from tasks.publish.release import write_release
from tasks.recipe import load_recipe
from tests.frame_arrays import write_frames

WIDTH, HEIGHT, COUNT = 128, 72, 40
COLOR = ColorSpec("bt709")
SPANS = [ClipSpan(index, 2 + 4 * index, 4) for index in range(9)]
#: A caption that tries to leave its page.
EVIL = '</script><script>document.title = "owned"</script><img src=x onerror=alert(1)> & “quotes” ' + "\u2028"


def picture(number: int) -> Planes:
    """Give a picture with a bar whose place and brightness tell which frame it is."""
    planes = np.full((HEIGHT * 3 // 2, WIDTH), 128, np.uint8)
    planes[:HEIGHT] = 40 + 4 * number
    planes[:HEIGHT, 3 * number : 3 * number + 8] = 225
    return planes


@dataclass(frozen=True)
class Small:
    """A store with one release."""

    store: Store
    release: Release


def _record(
    source_id: str, frames: str, aspect: str, segments: list[Segment], drawn: list[int], **more: Any
) -> PairRecord:
    high, low = degraded_intervals(units(SPANS, COUNT), segments, drawn, 1.0)
    values: dict[str, Any] = {
        "pair_id": digest_text(source_id + aspect),
        "source_id": source_id,
        "aspect": aspect,
        "dimension": aspect,
        "category": "quality",
        "operation": f"{aspect}-operation",
        "operation_version": 1,
        "parameters": {"contrast": -0.8, "nested": {"a": [1, 2]}},
        "strength": "paper",
        "clips_degraded": len(drawn),
        "fps": 1.0,
        "frames_id": frames,
        "segments": tuple(segments),
        "drawn_clips": tuple(drawn),
        "choices": {},
        "passed_over": {},
        "high_frames": COUNT,
        "low_frames": sum(segment.frame_count for segment in segments),
        "high_checksum": digest_text("high" + source_id),
        "low_checksum": digest_text("low" + source_id + aspect),
        "high_intervals": high,
        "low_intervals": low,
        "bin_s": 0,
        "seed": "17",
    }
    return PairRecord.model_validate({**values, **more})


def _source(
    store: Store, source_id: str, redistributable: bool
) -> tuple[SourceRow, list[ClipRow], list[PairRecord]]:
    consumes = {"source": source_id}
    with store.stage(FRAMES, consumes) as staged:
        written = write_frames(
            staged.path / "planes.zarr", map(picture, range(COUNT)), map(float, range(COUNT)), COLOR
        )
        staged.content_checksum = written.checksum
    frames = artifact_id(FRAMES, consumes)
    changed = {}
    for clip in (1, 5):
        span = SPANS[clip]
        consumes = {"source": source_id, "clip": str(clip)}
        with store.stage(DEGRADED_CLIP, consumes) as staged:
            shown = [255 - picture(span.first_frame + place) for place in range(span.frame_count)]
            write_frames(staged.path / CLIP_FILE, shown, map(float, range(len(shown))), COLOR)
            staged.content_checksum = digest_text(source_id + str(clip))
            staged.content = {
                "source_id": source_id,
                "aspect": "aesthetics",
                "operation": "ffmpeg-eq",
                "clip": clip,
                "first_frame": span.first_frame,
                "frames": span.frame_count,
                "height": HEIGHT,
                "width": WIDTH,
                "difference": 42.5,
                "choice": {"style": "oil"},
            }
        changed[clip] = Segment(
            kind="degraded",
            clip=clip,
            first_frame=span.first_frame,
            frame_count=span.frame_count,
            degraded_clip=artifact_id(DEGRADED_CLIP, consumes),
        )
    whole = units(SPANS, COUNT)
    still = SPANS[3]
    middle = Segment(
        kind="degraded",
        clip=3,
        first_frame=still.first_frame,
        frame_count=still.frame_count,
        frame_map=(still.first_frame + 2,) * still.frame_count,
    )
    order = [0, 2, 3, 1, 4, 5, 6, 7, 8]
    records = [
        _record(
            source_id, frames, "aesthetics", replaced(whole, changed), [1, 5], choices={"1": {"style": "oil"}}
        ),
        _record(source_id, frames, "dynamics_degree", replaced(whole, {3: middle}), [3]),
        _record(
            source_id, frames, "comprehensiveness", reordered(whole, [0, 1, 3, 4, 5, 7, 8], [2, 6]), [2, 6]
        ),
        _record(source_id, frames, "temporal_flow", reordered(whole, order, [1, 2, 3]), [1, 2, 3]),
    ]
    row = SourceRow(
        source_id=source_id,
        adapter="folder",
        title=f"Film {source_id}",
        video="films/one.mp4",
        content_sha256=digest_text(source_id),
        licence="CC BY 3.0" if redistributable else "academic use only",
        redistributable=redistributable,
        credit="A. Person" if redistributable else "",
        content_category="Travel & Events" if redistributable else "Sports",
        duration_s=float(COUNT) if redistributable else 240.0,
        frames_id=frames,
        frames_checksum=written.checksum,
        frame_count=COUNT,
        width=WIDTH,
        height=HEIGHT,
        prompt_characters=100,
    )
    clips = [
        ClipRow(
            source_id=source_id,
            clip=span.index,
            start_s=float(span.first_frame),
            end_s=float(span.first_frame + span.frame_count),
            first_frame=span.first_frame,
            frame_count=span.frame_count,
            caption=EVIL if span.index == 0 else f"Caption {span.index} of {source_id}",
        )
        for span in SPANS
    ]
    return row, clips, records


@pytest.fixture(scope="session")
def build_small() -> Callable[[Path], Small]:
    """Give a function that makes the release below a folder."""

    def build(folder: Path) -> Small:
        store = Store.create(folder / "store")
        rows, clips, records = [], [], []
        for source_id, free in (("film/<b>one</b>", True), ("secret two", False)):
            row, some_clips, some_records = _source(store, source_id, free)
            rows.append(row)
            clips += some_clips
            records += some_records
        recipe = load_recipe("cpu-approx")
        release, _ = write_release(
            store,
            "small",
            recipe,
            records,
            rows,
            clips,
            [
                SetAsideRow(
                    source_id="secret two",
                    aspect="color",
                    stage="candidates",
                    reason=Reason.TOO_FEW_ELIGIBLE_CLIPS,
                    message=f"a caption says: {EVIL}",
                ),
                SetAsideRow(
                    source_id="", stage="scan", reason=Reason.NOT_A_VIDEO, message="no", location="x/y.mp4"
                ),
            ],
            dict.fromkeys(recipe.aspects, 2),
        )
        return Small(store, release)

    return build


@pytest.fixture(scope="module")
def small(build_small: Callable[[Path], Small], tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Give the release; a test that changes its store makes one of its own."""
    return build_small(tmp_path_factory.mktemp("small"))
