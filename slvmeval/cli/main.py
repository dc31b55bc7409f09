"""The application of the command line.

Each command imports what it needs when it is called, so that help is fast.
"""

from __future__ import annotations

import io
import logging
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from infra.end_signals import end_signals
from infra.surroundings import prepare_surroundings
from slvmeval.cli import here, listing, models, prompts, terminal
from slvmeval.cli.annotate import annotate
from slvmeval.cli.build import build, init, sources
from slvmeval.cli.cluster import deploy, slurm
from slvmeval.cli.declared import CommandGroup
from slvmeval.cli.doctor import doctor
from slvmeval.cli.evaluate import evaluate, report
from slvmeval.cli.help import USAGE_ERROR, CompactGroup
from slvmeval.cli.store import captions, pairs, publish, status, upkeep
from slvmeval.cli.suite import suite
from tasks.plugins import added_points

log = logging.getLogger(__name__)


class _App(CompactGroup):
    """All commands; an unknown short option may be a name that begins with a dash."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; the store and the profile may precede the command."""
        return super().parse_args(ctx, _behind_the_command(self, ctx, args))

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except USAGE_ERROR as problem:
            option = str(getattr(problem, "option_name", ""))
            if hasattr(problem, "possibilities") and not option.startswith("--"):
                problem.message += (
                    f"\nA name that begins with a dash goes after --, following all options: … -- {option}…, "
                    f"and a file is ./{option}…"
                )
            raise


def _behind_the_command(app: Any, ctx: Any, words: list[str]) -> list[str]:
    """Return a command's words with the store and the profile moved behind its name."""
    start = 0
    while start < len(words) and words[start].partition("=")[0] in ("--store", "--profile"):
        start += 1 if "=" in words[start] else 2
    end = start
    command: Any = app
    while end < len(words) and isinstance(command, TyperGroup):
        # a group looks up its suites when they are used
        command = command.get_command(ctx, words[end])
        if command is None:
            break
        end += 1
    return words if end == start else [*words[start:end], *words[:start], *words[end:]]


app = CommandGroup(
    name="slvmeval",
    cls=_App,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for group in (
    here,
    listing,
    doctor,
    init,
    build,
    sources,
    models,
    upkeep,
    deploy,
    pairs,
    publish,
    captions,
    annotate,
    evaluate,
    prompts,
    report,
    suite,
    status,
    slurm,
):
    group.register(app)


def register_added(groups: Mapping[str, typer.Typer]) -> None:
    """Add the commands of installed packages; one that cannot be loaded is reported and left out.

    A package adds a command by an entry point in the group ``slvmeval.commands``. Its name is the command's
    or, in one of our groups, ``GROUP.COMMAND``, such as ``suite.prompts``; its value is ``module:register``,
    a function that takes a :class:`typer.Typer` and adds the command to it.

    Parameters
    ----------
    groups
        The groups that may get more commands, by name; the top level is named "".
    """
    for name, point in added_points("slvmeval.commands", (), "command").items():
        group = name.rpartition(".")[0]
        try:
            if group not in groups:
                raise ImportError(f"there is no group of commands {group!r}")
            point.load()(groups[group])
        except (ImportError, AttributeError) as problem:
            terminal.tell(f"warning: command {name} cannot be loaded from {point.value}: {problem}")


register_added({"": app, "suite": suite.app})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: done. 1: failed, with a message. 2: wrong usage. 3: built, but some items were set aside.
    130 and 143: interrupted or terminated.
    """
    from storage_schemas.secrets import strike_out_of_logs

    strike_out_of_logs()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # a title may contain letters that the terminal's encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        prepare_surroundings()
        with _ending_cleanly():
            app(arguments)
    except SystemExit as ended:
        if ended.code in (_INTERRUPTED, _TERMINATED):
            typer.echo("interrupted; run the same command again to resume", err=True)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except Exception as problem:
        from storage_schemas.away import is_away
        from storage_schemas.errors import SlvmevalError
        from storage_schemas.extras import missing_package
        from storage_schemas.regular_files import path_problem
        from storage_schemas.secrets import struck_out_errors

        shown = problem
        if not isinstance(problem, SlvmevalError):
            if isinstance(problem, ModuleNotFoundError) and (missing := missing_package(problem.name or "")):
                message = str(missing)
            elif is_away(problem):
                message = f"the file system does not answer ({problem}): run the same command again"
            elif not (message := path_problem(problem)):
                with struck_out_errors():
                    raise
            shown = SlvmevalError(message)
        typer.echo(f"error: {shown}", err=True)
        return 1
    return 0


_INTERRUPTED = 128 + signal.SIGINT
_TERMINATED = 128 + signal.SIGTERM


@contextmanager
def _ending_cleanly() -> Iterator[None]:
    """Let SIGTERM (a cancelled job) unwind like an interrupt, so that worker processes are ended.

    A second signal ends this process at once.
    """

    def end(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit(_TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        with end_signals() as received:
            try:
                yield
            except Exception as problem:
                # compiled code that calls Python can replace even a termination by another error
                if not (signals := received()):
                    raise
                log.warning("while it was shutting down: %s: %s", type(problem).__name__, problem)
                raise SystemExit(128 + signals[0]) from problem
    finally:
        signal.signal(signal.SIGTERM, before)
