"""The checker of submissions: what a stranger's file has to be before its numbers are shown."""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from storage_schemas.errors import UserInputError
from storage_schemas.judgement import Judgement
from storage_schemas.release import Release
from tasks.publish.report.gathered import Gathered, gather
from tasks.publish.submission import ASKED, MOST_BYTES, Answer, Card, Submission, judgements_of, stated

#: So many problems of one kind are told; of the others how many there are.
MOST_TOLD = 5


@dataclass(frozen=True)
class Checked:
    """A submission that is in order, and its answers joined with the release's pairs."""

    submission: Submission
    rows: tuple[Judgement, ...]
    gathered: Gathered


def check_submission(path: Path, release: Release) -> Checked:
    """Read a submission and check it against the release.

    Raises
    ------
    UserInputError
        Naming all that is wrong.
    """
    submission = read_submission(path)
    problems = list(_problems(submission, release))
    if problems:
        _refuse(path, problems)
    rows = judgements_of(submission, release)
    gathered = gather(release, judgements=rows)
    problems = list(_wrong_accuracies(submission, gathered))
    if problems:
        _refuse(path, problems)
    return Checked(submission, tuple(rows), gathered)


def read_submission(path: Path) -> Submission:
    """Read a file and check its form.

    Raises
    ------
    UserInputError
        If it cannot be read, is too large, or is no submission.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as problem:
        raise UserInputError(f"{path} cannot be read: {problem.strerror}") from problem
    if len(content) > MOST_BYTES:
        raise UserInputError(f"{path} has more than {MOST_BYTES:,} bytes: no submission is so large")
    try:
        # what JSON does not have, and what readers take in different ways, is refused before it is looked at
        json.loads(content.decode("utf-8"), parse_constant=_no_number, object_pairs_hook=_once)
        return Submission.model_validate_json(content, strict=True)
    except ValidationError as problem:
        told = [
            f"{'.'.join(map(str, error['loc'])) or 'the file'}: {error['msg']}"
            for error in problem.errors(include_input=False, include_url=False)[:MOST_TOLD]
        ]
        more = problem.error_count() - len(told)
        _refuse(path, [*told, f"… and {more} more"] if more else told)
    except (ValueError, RecursionError) as problem:
        raise UserInputError(
            f"{path} is no JSON of a submission: {str(problem)[:200]}. `slvmeval submission make` writes one"
        ) from problem


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice[:50]!r} stands twice in one object")
    return found


def _refuse(path: Path, problems: Iterable[str]) -> NoReturn:
    raise UserInputError(f"{path} is not in order:\n" + "\n".join(f"  {line}" for line in problems))


def _problems(submission: Submission, release: Release) -> Iterator[str]:
    about = submission.release
    if about.checksum != release.manifest.content_checksum:
        yield (
            f"it is about release {about.name}, version {about.version} ({about.checksum[:12]}), not about "
            f"{release.name}, version {release.version} ({release.manifest.content_checksum[:12]})"
        )
        return
    known = {record.pair_id for record in release.pairs()}
    foreign = sorted({answer.pair_id for answer in submission.answers} - known)
    yield from _told(foreign, "pair {} is not in the release")
    yield from _told(_not_asked_so(submission, known - set(foreign)), "{}")
    wrong = (
        f"pair {answer.pair_id[:16]}, {answer.order}: {why}"
        for answer in submission.answers
        if (why := _contradiction(answer))
    )
    yield from _told(wrong, "{}")


def _told(found: Iterable[str], words: str) -> Iterator[str]:
    held = list(found)
    yield from (words.format(one) for one in held[:MOST_TOLD])
    if len(held) > MOST_TOLD:
        yield f"… and {len(held) - MOST_TOLD} more like it"


def _not_asked_so(submission: Submission, known: set[str]) -> Iterator[str]:
    """Yield each pair that was not asked exactly once in each order and repeat that the submission names."""
    asked: dict[tuple[str, int], list[str]] = defaultdict(list)
    for answer in submission.answers:
        asked[answer.pair_id, answer.repeat].append(answer.order)
    allowed = [sorted(orders) for orders in ASKED[submission.orders]]
    wanted = " or ".join(" and ".join(orders) for orders in allowed)
    for pair_id in sorted(known):
        for repeat in range(submission.repeats):
            orders = sorted(asked.get((pair_id, repeat), []))
            if orders not in allowed:
                there = " and ".join(orders) or "nothing"
                yield f"pair {pair_id[:16]}, repeat {repeat}: {there} in place of {wanted}, each once"
    if any(repeat >= submission.repeats for _, repeat in asked):
        yield f"there are more repeats than the {submission.repeats} that it names"


def _contradiction(answer: Answer) -> str:
    """Return what of an answer contradicts itself, empty if nothing does."""
    if (answer.preferred is None) == (answer.failure is None):
        return "either an answer or a failure is needed, and not both"
    if answer.failure is not None and (answer.choice or answer.score_high is not None):
        return "a failure has neither a choice nor scores"
    if answer.order != "apart" and answer.preferred is not None:
        first = "high" if answer.order == "high_first" else "low"
        second = "low" if first == "high" else "high"
        told = {"first": first, "second": second, "tie": "tie"}.get(answer.choice or "")
        if told != answer.preferred:
            return f"the choice {answer.choice} does not go with preferring {answer.preferred}"
    if answer.order == "apart" and answer.choice is not None:
        return "videos that are seen one by one have no first and second"
    return _wrong_scores(answer)


def _wrong_scores(answer: Answer) -> str:
    high, low = answer.score_high, answer.score_low
    if (high is None) != (low is None):
        return "one of two scores is missing"
    if high is not None and low is not None:
        better = "tie" if high == low else "high" if high > low else "low"
        if better != answer.preferred:
            return f"scores of {high:g} and {low:g} do not go with preferring {answer.preferred}"
    return ""


def _wrong_accuracies(submission: Submission, gathered: Gathered) -> Iterator[str]:
    computed = stated(gathered)
    for aspect in sorted({*computed, *submission.accuracies}):
        ours, theirs = computed.get(aspect), submission.accuracies.get(aspect)
        if ours is None or theirs is None:
            yield f"{aspect[:50]}: it {'has answers' if theirs is None else 'is no aspect that was judged'}"
            continue
        same = (
            ours.accuracy == theirs.accuracy
            if ours.accuracy is None or theirs.accuracy is None
            else math.isclose(ours.accuracy, theirs.accuracy, abs_tol=1e-9)
        )
        if not same or (ours.n, ours.failed) != (theirs.n, theirs.failed):
            yield (
                f"{aspect}: it states {_words(theirs.accuracy, theirs.n, theirs.failed)}, and its answers "
                f"give {_words(ours.accuracy, ours.n, ours.failed)}"
            )


def _words(accuracy: float | None, n: int, failed: int) -> str:
    share = "no accuracy" if accuracy is None else f"{100 * accuracy:.2f} %"
    return f"{share}, n {n}, {failed} failed"


def read_card(path: Path) -> Card:
    """Read a judge's card, a TOML file.

    Raises
    ------
    UserInputError
        If it cannot be read or does not fit.
    """
    try:
        return Card.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as problem:
        raise UserInputError(f"card {path} cannot be read: {problem.strerror}") from problem
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise UserInputError(f"card {path}: {key}: {first['msg']}") from problem
    except ValueError as problem:
        raise UserInputError(f"card {path} is no TOML: {problem}") from problem
