"""A submission: one judge's answers on a release and the judge's card, in one JSON file.

The file is JSON because others have to be able to read it, in a pull request too, and because reading it runs
nothing. It holds no texts of the judge: they may quote captions that must not be passed on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, field_validator

from storage_schemas.errors import UserInputError
from storage_schemas.ids import digest_value
from storage_schemas.judgement import Choice, Failure, Judgement, Order, Preferred
from storage_schemas.model import Frozen
from storage_schemas.provenance import utc_now
from storage_schemas.release import Release
from tasks.publish.report.gathered import Gathered, gather
from tasks.statistics.cells import Cell, cells_of

#: Most bytes of a file; the paper's release in both orders has about 1.5 million.
MOST_BYTES = 32_000_000
MOST_REPEATS = 100

Orders = Literal["both", "one", "apart"]
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, le=10**12)]
Amount = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
Score = Annotated[float, Field(allow_inf_nan=False)]


class Card(Frozen):
    """Who made the judge, and what it is.

    Parameters
    ----------
    name
        What the leaderboard calls it.
    url
        Where more is to be read; ``http`` or ``https``.
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
        # anything else, such as javascript:, would run in a reader's browser
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
    """Which release was judged; `checksum` is that of its pairs."""

    name: Line
    version: Annotated[int, Field(ge=1)]
    checksum: Digest


class UsedPrices(Frozen):
    """The price list that dollars were reckoned with."""

    as_of: Annotated[str, Field(max_length=40)] = ""
    source: Annotated[str, Field(max_length=300)] = ""


class Stated(Frozen):
    """Accuracy of one aspect as its maker states it; a checker computes it anew."""

    accuracy: Annotated[float, Field(ge=0, le=1)] | None
    n: Count
    failed: Count


class Answer(Frozen):
    """One request; either `preferred` or `failure` is given."""

    pair_id: Annotated[str, Field(min_length=1, max_length=100)]
    order: Order
    repeat: Annotated[int, Field(ge=0, lt=MOST_REPEATS)] = 0
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
        Its name where it ran, and the checksum of its settings.
    orders
        Whether each pair was asked in both orders, in one, or the videos one by one.
    """

    format: Literal["slvmeval-submission"] = "slvmeval-submission"
    format_version: Literal[1] = 1
    card: Card
    evaluator: Line
    settings: Annotated[str, Field(max_length=100)]
    release: AboutRelease
    orders: Orders
    repeats: Annotated[int, Field(ge=1, le=MOST_REPEATS)] = 1
    prices: UsedPrices = UsedPrices()
    made_at: Annotated[str, Field(max_length=40)]
    accuracies: dict[Line, Stated]
    answers: tuple[Answer, ...]


#: Fields that an answer shares with a judgement.
_SHARED = tuple(name for name in Answer.model_fields)


def make_submission(
    release: Release, rows: Sequence[Judgement], card: Card, prices: UsedPrices
) -> Submission:
    """Return the submission of one evaluator's judgements on a release.

    Raises
    ------
    UserInputError
        If they come from several evaluators or settings, or from none.
    """
    whos = sorted({(row.evaluator, row.settings) for row in rows})
    if len(whos) != 1:
        found = ", ".join(f"{name} ({settings[:12]})" for name, settings in whos) or "none"
        raise UserInputError(
            f"a submission has the answers of one evaluator with one set of settings; here are {found}"
        )
    gathered = gather(release, judgements=rows)
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
            Answer.model_validate({name: getattr(row, name) for name in _SHARED})
            for row in sorted(rows, key=lambda row: (row.aspect, row.pair_id, row.order, row.repeat))
        ),
    )


def _orders(rows: Sequence[Judgement]) -> Orders:
    asked = Counter((row.pair_id, row.repeat) for row in rows)
    if all(row.order == "apart" for row in rows):
        return "apart"
    return "one" if max(asked.values()) == 1 else "both"


def submission_bytes(submission: Submission) -> bytes:
    """Return the file's content, one answer a line, without what is not given."""
    head = submission.model_dump_json(indent=1, exclude={"answers"}).removesuffix("\n}")
    answers = ",\n".join(answer.model_dump_json(exclude_defaults=True) for answer in submission.answers)
    return f'{head},\n "answers": [\n{answers}\n ]\n}}\n'.encode()


def judgements_of(submission: Submission, release: Release) -> list[Judgement]:
    """Return its answers as rows of the table; every pair has to be one of the release's."""
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


def cells_by_aspect(gathered: Gathered) -> dict[str, Cell]:
    """Return the accuracy table's cells of the one evaluator that there is."""
    cells = cells_of(gathered.trials, gathered.ties)
    return {aspect: cell for (_, aspect), cell in sorted(cells.items(), key=lambda item: item[0][1])}


def stated(gathered: Gathered) -> dict[str, Stated]:
    """Return accuracies as a submission states them."""
    return {
        aspect: Stated(accuracy=cell.accuracy, n=cell.n, failed=cell.failed)
        for aspect, cell in cells_by_aspect(gathered).items()
    }


#: Orders in which a pair is asked, by what a submission says of itself.
ASKED: dict[Orders, tuple[tuple[Order, ...], ...]] = {
    "both": (("high_first", "low_first"),),
    "one": (("high_first",), ("low_first",)),
    "apart": (("apart",),),
}
