"""What a run of a suite wants, minus what the store has: files read, suite made, dimensions looked at.

A dimension that cannot be used is said once, becomes rows with the reason, and stops no other.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flows.evaluate_progress import RequestProgress
from flows.suite_options import SuiteOptions
from infra.pool import LOADED
from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.judgement import Failure
from storage_schemas.judgements_store import is_settled
from storage_schemas.store import Store
from tasks.evaluators.meta_sets.base import LeftOut
from tasks.evaluators.prices import Prices, load_prices
from tasks.models.device import require_gpu
from tasks.suites.base import Dimension, Scorer, Suite
from tasks.suites.estimate import EstimateRow, estimate_dimension
from tasks.suites.file_video import OpenVideos, Sampling
from tasks.suites.manifest import find_manifest, load_manifest
from tasks.suites.plan import Material, Unit, applicable, bring_together, mini, settings_of, units_of
from tasks.suites.prompts import load_prompts
from tasks.suites.run import SuiteWork
from tasks.suites.score_unit import copied, failed_rows
from tasks.suites.scores_store import ScoreId, ScoresStore, id_of

#: Stands for the settings of a dimension whose scorer cannot even be made.
UNKNOWN_SETTINGS = "unknown"


@dataclass
class Asked:
    """One dimension of the run with its units; why it cannot be used, where it cannot.

    `busy` says that another run scores it now.
    """

    dimension: Dimension
    scorer: Scorer | None = None
    refused: str = ""
    settings: str = ""
    units: list[Unit] = field(default_factory=list)
    found_before: int = 0
    busy: bool = False
    deaths: int = 0


@dataclass
class Wanted:
    """What is wanted; call :meth:`prepare` first."""

    options: SuiteOptions
    progress: RequestProgress
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    store: Store = field(init=False)
    suite: Suite = field(init=False)
    prices: Prices = field(init=False)
    work: SuiteWork = field(init=False)
    scores: ScoresStore = field(init=False)
    material: Material = field(init=False)
    asked: list[Asked] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What rows call the suite; scores of changed videos stand apart."""
        return self.work.name

    def prepare(self, ask_servers: bool = True) -> None:
        """Read the files, make the suite, and find what has been scored before.

        Parameters
        ----------
        ask_servers
            Whether scorers check that all they need is there.

        Raises
        ------
        UserInputError, StoreError, IntegrityError, PrerequisiteError
            If the run cannot start at all; nobody was asked then.
        """
        options = self.options
        self.store = options.open_store()
        self.prices = load_prices(options.prices)
        self.suite = options.choice.make()
        sampling = Sampling(
            fps=options.fps or self.suite.fps,
            long_side=options.long_side or self.suite.long_side,
            blur=options.blur,
        )
        sampling.check()
        self.work = SuiteWork(
            run=self.run_id,
            choice=options.choice,
            sampling=sampling,
            prices=self.prices,
            limits=options.limits,
            retry=options.retry,
            allow_cpu_models=options.allow_cpu_models,
            concurrency=options.concurrency,
        )
        self.scores = ScoresStore(self.store)
        videos = Path(options.videos)
        manifest = Path(options.manifest) if options.manifest else find_manifest(videos)
        prompts = load_prompts(Path(options.prompts), self.suite)
        self.material = bring_together(prompts, load_manifest(manifest, videos, options.generators))
        self.left_out = list(self.material.left_out)
        self.asked = [self._ask(dimension, ask_servers) for dimension in self._dimensions()]
        if all(not one.units and not one.refused for one in self.asked):
            first = f": {self.left_out[0].where}: {self.left_out[0].message}" if self.left_out else ""
            raise UserInputError(f"no video of {manifest} belongs to a prompt of {options.prompts}{first}")
        self.copy_known()
        known = self.scores.known(self.name)
        for one in self.asked:
            ids = [id_ for unit in one.units for id_ in unit.ids]
            one.found_before = sum(is_settled(known.get(id_), options.retry) for id_ in ids)

    def _dimensions(self) -> list[Dimension]:
        there = {dimension.name: dimension for dimension in self.suite.dimensions}
        for name in self.options.dimensions:
            if name not in there:
                raise UserInputError(f"{self.name} has no dimension {name!r}: it has {', '.join(there)}")
        return [
            there[name] for name in there if not self.options.dimensions or name in self.options.dimensions
        ]

    def _ask(self, dimension: Dimension, ask_servers: bool) -> Asked:
        one = Asked(dimension)
        wanted, lacking = applicable(self.material, dimension)
        self.left_out += lacking
        if self.options.mini is not None:
            wanted = mini(wanted, dimension.name, self.options.mini, self.options.seed)
        repeats = self.options.repeats
        try:
            one.scorer = self.work.scorer(dimension.name)
            one.settings = settings_of(self.name, one.scorer, self.work.sampling)
            together = one.scorer.batch == "prompt"
            one.units = units_of(self.material, wanted, dimension.name, one.settings, together, repeats)
            if ask_servers and one.units:
                self._check_pool(one.scorer.pool)
                one.scorer.check()
        except UserInputError:
            raise
        except PrerequisiteError as problem:
            one.refused = str(problem)
        except Exception as problem:  # noqa: BLE001 - perhaps another package's code, which harms no other one
            one.refused = f"{type(problem).__name__}: {problem}"
        if one.refused:
            self.progress.say(f"{dimension.name} cannot be used: {one.refused}")
        if not one.units:
            # what its settings are nobody knows: these rows say why there is no score
            one.settings = UNKNOWN_SETTINGS
            one.units = units_of(self.material, wanted, dimension.name, one.settings, repeats=repeats)
        return one

    def _check_pool(self, pool: str) -> None:
        """Raise PrerequisiteError where there is no place for a pool's work."""
        pools = self.options.pools
        if pools and pool not in pools:
            raise PrerequisiteError(
                f"the profile has no pool {pool!r}, in which it runs: add a table [pools.{pool}]"
            )
        # where there are pools, each worker looks for a GPU of its own: this machine needs none
        if not pools and pool == LOADED and not self.options.allow_cpu_models:
            require_gpu()

    def estimate(
        self, sample: int | None = None, step: Callable[[str], None] = lambda _: None
    ) -> list[EstimateRow]:
        """Return what the missing scores would take, by dimension; nobody is asked."""
        paid: set[str] = set()
        videos = OpenVideos(self.work.sampling)
        found = []
        known = self.scores.known(self.name)
        for one in self.asked:
            units = missing_of(one, known, self.options.retry)
            if one.scorer is not None and units:
                step(one.dimension.name)
                found.append(estimate_dimension(one.scorer, units, videos, self.prices, paid, sample))
        return found

    def copy_known(self) -> None:
        """Let the score of a video, or why it has none, stand for an identical video."""
        known = self.scores.known(self.name)
        by_key: dict[str, ScoreId] = {}
        # a score counts more than a failure
        for id_, failure in sorted(known.items(), key=lambda item: bool(item[1])):
            if is_settled(failure, self.options.retry):
                by_key.setdefault(id_[0], id_)
        wanted = [
            (unit, place, by_key[id_[0]])
            for one in self.asked
            for unit in one.units
            for place, id_ in enumerate(unit.ids)
            if id_[0] in by_key and not is_settled(known.get(id_), self.options.retry)
        ]
        if wanted:
            rows = {id_of(row): row for row in self.scores.rows(self.name)}
            self.scores.add(copied(rows[id_], self.name, unit, place) for unit, place, id_ in wanted)

    def keep_reasons(self) -> None:
        """Write rows with the reason for what has no score because its dimension cannot be used."""
        known = self.scores.known(self.name)
        rows = []
        for one in self.asked:
            if not one.refused or one.busy:
                continue
            for unit in one.units:
                missing = failed_rows(self.name, unit, Failure.PREREQUISITE_MISSING, one.refused)
                ids = zip(unit.ids, missing, strict=True)
                # what is there is no older reason to be written again
                rows += [row for id_, row in ids if known.get(id_) is None]
        self.scores.add(rows)


def settled(unit: Unit, known: Mapping[ScoreId, str], retry: bool) -> bool:
    """Return whether a unit need not be scored again."""
    return all(is_settled(known.get(id_), retry) for id_ in unit.ids)


def missing_of(one: Asked, known: Mapping[ScoreId, str], retry: bool) -> list[Unit]:
    """Return the units that are to be scored; of those with the same keys the first."""
    first: dict[str, Unit] = {}
    for unit in one.units:
        if not settled(unit, known, retry):
            first.setdefault(unit.key, unit)
    return list(first.values())
