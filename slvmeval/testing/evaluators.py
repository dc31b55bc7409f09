"""The conformance test for authors of evaluators: ``check_evaluator`` reports every violation."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import Any

import numpy as np

from storage_schemas.errors import IntegrityError, PrerequisiteError, StoreError
from storage_schemas.frames import ColorSpec, Planes
from storage_schemas.ids import canonical_json
from storage_schemas.names import EVALUATOR_NAME_RULE, is_evaluator_name
from storage_schemas.placement import HARDWARE
from tasks.llm.usage import Estimate, NotJudged, Usage
from tasks.pairs.view import Side
from tasks.scoring.base import AspectText, Evaluator, JudgeAnswer, PairwiseJudge, PointwiseScorer, Score
from tasks.scoring.request import settings_digest


class ConformanceError(AssertionError):
    """A conformance test failed; `breaches` lists every violation."""

    def __init__(self, what: str, breaches: Sequence[str]) -> None:
        super().__init__(f"{what} does not conform:\n" + "\n".join(f"- {line}" for line in breaches))
        self.breaches = tuple(breaches)


#: Maximum number of frames to read at once: a long video does not fit into memory.
MAX_AT_ONCE = 64
_PROMPT = "A red ball rolls over a meadow.\nThe ball comes to rest under a tree."
_ASPECTS = (
    AspectText(name="aesthetics", dimension="aesthetics", description="How pleasant the pictures look."),
    AspectText(name="comprehensiveness", dimension="scene", description="Whether every scene is there."),
)


class DrawnVideo(Side):
    """A synthetic video of noise with rising luma; it records how it is read.

    Parameters
    ----------
    frames
        Number of frames, at one per second.
    light
        Offset of the luma, which makes videos differ.
    broken
        Whether its frames cannot be read.
    """

    width, height, color, fps = 64, 32, ColorSpec(), 1.0

    def __init__(self, frames: int, light: int = 0, broken: bool = False) -> None:
        self._frames, self._light, self._broken = frames, light, broken
        self._lock = threading.Lock()
        self.reads = self.most_at_once = 0

    def __len__(self) -> int:
        """Return the number of frames."""
        return self._frames

    def planes(self, indices: Sequence[int]) -> Planes:
        """Return read-only frames by position."""
        with self._lock:
            self.reads += 1
            self.most_at_once = max(self.most_at_once, len(indices))
        if self._broken:
            raise IntegrityError("frames of this video cannot be read")
        frames = np.empty((len(indices), self.height * 3 // 2, self.width), np.uint8)
        for at, index in enumerate(indices):
            if not 0 <= index < self._frames:
                raise IndexError(f"frame {index} of {self._frames}")
            rng = np.random.Generator(np.random.Philox(key=index // 8))
            frames[at] = rng.integers(40, 160, frames.shape[1:]) + self._light + index % 8
        frames.setflags(write=False)
        return frames


def check_evaluator(
    evaluator: Evaluator, *, repeatable: bool = True, frames: int = 96, others: Sequence[Evaluator] = ()
) -> None:
    """Check an evaluator's conformance by letting it judge small synthetic videos.

    Parameters
    ----------
    evaluator
        A judge or a scorer, created as a user would.
    repeatable
        Whether it gives the same answer each time, unlike a model at a temperature above 0.
    frames
        Length of the longer video; fewer frames are faster.
    others
        The same evaluator, each with another setting that answers may depend on. They must have different
        keys, or the answers of one would be used for another.

    Raises
    ------
    ConformanceError
        Listing every violation.
    """
    breaches = list(_own_breaches(evaluator))
    if not breaches:
        if isinstance(evaluator, PointwiseScorer):
            breaches = list(_scorer_breaches(evaluator, repeatable, frames))
        elif isinstance(evaluator, PairwiseJudge):
            breaches = list(_judge_breaches(evaluator, repeatable, frames))
    if not breaches and repeatable:
        breaches = list(_key_breaches(evaluator, others, frames))
    if breaches:
        raise ConformanceError(f"evaluator {getattr(evaluator, 'name', type(evaluator).__name__)}", breaches)


def hardware_problems(work: Any) -> Iterator[str]:
    """Yield what is wrong with the hardware that an operation or an evaluator needs."""
    if work.hardware not in HARDWARE:
        yield f"hardware {work.hardware!r} is neither cpu nor gpu"
    if getattr(work, "pool", "") in ("cpu", "h100"):
        yield f"pool = {work.pool!r} has no effect: declare what it needs, hardware = 'cpu' or 'gpu'"


def _own_breaches(evaluator: Evaluator) -> Iterator[str]:
    if not isinstance(evaluator, PairwiseJudge | PointwiseScorer):
        yield f"{type(evaluator).__name__} is neither a PairwiseJudge nor a PointwiseScorer"
        return
    if not is_evaluator_name(str(getattr(evaluator, "name", ""))):
        yield f"name must be {EVALUATOR_NAME_RULE}"
    if not isinstance(evaluator.version, int) or evaluator.version < 1:
        yield f"version is {evaluator.version!r}, it must be at least 1"
    yield from hardware_problems(evaluator)
    if not isinstance(evaluator.concurrency, int) or evaluator.concurrency < 1:
        yield f"concurrency is {evaluator.concurrency!r}, it must be at least 1"
    try:
        if canonical_json(evaluator.settings()) != canonical_json(evaluator.settings()):
            yield "settings() returns a different value the second time: do not use a clock or random numbers"
        if not isinstance(evaluator.settings(), dict):
            yield "settings() does not return a dict"
    except (TypeError, ValueError) as problem:
        yield f"settings() is not JSON: {problem}"
    try:
        evaluator.check()
    except PrerequisiteError as problem:
        yield f"check() reports a missing prerequisite, install it first: {problem}"
    except Exception as problem:  # noqa: BLE001 - any exception is a breach
        yield f"check() raises {type(problem).__name__}, but may only raise PrerequisiteError: {problem}"


def _scorer_breaches(scorer: PointwiseScorer, repeatable: bool, frames: int) -> Iterator[str]:
    videos = (DrawnVideo(frames), DrawnVideo(frames * 2 // 3, light=30))
    scores: list[Score] = []
    for video in videos:
        score = _answer_or_problem(lambda video=video: scorer.score(_PROMPT, video, _ASPECTS[0]))  # type: ignore[misc]
        if isinstance(score, str):
            yield score
            return
        yield from _score_breaches(score)
        if not isinstance(score, Score):
            return
        scores.append(score)
    yield from _reading_breaches(videos)
    if repeatable:
        # in reverse order: earlier scores must not matter
        again = [scorer.score(_PROMPT, video, _ASPECTS[0]).value for video in reversed(videos)]
        if again[::-1] != [score.value for score in scores]:
            yield "a video's score differs the second time, or after another video"
        if not scorer.by_aspect:
            other = scorer.score(_PROMPT, videos[0], _ASPECTS[1]).value
            if other != scores[0].value:
                yield "by_aspect is False, but the score differs by aspect"
        yield from _thread_breaches(
            scorer,
            lambda n: scorer.score(_PROMPT, videos[n % 2], _ASPECTS[0]).value,
            [score.value for score in scores],
        )
    yield from _broken_breaches(lambda video: scorer.score(_PROMPT, video, _ASPECTS[0]), frames)


def _score_breaches(score: object) -> Iterator[str]:
    if not isinstance(score, Score):
        yield f"score() returns {score!r:.80}, which is not a Score"
        return
    if isinstance(score.value, bool) or not isinstance(score.value, int | float) or math.isnan(score.value):
        yield f"its score {score.value!r} is not a number: raise NotJudged if there is none"
    yield from _text_breaches(score, "model")
    yield from _detail_breaches(score.details, score.usage)


def _judge_breaches(judge: PairwiseJudge, repeatable: bool, frames: int) -> Iterator[str]:
    videos = (DrawnVideo(frames), DrawnVideo(frames * 2 // 3, light=30))
    if not isinstance(judge.both_orders, bool):
        yield "both_orders must be True or False"
    answers: list[JudgeAnswer] = []
    for first, second in (videos, videos[::-1]):
        answer = _answer_or_problem(lambda a=first, b=second: judge.compare(_PROMPT, a, b, _ASPECTS[0]))  # type: ignore[misc]
        if isinstance(answer, str):
            yield answer
            return
        if not isinstance(answer, JudgeAnswer) or answer.choice not in ("first", "second", "tie"):
            yield f"compare() returns {answer!r:.80}, which is not a JudgeAnswer with first, second or tie"
            return
        yield from _text_breaches(answer, "raw", "reasoning", "finish_reason", "model", "prompt_digest")
        yield from _detail_breaches(answer.details, answer.usage)
        answers.append(answer)
    yield from _reading_breaches(videos)
    if repeatable:
        choices = [answer.choice for answer in answers]

        def ask(n: int) -> str:
            first, second = videos if n % 2 == 0 else videos[::-1]
            return judge.compare(_PROMPT, first, second, _ASPECTS[0]).choice

        if [ask(0), ask(1)] != choices:
            yield (
                "its answer differs the second time: call check_evaluator(…, repeatable=False) if "
                "that is intended"
            )
        yield from _thread_breaches(judge, ask, choices)
    yield from _estimate_breaches(judge, videos)
    good = DrawnVideo(frames)
    yield from _broken_breaches(lambda video: judge.compare(_PROMPT, good, video, _ASPECTS[0]), frames)


def _key_breaches(evaluator: Evaluator, others: Sequence[Evaluator], frames: int) -> Iterator[str]:
    key, answers = settings_digest(evaluator), _answers(evaluator, frames)
    for number, other in enumerate(others, 1):
        if settings_digest(other) == key and _answers(other, frames) != answers:
            yield (
                f"number {number} of `others` answers differently, but has the same settings(): add "
                "everything that its answers depend on"
            )


def _answers(evaluator: Evaluator, frames: int) -> list[object]:
    """Return an evaluator's answers about videos of different length and brightness."""
    videos = [DrawnVideo(count, light) for count, light in ((frames, 0), (frames * 2 // 3, 30), (frames, 60))]
    if isinstance(evaluator, PointwiseScorer):
        return [evaluator.score(_PROMPT, video, text).value for video in videos for text in _ASPECTS]
    assert isinstance(evaluator, PairwiseJudge)
    pairs = permutations(videos, 2)
    return [evaluator.compare(_PROMPT, *pair, text).choice for pair in pairs for text in _ASPECTS]


def _answer_or_problem(ask: Callable[[], Any]) -> Any:
    """Return the answer, or a description of the problem."""
    try:
        return ask()
    except NotJudged as problem:
        return f"it gives no answer for an ordinary video: {problem}"
    except Exception as problem:  # noqa: BLE001 - any exception is a breach
        hint = ": frames are read-only, copy them" if "read-only" in str(problem) else ""
        return f"it raises {type(problem).__name__} for an ordinary video: {problem}{hint}"


def _text_breaches(answer: object, *names: str) -> Iterator[str]:
    for name in names:
        if not isinstance(getattr(answer, name), str):
            yield f"its {name} is {getattr(answer, name)!r:.80}: it must be a string, possibly empty"


def _detail_breaches(details: Any, usage: Any) -> Iterator[str]:
    try:
        canonical_json(dict(details))
    except (TypeError, ValueError) as problem:
        yield f"details are not JSON: {problem}"
    counts = (usage.frames, usage.tokens_in, usage.tokens_out) if isinstance(usage, Usage) else (-1,)
    if not all(isinstance(count, int) and count >= 0 for count in counts):
        yield f"usage is {usage!r:.80}, which is not a Usage of counts"


def _reading_breaches(videos: Sequence[DrawnVideo]) -> Iterator[str]:
    most = max(video.most_at_once for video in videos)
    if most > MAX_AT_ONCE:
        yield f"it reads {most} frames at once: read at most {MAX_AT_ONCE}, because a video may be hours long"


def _thread_breaches(
    evaluator: Evaluator, ask: Callable[[int], object], expected: Sequence[object]
) -> Iterator[str]:
    if evaluator.concurrency > 1:
        with ThreadPoolExecutor(min(evaluator.concurrency, 4)) as pool:
            answers = list(pool.map(ask, range(8)))
        if answers != list(expected) * 4:
            yield "concurrency is above 1, but its answers differ when several threads call it"


def _estimate_breaches(evaluator: Evaluator, videos: Sequence[Side]) -> Iterator[str]:
    estimate = evaluator.estimate(_PROMPT, videos[0], videos[1], _ASPECTS[0])
    some = estimate if isinstance(estimate, Sequence) else [estimate]
    if estimate is not None and not all(isinstance(one, Estimate) for one in some):
        yield f"estimate() returns {estimate!r:.80}, which is not an Estimate"


def _broken_breaches(ask: Callable[[DrawnVideo], object], frames: int) -> Iterator[str]:
    video = DrawnVideo(frames, light=5, broken=True)
    try:
        answer = ask(video)
    except (NotJudged, StoreError):
        return
    except Exception as problem:  # noqa: BLE001 - any exception is a breach
        yield (
            f"it raises {type(problem).__name__} for an unreadable video: let the error through, or "
            "raise NotJudged"
        )
        return
    if video.reads:
        yield f"it answers {answer!r:.80} although the video could not be read: raise NotJudged"
