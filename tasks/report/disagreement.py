"""The pairs on which the evaluators disagree most, with all answers to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import pvariance

from PIL.Image import Image

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
MAX_CHARACTERS = 20_000
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


@dataclass(frozen=True, kw_only=True)
class PairLine:
    """A disputed pair's entry in the list, of any kind of pairs.

    Parameters
    ----------
    slug
        Name of its page.
    duration_s
        None if it is unknown.
    right, wrong, undecided
        Names of the evaluators with that answer.
    """

    slug: str
    aspect: str
    source: str
    duration_s: float | None
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    undecided: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Frames of both sides as a data URI and what they are, or `why` there are none."""

    uri: str = ""
    width: int = 0
    height: int = 0
    what: str = ""
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class ShownAnswer:
    """One answer as a page shows it; `state` is ``right``, ``wrong``, ``undecided`` or ``failed``."""

    order: str
    answer: str
    state: str
    scores: str
    numbers: tuple[tuple[str, str], ...]
    texts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class EvaluatorAnswers:
    """All answers of one evaluator to a pair, and its points on it."""

    name: str
    points: str
    state: str
    answers: tuple[ShownAnswer, ...]


@dataclass(frozen=True, kw_only=True)
class PairPage:
    """All that the page of a disputed pair shows, of any kind of pairs.

    Parameters
    ----------
    text
        What the pair is about, in a sentence.
    points
        How points are given.
    prompt, prompt_is
        The prompt, if it may be shown, and what it consists of.
    """

    line: PairLine
    text: str
    facts: tuple[tuple[str, str], ...]
    picture: Picture
    points: str
    evaluators: tuple[EvaluatorAnswers, ...]
    prompt: str = ""
    prompt_is: str = ""


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


def pair_page(gathered: JudgedRelease, one: DisputedPair, private: bool) -> PairPage:
    """Return what the page of a pair of a release shows.

    Parameters
    ----------
    private
        False for a public report: a source that may not be redistributed then has numbers only.
    """
    release = gathered.release
    record = release.pair(one.pair_id)
    row = release.source(record.source_id)
    folder = source_folder(release, row, private)
    return PairPage(
        line=_line(gathered, one, record, folder),
        text=ASPECT_TEXTS.get(record.aspect, ""),
        facts=_facts(record, row, folder),
        picture=_picture(gathered, record, folder),
        points="A point for the source, none for the degraded video",
        prompt_is="all captions in clip order",
        prompt=cut(release.prompt(row.source_id)) if not folder.hidden else "",
        evaluators=answers_of(gathered, one, bool(folder.hidden)),
    )


def answers_of(gathered: JudgedPairs, one: DisputedPair, hidden: bool) -> tuple[EvaluatorAnswers, ...]:
    """Return all answers to a pair by evaluator; `hidden` leaves out texts that may quote its prompt."""
    held = grouped(
        (row for row in gathered.rows if row.pair_id == one.pair_id),
        lambda row: (row.evaluator, row.settings),
    )
    return tuple(
        EvaluatorAnswers(
            name=name,
            points=_points_text(one.points.get(who)),
            state=_state(one.points.get(who)),
            answers=tuple(_answer(answer, hidden) for answer in held[who]),
        )
        for who, name in gathered.names.items()
        if who in held
    )


def line_of(gathered: JudgedRelease, one: DisputedPair, private: bool) -> PairLine:
    """Return the list entry of a disputed pair of a release."""
    record = gathered.release.pair(one.pair_id)
    folder = source_folder(gathered.release, gathered.release.source(record.source_id), private)
    return _line(gathered, one, record, folder)


def _line(gathered: JudgedRelease, one: DisputedPair, record: PairRecord, folder: SourceFolder) -> PairLine:
    return made_line(
        gathered,
        one,
        slug=pair_slug(record),
        aspect=record.aspect,
        source=folder.row.title if folder.licensed and folder.row.title else folder.slug,
        duration_s=record.high_frames / record.fps,
    )


def made_line(
    gathered: JudgedPairs,
    one: DisputedPair,
    *,
    slug: str,
    aspect: str,
    source: str,
    duration_s: float | None = None,
) -> PairLine:
    """Return a list entry with the evaluators that are right, wrong and undecided on the pair."""
    sides: dict[str, list[str]] = {"right": [], "wrong": [], "undecided": []}
    for who, name in gathered.names.items():
        if who in one.points:
            sides[_state(one.points[who])].append(name)
    return PairLine(
        slug=slug,
        aspect=aspect_title(aspect),
        source=source,
        duration_s=duration_s,
        right=tuple(sides["right"]),
        wrong=tuple(sides["wrong"]),
        undecided=tuple(sides["undecided"]),
    )


def _state(points: float | None) -> str:
    return "undecided" if points is None or 0 < points < 1 else "right" if points else "wrong"


def _points_text(points: float | None) -> str:
    return "no answer" if points is None else f"{points:.2g} of 1 point"


def _facts(record: PairRecord, row: SourceRow, folder: SourceFolder) -> tuple[tuple[str, str], ...]:
    seconds = sum(end - start for start, end in record.high_intervals)
    return (
        ("Operation", f"{record.operation}, {record.strength}"),
        (
            "Degraded",
            f"{record.clips_degraded} clips, {seconds:.0f} s of {record.high_frames / record.fps:.0f} s",
        ),
        ("Where, s", ", ".join(f"{start:g}–{end:g}" for start, end in record.low_intervals) or NONE),
        ("Pair", record.pair_id),
        ("Source", row.source_id if folder.licensed else folder.slug),
        ("Licence", "; ".join(text for text in (row.licence, row.credit) if text) or NONE),
    )


def _picture(gathered: JudgedRelease, record: PairRecord, folder: SourceFolder) -> Picture:
    """Return the frames, or why there are none."""
    if folder.hidden:
        return Picture(why=_HIDDEN)
    clips = gathered.release.clips(record.source_id)
    try:
        sheet = contact_sheet(gathered.release.store, record, clips)
    except StoreError as problem:
        return no_frames(problem)
    return framed(sheet, _shown(sheet_clips(record)))


def framed(sheet: Image, what: str) -> Picture:
    """Return a sheet of frames as a picture of a page."""
    return Picture(uri=data_uri(sheet), width=sheet.width, height=sheet.height, what=what)


def no_frames(problem: Exception) -> Picture:
    """Return what stands in the place of frames that cannot be read."""
    return Picture(why=f"There are no frames: {problem}")


def _shown(clips: list[int]) -> str:
    numbers = ", ".join(str(index + 1) for index in clips)
    what = f"Middle frames of clip{'' if len(clips) == 1 else 's'} {numbers}"
    return f"{what}: the source above, the degraded video below."


def _answer(row: Judgement, hidden: bool) -> ShownAnswer:
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
    state = {"high": "right", "low": "wrong", "tie": "undecided"}
    return ShownAnswer(
        order=_ORDERS[row.order] + (f", repeat {row.repeat + 1}" if row.repeat else ""),
        answer=_says(row),
        state="failed" if row.preferred is None else state[row.preferred],
        scores=scores,
        numbers=tuple((name, value) for name, value in numbers if value),
        texts=tuple((name, cut(text)) for name, text in texts if text.strip()),
    )


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
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}\n… {len(text) - MAX_CHARACTERS:,} more characters"
