"""Command-line options from models: a field is declared once, with its type, default and description.

A command takes models in place of options. :func:`with_options` returns the function that Typer needs, with
an option for each field; :class:`CommandGroup` does that for the commands that it registers.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import typer
from pydantic.fields import FieldInfo

from flows.parameters import RARE, Given, SiteParameters, given, validated
from infra.profile import ENVIRONMENT_PREFIX, Profile
from slvmeval.cli.help import HELP_ALL, USAGE_ERROR, CompactCommand, CompactGroup
from storage_schemas.errors import UsageError, UserInputError, suggestion
from storage_schemas.model import Frozen

C = TypeVar("C", bound=Callable[..., Any])
R = TypeVar("R")


@dataclass(frozen=True)
class Only:
    """The fields of a model that a command accepts."""

    fields: tuple[str, ...]

    def __init__(self, *fields: str) -> None:
        object.__setattr__(self, "fields", fields)


@dataclass(frozen=True)
class Without:
    """The fields of a model that a command does not accept."""

    fields: tuple[str, ...]

    def __init__(self, *fields: str) -> None:
        object.__setattr__(self, "fields", fields)


class CommandGroup(typer.Typer):
    """Commands that take models in place of options."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{"cls": CompactGroup, **settings})

    def command(self, *arguments: Any, **settings: Any) -> Callable[[C], C]:
        """Return a decorator that registers a command, with an option for each field of its models."""
        register = super().command(*arguments, **{"cls": CompactCommand, **settings})

        def add(command: C) -> C:
            register(with_options(command))
            return command

        return add


def with_options(command: Callable[..., R]) -> Callable[..., R]:
    """Return a Typer command with an option for each field of the command's models."""
    hints = get_type_hints(command, include_extras=True)
    models: dict[str, tuple[type[Frozen], tuple[str, ...]]] = {}
    by_set: dict[str, tuple[str, str]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        model, names = _fields(hints[name])
        if model is None:
            parameters.append(parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY))
            continue
        models[name] = model, names
        for field in names:
            if given(model.model_fields[field]).by_set:
                by_set[_key(field, model.model_fields[field])] = name, field
            else:
                parameters.append(_parameter(field, model.model_fields[field]))
    own = next((one for one in parameters if _is_set(models, one.name)), None)
    if by_set and own is None:
        parameters.append(_parameter(_SET, _set_field(by_set, models)))
    elif by_set and own is not None:
        get_args(own.annotation)[1].help += f" Also {', '.join(by_set)}."
    if by_set or any(
        given(model.model_fields[field]).panel == RARE for model, names in models.values() for field in names
    ):
        parameters.append(HELP_ALL)

    @wraps(command)
    def run(**values: Any) -> R:
        values.pop(HELP_ALL.name, None)
        settings, others = _split(values.get(own.name if own else _SET), by_set)
        if own is not None:
            values[own.name] = others
        elif others:
            key = others[0].partition("=")[0]
            raise USAGE_ERROR(f"--set {key}: {suggestion(key, by_set, 'the settings are')}")
        values.pop(_SET, None)
        for name, (model, names) in models.items():
            by_set_values = {
                field: given_values if _many(model.model_fields[field]) else given_values[-1]
                for field in names
                if (given_values := settings.get((name, field)))
            }
            of_model = {field: values.pop(field) for field in names if field in values}
            try:
                values[name] = _filled(model, of_model | by_set_values)
            except UserInputError as problem:
                field, _, why = str(problem).partition(":")
                field = field.partition(".")[0]
                if field not in by_set_values:
                    raise
                key = _key(field, model.model_fields[field])
                raise typer.BadParameter(f"{key}:{why}", param_hint="--set") from problem
        try:
            return command(**values)
        except UsageError as problem:
            raise USAGE_ERROR(str(problem)) from problem

    del run.__wrapped__  # otherwise Typer reads the original signature
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.set_keys = tuple(by_set)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


#: The option of the settings that a command takes as ``KEY=VALUE``, if its models have none.
_SET = "rare_settings"


def refuse(options: Frozen, why: str, *fields: str) -> None:
    """Refuse options that would be ignored.

    Parameters
    ----------
    why
        What the message says after the options' names, such as ``only with --gpu``.

    Raises
    ------
    UsageError
        If one of the fields differs from its default.
    """
    declared = type(options).model_fields
    ignored = [one for one in fields if getattr(options, one) != declared[one].default]
    # a variable is set for all commands, so this one may ignore it
    ignored = [one for one in ignored if str(getattr(options, one)) != _of_variable(declared[one])]
    if named := [_name(one, declared[one]) for one in ignored]:
        raise UsageError(f"{' and '.join(named)}: {why}")


def _of_variable(field: FieldInfo) -> str | None:
    """Return a field's value from its environment variable."""
    variable = given(field).variable
    return os.environ.get(variable) if variable else None


def _name(name: str, field: FieldInfo) -> str:
    """Return how a user writes a field: its option, ``--set KEY``, or the argument's name in the help."""
    how = given(field)
    if how.by_set:
        return f"--set {_key(name, field)}"
    flag = _flags(name, how, field.default)[0].removeprefix(" /")
    return flag if flag.startswith("-") else how.metavar or flag


def _is_set(models: Mapping[str, tuple[type[Frozen], tuple[str, ...]]], name: str) -> bool:
    """Return whether a parameter is a model's own ``--set``."""
    fields = (model.model_fields[name] for model, names in models.values() if name in names)
    return any("--set" in given(field).flags for field in fields)


def _key(name: str, field: FieldInfo) -> str:
    """Return a field's name in ``KEY=VALUE``."""
    flags = given(field).flags
    return flags[0].removeprefix("--").replace("-", "_") if flags else name


def _many(field: FieldInfo) -> bool:
    return get_origin(field.annotation) is tuple


def _set_field(
    by_set: Mapping[str, tuple[str, str]], models: Mapping[str, tuple[type[Frozen], tuple[str, ...]]]
) -> FieldInfo:
    """Return the field for a command's rare settings; its help lists them all."""
    texts = []
    for key, (name, field) in by_set.items():
        info = models[name][0].model_fields[field]
        texts.append(f"{key}={given(info).metavar or '…'}: {(info.description or '').rstrip('.')}")
    made = FieldInfo(annotation=tuple[str, ...], default=(), description=f"{'; '.join(texts)}.")
    made.metadata.append(Given(("--set",), "KEY=VALUE", RARE))
    return made


def _split(
    texts: list[str] | None, by_set: Mapping[str, tuple[str, str]]
) -> tuple[dict[tuple[str, str], list[str]], list[str]]:
    """Return the field values given by ``KEY=VALUE`` texts, and the texts that name no field."""
    settings: dict[tuple[str, str], list[str]] = {}
    others = []
    for text in texts or ():
        key, equals, value = text.partition("=")
        if key in by_set:
            if not equals:
                raise typer.BadParameter(f"{key} has no value: write {key}=VALUE", param_hint="--set")
            settings.setdefault(by_set[key], []).append(value)
        else:
            others.append(text)
    return settings, others


def _fields(hint: Any) -> tuple[type[Frozen] | None, tuple[str, ...]]:
    """Return a parameter's model and the fields that the command accepts; None if it is not a model."""
    model, rules = (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())
    if not (isinstance(model, type) and issubclass(model, Frozen)):
        return None, ()
    names = model.fields() if issubclass(model, SiteParameters) else tuple(model.model_fields)
    names = tuple(name for name in names if not given(model.model_fields[name]).form_only)
    for rule in rules:
        if isinstance(rule, Only):
            names = rule.fields
        elif isinstance(rule, Without):
            names = tuple(name for name in names if name not in rule.fields)
    return model, names


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    """Return the parameter of a Typer command for a field."""
    how, many = given(field), get_origin(field.annotation) is tuple
    is_argument = bool(how.flags) and not how.flags[0].startswith("-")
    default = inspect.Parameter.empty if how.required or field.is_required() else field.default
    text = (field.description or "") + (" Repeatable." if many and not is_argument else "")
    if default is True:
        text = f"Do not {text[:1].lower()}{text[1:]}"
    text += f"  [env: {how.variable}]" if how.variable else ""
    limits: dict[str, Any] = {
        name: getattr(part, sign)
        for part in field.metadata
        for name, sign in (("min", "ge"), ("max", "le"))
        if hasattr(part, sign)
    }
    made: Any
    settings: dict[str, Any] = {
        "metavar": how.metavar,
        "help": text,
        **_of_path(how, field.annotation),
        **limits,
    }
    if is_argument:
        made = typer.Argument(**settings)
    else:
        settings |= {
            "metavar": _metavar(field.annotation, how),
            "rich_help_panel": how.panel,
            # the profile's variables are read together with the profile
            "envvar": None if _of_profile(how.variable) else how.variable,
            "show_envvar": False,
            "show_default": default is not True,
        }
        make: Callable[..., Any] = typer.Option
        made = make(*_flags(name, how, default), **settings)
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None if many and default is not inspect.Parameter.empty else default,
        annotation=Annotated[_kind(field.annotation, how, many, default is inspect.Parameter.empty), made],
    )


def _metavar(annotation: Any, how: Given) -> str | None:
    """Return what the help shows for the value: nothing for a switch, N for a number."""
    if how.metavar is not None:
        return how.metavar
    if annotation is bool:
        return ""
    return "N" if {int, float} & {annotation, *get_args(annotation)} else None


def _of_path(how: Given, annotation: Any) -> dict[str, Any]:
    """Return Typer's checks of a path, which stays a string: empty must not mean the working folder."""
    if not how.path and Path not in (annotation, *get_args(annotation)):
        return {}
    checks = (
        {"dir_okay": False} if how.no_folder else {"file_okay": False, "exists": True} if how.folder else {}
    )
    return {"path_type": str, **checks}


def _of_profile(variable: str) -> bool:
    return variable.removeprefix(ENVIRONMENT_PREFIX).lower() in (*Profile.model_fields, "profile", "")


def _flags(name: str, how: Given, default: object) -> tuple[str, ...]:
    plain = name.replace("_", "-")
    if default is True:
        # a flag without a value: the usual case needs none
        return (f" /--no-{plain}",)
    return how.flags or (f"--{plain}",)


def _kind(annotation: Any, how: Given, many: bool, required: bool) -> Any:
    """Return the type that Typer converts to: a path, a list, or the field's own without None."""
    if many:
        several: Any = list[Path if how.path else get_args(annotation)[0]]  # type: ignore[misc]
        return several if required else several | None
    optional = get_origin(annotation) in (Union, UnionType)
    kind = next(part for part in get_args(annotation) if part is not NoneType) if optional else annotation
    kind = Path if how.path else kind
    return kind | None if optional and not how.required else kind


def _filled(model: type[Frozen], values: Mapping[str, Any]) -> Any:
    """Return a model with the given values; paths held as strings are made absolute."""
    of_model = {name: value for name, value in values.items() if value is not None}
    for name, value in of_model.items():
        field = model.model_fields[name]
        how = given(field)
        if _of_path(how, field.annotation) and "" in (value if isinstance(value, list) else [value]):
            if how.by_set:
                raise typer.BadParameter(f"{_key(name, field)} is empty: give a path", param_hint="--set")
            raise typer.BadParameter("is empty: give a path", param_hint=_flags(name, how, None)[0])
        of_model[name] = _value(value, how.path)
    return validated(model, of_model)


def _value(value: Any, path: bool) -> Any:
    if isinstance(value, list):
        return tuple(_value(one, path) for one in value)
    return str(Path(value).expanduser().resolve()) if path else value
