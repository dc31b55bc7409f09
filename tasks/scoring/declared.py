"""What evaluators declare of themselves, in one form: what they see and need, and their settings.

All of it is read from where it is used: an evaluator's class, and the signature and the settings model of its
factory, with their docstrings.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from tasks.scoring.base import Evaluator
from tasks.scoring.setup import PROVIDED

#: Servers of providers, which are reached over the internet.
_PUBLIC = ("openai", "anthropic", "google")
_WORDS: Mapping[Any, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    NoneType: "none",
}


@dataclass(frozen=True)
class Setting:
    """A setting of an evaluator.

    Parameters
    ----------
    name
        Its name.
    type
        Allowed values, in words.
    required
        Whether it has no default.
    default
        Its default, JSON-compatible.
    description
        Its meaning; empty if the docstring lacks it.
    """

    name: str
    type: str
    required: bool
    default: Any
    description: str


@dataclass(frozen=True)
class Declared:
    """Declarations of an evaluator.

    Parameters
    ----------
    sees, needs, paid
        As in :class:`~tasks.scoring.base.Evaluator`; `needs` also has ``GPU`` and ``network``.
    settings
        Its settings.
    """

    sees: tuple[str, ...]
    needs: tuple[str, ...]
    paid: bool
    settings: tuple[Setting, ...]

    def as_json(self) -> dict[str, Any]:
        """Return it JSON-serialisable."""
        return asdict(self)


def declared(factory: Callable[..., Any]) -> Declared:
    """Return what an evaluator declares.

    Parameters
    ----------
    factory
        Its class, or a function whose annotated result is its class.
    """
    hints = get_type_hints(factory.__init__ if inspect.isclass(factory) else factory)
    result = factory if inspect.isclass(factory) else hints.get("return")
    kind = result if inspect.isclass(result) and issubclass(result, Evaluator) else Evaluator
    ready = getattr(factory, "ready", None)
    needs = [*kind.needs, *(["GPU"] if kind.hardware == "gpu" else [])]
    if getattr(ready, "server", "") in _PUBLIC:
        needs.append("network")
    return Declared(kind.sees, tuple(needs), kind.paid, tuple(_settings(factory, hints, kind, ready)))


def _settings(
    factory: Callable[..., Any], hints: Mapping[str, Any], kind: type[Evaluator], ready: BaseModel | None
) -> list[Setting]:
    texts = docstring_parameters(factory)
    found: list[Setting] = []
    fields: dict[str, Setting] = {}
    for name, one in inspect.signature(factory).parameters.items():
        if one.kind is one.VAR_KEYWORD:
            model = kind.settings_model
            fields = {} if model is None else {field.name: field for field in model_settings(model, ready)}
        elif name == "prompts" or name not in (*PROVIDED, "setup"):
            required = one.default is one.empty
            default = None if required else _plain(one.default)
            found.append(
                Setting(name, in_words(hints.get(name, Any)), required, default, texts.get(name, ""))
            )
    # a parameter stands before a field of its name
    return [*found, *(field for name, field in fields.items() if name not in {one.name for one in found})]


def model_settings(model: type[BaseModel], ready: BaseModel | None = None) -> list[Setting]:
    """Return the fields of a settings model.

    Parameters
    ----------
    ready
        An instance whose values are the defaults; by default those of the model.
    """
    texts = docstring_parameters(model)
    made = []
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True) if ready is None else getattr(ready, name)
        required = ready is None and field.is_required()
        made.append(
            Setting(
                name,
                in_words(field.annotation),
                required,
                None if required else _plain(default),
                texts.get(name, ""),
            )
        )
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return dict(value) if isinstance(value, Mapping) else value


def in_words(kind: Any) -> str:
    """Return a type in words.

    Examples
    --------
    >>> in_words(int | None), in_words(Literal["low", "high"])
    ('whole number or none', 'low or high')
    """
    origin, inside = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return in_words(inside[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(map(in_words, inside)))
    if origin is Literal:
        return " or ".join(map(str, inside))
    if kind in _WORDS:
        return _WORDS[kind]
    of = origin or kind
    if inspect.isclass(of) and (issubclass(of, Mapping) or issubclass(of, BaseModel)):
        return "table"
    return "list" if of in (list, tuple) else "any"


_NAMES = re.compile(r"\w+(, \w+)*")


def docstring_parameters(documented: Any) -> dict[str, str]:
    """Return the descriptions in the section ``Parameters`` of a NumPy docstring by name."""
    lines = (inspect.getdoc(documented) or "").split("\n")
    try:
        begin = lines.index("Parameters") + 2
    except ValueError:
        return {}
    texts: dict[str, str] = {}
    names: list[str] = []
    for index, line in enumerate(lines[begin:], begin):
        if line.startswith("---") or (line and lines[index + 1 : index + 2] == ["-" * len(line)]):
            break
        if _NAMES.fullmatch(line):
            names = line.split(", ")
        elif line.strip():
            for name in names:
                texts[name] = f"{texts.get(name, '')} {line.strip()}".strip()
    return texts
