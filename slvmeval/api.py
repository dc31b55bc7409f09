"""The public Python interface: open a store, a release, a pair, or your own pairs; judge and report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage_schemas.release import Release
from storage_schemas.store import Store
from tasks.pairs import view
from tasks.pairs.file_pairs import open_video_pair, read_pairs_file
from tasks.pairs.view import Pair, Side

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Pair",
    "Release",
    "Side",
    "Store",
    "compare",
    "evaluate",
    "iter_pairs",
    "judgements",
    "open_pair",
    "open_pairs_file",
    "open_release",
    "open_store",
    "open_video_pair",
    "report",
]


def open_store(path: str | Path) -> Store:
    """Open the store in a folder.

    Raises
    ------
    StoreError
        If there is no store, or it has another schema version.
    """
    return Store.open(Path(path))


def open_release(store: str | Path | Store, name: str | None = None, version: int | None = None) -> Release:
    """Open a release; by default the only one, in its newest complete version.

    Parameters
    ----------
    store
        A store, or its folder.

    Raises
    ------
    StoreError
        If there is no store, or it has another schema version.
    UserInputError
        If there is no such release or version; the message lists the existing ones.

    Examples
    --------
    >>> release = open_release("build/demo/store")  # doctest: +SKIP
    >>> for pair in iter_pairs(release, "aesthetics"):  # doctest: +SKIP
    ...     print(pair.id, len(pair.low), pair.low_intervals)
    """
    return Release.open(store if isinstance(store, Store) else open_store(store), name, version)


def open_pair(release: Release, pair_id: str) -> Pair:
    """Open a pair by its id or an unambiguous prefix; frames are read lazily.

    Raises
    ------
    UserInputError
        If no pair, or more than one, matches.
    StoreError
        If the source's frames were evicted.
    """
    return view.open_pair(release.store, release, pair_id)


def iter_pairs(release: Release, aspect: str | None = None) -> Iterator[Pair]:
    """Yield the pairs of a release, or of one aspect, opening each when the iteration reaches it."""
    for record in release.pairs(aspect=aspect):
        yield view.open_record(release.store, record, release.prompt_of(record))


def open_pairs_file(path: str | Path, *, fps: Fraction | int = 1, long_side: int = 512) -> list[Pair]:
    """Open your own pairs from a JSON Lines file; see :func:`tasks.pairs.file_pairs.read_pairs_file`.

    Raises
    ------
    UserInputError
        Naming the file and the line, if the file or a video is missing or a line is invalid.
    """
    return read_pairs_file(Path(path), fps=Fraction(fps), long_side=long_side)


def evaluate(
    release: Release,
    evaluators: Sequence[str],
    *,
    profile: str | Path | None = None,
    **parameters: Any,
) -> pa.Table:
    """Let evaluators judge the pairs of a release, in this process; return their :func:`judgements`.

    Answered requests are not repeated: repeating an interrupted call resumes it.

    Parameters
    ----------
    evaluators
        Names with settings, such as ``"gpt-5-video?requests_per_minute=500"``; `slvmeval list evaluators`
        lists them.
    profile
        The site's profile, which names model servers and folders of weights.
    parameters
        What `slvmeval evaluate` takes, such as ``aspects=["color"]``, ``max_dollars=20`` or ``repeats=3``.

    Raises
    ------
    UserInputError
        If an evaluator or a parameter is not valid; no request was made.
    PrerequisiteError
        If an evaluator lacks something, such as weights.

    Examples
    --------
    >>> evaluate(release, ["duration", "coin"]).group_by("evaluator").aggregate([])  # doctest: +SKIP
    """
    from pydantic import ValidationError

    from flows.command_runs import inline
    from flows.score.evaluate_run import EVALUATE
    from flows.score.options import evaluate_options
    from flows.score.parameters import EvaluateParameters
    from storage_schemas.errors import UserInputError
    from storage_schemas.value_problems import first_error

    fixed = {"store": str(release.store.root), "release": release.name, "version": release.version}
    given = {"evaluators": tuple(evaluators), "profile": None if profile is None else str(profile)}
    try:
        asked = EvaluateParameters(**{**parameters, **given, **fixed})
    except ValidationError as problem:
        raise UserInputError(f"evaluate: {first_error(problem)}") from problem
    options = EVALUATE.without_cluster(evaluate_options(asked, asked.site()))
    with (
        EVALUATE.progress(release.store.cache, True) as progress,
        EVALUATE.prepared(options, progress) as run,
    ):
        run.run(inline)
        labels = [judge.label for judge in run.judges]
    return judgements(release, labels)


def judgements(release: Release, evaluators: Sequence[str] = ()) -> pa.Table:
    """Return the stored answers on a release's pairs, one row per request.

    Parameters
    ----------
    evaluators
        Only answers of these evaluators, named as in the column `evaluator`.

    Returns
    -------
    pyarrow.Table
        With the columns of the table `judgements`, see docs/storage-format.md; without rows if there are no
        answers. ``.to_pandas()`` needs pandas.
    """
    from storage_schemas.judgements import JudgementsStore

    ids = [record.pair_id for record in release.pairs()]
    return JudgementsStore(release.store).table(evaluators, ids)


def report(
    release: Release, folder: str | Path, evaluators: Sequence[str] = (), *, public: bool = False
) -> Path:
    """Write the report on a release's judgements, as `slvmeval report` does; return its page.

    Parameters
    ----------
    folder
        A new or empty folder, or one with an earlier report.
    evaluators
        Only these; by default all.
    public
        Leave out what may not be redistributed.

    Raises
    ------
    UserInputError
        If the release has no judgements, or the folder contains other files.
    """
    from tasks.report.release_report import report_of
    from tasks.report.write import write_report

    return write_report(report_of(_judged(release, evaluators)), Path(folder).resolve(), private=not public)


def compare(release: Release, first: str, second: str) -> pa.Table:
    """Return how two evaluators differ on the pairs that both answered, one row per aspect and one for all.

    Parameters
    ----------
    first, second
        Names as in a report.

    Returns
    -------
    pyarrow.Table
        The table of `slvmeval compare`: accuracies, difference, its interval and p-values.

    Raises
    ------
    UserInputError
        If either has judged no pair of the release; the message lists the evaluators that have.
    """
    import pyarrow as pa

    from tasks.report.comparison_page import compare_evaluators, comparison_table

    table = comparison_table(compare_evaluators(_judged(release), first, second))
    return pa.Table.from_pylist([dict(row) for row in table.rows])


def _judged(release: Release, evaluators: Sequence[str] = ()) -> Any:
    from tasks.report.judged_release import load_judged_release
    from tasks.votes.release_votes import read_release_votes

    return load_judged_release(release, evaluators, people=read_release_votes(release))
