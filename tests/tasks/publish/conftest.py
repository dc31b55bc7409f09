"""A small release of two sources, written through the same functions as a real one."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from tests.once import Once
from tests.tasks.publish.judging import clip_rows, degraded, pair_record, source_row

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
    source_id: str,
    frames: str,
    aspect: str,
    segments: list[Segment],
    drawn: list[int],
    choices: dict[str, Any],
) -> PairRecord:
    high, low = degraded_intervals(units(SPANS, COUNT), segments, drawn, 1.0)
    return pair_record(
        source_id,
        aspect,
        segments,
        drawn,
        pair_id=digest_text(source_id + aspect),
        frames_id=frames,
        operation=f"{aspect}-operation",
        category="quality",
        parameters={"contrast": -0.8, "nested": {"a": [1, 2]}},
        choices=choices,
        high_frames=COUNT,
        high_intervals=high,
        low_intervals=low,
    )


def _put(
    store: Store, kind: str, consumes: dict[str, Any], name: str, shown: list[Planes], **more: Any
) -> str:
    """Store frames as an artifact, and return its id."""
    with store.stage(kind, consumes) as staged:
        written = write_frames(staged.path / name, shown, map(float, range(len(shown))), COLOR)
        staged.content_checksum, staged.content = written.checksum, more
    return artifact_id(kind, consumes)


def _source(
    store: Store, source_id: str, redistributable: bool
) -> tuple[SourceRow, list[ClipRow], list[PairRecord]]:
    frames = _put(store, FRAMES, {"source": source_id}, "planes.zarr", [picture(n) for n in range(COUNT)])
    changed = {}
    for clip in (1, 5):
        span = SPANS[clip]
        shown = [255 - picture(span.first_frame + place) for place in range(span.frame_count)]
        made = _put(
            store,
            DEGRADED_CLIP,
            {"source": source_id, "clip": str(clip)},
            CLIP_FILE,
            shown,
            source_id=source_id,
            aspect="aesthetics",
            operation="ffmpeg-eq",
            clip=clip,
            first_frame=span.first_frame,
            frames=span.frame_count,
            height=HEIGHT,
            width=WIDTH,
            difference=42.5,
            choice={"style": "oil"},
        )
        changed[clip] = degraded(span.first_frame, span.frame_count, clip, degraded_clip=made)
    whole = units(SPANS, COUNT)
    still = SPANS[3].first_frame
    middle = degraded(still, 4, 3, frame_map=(still + 2,) * 4)
    order = [0, 2, 3, 1, 4, 5, 6, 7, 8]
    pairs = {
        "aesthetics": (replaced(whole, changed), [1, 5]),
        "dynamics_degree": (replaced(whole, {3: middle}), [3]),
        "comprehensiveness": (reordered(whole, [0, 1, 3, 4, 5, 7, 8], [2, 6]), [2, 6]),
        "temporal_flow": (reordered(whole, order, [1, 2, 3]), [1, 2, 3]),
    }
    records = [
        _record(source_id, frames, aspect, *edits, {"1": {"style": "oil"}} if aspect == "aesthetics" else {})
        for aspect, edits in pairs.items()
    ]
    row = source_row(
        source_id,
        frames,
        COUNT,
        video="films/one.mp4",
        licence="CC BY 3.0" if redistributable else "academic use only",
        redistributable=redistributable,
        credit="A. Person" if redistributable else "",
        content_category="Travel & Events" if redistributable else "Sports",
        duration_s=float(COUNT) if redistributable else 240.0,
        frames_checksum=store.manifest(FRAMES, frames).content_checksum,
    )
    clips = clip_rows(source_id, [(span.first_frame, span.frame_count) for span in SPANS])
    return row, [clips[0].model_copy(update={"caption": EVIL}), *clips[1:]], records


def make_small(folder: Path) -> None:
    """Write the release into a store below a folder."""
    store = Store.create(folder / "store")
    rows, clips, records = [], [], []
    for source_id, free in (("film/<b>one</b>", True), ("secret two", False)):
        row, its_clips, its_records = _source(store, source_id, free)
        rows.append(row)
        clips += its_clips
        records += its_records
    recipe = load_recipe("cpu-approx")
    few = {"aspect": "color", "stage": "candidates", "reason": Reason.TOO_FEW_ELIGIBLE_CLIPS}
    none = {"stage": "scan", "reason": Reason.NOT_A_VIDEO, "location": "x/y.mp4"}
    set_aside = [
        SetAsideRow(source_id="secret two", message=f"a caption says: {EVIL}", **few),
        SetAsideRow(source_id="", message="no", **none),
    ]
    write_release(store, "small", recipe, records, rows, clips, set_aside, dict.fromkeys(recipe.aspects, 2))


@pytest.fixture(scope="session")
def build_small(once: Once) -> Callable[[Path], Small]:
    """Give a function that puts the release below a folder; it is made once and copied."""

    def build(folder: Path) -> Small:
        made = once("small release", make_small)
        store = Store.open(Path(shutil.copytree(made / "store", folder / "store")))
        return Small(store, Release.open(store))

    return build


@pytest.fixture(scope="session")
def small(build_small: Callable[[Path], Small], tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Give the release; a test that changes its store makes one of its own."""
    return build_small(tmp_path_factory.mktemp("small"))


@contextmanager
def without_figures() -> Iterator[None]:
    """Let reports draw nothing: to draw takes half a second each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.report.write.figures_of", lambda *_: [])
        yield


@pytest.fixture
def no_figures() -> Iterator[None]:
    with without_figures():
        yield


@pytest.fixture
def told() -> Iterator[list[str]]:
    """Give a list of what a page complains of or asks of the network; it stays empty."""
    told: list[str] = []
    yield told
    assert told == []


@pytest.fixture
def open_page(chromium: Any, told: list[str]) -> Iterator[Callable[..., Any]]:
    contexts = []

    def open_(url: str, width: int = 1280, scheme: str = "light", **more: Any) -> Any:
        size = {"width": width, "height": 900}
        context = chromium.new_context(viewport=size, color_scheme=scheme, **more)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("console", lambda message: told.append(message.text))
        page.on("dialog", lambda dialog: (told.append("a dialog"), dialog.dismiss()))
        page.on(
            "request",
            lambda asked: told.append(asked.url) if not asked.url.startswith(("file:", "data:")) else None,
        )
        page.goto(url)
        return page

    yield open_
    for context in contexts:
        context.close()
