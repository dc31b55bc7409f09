"""Releases and judgements for the tests of the report, written through the real store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from storage_schemas.ids import digest_text
from storage_schemas.judgements import Failure, Judgement, Order, Preferred
from storage_schemas.pair import PairRecord, Segment
from storage_schemas.release import Release
from storage_schemas.rng import keyed_rng
from storage_schemas.source import ClipRow, SourceRow
from storage_schemas.store import Store
from tasks.publish.release import write_release
from tasks.recipe import Recipe, recipe_from

#: What an evaluator prefers on a pair in an order; None is a failure.
Answers = Callable[[PairRecord, Order], Preferred | None]
ASPECTS = {"dynamics_degree": "middle-frame", "comprehensiveness": "remove-clips"}


def judged(name: str, records: list[PairRecord], answers: Answers, **more: Any) -> Iterator[Judgement]:
    """Yield one row a pair and order."""
    for record in records:
        for order in ("high_first", "low_first"):
            yield row(name, record, order, answers(record, order), **more)


def scored(name: str, records: list[PairRecord], answers: Answers, **more: Any) -> Iterator[Judgement]:
    """Yield one row a pair, with scores."""
    for record in records:
        preferred = answers(record, "apart")
        scores = {"high": (0.75, 0.25), "low": (0.25, 0.75), "tie": (0.5, 0.5)}.get(
            preferred or "", (None, None)
        )
        yield row(name, record, "apart", preferred, score_high=scores[0], score_low=scores[1], **more)


def row(name: str, record: PairRecord, order: Order, preferred: Preferred | None, **more: Any) -> Judgement:
    choice = None
    if order != "apart" and preferred is not None:
        first = "high" if order == "high_first" else "low"
        choice = "tie" if preferred == "tie" else "first" if preferred == first else "second"
    values: dict[str, Any] = {
        "settings": digest_text(name),
        "raw": "" if order == "apart" else f"I looked at both; answer {choice}.",
        "model": "" if order == "apart" else f"{name}-2026",
        "frames": 80,
        "tokens_in": 0 if order == "apart" else 9_000,
        "tokens_out": 0 if order == "apart" else 40,
        "cost_usd": 0.0 if order == "apart" else 0.0117,
        "seconds": 1.5,
        "finish_reason": "" if order == "apart" else "stop",
        "details": '{"frames":[1,2]}',
        **more,
    }
    return Judgement(
        key=digest_text(f"{name}{values['settings']}{record.pair_id}{order}{values.get('repeat', 0)}"),
        evaluator=name,
        pair_id=record.pair_id,
        source_id=record.source_id,
        aspect=record.aspect,
        order=order,
        choice=choice,
        preferred=preferred,
        failure=None if preferred else Failure.CUT_OFF,
        message="" if preferred else "the answer was cut off",
        **values,
    )


def skilled(name: str, skill: float, lean: float = 0.0, fails: float = 0.0) -> Answers:
    """Give answers that are right with a probability, keyed by name, pair and order.

    `lean` is the share of answers that say first without looking, `fails` that of failures.
    """

    def answers(record: PairRecord, order: Order) -> Preferred | None:
        draw = keyed_rng(7, name, record.pair_id, order).random(3)
        if draw[0] < fails:
            return None
        if order != "apart" and draw[1] < lean:
            return "high" if order == "high_first" else "low"
        harder = 0.5 + (skill - 0.5) * (1.2 - min(record.high_frames, 2400) / 3000)
        return "high" if draw[2] < harder else "low"

    return answers


def wide_recipe(severe: bool) -> Recipe:
    recipe: dict[str, Any] = {
        "name": "wide",
        "aspects": {name: {"operation": operation} for name, operation in ASPECTS.items()},
    }
    if severe:
        recipe["severity"] = {"clips": [1, 2], "strengths": []}
    return recipe_from(recipe)


def build_wide(folder: Path, sources: int, severe: bool = False, controls: bool = False) -> Release:
    """Write a release of many sources whose pairs need no pixels; there are no frames in it."""
    recipe = wide_recipe(severe).model_copy(update={"controls": controls})
    rows, clips, records = [], [], []
    for number in range(sources):
        source_id, length = f"film-{number:02}", 12 + 7 * (number % 60)
        category = "Music" if source_id.endswith("0") else "Travel & Events"
        rows.append(source_row(source_id, digest_text(source_id), 12 * length, content_category=category))
        clips += clip_rows(source_id, [(clip * length, length) for clip in range(12)])
        for aspect in ASPECTS:
            for count in (5, *((1, 2) if severe else ())):
                records.append(_record(recipe, source_id, aspect, length, count))
            if controls:
                names = {"pair_id": digest_text(f"control{records[-1].pair_id}"), "strength": "control"}
                records.append(records[-1].model_copy(update={**names, "control": True}))
    store, planned = Store.create(folder / "store"), dict.fromkeys(ASPECTS, sources)
    return write_release(store, "wide", recipe, records, rows, clips, [], planned)[0]


def source_row(source_id: str, frames_id: str, frames: int, **more: Any) -> SourceRow:
    """Return a source of one frame a second; `more` replaces other values."""
    values: dict[str, Any] = {
        "source_id": source_id,
        "adapter": "folder",
        "title": f"Film {source_id}",
        "video": f"{source_id}.mp4",
        "content_sha256": digest_text(source_id),
        "licence": "CC0-1.0",
        "redistributable": True,
        "credit": "",
        "content_category": "",
        "duration_s": float(frames),
        "frames_id": frames_id,
        "frames_checksum": digest_text(frames_id),
        "frame_count": frames,
        "width": 128,
        "height": 72,
        "prompt_characters": 100,
    }
    return SourceRow(**{**values, **more})


def clip_rows(source_id: str, spans: Iterable[tuple[int, int]]) -> list[ClipRow]:
    """Return clips by their first frame and number of frames."""
    return [
        ClipRow(
            source_id=source_id,
            clip=clip,
            start_s=float(first),
            end_s=float(first + count),
            first_frame=first,
            frame_count=count,
            caption=f"Caption {clip} of {source_id}",
        )
        for clip, (first, count) in enumerate(spans)
    ]


def degraded(first: int, count: int, clip: int, **how: Any) -> Segment:
    return Segment(kind="degraded", clip=clip, first_frame=first, frame_count=count, **how)


def pair_record(
    source_id: str, aspect: str, segments: Sequence[Segment], drawn: Sequence[int], **more: Any
) -> PairRecord:
    """Return a pair of one frame a second; `more` gives what else it needs and replaces other values."""
    values: dict[str, Any] = {
        "pair_id": digest_text(f"{source_id}{aspect}{len(drawn)}"),
        "source_id": source_id,
        "aspect": aspect,
        "dimension": aspect,
        "operation_version": 1,
        "parameters": {},
        "strength": "paper",
        "clips_degraded": len(drawn),
        "fps": 1.0,
        "segments": tuple(segments),
        "drawn_clips": tuple(drawn),
        "choices": {},
        "passed_over": {},
        "low_frames": sum(segment.frame_count for segment in segments),
        "high_checksum": digest_text(f"high{source_id}"),
        "low_checksum": digest_text(f"low{source_id}{aspect}{len(drawn)}"),
        "bin_s": 0,
        "seed": "17",
    }
    return PairRecord.model_validate({**values, **more})


def _record(recipe: Recipe, source_id: str, aspect: str, length: int, count: int) -> PairRecord:
    drawn = range(2, 2 + count)
    segments = []
    for clip in range(12):
        first = clip * length
        if clip not in drawn:
            segments.append(Segment(kind="source", clip=clip, first_frame=first, frame_count=length))
        elif aspect != "comprehensiveness":
            segments.append(degraded(first, length, clip, frame_map=(first + length // 2,) * length))
    spans = tuple((float(clip * length), float((clip + 1) * length)) for clip in drawn)
    return pair_record(
        source_id,
        aspect,
        segments,
        drawn,
        frames_id=digest_text(source_id),
        operation=ASPECTS[aspect],
        category="consistency",
        strength=recipe.strength_label(aspect),
        high_frames=12 * length,
        high_intervals=spans,
        low_intervals=spans,
    )
