"""Options of evaluations and of suites' runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import Field, InstanceOf, SerializeAsAny

from flows.parameters import RunOptions, checked_prompts, full_or_none, required
from flows.score.parameters import EvaluateParameters, ScoringParameters, SuiteParameters
from infra.profile import Profile
from storage_schemas.errors import UsageError, UserInputError, suggestion
from storage_schemas.judgements import Failure
from storage_schemas.names import key_value
from storage_schemas.release import name_and_version
from storage_schemas.store import Store
from tasks.llm.limits import Limits
from tasks.scoring.pair_sets import NamedPairs, pairs_from_text
from tasks.scoring.probes import probes_in
from tasks.scoring.registry import EvaluatorChoice, choice_from_text, choices_from_file
from tasks.scoring.registry import factory as evaluator_factory
from tasks.scoring.release_pairs import Selection
from tasks.scoring.setup import Setup
from tasks.scoring.suites.pairwise import each_dimension
from tasks.scoring.suites.registry import factory as suite_factory
from tasks.scoring.suites.registry import settings_of_variant, suites
from tasks.scoring.suites.scoring import SuiteChoice
from tasks.scoring.wordings import in_wordings, wordings_in


class ScoringOptions(RunOptions):
    """What evaluations and suites' runs have in common.

    Parameters
    ----------
    repeats
        Number of times each request is made.
    retry
        Kinds of failures to retry although a new attempt would normally not change them.
    limits
        Maximum dollars and tokens.
    prices, prompts
        A price list and a folder of prompts that replace the built-in ones.
    model_folders, allow_cpu_models
        As in the profile.
    """

    repeats: int = Field(default=1, ge=1, le=1000)
    retry: frozenset[Failure] = frozenset()
    limits: Limits = Limits()
    prices: str | None = None
    prompts: str = ""
    model_folders: tuple[str, ...] = ()
    allow_cpu_models: bool = False


def reasons(given: Iterable[str]) -> frozenset[Failure]:
    """Return the named kinds of failures; ``all`` stands for every kind.

    Raises
    ------
    UserInputError
        If there is no such kind.
    """
    names = [failure.value for failure in Failure]
    for name in given:
        if name not in (*names, "all"):
            suggested = suggestion(name, names, "the reasons are", ["all"])
            raise UserInputError(f"--retry {name}: {suggested}; all stands for every kind")
    return frozenset(Failure) if "all" in given else frozenset(map(Failure, given))


def _common(parameters: ScoringParameters) -> dict[str, Any]:
    """Return the fields of :class:`ScoringOptions`."""
    return {
        "repeats": parameters.repeats,
        "retry": reasons(parameters.retry),
        "limits": {"usd": parameters.max_dollars, "tokens": parameters.max_tokens},
        "prices": full_or_none(parameters.prices),
        "prompts": full_or_none(parameters.prompts) or "",
    }


class EvaluateOptions(ScoringOptions):
    """Which evaluators judge which pairs.

    Parameters
    ----------
    evaluators
        The evaluators.
    release, version
        The release; without a name the only one, without a version the newest.
    pairs_from
        Other pairs used in place of a release's, such as those of a meta-evaluation set.
    selection
        Which pairs.
    batch, wait
        Whether requests use the providers' batch interfaces, and whether the run waits for the answers.
    batch_poll_s
        Interval between checks of the batches, in seconds.
    adaptive
        Whether each evaluator's answers determine its next pairs, by aspect.
    precision, round_pairs
        The ratio of the ends of a threshold's interval at which the search stops, and the pairs per round.
    """

    evaluators: tuple[EvaluatorChoice, ...]
    release: str | None = None
    version: int | None = None
    pairs_from: SerializeAsAny[InstanceOf[NamedPairs]] | None = None
    selection: Selection = Selection()
    batch: bool = False
    wait: bool = True
    batch_poll_s: float = Field(default=60.0, gt=0)
    adaptive: bool = False
    precision: float = Field(default=2.0, gt=1)
    round_pairs: int = Field(default=4, ge=1)

    def open_store(self) -> Store:
        """Open the store, creating it if the pairs are not a release's.

        Raises
        ------
        StoreError
            If the folder is not a store.
        """
        root = Path(self.store)
        return Store.open(root) if self.pairs_from is None else Store.create(root)

    @property
    def setup(self) -> Setup:
        """What evaluators are created with."""
        return Setup(
            store_path=self.store,
            model_folders=self.model_folders,
            model_servers=self.model_servers,
            prompts=self.prompts,
        )


class SuiteOptions(ScoringOptions):
    """One run of a suite.

    Parameters
    ----------
    suite, settings
        Its name in the table of suites, and its settings, including the variant's.
    variant
        Name under which its scores are kept separately; empty for none.
    videos, prompt_suite, manifest
        The folder of the videos, the file of their prompts, and the file that identifies each video; if
        empty, the manifest in the folder.
    generators, dimensions
        Only these generators, and only these dimensions.
    mini, seed
        Number of prompts per dimension, drawn with a seed; None for all.
    fps, long_side
        How videos are sampled; the suite's own values if empty.
    blur
        Blurs videos by this number of pixels; such scores are kept separately, under ``NAME+blurN``.
    concurrency
        Number of concurrent requests in one process; the suite's own by default.
    """

    suite: str
    videos: str
    prompt_suite: str
    manifest: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    variant: str = ""
    generators: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    mini: int | None = Field(default=None, ge=1)
    seed: int = 0
    fps: str = ""
    long_side: int | None = None
    blur: float = 0.0
    concurrency: int | None = Field(default=None, ge=1, le=4096)

    @property
    def choice(self) -> SuiteChoice:
        """The suite with its settings and the site's."""
        try:
            settings = json.dumps(self.settings, sort_keys=True)
        except (TypeError, ValueError) as problem:
            raise UserInputError(f"settings are not JSON-serialisable: {problem}") from problem
        return SuiteChoice(
            store_path=self.store,
            model_folders=self.model_folders,
            model_servers=self.model_servers,
            prompts=self.prompts,
            suite=self.suite,
            settings_json=settings,
            variant=self.variant,
        )


def evaluate_options(
    parameters: EvaluateParameters, site: Profile, pairs_from: NamedPairs | None = None
) -> EvaluateOptions:
    """Resolve the parameters of an evaluation into options.

    Parameters
    ----------
    pairs_from
        Pairs that cannot be named by text, such as the proxy study's.

    Raises
    ------
    UserInputError
        For an unknown evaluator, an invalid setting, or pairs of two sets.
    """
    choices: list[EvaluatorChoice] = []
    for text in (*parameters.evaluators, *filter(None, [parameters.evaluators_file])):
        choices += choices_from_file(Path(text)) if text.endswith(".toml") else [choice_from_text(text)]
    for index, choice in enumerate(choices):
        evaluator_factory(choice.use)
        if own := choice.settings.get("prompts"):
            # absolute paths, since workers have another working folder
            settings = {**choice.settings, "prompts": checked_prompts(own)}
            choices[index] = choice.model_copy(update={"settings": settings})
    here = Setup(store_path=site.store, model_servers=site.model_servers)
    choices = [one for choice in choices for one in each_dimension(choice, here)]
    wordings = wordings_in(parameters.prompts)
    if wordings:
        choices[:] = in_wordings(choices, wordings)
        parameters = parameters.model_copy(update={"prompts": None})
    probes = probes_in(parameters.probes)
    # probes show what a judge with the built-in prompts relies on
    probed = [choice for choice in choices if not choice.wording]
    choices += [choice.model_copy(update={"probe": probe}) for choice in probed for probe in probes]
    release, version = name_and_version(parameters.release, parameters.version)
    if parameters.adaptive and (parameters.pairs or pairs_from is not None):
        raise UsageError("an adaptive evaluation needs the severities of a release, not other pairs")
    if parameters.pairs and (parameters.release or parameters.version):
        raise UserInputError("pairs of another set replace a release: name one of the two")
    return EvaluateOptions.at(
        site,
        **_common(parameters),
        evaluators=tuple(choices),
        release=release,
        version=version,
        pairs_from=pairs_from_text(parameters.pairs) if parameters.pairs else pairs_from,
        batch=parameters.batch,
        wait=parameters.wait,
        adaptive=parameters.adaptive,
        precision=parameters.precision,
        round_pairs=parameters.round_pairs,
        selection={
            "aspects": parameters.aspects,
            "pairs": parameters.pair_ids,
            "strengths": parameters.strengths,
            "clips": parameters.clips,
            "lengths": parameters.lengths,
            "positions": parameters.positions,
            "most_per_aspect": parameters.most_per_aspect,
        },
    )


def suite_options(parameters: SuiteParameters, site: Profile) -> SuiteOptions:
    """Resolve the parameters of a suite's run into options.

    Raises
    ------
    UserInputError
        For an unknown suite, a missing path, or an invalid setting.
    """
    if not parameters.suite:
        raise UserInputError(f"suite is empty: give {' or '.join(suites())}")
    suite_factory(parameters.suite)
    return SuiteOptions.at(
        site,
        **_common(parameters),
        suite=parameters.suite,
        videos=required("videos", parameters.videos),
        prompt_suite=required("prompt_suite", parameters.prompt_suite),
        manifest=full_or_none(parameters.manifest) or "",
        settings=settings_of_variant(
            parameters.suite, parameters.variant or "", settings_from_text(parameters.settings)
        ),
        variant=parameters.variant or "",
        dimensions=parameters.dimensions,
        generators=parameters.generators,
        mini=parameters.mini,
        seed=parameters.seed,
        fps=parameters.fps or "",
        long_side=parameters.long_side,
        blur=parameters.blur,
        concurrency=parameters.concurrency,
    )


def settings_from_text(given: Iterable[str]) -> dict[str, Any]:
    """Return settings of ``KEY=VALUE``; values are JSON, else text.

    Raises
    ------
    UserInputError
        If a setting has no key, or the folder of `prompts` has mistakes.
    """
    settings: dict[str, Any] = {}
    for text in given:
        key, value = key_value(text, f"--set {text}")
        settings[key] = value
    if isinstance(own := settings.get("prompts"), str):
        # absolute paths, since workers have another working folder
        settings["prompts"] = checked_prompts(own)
    return settings
