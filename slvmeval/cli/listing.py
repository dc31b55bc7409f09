"""``slvmeval list``: list items of one kind; each group of commands registers its kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

import typer
from pydantic import Field

from flows.parameters import Given, ModelFolders, SiteParameters
from slvmeval.cli import terminal
from slvmeval.cli.declared import refuse


class ListOptions(SiteParameters):
    """Options of `list`."""

    kind: Annotated[str, Given(("kind",), "KIND")] = Field(description="Kind of item to list, see above.")
    names: Annotated[tuple[str, ...], Given(("names",), "NAME")] = Field(
        default=(),
        description="Only these; an evaluator is shown with all its settings, prompts are named by area.",
    )
    deep: bool = Field(
        default=False,
        description="For models, compare the files' checksums. Exit code 1: a checksum is wrong, or a "
        "model that you named is missing.",
    )
    again: Annotated[bool, Given(by_set=True)] = Field(
        default=False, description="With --deep, also read files unchanged since the last check."
    )
    model_folders: ModelFolders = ()
    output: terminal.FormatOption = "table"


def chosen(options: ListOptions, names: Iterable[str]) -> list[str]:
    """Return the given names, or all of a kind.

    Raises
    ------
    UserInputError
        For a name that does not exist.
    """
    from storage_schemas.errors import UserInputError, suggestion

    kinds = list(names)
    for name in options.names:
        if name not in kinds:
            raise UserInputError(f"list {options.kind} {name}: {suggestion(name, kinds, 'there are')}")
    return list(dict.fromkeys(options.names)) or kinds


#: How to list each kind.
KINDS: dict[str, Callable[[ListOptions], None]] = {}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="list", rich_help_panel="Start here")(list_)


def list_(options: ListOptions) -> None:
    """List the items of a kind: evaluators, models, prompts, batches, schemas, served-models, suites,
    meta-sets.

    evaluators: what each sees and needs, whether it costs money, its settings. models: the weights that
    operations need, and where they are. prompts: all prompts sent to models, and where a paper prints their
    wording. batches: submitted, with answers not collected yet. schemas: those of recipe, profile, and the
    stored tables. served-models: those of the papers that run on a server. suites score generated videos;
    meta-sets are other benchmarks that can be judged in place of a release; uve:UVE reports what its files
    contain, and what is left out and why (exit code 3).

    Example: `slvmeval list evaluators vlm-video`
    """
    from storage_schemas.errors import UserInputError, suggestion

    if options.kind not in KINDS:
        raise UserInputError(f"list {options.kind}: {suggestion(options.kind, list(KINDS), 'the kinds are')}")
    if options.kind != "models":
        refuse(options, "only for models", "deep", "again", "model_folders")
    if not options.deep:
        refuse(options, "only with --deep", "again")
    KINDS[options.kind](options)
