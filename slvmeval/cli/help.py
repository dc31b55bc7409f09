"""What ``--help`` shows for a command: the usual options with descriptions, rare ones by name only."""

from __future__ import annotations

import difflib
import inspect
import textwrap
from functools import partial
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from flows.parameters import RARE

_ALL = "slvmeval.help_all"
_WIDTH = 80

#: Typer's error for a wrong command line, which it does not export.
USAGE_ERROR: Any = typer.BadParameter.__base__


class CompactCommand(TyperCommand):
    """A command whose rare options are only named by ``--help``; ``--help-all`` explains them as well.

    A word with one dash is a name, unless it is a short option or a long one missing a dash.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for parameter in self.params:
            if isinstance(parameter, TyperArgument):
                # the name is clear enough
                parameter.display_type_rich = lambda ctx: ""  # type: ignore[method-assign]

    def make_parser(self, ctx: Any) -> Any:
        """Return the argument parser: an id may begin with a dash, and a single-valued option occurs once."""
        parser: Any = super().make_parser(ctx)
        for option in {*parser._long_opt.values(), *parser._short_opt.values()}:
            if option.action == "store":
                option.process = partial(_once, option)
        match_short = parser._match_short_opt

        def match(word: str, state: Any) -> None:
            is_option = word[:2] in parser._short_opt or f"-{word.partition('=')[0]}" in parser._long_opt
            if is_option or len(word) == 2 or not parser._args:
                match_short(word, state)
            else:
                state.largs.append(word)

        parser._match_short_opt = match
        return parser

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; a wrong value is explained in plain words."""
        try:
            return super().parse_args(ctx, args)
        except USAGE_ERROR as problem:
            if hasattr(problem.__cause__, "errors"):
                from storage_schemas.value_problems import problem_text

                problem.message = problem_text(problem.__cause__)
            if setting := _setting(str(getattr(problem, "option_name", "")), self.callback):
                problem.message += f": write {setting}"
                problem.possibilities = ()
            raise

    def get_help_option(self, ctx: Any) -> Any:
        """Return ``--help``, a switch without a value."""
        return _switch(super().get_help_option(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        options = [one for one in self.params if isinstance(one, TyperOption)]
        rare = [] if ctx.meta.get(_ALL) else self._rare()
        kept = [(one, one.hidden, one.rich_help_panel, one.help) for one in options]
        if not ctx.meta.get(_ALL):
            for option in options:
                # one section, since each takes two lines; variables are explained by --help-all
                option.hidden = option.hidden or option in rare
                option.rich_help_panel = None
                option.help = (option.help or "").partition("  [env:")[0]
        try:
            super().format_help(ctx, formatter)
        finally:
            for option, hidden, panel, text in kept:
                option.hidden, option.rich_help_panel, option.help = hidden, panel, text
        if rare:
            names = ", ".join(
                f"{(option.opts or option.secondary_opts)[0]} {option.metavar or ''}".strip()
                for option in rare
            )
            text = f"{RARE}, explained by --help-all: {names}"
            lines = textwrap.wrap(text, _WIDTH - 2, break_on_hyphens=False, break_long_words=False)
            formatter.write("".join(f" {line}\n" for line in lines))

    def _rare(self) -> list[TyperOption]:
        return [
            parameter
            for parameter in self.params
            if isinstance(parameter, TyperOption) and parameter.rich_help_panel == RARE
        ]


def _setting(option: str, command: Any) -> str:
    """Return the ``--set`` equivalent of an unknown option; empty if no setting has its name."""
    if option == "--json":
        return "--format json"
    for name in (option.removeprefix("--no-"), option.removeprefix("--")):
        near = difflib.get_close_matches(name.replace("-", "_"), getattr(command, "set_keys", ()), 1, 0.8)
        if near:
            return f"--set {near[0]}={'false' if option.startswith('--no-') else '…'}"
    return ""


class CompactGroup(TyperGroup):
    """A group whose ``--help`` is a switch without a value."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return ``--help``."""
        return _switch(super().get_help_option(ctx))


def _once(option: Any, value: Any, state: Any) -> None:
    """Store an option's value, as the parser does."""
    if option.dest in state.opts:
        raise typer.BadParameter("is given twice", param=option.obj)
    type(option).process(option, value, state)


def _switch(option: Any) -> Any:
    if option is not None:
        option.metavar = ""
    return option


def explain_all(context: typer.Context, wanted: bool) -> None:
    """Print the help with the rare options, and end."""
    if wanted:
        context.meta[_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


#: ``--help-all``, for commands with rare options.
HELP_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool,
        typer.Option(
            "--help-all",
            metavar="",
            is_eager=True,
            callback=explain_all,
            help="Explain the rare options too.",
        ),
    ],
)
