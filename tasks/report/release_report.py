"""The report on the judgements of a release."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tasks.report.accuracy import DEFAULT_INTERVAL, IntervalKind, accuracy_table, matrix_of
from tasks.report.detection_tables import detection_table
from tasks.report.disagreement import DisputedPair, PairLine, PairPage, line_of, pair_page
from tasks.report.evaluator_tables import comparison_table, duration_tables, order_table, wins_table
from tasks.report.judged_release import JudgedRelease
from tasks.report.jury_tables import report_juries
from tasks.report.length_tables import length_tables
from tasks.report.localisation_table import localisation_table
from tasks.report.paper_tables import PaperPiece, paper_pieces
from tasks.report.people_tables import agreement_table, filter_tables, protocol_table, retention_table
from tasks.report.preference_tables import preference_tables
from tasks.report.probe_tables import probe_tables
from tasks.report.published import Published, hold_against
from tasks.report.release_facts import content_tables, damaged_sources, facts_table, release_facts
from tasks.report.repeat_tables import repeat_tables
from tasks.report.severity_power_cost import cost_table, power_table, severity_tables
from tasks.report.specificity_tables import specificity_tables
from tasks.report.threshold_tables import threshold_tables
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
from tasks.statistics.comparisons import compare_all
from tasks.statistics.equivalence import MARGIN

SECTIONS = (
    Section(
        "detection",
        "Signal",
        "Damage, edits and shortcuts",
        "Does a judge see damage, does it notice edits, or would a number do as well?",
        ("signal-detection",),
        ("signal-detection",),
        missing="damage, edits and shortcuts",
    ),
    PROBES,
    ORDER,
    REPEATS,
    WORDINGS,
    PREFERENCES,
    COMPARISONS,
    JURIES,
    Section(
        "duration",
        "Length",
        "Length of the video",
        "Up to what length can a judge be trusted?",
        (),
        ("accuracy-by-duration",),
        ("duration-correlation", "accuracy-by-duration"),
        missing="length of the video (needs sources of several lengths)",
    ),
    Section(
        "severity",
        "Severity",
        "Severity of the damage",
        "How much damage does a judge need to see it?",
        ("psychometric", "severity-thresholds"),
        ("psychometric-points", "severity-clips", "severity-strength"),
        ("psychometric-points", "severity-clips", "severity-strength"),
        missing="severity (needs a recipe with [severity])",
    ),
    Section(
        "excerpts",
        "Excerpts",
        "Length around the same damage",
        "Is damage harder to see in more film, and does it matter where it is?",
        ("length-change",),
        ("length",),
        ("length",),
        missing="length around the same damage (needs a recipe with [lengths])",
    ),
    Section(
        "specificity",
        "Specificity",
        "What moves the dimensions of a suite",
        "Does a dimension fall with the damage that it claims to measure, and with no other?",
        ("specificity-summary",),
        ("specificity",),
        ("specificity",),
        missing="dimensions of a suite (ask with dimension=all)",
    ),
    Section(
        "where",
        "Where",
        "Where the damage is",
        "Does a judge that prefers the right video also see where the other is damaged?",
        ("localisation",),
        missing="where the damage is (ask with intervals=true)",
    ),
    Section(
        "filter",
        "Filter",
        "People and their filter",
        "Which pairs people kept, whether the others change the result, and how well people agree.",
        ("retention", "filter-correlation", "agreement", "protocols"),
        ("filter-accuracies", "protocols"),
        ("filter-accuracies",),
        missing="people and their filter (needs votes: slvmeval annotate)",
    ),
    Section(
        "content",
        "Content",
        "What the videos are",
        "The sources by what kind of video they are, and by length.",
        ("content-categories",),
        ("content-categories", "source-durations"),
        ("source-durations",),
        missing="content of the videos",
    ),
    POWER,
    COST,
)


@dataclass(frozen=True, kw_only=True)
class ReleaseReport(Report):
    """A report on a release."""

    gathered: JudgedRelease

    @property
    def sections(self) -> tuple[Section, ...]:
        """The sections of the first page, in order."""
        return SECTIONS

    @cached_property
    def paper(self) -> list[PaperPiece]:
        """Its numbers in the form of the paper's tables and figures."""
        return paper_pieces(self.gathered, self.matrix, self.tables, self.figures)

    def is_private(self, private: bool) -> bool:
        """Return whether a source is shown that may not be redistributed."""
        return private and any(not row.redistributable for row in self.gathered.release.sources())

    @property
    def damaged(self) -> str:
        """The sources whose videos are damaged, in a sentence."""
        return damaged_sources(self.gathered.release)

    def about(self) -> dict[str, Any]:
        """Return the release's facts."""
        gathered, release = self.gathered, self.gathered.release
        aside = {"excerpts": gathered.length_trials, "controls": gathered.control_trials}
        return {
            "release": {
                "recipe": str(release.recipe.get("name", "")),
                "created_at": str(release.info.get("created_at", "")),
                "checksum": release.manifest.content_checksum,
            },
            "facts": release_facts(release).as_texts(),
            "severities": bool(gathered.main_strength),
            "only": "" if gathered.all_trials else " and ".join(what for what, some in aside.items() if some),
        }

    def pair_line(self, one: DisputedPair, private: bool) -> PairLine:
        """Return a disputed pair's entry in the list."""
        return line_of(self.gathered, one, private)

    def pair_page(self, one: DisputedPair, private: bool) -> PairPage:
        """Return what a disputed pair's page shows."""
        return pair_page(self.gathered, one, private)


def report_of(
    gathered: JudgedRelease,
    interval: IntervalKind = DEFAULT_INTERVAL,
    published: Published | None = None,
    margin: float = MARGIN,
) -> ReleaseReport:
    """Return the tables and figures on a release's judgements, compared with published values if given.

    Parameters
    ----------
    margin
        How far an accuracy may be from a published one, a share; see :func:`hold_against`.
    """
    matrix = matrix_of(gathered, interval)
    members = compare_all(gathered.trials, gathered.ties)
    made = [
        facts_table(gathered.release),
        *content_tables(gathered.release),
        accuracy_table(gathered, matrix),
        detection_table(gathered),
        order_table(gathered),
        order_table(gathered, by_aspect=True),
        *repeat_tables(gathered),
        *preference_tables(gathered),
        *probe_tables(gathered),
        *wording_tables(gathered),
        *specificity_tables(gathered),
        wins_table(gathered, members),
        comparison_table(gathered, members),
        *duration_tables(gathered),
        retention_table(gathered),
        *filter_tables(gathered),
        agreement_table(gathered),
        protocol_table(gathered),
        *severity_tables(gathered),
        *threshold_tables(gathered),
        *length_tables(gathered),
        localisation_table(gathered),
        *report_juries(gathered),
        power_table(matrix, members, gathered),
        cost_table(gathered),
    ]
    tables = {table.name: table for table in made}
    against = None if published is None else hold_against(published, gathered, matrix, tables, margin)
    if against is not None:
        tables |= {table.name: table for table in against.tables}
    return ReleaseReport(gathered=gathered, matrix=matrix, tables=tables, against=against)
