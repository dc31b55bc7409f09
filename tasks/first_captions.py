"""First captions of films that have none: scenes become clips, and a vision-language model describes each.

The user may edit the file next to a film; its blank captions are those still to be requested. It
is written before the first request and after each answer, so that a run that was stopped resumes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from pydantic import Field

from storage_schemas.commit import write_atomic
from storage_schemas.errors import Reason, SetAside
from storage_schemas.model import Frozen
from storage_schemas.rng import derived_seed
from tasks.llm.answers import UnusableAnswer
from tasks.llm.exchange import ChatAnswer, ChatRequest, Sampling
from tasks.llm.json_answers import unwrapped
from tasks.llm.prompt_files import prompt_text
from tasks.llm.questions import Question, Unanswered, ask_questions, whole_text
from tasks.llm.servers import ChatServer
from tasks.llm.vision_models import VlmModel
from tasks.models.texts import has_words
from tasks.pairs.file_pairs import KEPT_FRAMES
from tasks.scoring.features import FeatureCache
from tasks.scoring.judges.frame_images import image_parts
from tasks.scoring.judges.scenes import LumaChange, find_scenes
from tasks.scoring.suites.file_video import FileVideo, FrameRate
from tasks.sources.base import read_bytes, refuse_to_leave
from tasks.sources.caption_forms import CAPTION_SUFFIXES, parse_captions
from tasks.sources.clips import CaptionLine, clean_caption, load_json
from tasks.sources.folder import FolderAdapter

#: The prompt for captions.
FIRST_CAPTION = "first-captions/first_caption"
#: A film becomes at least this number of clips, so that five of them suit an aspect.
MIN_CLIPS = 10
#: Number of clips whose pictures are prepared at a time.
BATCH = 128
#: Maximum characters of a caption; a longer one is rejected, since the model did not stop.
_MAX_CHARACTERS = 2000
#: Times are rounded down to this, so that a clip's first frame is in it.
_PER_SECOND = 1000
#: Frames read between two progress updates.
_FRAMES = 1000
#: Frames per second from which pictures are chosen.
_PICTURES_FPS = "2"
_TRIES = 3
_ADVICE = "use another model or server"


class CaptionParameters(Frozen):
    """How films are cut and clips described.

    Parameters
    ----------
    prompt
        The instruction.
    frames
        Number of pictures of a clip, evenly spaced, that are sent to the model.
    shortest_s, longest_s
        Limits of a clip's length in seconds: a shorter scene joins the one before it, a longer one is divided
        evenly. A tenth of a short film is the limit, too.
    answer_tokens
        Maximum tokens of an answer, including its reasoning.
    """

    prompt: str = Field(default_factory=lambda: prompt_text(FIRST_CAPTION), min_length=1)
    frames: int = Field(default=4, ge=1, le=32)
    shortest_s: float = Field(default=2.0, gt=0)
    longest_s: float = Field(default=10.0, gt=0)
    answer_tokens: int = Field(default=4096, ge=64)


@dataclass(frozen=True)
class Film:
    """A film without captions, or with some blank ones.

    Parameters
    ----------
    location
        Path of the video within the data set.
    video, captions
        The video, and its caption file, which need not exist.
    clips
        Its clips; empty until it is cut.
    """

    location: str
    video: Path
    captions: Path
    clips: tuple[CaptionLine, ...] = ()

    @cached_property
    def pictures(self) -> FileVideo:
        """The film as the model sees it."""
        return FileVideo(self.video, FrameRate(fps=_PICTURES_FPS))

    @property
    def blank(self) -> tuple[CaptionLine, ...]:
        """The clips without a caption."""
        return tuple(clip for clip in self.clips if not clean_caption(clip.caption))


def find_films(root: Path) -> Iterator[Film | tuple[str, SetAside]]:
    """Yield the films of a folder that lack captions, or location and reason of one that cannot be used.

    Raises
    ------
    UserInputError
        If the folder does not exist.
    """
    adapter = FolderAdapter(root)
    for location in adapter.locations:
        try:
            video = adapter.checked_video(location)
            beside = adapter.captions_beside(location)
            target = video.with_suffix(CAPTION_SUFFIXES[0])
            if beside is None:
                yield Film(location, video, target)
            elif beside.lower().endswith(CAPTION_SUFFIXES[0]):
                path = adapter.root / beside
                if path.is_symlink():
                    refuse_to_leave(path, adapter.root, beside)
                    path = path.resolve()
                film = Film(location, video, path, _lines(path, beside))
                if film.blank or not film.clips:
                    yield film
            elif not any(clean_caption(line.caption) for line in _lines(adapter.root / beside, beside)):
                raise SetAside(
                    Reason.CAPTIONS_EMPTY,
                    f"{beside} has no captions: write them, or remove it, and {target.name} is written",
                )
        except SetAside as problem:
            yield location, problem


def count_blank(film: Film) -> int:
    """Return the number of blank captions that a film's file has now.

    Raises
    ------
    SetAside
        If it cannot be read, or is damaged.
    """
    return len(replace(film, clips=_lines(film.captions, film.captions.name)).blank)


def _lines(path: Path, shown: str) -> tuple[CaptionLine, ...]:
    data = read_bytes(path, shown)
    return tuple(parse_captions(data, shown)) if data else ()


def cut(
    film: Film, parameters: CaptionParameters, on_share: Callable[[float], None] = lambda share: None
) -> Film:
    """Return a film with its clips: its scenes, if it has none yet.

    Parameters
    ----------
    on_share
        Called periodically with the share of the film that was read.

    Raises
    ------
    SetAside
        If the video cannot be read.
    """
    if film.clips:
        # an unreadable video is reported before any request is sent
        len(film.pictures)
        return film
    video = FileVideo(film.video, FrameRate())
    cache = FeatureCache()
    for start in range(1, len(video), _FRAMES):
        cache.compute_missing(video, range(start, min(start + _FRAMES, len(video))), LumaChange())
        on_share(start / len(video))
    scenes = find_scenes(video, cache)
    times = [_time(video, start) for start in scenes.starts[1:]]
    start_s, end_s = _time(video, 0), _time(video, scenes.frames)
    longest_s = min(parameters.longest_s, (end_s - start_s) / MIN_CLIPS)
    bounds = clip_bounds([start_s, *times, end_s], parameters.shortest_s, longest_s)
    return replace(film, clips=tuple(CaptionLine(*each, "", film.location) for each in bounds))


def clip_bounds(times: Sequence[float], shortest_s: float, longest_s: float) -> list[tuple[float, float]]:
    """Return start and end of clips, in seconds.

    Parameters
    ----------
    times
        Start of each scene, and the end of the last one.
    shortest_s, longest_s
        Limits of a clip's length. The shortest length counts more, and a film may be shorter.

    Examples
    --------
    >>> clip_bounds([0.0, 1.0, 4.0, 10.0, 10.5], 2.0, 4.0)
    [(0.0, 4.0), (4.0, 7.25), (7.25, 10.5)]
    """
    *starts, end = times
    kept = starts[:1]
    for start in starts[1:]:
        if start - kept[-1] >= shortest_s:
            kept.append(start)
    while len(kept) > 1 and end - kept[-1] < shortest_s:
        kept.pop()
    bounds: list[tuple[float, float]] = []
    for first, last in pairwise([*kept, end]):
        parts = max(1, min(math.ceil((last - first) / longest_s), int((last - first) / shortest_s)))
        inner = [_floor(first + (last - first) * part / parts) for part in range(1, parts)]
        bounds += pairwise([first, *inner, last])
    return bounds


def _floor(seconds: float) -> float:
    return math.floor(seconds * _PER_SECOND + 1e-6) / _PER_SECOND


def _time(video: FileVideo, index: int) -> float:
    return _floor((_first(video) + index) / video.fps)


def _first(video: FileVideo) -> int:
    """Return the number of a file's first frame: pictures may begin late."""
    return video.sampler.first_index or 0


def write_captions(film: Film, captions: Mapping[CaptionLine, str], model: str = "") -> None:
    """Write captions of blank clips into a film's file; what a user has edited meanwhile is left unchanged.

    Parameters
    ----------
    captions
        New captions by clip; without any, only the clips are written if no file has some.
    model
        The model, which is recorded with its captions.

    Raises
    ------
    SetAside
        If the file cannot be written, or is damaged.
    """
    shown = film.captions.name
    data = read_bytes(film.captions, shown) if film.captions.exists() else None
    lines = parse_captions(data, shown) if data else []
    if data is not None and captions and not lines:
        # an editor may empty a file before writing it
        raise SetAside(
            Reason.CAPTIONS_MALFORMED,
            f"{shown} is empty, and had clips: another program may be saving it; run this again",
        )
    if data and lines:
        if not captions:
            return
        rows = _rows(data.decode("utf-8-sig"), shown)
    else:
        lines = list(film.clips)
        rows = [{"start_s": line.start_s, "end_s": line.end_s, "caption": ""} for line in lines]
    by_times = {(line.start_s, line.end_s): text for line, text in captions.items()}
    changed = not captions
    for row, line in zip(rows, lines, strict=True):
        if not clean_caption(line.caption) and (text := by_times.get((line.start_s, line.end_s))):
            row |= {"caption": text, "model": model}
            changed = True
    if not changed:
        return
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_atomic(film.captions, text.encode())


def _rows(text: str, shown: str) -> list[dict[str, Any]]:
    if text.lstrip().startswith("["):
        return list(load_json(text, shown))
    return [load_json(line, shown) for line in text.split("\n") if line.strip()]


class ClipQuestion(Question[str]):
    """The requests for one clip until an answer is a valid caption.

    Parameters
    ----------
    film, clip
        The clip, and its film.
    model
        The model, and how pictures are encoded for it.
    sampling
        Sampling parameters; each attempt has another seed, unless the temperature is 0.
    """

    def __init__(
        self,
        film: Film,
        clip: CaptionLine,
        parameters: CaptionParameters,
        model: VlmModel,
        sampling: Sampling,
    ) -> None:
        super().__init__()
        self.film, self.clip = film, clip
        self._parameters, self._model, self._sampling = parameters, model, sampling

    def request(self) -> ChatRequest:
        """Return the next request."""
        times = f"{self.clip.start_s} {self.clip.end_s}"
        seed = derived_seed("first-caption", self.film.pictures.family, times, len(self.unfit)) % 2**31
        return ChatRequest(
            messages=(
                {"role": "system", "content": self._parameters.prompt},
                {"role": "user", "content": self._pictures()},
            ),
            sampling=self._sampling
            if self._sampling.temperature == 0
            else self._sampling.model_copy(update={"seed": seed}),
        )

    def _pictures(self) -> list[dict[str, Any]]:
        video, clip, count = self.film.pictures, self.clip, self._parameters.frames
        length_s = clip.end_s - clip.start_s
        times = [clip.start_s + length_s * (number + 0.5) / count for number in range(count)]
        wanted = (math.floor(time * video.fps) - _first(video) for time in times)
        indices = sorted({min(max(index, 0), len(video) - 1) for index in wanted})
        if indices[-1] - indices[0] < KEPT_FRAMES:
            # in one pass, so that the clip is decoded once, and the next one continues from there
            video.planes(range(indices[0], indices[-1] + 1))
        return image_parts(video, indices, self._model)

    def accepted(self, answer: ChatAnswer) -> str:
        """Return the caption in an answer, as one line."""
        _, text = whole_text(answer, self._parameters.answer_tokens)
        caption = clean_caption(unwrapped(text))
        if not has_words(caption):
            raise UnusableAnswer("it has no words")
        if len(caption) > _MAX_CHARACTERS:
            raise UnusableAnswer(f"it has over {_MAX_CHARACTERS:,} characters, be brief")
        return caption


class Client(Protocol):
    """Answers requests of several threads."""

    def ask(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer to a request."""


@dataclass(frozen=True)
class Captioner:
    """Describes clips, and writes each caption as it arrives.

    Parameters
    ----------
    model
        Id of the model.
    server
        The server that has it, or a client of a model in this process.
    threads
        Number of requests prepared at a time for a model in this process.
    """

    model: str
    server: ChatServer | Client
    parameters: CaptionParameters = field(default_factory=CaptionParameters)
    threads: int = 8

    def describe(self, films: Sequence[Film], on_clip: Callable[[Film, str | Unanswered], None]) -> None:
        """Describe the clips without a caption.

        Parameters
        ----------
        on_clip
            Called once per clip, with the caption that was written, or why there is none.

        Raises
        ------
        PrerequisiteError
            If the model cannot be used; captions received before are written.
        SetAside
            If a video cannot be read.
        """

        def on_result(question: ClipQuestion, result: str | Unanswered) -> None:
            if isinstance(result, str):
                try:
                    write_captions(question.film, {question.clip: result}, self.model)
                except SetAside as problem:
                    # the next run requests it again
                    result = Unanswered(message=problem.message)
            on_clip(question.film, result)

        questions = [
            ClipQuestion(film, clip, self.parameters, self._vlm, self._sampling)
            for film in films
            for clip in film.blank
        ]
        for start in range(0, len(questions), BATCH):
            some = questions[start : start + BATCH]
            if isinstance(self.server, ChatServer):
                ask_questions(self.server, some, _TRIES, "clips", "caption", on_result, _ADVICE)
            else:
                self._ask_here(self.server, some, on_result)

    def _ask_here(
        self,
        client: Client,
        questions: Sequence[ClipQuestion],
        on_result: Callable[[ClipQuestion, str | Unanswered], None],
    ) -> None:
        def answered(question: ClipQuestion) -> str | Unanswered:
            try:
                return question.accepted(client.ask(question.request()))
            except UnusableAnswer as problem:
                # another request would give the same answer
                return Unanswered(message=f"{self.model} gave no caption: {problem}")

        with ThreadPoolExecutor(self.threads) as threads:
            waiting = {threads.submit(answered, question): question for question in questions}
            try:
                for done in as_completed(waiting):
                    on_result(waiting[done], done.result())
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise

    @property
    def _sampling(self) -> Sampling:
        most = self.parameters.answer_tokens
        return Sampling(most_tokens=most, temperature=None if isinstance(self.server, ChatServer) else 0.0)

    @property
    def _vlm(self) -> VlmModel:
        tokens = self.parameters.answer_tokens
        return VlmModel(
            model=self.model,
            server="none",
            context_tokens=tokens + 1024,
            answer_tokens=tokens,
            most_images=32,
        )
