"""FETV: people's scores of generated and real short videos of one prompt (Liu et al., NeurIPS 2023).

Form, as its repositories (llyx97/FETV, llyx97/FETV-EVAL) publish it:

- ``datas/fetv_data.json``: JSON Lines; line i (from 0) is prompt i: ``{video_id, prompt, …}``, `video_id`
  null for prompts without a real video.
- ``manual_eval_results/human<k>/manual_eval_results_<model>.json``: JSON Lines, each ``{"<i>": {video_id,
  static_quality, temporal_quality, alignment, …}}``, scores 1 to 5; the model ``ground-truth`` is the real
  video, ``damo-text2video`` the one whose videos are called ``modelscope-t2v``.
- ``datas/videos/<model>/videos/<i>.mp4`` (CogVideo's are ``.gif``; its reader also takes ``<i>_….mp4``), and
  ``datas/videos/real_videos/<video_id>.mp4``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from storage_schemas.errors import SetAside, UserInputError
from tasks.extras.meta_sets.base import NO_GOLD, LoadedSet, MetaPair, MetaSet, unique
from tasks.scoring.user_files import MALFORMED, UnusedLine, first_there, read_lines
from tasks.scoring.video_folder import VideoFolder

#: The real video's name among the models.
TRUTH = "ground-truth"
SCORES = ("static_quality", "temporal_quality", "alignment")
#: Models whose folder of videos has another name than their file of scores.
_FOLDERS = {"damo-text2video": "modelscope-t2v"}
_PROMPTS = ("datas/fetv_data.json", "fetv_data.json")
_BEGIN = "manual_eval_results_"
_ENDINGS = (".mp4", ".gif")


@dataclass(frozen=True)
class FetvPrompt:
    """A prompt; `video_id` names its real video, if there is one."""

    number: str
    prompt: str
    video_id: str | None


@dataclass(frozen=True)
class FetvFiles:
    """FETV as it was read.

    Parameters
    ----------
    prompts
        By number.
    scores
        Model → prompt's number → annotator → score by name.
    """

    prompts: Mapping[str, FetvPrompt]
    scores: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]
    left_out: tuple[UnusedLine, ...]
    videos: VideoFolder

    def video(self, model: str, number: str) -> Path:
        """Return a model's video for a prompt.

        Raises
        ------
        SetAside
            If it is missing, or its path leaves the videos' folder.
        """
        if model == TRUTH:
            id_ = self.prompts[number].video_id
            return self.videos.first([f"real_videos/{id_}{ending}" for ending in _ENDINGS])
        names = [_FOLDERS.get(model, model), model]
        folders = [f"{name}/videos" for name in dict.fromkeys(names)] + list(dict.fromkeys(names))
        candidates = [f"{folder}/{number}{ending}" for folder in folders for ending in _ENDINGS]
        for folder in folders:
            # `number` is an integer, so it cannot be a pattern
            begun = sorted((self.videos.root / folder).glob(f"{number}_*"))
            candidates += [f"{folder}/{path.name}" for path in begun if path.suffix in _ENDINGS]
        return self.videos.first(candidates)

    def means(self, first: str, second: str, number: str, score: str) -> tuple[float, float] | None:
        """Return two videos' mean scores over the annotators who scored both; None if none did."""
        one, other = (self.scores[model].get(number, {}) for model in (first, second))
        given = [
            (scores[score], other[who][score])
            for who, scores in one.items()
            if score in scores and score in other.get(who, {})
        ]
        if not given:
            return None
        return sum(a for a, _ in given) / len(given), sum(b for _, b in given) / len(given)


def read_fetv(path: Path, videos: Path | None = None) -> FetvFiles:
    """Read FETV's prompts and scores.

    Parameters
    ----------
    path
        The folder of its evaluation repository, with ``manual_eval_results`` and ``fetv_data.json``.
    videos
        The folder of its videos; ``datas/videos`` by default.

    Raises
    ------
    UserInputError
        If a file is missing or does not belong to FETV.
    """
    left_out: list[UnusedLine] = []
    prompts = _read_prompts(first_there(path, _PROMPTS, "list of prompts"))
    folder = first_there(path, ("manual_eval_results",), "scores of people")
    files = sorted(folder.glob(f"*/{_BEGIN}*.json"))
    if not files:
        raise UserInputError(f"{folder} has no human*/{_BEGIN}MODEL.json")
    scores: dict[str, dict[str, dict[str, dict[str, float]]]] = {}
    for file in files:
        model = file.stem.removeprefix(_BEGIN)
        for number, given in _read_scores(file, prompts, left_out):
            scores.setdefault(model, {}).setdefault(number, {})[file.parent.name] = given
    root = videos or first_there(path, ("datas/videos", "videos"), "folder of videos, so name it: videos=DIR")
    return FetvFiles(prompts, scores, tuple(left_out), VideoFolder(root))


def _read_prompts(file: Path) -> dict[str, FetvPrompt]:
    prompts = {}
    for index, (number, row) in enumerate(read_lines(file)):
        if not isinstance(row, dict) or not isinstance(row.get("prompt"), str):
            raise UserInputError(f"{file}, line {number}, has no prompt: this is not FETV's list")
        id_ = row.get("video_id")
        prompts[str(index)] = FetvPrompt(str(index), row["prompt"], None if id_ is None else str(id_))
    return prompts


def _read_scores(
    file: Path, prompts: Mapping[str, FetvPrompt], left_out: list[UnusedLine]
) -> Iterator[tuple[str, dict[str, float]]]:
    where = f"{file.parent.name}/{file.name}"
    for line, row in read_lines(file):
        entries: Any = row.items() if isinstance(row, dict) else [("", None)]
        for number, given in entries:
            if number not in prompts or not isinstance(given, dict):
                left_out.append(
                    UnusedLine(f"{where}, line {line}", MALFORMED, f"no scores of a prompt: {number!r}")
                )
                continue
            scores = {name: given[name] for name in SCORES if _is_score(given.get(name))}
            if scores:
                yield number, scores
            else:
                left_out.append(UnusedLine(f"{where}, line {line}", NO_GOLD, f"prompt {number} has no score"))


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= 5


class Fetv(MetaSet):
    """FETV as comparisons: any two videos of a prompt, for each of its three scores.

    The video with the higher mean score is better, over the annotators who scored both; equal means are
    a tie.
    """

    name = "fetv"
    title = "FETV"

    def load(self, path: Path, videos: Path | None) -> LoadedSet:
        """Read the set; `path` is the folder of its evaluation repository."""
        files = read_fetv(path, videos)
        pairs: list[MetaPair] = []
        left_out = list(files.left_out)
        for number, prompt in files.prompts.items():
            paths: dict[str, Path] = {}
            for model in sorted(files.scores):
                if number not in files.scores[model]:
                    continue
                try:
                    paths[model] = files.video(model, number)
                except SetAside as problem:
                    left_out.append(
                        UnusedLine(f"{model}, prompt {number}", problem.reason.value, problem.message)
                    )
            pairs += _comparisons(files, prompt, paths)
        return unique(pairs, left_out)


def _comparisons(files: FetvFiles, prompt: FetvPrompt, paths: Mapping[str, Path]) -> Iterator[MetaPair]:
    for first, second in combinations(paths, 2):
        for score in SCORES:
            means = files.means(first, second, prompt.number, score)
            if means is None:
                continue
            yield MetaPair(
                key=f"{prompt.number}|{first}|{second}|{score}",
                group=f"prompt-{prompt.number}",
                video_a=paths[first],
                video_b=paths[second],
                prompt=prompt.prompt,
                aspect=score,
                gold="tie" if means[0] == means[1] else "a" if means[0] > means[1] else "b",
                details={"models": [first, second], "scores": list(means)},
            )
