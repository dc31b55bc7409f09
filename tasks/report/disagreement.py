"""The pairs on which the evaluators disagree most, with all answers to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import pvariance
from typing import Any

from storage_schemas.errors import StoreError
from storage_schemas.judgements import Judgement
from storage_schemas.pair import PairRecord
from storage_schemas.source import SourceRow
from tasks.report.judged_pairs import JudgedPairs
from tasks.report.judged_release import JudgedRelease
from tasks.report.pictures import contact_sheet, data_uri, sheet_clips
from tasks.report.public_names import ASPECT_TEXTS, SourceFolder, pair_slug, source_folder
from tasks.report.table import NONE, aspect_title
from tasks.statistics.trials import Who, grouped, pair_points

#: Longer texts are cut; a judge's reasoning has no upper limit.
MOST_CHARACTERS = 20_000
_ORDERS = {"high_first": "high first", "low_first": "low first", "apart": "one by one"}
_HIDDEN = (
    "The source's licence does not allow redistributing its frames and captions, or texts that may "
    "quote them."
)


@dataclass(frozen=True)
class DisputedPair:
    """One pair: each evaluator's points on it, and their variance."""

    pair_id: str
    points: Mapping[Who, float]
    variance: float


def disagreements(gathered: JudgedPairs, most: int) -> list[DisputedPair]:
    """Return up to `most` pairs with the greatest variance of points over evaluators.

    Ties are ordered by the number of evaluators that answered. Pairs on which all have the same points
    are left out.
    """
    points: dict[str, dict[Who, float]] = {}
    for who, trials in gathered.by_who(gathered.all_trials).items():
        for pair, value in pair_points(trials, gathered.ties).items():
            points.setdefault(pair.pair_id, {})[who] = value
    disputed = [
        DisputedPair(pair_id, held, pvariance(held.values()))
        for pair_id, held in points.items()
        if len(set(held.values())) > 1
    ]
    disputed.sort(key=lambda one: (-round(one.variance, 12), -len(one.points), one.pair_id))
    return disputed[:most]


def pair_page(gathered: JudgedRelease, one: DisputedPair, private: bool) -> dict[str, Any]:
    """Return what the page of a pair shows.

    Parameters
    ----------
    private
        False for a public report: a source that may not be redistributed then has numbers only.
    """
    release = gathered.release
    record = release.pair(one.pair_id)
    row = release.source(record.source_id)
    folder = source_folder(release, row, private)
    return {
        **pair_line(gathered, one, record, folder),
        "text": ASPECT_TEXTS.get(record.aspect, ""),
        "hidden": _HIDDEN if folder.hidden else "",
        "facts": _facts(record, row, folder),
        "picture": _picture(gathered, record, folder),
        "points": "A point for the source, none for the degraded video",
        "prompt_is": "all captions in clip order",
        "prompt": cut(release.prompt(row.source_id)) if not folder.hidden else "",
        "evaluators": answers_of(gathered, one, bool(folder.hidden)),
    }


def answers_of(gathered: JudgedPairs, one: DisputedPair, hidden: bool) -> list[dict[str, Any]]:
    """Return all answers to a pair by evaluator; `hidden` leaves out texts that may quote its prompt."""
    held = grouped(
        (row for row in gathered.rows if row.pair_id == one.pair_id),
        lambda row: (row.evaluator, row.settings),
    )
    return [
        {
            "name": name,
            "points": _points_text(one.points.get(who)),
            "state": _state(one.points.get(who)),
            "answers": [_answer(answer, hidden) for answer in held[who]],
        }
        for who, name in gathered.names.items()
        if who in held
    ]


def pair_line(
    gathered: JudgedRelease, one: DisputedPair, record: PairRecord, folder: SourceFolder
) -> dict[str, Any]:
    """Return a pair's entry in the list."""
    return {
        "slug": pair_slug(record),
        "aspect": aspect_title(record.aspect),
        "source": folder.row.title if folder.licensed and folder.row.title else folder.slug,
        "duration_s": record.high_frames / record.fps,
        **by_state(gathered, one),
    }


def by_state(gathered: JudgedPairs, one: DisputedPair) -> dict[str, list[str]]:
    """Return the names of the evaluators that are right, wrong and undecided on a pair."""
    sides: dict[str, list[str]] = {"right": [], "wrong": [], "undecided": []}
    for who, name in gathered.names.items():
        if who in one.points:
            sides[_state(one.points[who])].append(name)
    return sides


def line_of(gathered: JudgedRelease, one: DisputedPair, private: bool) -> dict[str, Any]:
    """Return the list entry of a disputed pair."""
    record = gathered.release.pair(one.pair_id)
    folder = source_folder(gathered.release, gathered.release.source(record.source_id), private)
    return pair_line(gathered, one, record, folder)


def _state(points: float | None) -> str:
    return "undecided" if points is None or 0 < points < 1 else "right" if points else "wrong"


def _points_text(points: float | None) -> str:
    return "no answer" if points is None else f"{points:.2g} of 1 point"


def _facts(record: PairRecord, row: SourceRow, folder: SourceFolder) -> list[tuple[str, str]]:
    seconds = sum(end - start for start, end in record.high_intervals)
    return [
        ("Operation", f"{record.operation}, {record.strength}"),
        (
            "Degraded",
            f"{record.clips_degraded} clips, {seconds:.0f} s of {record.high_frames / record.fps:.0f} s",
        ),
        ("Where, s", ", ".join(f"{start:g}–{end:g}" for start, end in record.low_intervals) or NONE),
        ("Pair", record.pair_id),
        ("Source", row.source_id if folder.licensed else folder.slug),
        ("Licence", "; ".join(text for text in (row.licence, row.credit) if text) or NONE),
    ]


def _picture(gathered: JudgedRelease, record: PairRecord, folder: SourceFolder) -> dict[str, Any]:
    """Return the frames as a data URI, or why there are none."""
    if folder.hidden:
        return {"uri": "", "why": _HIDDEN}
    clips = gathered.release.clips(record.source_id)
    try:
        sheet = contact_sheet(gathered.release.store, record, clips)
    except StoreError as problem:
        return {"uri": "", "why": f"There are no frames: {problem}"}
    return {
        "uri": data_uri(sheet),
        "width": sheet.width,
        "height": sheet.height,
        "what": _shown(sheet_clips(record)),
        "why": "",
    }


def _shown(clips: list[int]) -> str:
    places = ", ".join(str(place + 1) for place in clips)
    what = f"Middle frames of clip{'' if len(clips) == 1 else 's'} {places}"
    return f"{what}: the source above, the degraded video below."


def _answer(row: Judgement, hidden: bool) -> dict[str, Any]:
    """Return one answer; if its source may not be shown, without texts that may quote it."""
    numbers = [
        ("frames", f"{row.frames:,}" if row.frames else ""),
        ("tokens", f"{row.tokens_in:,} + {row.tokens_out:,}" if row.tokens_in or row.tokens_out else ""),
        ("dollars", f"{row.cost_usd:.4f}" if row.cost_usd else ""),
        ("seconds", f"{row.seconds:.1f}" if row.seconds else ""),
        ("stopped by", row.finish_reason),
        ("model", row.model),
    ]
    scores = ""
    if row.score_high is not None and row.score_low is not None:
        scores = f"{row.score_high:.4g} for high, {row.score_low:.4g} for low"
    texts = (
        []
        if hidden
        else [
            ("Why there is no answer", row.message),
            ("Answer as it came", row.raw),
            ("Thoughts", row.reasoning),
            ("Details", _details(row.details)),
        ]
    )
    return {
        "order": _ORDERS[row.order] + (f", repeat {row.repeat + 1}" if row.repeat else ""),
        "says": _says(row),
        "state": "failed"
        if row.preferred is None
        else {"high": "right", "low": "wrong"}.get(row.preferred, "undecided"),
        "scores": scores,
        "numbers": [(name, value) for name, value in numbers if value],
        "texts": [(name, cut(text)) for name, text in texts if text.strip()],
    }


def _says(row: Judgement) -> str:
    if row.preferred is None:
        return f"no answer: {row.failure.value if row.failure else 'unknown'}"
    preferred = "a tie" if row.preferred == "tie" else f"the {row.preferred} one"
    return f"{row.choice}: {preferred}" if row.choice and row.preferred != "tie" else preferred


def _details(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return json.dumps(value, indent=1, ensure_ascii=False) if value else ""


def cut(text: str) -> str:
    """Return a text that is short enough for a page, with the number of characters left out."""
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}\n… {len(text) - MOST_CHARACTERS:,} more characters"
