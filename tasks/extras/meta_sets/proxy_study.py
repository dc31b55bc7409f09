"""The proxy study on FETV: do degraded videos rank evaluators as generated ones do? (SLVMEval, appendix C.)

Two short videos are joined as clips. *Generated*: the real video against a model's, where the higher human
score is better. *Degraded*: the real video against itself with one clip degraded, where
the real one is better. Each evaluator has an accuracy in both settings, and Spearman's ρ says
whether they rank evaluators alike.

Decided here, because the paper leaves it open: prompts are joined two by two in a keyed random order, each
used once; a prompt takes part where people scored the real video and those of all models, and all are
there; the score of a joined video is the sum of its clips' means; pairs with equal scores are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from storage_schemas.checksum_cache import remembered_digests
from storage_schemas.errors import SetAside, UserInputError
from storage_schemas.ids import digest_value
from storage_schemas.rng import keyed_rank
from tasks.extras.meta_sets.fetv import SCORES, TRUTH, FetvFiles, read_fetv
from tasks.extras.meta_sets.proxy_clips import ClipDamage, JoinedSide, damage_of
from tasks.pairs.file_pairs import VideoSide
from tasks.pairs.view import Pair, Side
from tasks.scoring.base import AspectText
from tasks.scoring.frame_cache import CachedSide, FrameCache
from tasks.scoring.instructions import aspect_text
from tasks.scoring.pair_sets import NamedPairs
from tasks.scoring.request import PairFacts, prompt_digest

Setting = Literal["generated", "degraded"]
#: Number of joined clips.
CLIPS = 2
#: Version of how videos are made from files; part of every pair's id.
_VERSION = 1


@dataclass(frozen=True)
class ProxyPair:
    """One pair of the study.

    Parameters
    ----------
    couple
        The joined prompts.
    model
        The generating model; the real video's name in the setting ``degraded``.
    high, low
        The clips of both videos; if they are the same, the low one is degraded when opened.
    """

    setting: Setting
    couple: tuple[str, ...]
    model: str
    high: tuple[Path, ...]
    low: tuple[Path, ...]
    prompt: str


@dataclass(frozen=True)
class ProxyDraw:
    """The pairs of a study, and what was left out, by reason."""

    pairs: dict[str, ProxyPair]
    facts: tuple[PairFacts, ...]
    models: tuple[str, ...]
    left_out: Counter[str]


class ProxyPairs(NamedPairs):
    """The pairs of both settings.

    Parameters
    ----------
    path, videos
        FETV's folder and that of its videos, absolute.
    score
        The human score of the setting ``generated``.
    aspect, operation, strength
        What evaluators judge, and how the real video is degraded; by default the aspect's first operation.
    models
        Generating models; by default all that people scored.
    couples
        Maximum number of joined prompts, drawn; a smaller number is a subset of a larger one.
    seed
        Key of all draws.
    fps, long_side
        Frames a second, as text, and longer side of each clip in pixels.
    """

    name: str = "proxy-study"
    path: str
    videos: str | None = None
    score: str = "alignment"
    aspect: str = "comprehensiveness"
    operation: str = ""
    strength: str = ""
    models: tuple[str, ...] = ()
    couples: int | None = Field(default=None, ge=1)
    seed: int = 0
    fps: str = "1"
    long_side: int = Field(default=512, ge=16, le=4096, multiple_of=4)

    @property
    def damage(self) -> ClipDamage:
        """Degradation of the real video."""
        return damage_of(self.aspect, self.operation, self.strength, self.seed)

    def draw(self) -> ProxyDraw:
        """Return the pairs, drawn once per process."""
        return _draw(self)

    @property
    def title(self) -> str:
        """Display name, with what was left out."""
        drawn = self.draw()
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(drawn.left_out.items()))
        left = f"; left out: {reasons}" if reasons else ""
        return f"proxy study on FETV, {self.score} and {self.aspect}{left}"

    def facts(self) -> list[PairFacts]:
        """Return the facts of all pairs; their number of frames is unknown, so each counts as 2."""
        return list(self.draw().facts)

    def open(self, pair_id: str) -> Pair:
        """Open a pair; in the setting ``degraded`` the clip is read to verify the degradation.

        Raises
        ------
        SetAside
            If a video cannot be used, or no clip can be degraded.
        """
        drawn = self.draw().pairs[pair_id]
        high: list[Side] = [self._clip(path) for path in drawn.high]
        details: dict[str, object] = {"setting": drawn.setting, "model": drawn.model, "gold": "high"}
        if drawn.setting == "generated":
            low: Side = JoinedSide([self._clip(path) for path in drawn.low])
        else:
            low, done = self.damage.degraded(high, drawn.couple)
            details |= done
        return Pair(
            id=pair_id,
            aspect=self.aspect,
            prompt=drawn.prompt,
            high=JoinedSide(high),
            low=low,
            high_intervals=(),
            low_intervals=(),
            record=None,
            details=details,
        )

    def _clip(self, path: Path) -> Side:
        return CachedSide(VideoSide(path, Fraction(self.fps), self.long_side), _frames)

    def text(self, aspect: str, dimension: str, folder: str | None) -> AspectText:
        """Return the aspect's text for evaluators."""
        return aspect_text(aspect, dimension, folder)

    def check(self, wanted: Iterable[PairFacts]) -> None:
        """Check nothing more: the draw has just read every video."""


_frames = FrameCache()


@cache
def _draw(study: ProxyPairs) -> ProxyDraw:
    if study.score not in SCORES:
        raise UserInputError(f"FETV has no score {study.score!r}: there are {', '.join(SCORES)}")
    files = read_fetv(Path(study.path), None if study.videos is None else Path(study.videos))
    models = _models(files, study.models)
    left_out: Counter[str] = Counter()
    usable = _usable(files, models, study.score, left_out)
    order = sorted(usable, key=lambda number: keyed_rank(study.seed, "proxy-study", number))
    couples = [tuple(order[at : at + CLIPS]) for at in range(0, len(order) - CLIPS + 1, CLIPS)]
    if not couples:
        raise UserInputError(
            f"{study.path} has {len(usable)} prompts with scores and videos of {', '.join((TRUTH, *models))}"
            f"; {CLIPS} are needed ({dict(left_out) or 'none was left out'})"
        )
    if len(order) % CLIPS:
        left_out["prompt_without_partner"] += len(order) % CLIPS
    pairs = [
        pair
        for couple in couples[: study.couples]
        for pair in _pairs_of(files, couple, models, study.score, usable, left_out)
    ]
    return _with_facts(study, pairs, models, left_out)


def _models(files: FetvFiles, wanted: tuple[str, ...]) -> tuple[str, ...]:
    models = sorted(set(files.scores) - {TRUTH})
    if TRUTH not in files.scores:
        raise UserInputError(f"people's scores of {TRUTH} are missing: there are {', '.join(models)}")
    for model in wanted:
        if model not in models:
            raise UserInputError(f"people scored no model {model!r}: there are {', '.join(models) or 'none'}")
    if not models:
        raise UserInputError("people's scores of generated videos are missing")
    return tuple(dict.fromkeys(wanted)) or tuple(models)


def _usable(
    files: FetvFiles, models: tuple[str, ...], score: str, left_out: Counter[str]
) -> dict[str, dict[str, Path]]:
    """Return the videos of all models by prompt, for prompts with all videos and scores."""
    by_number: dict[str, dict[str, Path]] = {}
    for number in files.prompts:
        if any(files.means(TRUTH, model, number, score) is None for model in models):
            left_out["not_scored"] += 1
            continue
        try:
            by_number[number] = {model: files.video(model, number) for model in (TRUTH, *models)}
        except SetAside as problem:
            left_out[problem.reason.value] += 1
    return by_number


def _pairs_of(
    files: FetvFiles,
    couple: tuple[str, ...],
    models: tuple[str, ...],
    score: str,
    videos: dict[str, dict[str, Path]],
    left_out: Counter[str],
) -> Iterable[ProxyPair]:
    prompt = "\n".join(files.prompts[number].prompt for number in couple)
    clips = {model: tuple(videos[number][model] for number in couple) for model in (TRUTH, *models)}
    yield ProxyPair("degraded", couple, TRUTH, clips[TRUTH], clips[TRUTH], prompt)
    for model in models:
        means = [files.means(TRUTH, model, number, score) for number in couple]
        # sums of thirds of whole numbers differ by more than this, or are equal
        better = sum(a - b for a, b in filter(None, means))
        if abs(better) < 1e-6:
            left_out["equal_human_scores"] += 1
            continue
        high, low = (TRUTH, model) if better > 0 else (model, TRUTH)
        yield ProxyPair("generated", couple, model, clips[high], clips[low], prompt)


def _with_facts(
    study: ProxyPairs, pairs: list[ProxyPair], models: tuple[str, ...], left_out: Counter[str]
) -> ProxyDraw:
    sums: dict[Path, str] = {}
    for path in {path for pair in pairs for path in (*pair.high, *pair.low)}:
        sums[path] = remembered_digests(path.parent, [path.name])[path.name]
    damage = study.damage
    by_id: dict[str, ProxyPair] = {}
    facts = []
    for pair in pairs:
        sampling = [_VERSION, study.fps, study.long_side]
        high, low = (
            digest_value([sampling, [sums[path] for path in clips]]) for clips in (pair.high, pair.low)
        )
        if pair.setting == "degraded":
            low = digest_value([high, damage.identity(pair.couple)])
        id_ = f"proxy-{digest_value([pair.setting, pair.model, pair.prompt, high, low])[:24]}"
        by_id[id_] = pair
        facts.append(
            PairFacts(
                pair_id=id_,
                source_id=f"fetv-{'-'.join(pair.couple)}",
                aspect=study.aspect,
                dimension=damage.aspect.dimension,
                prompt_digest=prompt_digest(pair.prompt),
                high_checksum=high,
                low_checksum=low,
                fps=float(Fraction(study.fps)),
                frames=2,
            )
        )
    return ProxyDraw(by_id, tuple(facts), models, left_out)
