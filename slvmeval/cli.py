"""The command line. Every command imports what it needs when it is called, so that help is quick."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from slvmeval.commands import (
    build,
    demo,
    doctor,
    gc,
    models,
    pairs,
    plan,
    publish,
    schema,
    sources,
    status,
    verify,
)

app = typer.Typer(
    name="slvmeval",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Builds SLVMEval: long-video pairs with known damage, to measure the judges of generated video.\n\n"
    "Start with `slvmeval doctor`, then `slvmeval demo`; with videos of your own: "
    "`slvmeval build --sources folder:VIDEOS --store STORE`.",
)
for group in (doctor, demo, sources, models, build, plan, verify, pairs, publish, status, gc, schema):
    group.register(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0: done. 1: failed, with a message. 2: wrong usage. 3: built, but something was set aside.
    130: interrupted.
    """
    try:
        app(arguments)
    except SystemExit as ended:
        if ended.code == 130:
            typer.echo("interrupted; run the same command again to go on", err=True)
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except Exception as problem:
        from storage_schemas.errors import SlvmevalError

        if not isinstance(problem, SlvmevalError):
            raise
        typer.echo(f"error: {problem}", err=True)
        return 1
    return 0
