"""A submission: one judge's answers on a release, with its card, in one file; and its checks."""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import Field, StringConstraints, ValidationError, field_validator

from storage_schemas.errors import UserInputError
from storage_schemas.first_of_many import first_lines
from storage_schemas.ids import digest_value
from storage_schemas.judgements import Choice, Failure, Judgement, Order, Preferred
from storage_schemas.model import Frozen
from storage_schemas.provenance import utc_now
from storage_schemas.regular_files import open_regular, read_regular_text
from storage_schemas.release import Release
from storage_schemas.value_problems import problem_text, value_problem
from tasks.report.judged_release import JudgedRelease, load_judged_release
from tasks.scoring.probes import PROBES
from tasks.statistics.cells import Cell, cells_of

#: Maximum size of a file; the paper's release in both orders has about 1.5 million bytes.
MAX_BYTES = 32_000_000
MAX_REPEATS = 100

Orders = Literal["both", "one", "apart"]
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=10**12)]
Amount = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Score = Annotated[float, Field(allow_inf_nan=False)]


class Card(Frozen):
    """Description of the judge and its authors.

    Parameters
    ----------
    name
        Its name on the leaderboard.
    url
        A page about it; ``http`` or ``https``.
    model
        The model or models behind it.
    """

    name: Line
    authors: Annotated[tuple[Line, ...], Field(min_length=1, max_length=50)]
    url: Annotated[str, Field(max_length=300)] = ""
    model: Annotated[str, Field(max_length=200)] = ""
    description: Annotated[str, Field(max_length=1000)] = ""

    @field_validator("url")
    @classmethod
    def _leads_to_a_page(cls, value: str) -> str:
        # other schemes, such as javascript:, would run in a reader's browser
        if value and not value.startswith(("https://", "http://")):
            raise ValueError("begins with https:// or http://")
        return value

    @field_validator("name", "authors", "url", "model", "description")
    @classmethod
    def _is_printable(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for text in (value,) if isinstance(value, str) else value:
            if not text.isprintable():
                raise ValueError("has a line break or an invisible character")
        return value


class AboutRelease(Frozen):
    """The judged release; `checksum` is that of its pairs."""

    name: Line
    version: Annotated[int, Field(ge=1)]
    checksum: Digest


class UsedPrices(Frozen):
    """The price list used for the cost in dollars."""

    as_of: Annotated[str, Field(max_length=40)] = ""
    source: Annotated[str, Field(max_length=300)] = ""


class Stated(Frozen):
    """Stated accuracy on one aspect; the checker recomputes it."""

    accuracy: Annotated[float, Field(ge=0, le=1)] | None
    n: Count
    failed: Count


class SubmittedAnswer(Frozen):
    """One request, with either `preferred` or `failure`."""

    pair_id: Annotated[str, Field(min_length=1, max_length=100)]
    order: Order
    repeat: Annotated[int, Field(ge=0, lt=MAX_REPEATS)] = 0
    choice: Choice | None = None
    preferred: Preferred | None = None
    score_high: Score | None = None
    score_low: Score | None = None
    failure: Failure | None = None
    tokens_in: Count = 0
    tokens_out: Count = 0
    cost_usd: Amount | None = None
    seconds: Amount = 0.0


class Submission(Frozen):
    """The whole file.

    Parameters
    ----------
    evaluator, settings
        Its label, and the checksum of its settings.
    orders
        Whether each pair was asked in both orders, in one, or one video at a time.
    """

    format: Literal["slvmeval-submission"] = "slvmeval-submission"
    format_version: Literal[1] = 1
    card: Card
    evaluator: Line
    settings: Annotated[str, Field(max_length=100)]
    release: AboutRelease
    orders: Orders
    repeats: Annotated[int, Field(ge=1, le=MAX_REPEATS)] = 1
    prices: UsedPrices = UsedPrices()
    made_at: Annotated[str, Field(max_length=40)]
    accuracies: dict[Line, Stated]
    answers: tuple[SubmittedAnswer, ...]


#: Fields shared by answers and judgements.
_SHARED = tuple(name for name in SubmittedAnswer.model_fields)


def make_submission(
    release: Release, rows: Sequence[Judgement], card: Card, prices: UsedPrices
) -> Submission:
    """Return the submission of one evaluator's judgements on a release.

    Raises
    ------
    UserInputError
        If they come from several evaluators or settings, from none, or from a probe.
    """
    if problem := next((told for row in rows if (told := _probe_problem(row.evaluator, row.probe))), ""):
        raise UserInputError(problem)
    whos = sorted({(row.evaluator, row.settings) for row in rows})
    if len(whos) != 1:
        systems = ", ".join(f"{name} ({settings[:12]})" for name, settings in whos) or "none"
        raise UserInputError(
            f"a submission has the answers of one evaluator with one set of settings; here are {systems}"
        )
    gathered = load_judged_release(release, judgements=rows)
    return Submission(
        card=card,
        evaluator=whos[0][0],
        settings=whos[0][1],
        release=AboutRelease(
            name=release.name, version=release.version, checksum=release.manifest.content_checksum
        ),
        orders=_orders(rows),
        repeats=1 + max(row.repeat for row in rows),
        prices=prices,
        made_at=utc_now(),
        accuracies=stated(gathered),
        answers=tuple(
            SubmittedAnswer.model_validate({name: getattr(row, name) for name in _SHARED})
            for row in sorted(rows, key=lambda row: (row.aspect, row.pair_id, row.order, row.repeat))
        ),
    )


def _probe_problem(evaluator: str, probe: str = "") -> str:
    """Return why answers under a probe's name are not those of a judge; empty if they are none."""
    base, _, last = evaluator.rpartition("+")
    if probe or (base and last in PROBES):
        return f"{evaluator} is a probe, which is given something else than the judge: submit the judge"
    return ""


def _orders(rows: Sequence[Judgement]) -> Orders:
    counts = Counter((row.pair_id, row.repeat) for row in rows)
    if all(row.order == "apart" for row in rows):
        return "apart"
    return "one" if max(counts.values()) == 1 else "both"


def submission_bytes(submission: Submission) -> bytes:
    """Return the file's content, one answer per line, without missing values."""
    head = submission.model_dump_json(indent=1, exclude={"answers"}).removesuffix("\n}")
    answers = ",\n".join(answer.model_dump_json(exclude_defaults=True) for answer in submission.answers)
    return f'{head},\n "answers": [\n{answers}\n ]\n}}\n'.encode()


def judgements_of(submission: Submission, release: Release) -> list[Judgement]:
    """Return its answers as rows of the table; every pair must be in the release."""
    records = {record.pair_id: record for record in release.pairs()}
    return [
        Judgement(
            key=digest_value([submission.settings, answer.pair_id, answer.order, answer.repeat]),
            evaluator=submission.evaluator,
            settings=submission.settings,
            source_id=records[answer.pair_id].source_id,
            aspect=records[answer.pair_id].aspect,
            **answer.model_dump(),
        )
        for answer in submission.answers
    ]


def cells_by_aspect(gathered: JudgedRelease) -> dict[str, Cell]:
    """Return the cells of the accuracy table's only evaluator."""
    pairs = Counter(record.aspect for record in gathered.release.pairs() if gathered.is_main(record))
    cells = cells_of(gathered.trials, gathered.ties, pairs)
    return {aspect: cell for (_, aspect), cell in sorted(cells.items(), key=lambda item: item[0][1])}


def stated(gathered: JudgedRelease) -> dict[str, Stated]:
    """Return accuracies in a submission's form."""
    return {
        aspect: Stated(accuracy=cell.accuracy, n=cell.n, failed=cell.failed)
        for aspect, cell in cells_by_aspect(gathered).items()
    }


#: Orders in which a pair is asked, by a submission's `orders`.
ASKED: dict[Orders, tuple[tuple[Order, ...], ...]] = {
    "both": (("high_first", "low_first"),),
    "one": (("high_first",), ("low_first",)),
    "apart": (("apart",),),
}


#: Number of problems of one kind that are listed; the others are counted.
MAX_LISTED = 5


@dataclass(frozen=True)
class Checked:
    """A valid submission, and its answers joined with the release's pairs."""

    submission: Submission
    rows: tuple[Judgement, ...]
    gathered: JudgedRelease


def check_submission(path: Path, release: Release) -> Checked:
    """Read a submission and check it against the release.

    Raises
    ------
    UserInputError
        Listing all problems.
    """
    submission = read_submission(path)
    problems = list(_problems(submission, release))
    if problems:
        _refuse(path, problems)
    rows = judgements_of(submission, release)
    gathered = load_judged_release(release, judgements=rows)
    problems = list(_wrong_accuracies(submission, gathered))
    if problems:
        _refuse(path, problems)
    return Checked(submission, tuple(rows), gathered)


def read_submission(path: Path) -> Submission:
    """Read a file and validate its form.

    Raises
    ------
    UserInputError
        If it cannot be read, is too large, or is not a submission.
    """
    try:
        with open_regular(path) as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as problem:
        raise UserInputError(f"{path} cannot be read: {problem.strerror}") from problem
    if len(content) > MAX_BYTES:
        raise UserInputError(f"{path} has more than {MAX_BYTES:,} bytes, the maximum for a submission")
    try:
        # reject what JSON does not allow or parsers interpret differently before looking at the content
        json.loads(content.decode("utf-8"), parse_constant=_no_number, object_pairs_hook=_once)
        return Submission.model_validate_json(content, strict=True)
    except ValidationError as problem:
        listed = [
            f"{'.'.join(map(str, error['loc'])) or 'the file'}: {value_problem(error)}"
            for error in problem.errors(include_input=False, include_url=False)
        ]
        _refuse(path, first_lines(listed, MAX_LISTED))
    except (ValueError, RecursionError) as problem:
        raise UserInputError(
            f"{path} is not JSON of a submission: {problem_text(problem)[:200]}. "
            f"`slvmeval submission make` writes one"
        ) from problem


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice[:50]!r} appears twice in one object")
    return unique


def _refuse(path: Path, problems: Iterable[str]) -> NoReturn:
    raise UserInputError(f"{path} is invalid:\n" + "\n".join(f"  {line}" for line in problems))


def _problems(submission: Submission, release: Release) -> Iterator[str]:
    about = submission.release
    if problem := _probe_problem(submission.evaluator):
        yield problem
    if about.checksum != release.manifest.content_checksum:
        yield (
            f"it is about release {about.name}, version {about.version} ({about.checksum[:12]}), not about "
            f"{release.name}, version {release.version} ({release.manifest.content_checksum[:12]})"
        )
        return
    pair_ids = {record.pair_id for record in release.pairs()}
    foreign = sorted({answer.pair_id for answer in submission.answers} - pair_ids)
    yield from _first_of(foreign, "pair {} is not in the release")
    yield from _first_of(_wrong_orders(submission, pair_ids - set(foreign)), "{}")
    wrong = (
        f"pair {answer.pair_id[:16]}, {answer.order}: {why}"
        for answer in submission.answers
        if (why := _contradiction(answer))
    )
    yield from _first_of(wrong, "{}")


def _first_of(problems: Iterable[str], words: str) -> Iterator[str]:
    yield from first_lines([words.format(one) for one in problems], MAX_LISTED)


def _wrong_orders(submission: Submission, pair_ids: set[str]) -> Iterator[str]:
    """Yield each pair that was not judged exactly once in each stated order and repeat."""
    orders_of: dict[tuple[str, int], list[str]] = defaultdict(list)
    for answer in submission.answers:
        orders_of[answer.pair_id, answer.repeat].append(answer.order)
    allowed = [sorted(orders) for orders in ASKED[submission.orders]]
    wanted = " or ".join(" and ".join(orders) for orders in allowed)
    for pair_id in sorted(pair_ids):
        for repeat in range(submission.repeats):
            orders = sorted(orders_of.get((pair_id, repeat), []))
            if orders not in allowed:
                orders_given = " and ".join(orders) or "nothing"
                yield f"pair {pair_id[:16]}, repeat {repeat}: {orders_given} in place of {wanted}, each once"
    if any(repeat >= submission.repeats for _, repeat in orders_of):
        yield f"there are more repeats than the stated {submission.repeats}"


def _contradiction(answer: SubmittedAnswer) -> str:
    """Return the contradiction within an answer, or an empty text."""
    if (answer.preferred is None) == (answer.failure is None):
        return "it needs either an answer or a failure, not both"
    if answer.failure is not None and (answer.choice or answer.score_high is not None):
        return "a failure has neither a choice nor scores"
    if answer.order != "apart" and answer.preferred is not None:
        first = "high" if answer.order == "high_first" else "low"
        second = "low" if first == "high" else "high"
        expected = {"first": first, "second": second, "tie": "tie"}.get(answer.choice or "")
        if expected != answer.preferred:
            return f"the choice {answer.choice} contradicts preferring {answer.preferred}"
    if answer.order == "apart" and answer.choice is not None:
        return "videos seen one at a time have no first and second"
    return _wrong_scores(answer)


def _wrong_scores(answer: SubmittedAnswer) -> str:
    high, low = answer.score_high, answer.score_low
    if (high is None) != (low is None):
        return "one of two scores is missing"
    if high is not None and low is not None:
        better = "tie" if high == low else "high" if high > low else "low"
        if better != answer.preferred:
            return f"scores of {high:g} and {low:g} contradict preferring {answer.preferred}"
    return ""


def _wrong_accuracies(submission: Submission, gathered: JudgedRelease) -> Iterator[str]:
    computed = stated(gathered)
    for aspect in sorted({*computed, *submission.accuracies}):
        ours, theirs = computed.get(aspect), submission.accuracies.get(aspect)
        if ours is None or theirs is None:
            yield f"{aspect[:50]}: it {'has answers' if theirs is None else 'is not a judged aspect'}"
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
        If it cannot be read or is invalid.
    """
    try:
        return Card.model_validate(tomllib.loads(read_regular_text(path)))
    except OSError as problem:
        raise UserInputError(f"card {path} cannot be read: {problem.strerror}") from problem
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise UserInputError(f"card {path}: {key}: {value_problem(first)}") from problem
    except ValueError as problem:
        raise UserInputError(f"card {path} is not TOML: {problem}") from problem
