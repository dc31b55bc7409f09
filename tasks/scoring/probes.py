"""Probes of a judge: the same judge, shown or told something else, as an evaluator of its own.

What a judge's accuracy rests on shows where it falls. A probe changes what a judge is given, never the judge,
so that any judge can be probed. Input that a probe omits is not part of the key: it is asked once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.frames import Planes
from storage_schemas.ids import digest_text, digest_value
from storage_schemas.judgements import Choice, Order
from storage_schemas.rng import derived_seed, keyed_rank, keyed_rng
from tasks.pairs.view import Pair, Side, SideSlice
from tasks.scoring.base import AspectText, Evaluator, PairwiseJudge, PointwiseScorer
from tasks.scoring.instructions import text_digest
from tasks.scoring.request import PairFacts, Request, make_requests, settings_digest

BLIND, ONE_FRAME, SHUFFLED, NO_PROMPT = "blind", "one-frame", "shuffled", "no-prompt"
OTHER_PROMPT, EQUAL, SWAPPED_NAMES = "other-prompt", "equal", "swapped-names"

#: The probes, with what a judge is given.
PROBES = {
    BLIND: "a grey picture in place of each video",
    ONE_FRAME: "the middle frame of each video",
    SHUFFLED: "the frames of each video in random order",
    NO_PROMPT: "no prompt",
    OTHER_PROMPT: "the prompt of another video",
    EQUAL: "the untouched video twice",
    SWAPPED_NAMES: "the names of the two videos exchanged",
}
#: Probes in which the two videos are the same, so that one order is enough and no answer is right.
SAME_VIDEOS = (BLIND, EQUAL)
_CHANGE_PROMPT = (NO_PROMPT, OTHER_PROMPT)
_GREY = 128


def probes_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the probes that are named, several by commas, each once.

    Raises
    ------
    UserInputError
        If there is no such probe.
    """
    names = [name.strip() for text in texts for name in text.split(",") if name.strip()]
    for name in names:
        if name not in PROBES:
            raise UserInputError(f"--probe {name}: {suggestion(name, PROBES, 'the probes are')}")
    return tuple(dict.fromkeys(names))


def probe_problem(evaluator: Evaluator, probe: str) -> str:
    """Return why an evaluator cannot be probed so; empty if it can."""
    scorer = isinstance(evaluator, PointwiseScorer)
    if scorer and probe in SAME_VIDEOS:
        return f"the probe {probe} shows the same video twice, to which a score says nothing"
    if probe in _CHANGE_PROMPT and evaluator.sees and "captions" not in evaluator.sees:
        return f"the probe {probe} changes the prompt, which this evaluator does not use"
    if probe == SWAPPED_NAMES and (scorer or exchanged(evaluator) is None):
        return f"the probe {probe} exchanges the names of two videos, which this evaluator does not name"
    return ""


def exchanged(evaluator: Evaluator) -> Evaluator | None:
    """Return the judge that exchanges the names of the two videos; None if it does not name them."""
    return evaluator.with_exchanged_names() if isinstance(evaluator, PairwiseJudge) else None


def probe_settings(settings: str, probe: str) -> str:
    """Return the checksum of a probed evaluator's settings; without a probe, the evaluator's own."""
    return digest_value({"settings": settings, "probe": probe})[:16] if probe else settings


def read_choice(choice: Choice, probe: str) -> Choice:
    """Return an answer in terms of the order in which the videos were shown."""
    if probe != SWAPPED_NAMES or choice == "tie":
        return choice
    return "second" if choice == "first" else "first"


def probe_requests(
    evaluator: Evaluator,
    pair: PairFacts,
    text: AspectText,
    repeats: int,
    probe: str,
    others: Sequence[PairFacts],
) -> list[Request]:
    """Return the requests of a probed evaluator on a pair; without a probe, its own.

    Parameters
    ----------
    others
        Pairs of which one, of another source with another prompt, lends its prompt; see :func:`lenders`.

    Raises
    ------
    UserInputError
        If no other prompt is there.
    """
    if not probe:
        return make_requests(evaluator, pair, text, repeats)
    lender = _lender(pair, others) if probe == OTHER_PROMPT else None
    high, low = pair.high_checksum, pair.low_checksum
    videos = {BLIND: ("", ""), EQUAL: (high, high)}.get(probe, (high, low))
    prompt = lender.prompt_digest if lender is not None else pair.prompt_digest
    shared = {
        "evaluator": evaluator.name,
        "settings": probe_settings(settings_digest(evaluator), probe),
        "high": videos[0],
        "low": videos[1],
        "fps": pair.fps,
        "prompt": digest_text("") if probe == NO_PROMPT else prompt,
        "aspect": text_digest(text),
    }
    made = []
    for request in make_requests(evaluator, pair, text, repeats):
        order: Order = request.order
        values = {**shared, "order": order, "repeat": request.repeat}
        if probe in SAME_VIDEOS:
            # one answer, and one of the orders: which it is says nothing
            drawn = derived_seed("order", pair.high_checksum, pair.low_checksum, pair.aspect) & 1
            if order != ("high_first", "low_first")[drawn] and evaluator_asks_both(evaluator, text):
                continue
            del values["order"]
        lent = lender.pair_id if lender is not None else ""
        made.append(replace(request, key=digest_value(values), prompt_of=lent))
    return made


def evaluator_asks_both(evaluator: Evaluator, text: AspectText) -> bool:
    """Return whether an evaluator is asked in both orders."""
    return isinstance(evaluator, PairwiseJudge) and evaluator.asks_both_orders(text)


def lenders(pairs: Iterable[PairFacts]) -> list[PairFacts]:
    """Return one pair of each source and prompt, the first by id: any of them has the prompt to lend."""
    first: dict[tuple[str, str], PairFacts] = {}
    for pair in sorted(pairs, key=lambda one: one.pair_id):
        first.setdefault((pair.source_id, pair.prompt_digest), pair)
    return list(first.values())


def _lender(pair: PairFacts, others: Sequence[PairFacts]) -> PairFacts:
    fitting = [
        one for one in others if one.source_id != pair.source_id and one.prompt_digest != pair.prompt_digest
    ]
    if not fitting:
        raise UserInputError(
            f"the probe {OTHER_PROMPT} needs pairs of two sources with different prompts: build another "
            "source, or leave the probe out"
        )
    # of a source, any pair has the prompt
    rank = {one.source_id: keyed_rank("other prompt", pair.source_id, one.source_id) for one in fitting}
    return min(fitting, key=lambda one: (rank[one.source_id], one.pair_id))


def probed(pair: Pair, probe: str, lent_prompt: str = "") -> Pair:
    """Return a pair as a probed judge is given it."""
    match probe:
        case "blind":
            return replace(pair, high=GreyVideo(pair.high), low=GreyVideo(pair.high))
        case "one-frame":
            return replace(pair, high=_middle(pair.high), low=_middle(pair.low))
        case "shuffled":
            return replace(pair, high=ShuffledVideo(pair.high), low=ShuffledVideo(pair.low))
        case "no-prompt":
            return replace(pair, prompt="")
        case "other-prompt":
            return replace(pair, prompt=lent_prompt)
        case "equal":
            return replace(pair, low=pair.high)
    return pair


def _middle(video: Side) -> Side:
    middle = len(video) // 2
    return SideSlice(video, range(middle, middle + 1)) if len(video) else video


class GreyVideo(Side):
    """One grey frame of the size of another video."""

    def __init__(self, like: Side) -> None:
        self.width, self.height, self.color, self.fps = like.width, like.height, like.color, like.fps

    def __len__(self) -> int:
        """Return 1."""
        return 1

    def planes(self, indices: Sequence[int]) -> Planes:
        """Return grey frames."""
        return np.full((len(indices), self.height * 3 // 2, self.width), _GREY, np.uint8)


class ShuffledVideo(Side):
    """The frames of a video in a random order, which depends on their number alone."""

    def __init__(self, video: Side) -> None:
        self._video = video
        self._order = keyed_rng("shuffled", len(video)).permutation(len(video))
        self.width, self.height, self.color, self.fps = video.width, video.height, video.color, video.fps

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._video)

    @property
    def family(self) -> str:
        """Family of the video."""
        return self._video.family

    def frame_ids(self, indices: Sequence[int]) -> list[str]:
        """Return the identity of frames by index."""
        return self._video.frame_ids([int(self._order[index]) for index in indices])

    def planes(self, indices: Sequence[int]) -> Planes:
        """Return frames by index, read in the order of the video."""
        wanted = [int(self._order[index]) for index in indices]
        ranked = sorted(range(len(wanted)), key=wanted.__getitem__)
        frames = self._video.planes([wanted[rank] for rank in ranked])
        return frames[np.argsort(ranked)]
