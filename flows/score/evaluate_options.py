"""What an evaluation is asked to do.

From what a person asks for to what an evaluation is told to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from flows.worker_site import check_absolute, site_of_worker
from infra.profile import Profile
from storage_schemas.errors import UserInputError
from storage_schemas.model import Frozen, ModelServer
from storage_schemas.store import Store
from tasks.llm.limits import Limits
from tasks.scoring.judges.meta_sets.provider import MetaSetPairs, meta_set_from_text
from tasks.scoring.judges.meta_sets.proxy_study import ProxyPairs
from tasks.scoring.registry import EvaluatorChoice, choice_from_text, choices_from_file, factory
from tasks.scoring.release_pairs import Selection
from tasks.scoring.setup import Setup


class EvaluateOptions(Frozen):
    """Which evaluators judge which pairs, and what they may take.

    Parameters
    ----------
    store
        Folder of the store.
    release, version
        The release; without a name the only one, without a version the newest.
    pairs_from
        Other pairs in place of a release's: another people's set, a user's own, the proxy study's.
    evaluators
        Who judges.
    selection
        Which pairs.
    repeats
        How often each request is made.
    retry
        Make those again too that failed for a reason that lies with the evaluator.
    limits
        Most dollars and tokens.
    prices, descriptions
        A price list, and a folder with texts on aspects, in place of ours.
    models, model_servers, allow_cpu_models
        As the profile says.
    """

    store: str
    evaluators: tuple[EvaluatorChoice, ...]
    release: str | None = None
    version: int | None = None
    pairs_from: MetaSetPairs | ProxyPairs | None = Field(default=None, discriminator="kind")
    selection: Selection = Selection()
    repeats: int = Field(default=1, ge=1, le=1000)
    retry: bool = False
    limits: Limits = Limits()
    prices: str | None = None
    descriptions: str | None = None
    models: tuple[str, ...] = ()
    model_servers: dict[str, ModelServer] = Field(default_factory=dict)
    allow_cpu_models: bool = False

    def open_store(self) -> Store:
        """Open the store; where no release of it is judged, it need not be there before.

        Raises
        ------
        StoreError
            If there is none, or the folder is something else.
        """
        root = Path(self.store)
        return Store.open(root) if self.pairs_from is None else Store.create(root)

    @property
    def setup(self) -> Setup:
        """What evaluators are made with."""
        return Setup(store_path=self.store, model_folders=self.models, model_servers=self.model_servers)


def evaluate_options(
    site: Profile, evaluators: Sequence[str], file: str | None = None, pairs: str = "", **fields: Any
) -> EvaluateOptions:
    """Return what an evaluation is asked to do.

    Parameters
    ----------
    evaluators
        Each ``NAME`` or ``NAME?key=value``.
    file
        A TOML file with more of them.
    pairs
        Other pairs in place of a release's, as ``NAME:PATH``.
    fields
        Further fields of :class:`EvaluateOptions`.

    Raises
    ------
    UserInputError
        If something does not exist or fit.
    """
    chosen = [choice_from_text(text) for text in evaluators]
    chosen += choices_from_file(Path(file)) if file else []
    for one in chosen:
        factory(one.use)
    if pairs and (fields.get("release") or fields.get("version")):
        raise UserInputError("pairs of another set take the place of a release: name one of the two")
    given: Mapping[str, Any] = {
        "store": str(Path(site.store).expanduser().resolve()),
        "evaluators": tuple(chosen),
        **({"pairs_from": meta_set_from_text(pairs)} if pairs else {}),
        "models": tuple(str(Path(folder).expanduser().resolve()) for folder in site.models),
        "model_servers": site.model_servers,
        "allow_cpu_models": site.allow_cpu_models,
        **fields,
    }
    try:
        return EvaluateOptions.model_validate(given)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise UserInputError(f"{key}: {message} (got {first['input']!r})") from problem


def asked_of_worker(
    *,
    evaluators: Sequence[str],
    file: str,
    profile: str,
    settings: Mapping[str, Any],
    pairs: str = "",
    **fields: Any,
) -> tuple[EvaluateOptions, Profile]:
    """Return what a run on a Prefect worker is asked to do, and the site's settings.

    Such a run has no folder of its own that anybody knows, so every path has to be absolute.

    Parameters
    ----------
    evaluators, file, pairs, fields
        As for :func:`evaluate_options`.
    profile
        A TOML file on the worker's machine; else the one of ``SLVMEVAL_PROFILE``, if any.
    settings
        Fields of the profile that the run changes; what is empty or 0 is not given.

    Raises
    ------
    UserInputError
        For anything that does not exist or fit, before any work.
    """
    paths = {"evaluators_file": file}
    paths |= {name: fields.get(name) or "" for name in ("prices", "descriptions")}
    for what, path in paths.items():
        if path:
            check_absolute(what, path)
    if pairs:
        check_absolute("pairs", pairs.partition(":")[2])
    site = site_of_worker(profile, settings)
    return evaluate_options(site, evaluators, file, pairs, **fields), site
