"""The table of evaluators, evaluators of other packages, and how users select them with settings."""

from __future__ import annotations

import importlib
import inspect
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from pydantic import Field, ValidationError, field_validator

from storage_schemas.errors import PrerequisiteError, UserInputError, suggestion
from storage_schemas.extras import explain_missing_packages
from storage_schemas.model import Frozen
from storage_schemas.names import EVALUATOR_NAME_RULE, is_evaluator_name, key_value
from storage_schemas.regular_files import read_regular_text
from storage_schemas.value_problems import first_error
from tasks.plugins import added_points
from tasks.scoring.base import Evaluator, PairwiseJudge, PointwiseScorer
from tasks.scoring.request import settings_digest
from tasks.scoring.setup import PROVIDED, Setup


class EvaluatorChoice(Frozen):
    """A selected evaluator.

    Parameters
    ----------
    use
        Name in the table of evaluators.
    label
        Name in result tables; if empty, the evaluator's own.
    settings
        Arguments of its factory.
    concurrency
        Number of concurrent requests in one process; by default, the evaluator's.
    requests_per_minute, tokens_per_minute
        Maximum over all processes; None for no limit.
    probe
        What it is shown or told instead, see :mod:`tasks.scoring.probes`; empty for nothing.
    wording
        Name of the wording among its settings, see :mod:`tasks.scoring.wordings`; empty for its own.
    """

    use: str
    label: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    concurrency: int | None = Field(default=None, ge=1, le=4096)
    requests_per_minute: float | None = Field(default=None, gt=0)
    tokens_per_minute: float | None = Field(default=None, gt=0)
    probe: str = ""
    wording: str = ""

    @property
    def suffix(self) -> str:
        """Suffix of its name for its probe or wording."""
        return "".join(f"+{part}" for part in (self.wording, self.probe) if part)

    @property
    def described_in(self) -> str | None:
        """The folder of prompts that has its descriptions of aspects; None for that of the run."""
        return self.settings["prompts"] if self.wording else None

    @field_validator("label")
    @classmethod
    def _plain(cls, value: str) -> str:
        if value and not is_evaluator_name(value):
            raise ValueError(f"a label is {EVALUATOR_NAME_RULE}")
        return value


#: Settings of how an evaluator runs, which do not affect answers and are part of any key.
HOW_IT_RUNS = ("label", "concurrency", "requests_per_minute", "tokens_per_minute")


def choice_from_text(text: str) -> EvaluatorChoice:
    """Return the evaluator of ``NAME`` or ``NAME?key=value&key=value``; values are JSON, else text.

    Raises
    ------
    UserInputError
        If it cannot be read.
    """
    name, _, query = text.partition("?")
    values: dict[str, Any] = {}
    for part in filter(None, query.split("&")):
        key, value = key_value(unquote(part), f"evaluator {text}", "NAME?key=value&key=value")
        values[key] = value
    return _choice(name, values, f"evaluator {text}")


def choices_from_file(path: Path) -> list[EvaluatorChoice]:
    """Return the evaluators of a TOML file: one table each, named by its label, with `use` and settings.

    Raises
    ------
    UserInputError
        If the file does not exist or is invalid.

    Examples
    --------
    ::

        [evaluators.clip-whole-prompt]
        use = "clipscore"
        policy = "each-truncate"
    """
    try:
        values = tomllib.loads(read_regular_text(path))
    except OSError as problem:
        raise UserInputError(f"{path} cannot be read: {problem.strerror}") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UserInputError(f"{path} is not TOML: {problem}") from problem
    tables = values.pop("evaluators", None)
    if (
        values
        or not isinstance(tables, dict)
        or not all(isinstance(table, dict) for table in tables.values())
    ):
        raise UserInputError(f"{path}: write a table [evaluators.LABEL] for each evaluator, and nothing else")
    choices = []
    for label, table in tables.items():
        rest = {"label": label, **table}
        choices.append(_choice(str(rest.pop("use", label)), rest, f"{path}: evaluators.{label}"))
    return choices


def check_labels(names: Iterable[str]) -> None:
    """Raise UserInputError if two evaluators would have the same name in tables."""
    for name, count in Counter(names).items():
        if count > 1:
            raise UserInputError(
                f"{count} evaluators are called {name!r}: give them labels, such as NAME?label=other"
            )


def _choice(name: str, values: Mapping[str, Any], where: str) -> EvaluatorChoice:
    how = {key: value for key, value in values.items() if key in HOW_IT_RUNS}
    settings = {key: value for key, value in values.items() if key not in HOW_IT_RUNS}
    try:
        return EvaluatorChoice(use=name, settings=settings, **how)
    except ValidationError as problem:
        raise UserInputError(f"{where}: {first_error(problem)}") from problem


#: Entry-point group that other packages use.
GROUP = "slvmeval.evaluators"

#: Evaluators of the core: name to ``module:factory``. Extras add theirs as other packages do.
BUILT_IN: dict[str, str] = {
    "gpt-5-video": "tasks.scoring.judges.vlm:gpt_5_video",
    "gpt-5-mini-video": "tasks.scoring.judges.vlm:gpt_5_mini_video",
    "qwen3-vl-video": "tasks.scoring.judges.vlm:qwen3_vl_video",
    "gpt-5-text": "tasks.scoring.judges.vlm:gpt_5_text",
    "gpt-5-mini-text": "tasks.scoring.judges.vlm:gpt_5_mini_text",
    "qwen3-vl-text": "tasks.scoring.judges.vlm:qwen3_vl_text",
    "clipscore": "tasks.scoring.judges.clip_score:clip_score",
    "videoscore": "tasks.scoring.judges.video_score:video_score",
    "vlm-video": "tasks.scoring.judges.vlm:video_judge",
    "hf": "tasks.scoring.judges.local_vlm:hf_judge",
    "vlm-text": "tasks.scoring.judges.vlm:text_judge",
    "duration": "tasks.scoring.judges.baselines:Duration",
    "size": "tasks.scoring.judges.baselines:Size",
    "contrast": "tasks.scoring.judges.baselines:Contrast",
    "sharpness": "tasks.scoring.judges.baselines:Sharpness",
    "motion": "tasks.scoring.judges.baselines:Motion",
    "scenes": "tasks.scoring.judges.baselines:SceneCount",
    "brisque": "tasks.scoring.judges.brisque:BrisqueScore",
    "coin": "tasks.scoring.judges.baselines:Coin",
}


def added_evaluators() -> dict[str, EntryPoint]:
    """Return the evaluators of installed packages by name; nothing is imported."""
    return added_points(GROUP, BUILT_IN, "evaluator")


def factory(name: str) -> Callable[..., Any]:
    """Import and return the factory of an evaluator; raises as :func:`load_factory`.

    People and submissions, which reports show next to evaluators, cannot be asked or probed.
    """
    from tasks.votes.release_votes import HUMAN

    if name == HUMAN:
        raise UserInputError(
            f"{name}: people cannot be asked or probed here; `slvmeval annotate publish` shows them pairs"
        )
    if name.endswith(".json"):
        raise UserInputError(
            f"{name}: a submission has its answers already, and cannot be asked or probed; name the judge "
            "that gave them, see `slvmeval list evaluators`"
        )
    return load_factory("evaluator", name, BUILT_IN, added_evaluators())


def load_factory(
    what: str, name: str, built_in: Mapping[str, str], added: Mapping[str, EntryPoint]
) -> Callable[..., Any]:
    """Import and return the factory of a name.

    Parameters
    ----------
    what
        Kind of its products, for messages: an evaluator, a suite.
    built_in, added
        This project's factories, as ``module:factory``, and those of other packages, by name.

    Raises
    ------
    UserInputError
        If the name is unknown; the message has the nearest names.
    PrerequisiteError
        If its module cannot be imported.
    """
    names = (*built_in, *added)
    if name not in names:
        raise UserInputError(f"no {what} {name!r}: {suggestion(name, names, 'there are')}")
    where = built_in[name] if name in built_in else added[name].value
    try:
        if name in built_in:
            module, _, attribute = where.partition(":")
            with explain_missing_packages():
                loaded: Any = getattr(importlib.import_module(module), attribute)
        else:
            loaded = added[name].load()
    except (ImportError, AttributeError) as problem:
        raise PrerequisiteError(
            f"{what} {name!r} cannot be loaded from {where}: {problem}; install its requirements, or "
            "repair or uninstall its package"
        ) from problem
    if not callable(loaded):
        raise PrerequisiteError(f"{where} is not a factory: it has to be a class or a function")
    return loaded  # type: ignore[no-any-return]


def make_evaluator(choice: EvaluatorChoice, setup: Setup) -> Evaluator:
    """Make an evaluator with its settings; nothing is loaded yet.

    Parameters
    ----------
    setup
        Passed to a parameter ``setup`` of the factory; its properties, to parameters of their names.

    Raises
    ------
    UserInputError
        If the name is unknown, or a setting is invalid.
    PrerequisiteError
        If it cannot be imported, or is not an evaluator.
    """
    made = made_with(f"evaluator {choice.use}", factory(choice.use), setup, choice.settings, HOW_IT_RUNS)
    if not isinstance(made, PairwiseJudge | PointwiseScorer):
        raise PrerequisiteError(
            f"evaluator {choice.use} is a {type(made).__name__}: it has to be a PairwiseJudge or a "
            "PointwiseScorer"
        )
    try:
        settings_digest(made)
    except PrerequisiteError:
        # weights are part of settings, and may be missing
        raise
    except Exception as problem:  # another package's code
        raise PrerequisiteError(
            f"evaluator {choice.use}: its settings() are not JSON-serialisable "
            f"({type(problem).__name__}: {problem})"
        ) from problem
    return made


def made_with(
    what: str, make: Callable[..., Any], setup: Setup, settings: Mapping[str, Any], more: Sequence[str] = ()
) -> Any:
    """Return what a factory makes of a setup and a user's settings.

    Parameters
    ----------
    what
        Its name in messages.
    make
        Its parameter ``setup``, and those named like a property of the setup, are filled in.
    more
        Further names that a user may have meant.

    Raises
    ------
    UserInputError
        For an unknown setting or an invalid value.
    PrerequisiteError
        If its signature cannot be read.
    """
    try:
        parameters = inspect.signature(make).parameters
    except ValueError as problem:
        raise PrerequisiteError(f"{what}: {make!r} is not a factory: {problem}") from problem
    given = {name: getattr(setup, name) for name in PROVIDED if name in parameters}
    if "prompts" in settings:
        # an evaluator may have prompts of its own, so that two wordings can be compared in one run
        given.pop("prompts", None)
    if "setup" in parameters:
        given["setup"] = setup
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        own = [name for name in parameters if name not in given]
        for name in settings:
            if name not in own:
                hint = suggestion(name, own, more=more)
                raise UserInputError(f"{what} has no setting {name!r}: {hint}")
    try:
        return make(**given, **settings)
    except ValidationError as problem:
        raise UserInputError(f"{what}: {first_error(problem)}") from problem
    except (TypeError, ValueError) as problem:
        raise UserInputError(f"{what}: {problem}") from problem


def check_different(evaluators: Iterable[tuple[str, Evaluator, str]]) -> None:
    """Raise UserInputError if two labels stand for one evaluator with the same settings and descriptions.

    The third value of each identifies its descriptions of aspects. Otherwise their requests would be
    identical: each would be paid for twice, and stored under one of the labels.
    """
    labels: dict[tuple[str, str, str], str] = {}
    for label, evaluator, described in evaluators:
        other = labels.setdefault((evaluator.name, settings_digest(evaluator), described), label)
        if other != label:
            raise UserInputError(
                f"{other} and {label} are one evaluator with the same settings: name it once; "
                "for several answers use --repeats"
            )
