"""The report on the judgements of other people's or own pairs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from storage_schemas.errors import SetAside
from storage_schemas.ids import digest_text
from storage_schemas.store import Store
from tasks.extras.meta_sets.base import MetaPair
from tasks.extras.meta_sets.judged_set import JudgedSet, load_judged_set
from tasks.extras.meta_sets.provider import MetaSetPairs
from tasks.report.accuracy import DEFAULT_INTERVAL, IntervalKind, accuracy_table, matrix_of
from tasks.report.disagreement import (
    DisputedPair,
    PairLine,
    PairPage,
    Picture,
    answers_of,
    cut,
    framed,
    made_line,
    no_frames,
)
from tasks.report.evaluator_tables import comparison_table, order_table, wins_table
from tasks.report.jury_tables import report_juries
from tasks.report.pictures import sides_sheet
from tasks.report.preference_tables import preference_tables
from tasks.report.probe_tables import probe_tables
from tasks.report.published import Published, hold_against
from tasks.report.repeat_tables import repeat_tables
from tasks.report.severity_power_cost import cost_table, power_table
from tasks.report.table import ASPECT, EVALUATOR, Column, Table
from tasks.report.wording_tables import wording_tables
from tasks.report.write import (
    COMPARISONS,
    COST,
    JURIES,
    ORDER,
    POWER,
    PREFERENCES,
    PROBES,
    REPEATS,
    WORDINGS,
    Report,
    Section,
)
from tasks.statistics.cells import Cell
from tasks.statistics.comparisons import compare_all
from tasks.statistics.equivalence import MARGIN
from tasks.statistics.trials import FailurePolicy, TiePolicy

SECTIONS = (
    Section(
        "ties",
        "Ties",
        "Answers with ties",
        "How far does a judge agree with people who may say that neither is better?",
        ("agreement",),
        missing="answers with ties",
    ),
    PROBES,
    ORDER,
    REPEATS,
    WORDINGS,
    PREFERENCES,
    COMPARISONS,
    JURIES,
    POWER,
    COST,
)
_HIDDEN = "Videos, prompts and texts that may quote them are left out: nothing says that they may be shared."
_BETTER = {"a": "the first video", "b": "the second video", "tie": "neither"}


@dataclass(frozen=True, kw_only=True)
class SetReport(Report):
    """A report on a set."""

    gathered: JudgedSet

    template: ClassVar[str] = "set.html.j2"

    @property
    def sections(self) -> tuple[Section, ...]:
        """The sections of the first page, in order."""
        return SECTIONS

    @property
    def printed(self) -> Sequence[Table]:
        """The tables that the command prints."""
        return (self.tables["agreement"],)

    def is_private(self, private: bool) -> bool:
        """Return `private`: no set states what may be redistributed."""
        return private

    def about(self) -> dict[str, Any]:
        """Return what was left out of the set, and why."""
        return {"left_out": list(self.gathered.pairs.loaded().reasons().items())}

    def pair_line(self, one: DisputedPair, private: bool) -> PairLine:
        """Return a disputed pair's entry in the list."""
        pair = self.gathered.gold[one.pair_id]
        slug = digest_text(one.pair_id)[:16]
        return made_line(self.gathered, one, slug=slug, aspect=pair.aspect, source=pair.key)

    def pair_page(self, one: DisputedPair, private: bool) -> PairPage:
        """Return what a disputed pair's page shows."""
        pair = self.gathered.gold[one.pair_id]
        return PairPage(
            line=self.pair_line(one, private),
            text=f"Better: {_BETTER[pair.gold]}.",
            facts=(
                ("Pair", one.pair_id),
                ("First video", pair.video_a.name),
                ("Second video", pair.video_b.name),
                *((name.replace("_", " ").capitalize(), str(value)) for name, value in pair.details.items()),
            ),
            picture=self._picture(one.pair_id, pair) if private else Picture(why=_HIDDEN),
            points="A point for the better video, or for a tie where neither is; none otherwise",
            prompt=cut(pair.prompt) if private else "",
            evaluators=answers_of(self.gathered, one, hidden=not private),
        )

    def _picture(self, pair_id: str, pair: MetaPair) -> Picture:
        try:
            opened = self.gathered.pairs.open(pair_id)
            sheet = sides_sheet(opened.high, opened.low)
        except SetAside as problem:
            return no_frames(problem)
        sides = "the first above, the second" if pair.gold == "tie" else "the better above, the other"
        return framed(sheet, f"Frames at even distances: {sides} below.")


def set_report_of(
    gathered: JudgedSet,
    interval: IntervalKind = DEFAULT_INTERVAL,
    published: Published | None = None,
    margin: float = MARGIN,
) -> SetReport:
    """Return the tables and figures on a set's judgements, compared with published values if given."""
    matrix = matrix_of(gathered, interval)
    members = compare_all(gathered.trials, gathered.ties)
    made = [
        accuracy_table(gathered, matrix),
        _agreement_table(gathered),
        order_table(gathered),
        order_table(gathered, by_aspect=True),
        *repeat_tables(gathered),
        *preference_tables(gathered),
        *probe_tables(gathered),
        *wording_tables(gathered),
        wins_table(gathered, members),
        comparison_table(gathered, members),
        *report_juries(gathered),
        power_table(matrix, members, gathered),
        cost_table(gathered),
    ]
    tables = {table.name: table for table in made}
    against = None if published is None else hold_against(published, gathered, matrix, tables, margin)
    if against is not None:
        tables |= {table.name: table for table in against.tables}
    return SetReport(gathered=gathered, matrix=matrix, tables=tables, against=against)


def _agreement_table(gathered: JudgedSet) -> Table:
    rows = [
        {
            "aspect": one.aspect,
            "evaluator": gathered.names[one.evaluator, one.settings],
            "pairs": one.with_ties.pairs,
            "with_ties": one.with_ties.accuracy,
            "decided": one.without_ties.pairs,
            "without_ties": one.without_ties.accuracy,
            **_interval("with_ties", one.with_ties),
            **_interval("without_ties", one.without_ties),
            "calibrated": None if one.calibrated is None else one.calibrated.agreement,
            "margin": None if one.calibrated is None else one.calibrated.margin,
            "failed": one.with_ties.failed,
        }
        for one in gathered.agreements
    ]
    order = {name: index for index, name in enumerate(gathered.names.values())}
    return Table(
        "agreement",
        "Agreement with the set's answers",
        (
            ASPECT,
            EVALUATOR,
            Column("pairs", "pairs", "count"),
            Column("with_ties", "with ties", "percent"),
            Column("decided", "pairs with a better video", "count"),
            Column("without_ties", "without", "percent"),
            Column("calibrated", "calibrated", "percent"),
            Column("margin", "margin", shown=False),
            *(
                Column(f"{key}_{end}", f"{title}, {end}", "percent", shown=False)
                for key, title in (("with_ties", "with ties"), ("without_ties", "without"))
                for end in ("low", "high")
            ),
            Column("failed", "failed", "count"),
        ),
        tuple(sorted(rows, key=lambda row: (str(row["aspect"]), order[str(row["evaluator"])]))),
        "With ties: better, worse and equal are three answers. Without: over the pairs that have a better "
        "video. Calibrated, for scorers: scores that differ by no more than a margin are equal; the margin "
        "is the best one for these pairs, which is optimistic.",
    )


def _interval(key: str, cell: Cell) -> dict[str, float | None]:
    ends = cell.clustered
    return {
        f"{key}_low": None if ends is None else ends.low,
        f"{key}_high": None if ends is None else ends.high,
    }


class SetReports:
    """Reports on sets, for the entry points of `slvmeval.pair_reports`."""

    def judged(
        self,
        store: Store,
        pairs: MetaSetPairs,
        evaluators: Collection[str],
        ties: TiePolicy,
        failures: FailurePolicy,
    ) -> JudgedSet:
        """Return the judgements on a set."""
        return load_judged_set(store, pairs, evaluators, ties, failures)

    def report(
        self, judged: JudgedSet, interval: IntervalKind, published: Published | None, margin: float
    ) -> SetReport:
        """Return the report on the judgements of a set, compared with published values if given."""
        return set_report_of(judged, interval, published, margin)
