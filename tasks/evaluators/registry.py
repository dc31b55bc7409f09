"""The table of evaluators: those of this project, and those that other packages add.

A package adds one by an entry point in the group ``slvmeval.evaluators``, whose name is the evaluator's and
whose value is ``module:factory``: a class or function that is called with the settings and gives an
:class:`~tasks.evaluators.base.Evaluator`. Listing names imports none of these modules.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint
from typing import Any

from pydantic import ValidationError

from storage_schemas.errors import PrerequisiteError, UserInputError
from tasks.aspects.registry import added_points
from tasks.evaluators.base import Evaluator, PairwiseJudge, PointwiseScorer
from tasks.evaluators.chosen import HOW_IT_RUNS, Chosen
from tasks.evaluators.request import settings_digest
from tasks.evaluators.setup import PROVIDED, Setup

#: Entry-point group that other packages use.
GROUP = "slvmeval.evaluators"

#: Evaluators of this project: name to ``module:factory``.
BUILT_IN: dict[str, str] = {
    "gpt-5-video": "tasks.evaluators.vlm:gpt_5_video",
    "gpt-5-mini-video": "tasks.evaluators.vlm:gpt_5_mini_video",
    "qwen3-vl-video": "tasks.evaluators.vlm:qwen3_vl_video",
    "gpt-5-text": "tasks.evaluators.vlm:gpt_5_text",
    "gpt-5-mini-text": "tasks.evaluators.vlm:gpt_5_mini_text",
    "qwen3-vl-text": "tasks.evaluators.vlm:qwen3_vl_text",
    "clipscore": "tasks.evaluators.clip_score:clip_score",
    "videoscore": "tasks.evaluators.video_score:video_score",
    "vlm-video": "tasks.evaluators.vlm:video_judge",
    "vlm-text": "tasks.evaluators.vlm:text_judge",
    "video-bench": "tasks.evaluators.video_bench:VideoBenchJudge",
    "locot2v-bench": "tasks.evaluators.locot2v:locot2v_bench",
    "duration": "tasks.evaluators.trivial:Duration",
    "size": "tasks.evaluators.trivial:Size",
    "contrast": "tasks.evaluators.trivial:Contrast",
    "sharpness": "tasks.evaluators.trivial:Sharpness",
    "motion": "tasks.evaluators.trivial:Motion",
    "scenes": "tasks.evaluators.trivial:SceneCount",
    "coin": "tasks.evaluators.trivial:Coin",
}


def added_evaluators() -> dict[str, EntryPoint]:
    """Return the evaluators that installed packages add, by name; nothing is imported."""
    return added_points(GROUP, BUILT_IN, "evaluator")


def evaluator_names() -> tuple[str, ...]:
    """Return the names of all evaluators, the built-in ones first; nothing is imported."""
    return (*BUILT_IN, *added_evaluators())


def factory(name: str) -> Callable[..., Any]:
    """Return what makes the evaluator of that name, importing its module; raises as :func:`load_factory`."""
    return load_factory("evaluator", name, BUILT_IN, added_evaluators())


def load_factory(
    what: str, name: str, built_in: Mapping[str, str], added: Mapping[str, EntryPoint]
) -> Callable[..., Any]:
    """Return what makes the thing of that name, importing its module.

    Parameters
    ----------
    what
        What such things are called: an evaluator, a suite.
    built_in, added
        Ours, as ``module:factory``, and those of packages, by name.

    Raises
    ------
    UserInputError
        If there is none, with the nearest names.
    PrerequisiteError
        If its module cannot be imported.
    """
    names = (*built_in, *added)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}"
        raise UserInputError(f"no {what} {name!r}: {hint}")
    where = built_in[name] if name in built_in else added[name].value
    try:
        if name in built_in:
            module, _, attribute = where.partition(":")
            found: Any = getattr(importlib.import_module(module), attribute)
        else:
            found = added[name].load()
    except (ImportError, AttributeError) as problem:
        raise PrerequisiteError(
            f"{what} {name!r} cannot be loaded from {where}: {problem}; install what it needs, or "
            "repair or uninstall its package"
        ) from problem
    if not callable(found):
        raise PrerequisiteError(f"{where} is no factory: it has to be a class or a function")
    return found  # type: ignore[no-any-return]


def make_evaluator(chosen: Chosen, setup: Setup) -> Evaluator:
    """Make an evaluator with its settings; nothing is loaded yet.

    Parameters
    ----------
    setup
        What its factory may ask for by the names of its parameters: ``setup``, or what that has.

    Raises
    ------
    UserInputError
        If there is none of that name, or its settings do not fit.
    PrerequisiteError
        If it cannot be imported, or is none.
    """
    make = factory(chosen.use)
    try:
        takes = inspect.signature(make).parameters
    except ValueError as problem:
        raise PrerequisiteError(f"evaluator {chosen.use}: {make!r} is no factory: {problem}") from problem
    given = {name: getattr(setup, name) for name in PROVIDED if name in takes}
    if "setup" in takes:
        given["setup"] = setup
    _check_settings(chosen, takes, given)
    try:
        made = make(**given, **chosen.settings)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserInputError(f"evaluator {chosen.use}: {key}: {first['msg']}") from problem
    except (TypeError, ValueError) as problem:
        raise UserInputError(f"evaluator {chosen.use}: {problem}") from problem
    if not isinstance(made, PairwiseJudge | PointwiseScorer):
        raise PrerequisiteError(
            f"evaluator {chosen.use} is a {type(made).__name__}: it has to be a PairwiseJudge or a "
            "PointwiseScorer"
        )
    try:
        settings_digest(made)
    except Exception as problem:  # another package's code
        raise PrerequisiteError(
            f"evaluator {chosen.use}: its settings() are nothing that JSON can hold "
            f"({type(problem).__name__}: {problem})"
        ) from problem
    return made


def _check_settings(chosen: Chosen, takes: Mapping[str, inspect.Parameter], given: Iterable[str]) -> None:
    """Raise UserInputError for a setting that the factory does not have, or that is filled in."""
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values()):
        return
    own = [name for name in takes if name not in given]
    for name in chosen.settings:
        if name not in own:
            near = difflib.get_close_matches(name, [*own, *HOW_IT_RUNS], n=2)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(own) or 'none'}"
            raise UserInputError(f"evaluator {chosen.use} has no setting {name!r}: {hint}")


def check_different(evaluators: Iterable[tuple[str, Evaluator]]) -> None:
    """Raise UserInputError where two labels stand for one evaluator with the same settings.

    Their requests would be the same: each would be paid for twice, and kept under one of the labels.
    """
    found: dict[tuple[str, str], str] = {}
    for label, evaluator in evaluators:
        other = found.setdefault((evaluator.name, settings_digest(evaluator)), label)
        if other != label:
            raise UserInputError(
                f"{other} and {label} are one evaluator with the same settings: name it once; "
                "--repeats asks it several times"
            )
