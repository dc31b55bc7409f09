"""``slvmeval doctor``: check this machine and suggest fixes."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer
from pydantic import Field

from flows.parameters import Given
from slvmeval.cli import terminal
from slvmeval.cli.declared import refuse
from slvmeval.cli.doctor.gpu_check import GpuCheckParameters, gpu_check
from storage_schemas.counts import count_text


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(rich_help_panel="Start here")(doctor)


class DoctorOptions(GpuCheckParameters):
    """Options of `doctor`."""

    ask: Annotated[bool, Given(by_set=True)] = Field(
        default=True, description="Send each model server one small request; paid servers charge for it."
    )
    probe_nodes: Annotated[int, Given(metavar="N", by_set=True)] = Field(
        default=1, ge=0, description="Run a short job on N nodes of each kind of the worker pools."
    )
    everything: Annotated[bool, Given(("--all",))] = Field(
        default=False, description="Include what other recipes need, and optional programs."
    )
    script: bool = Field(
        default=False, description="Only print the job script that a build submits for the workers of --pool."
    )


#: The options that the job script depends on, and the switch itself.
_OF_SCRIPT = ("script", "pool", "store", "profile")


def doctor(options: DoctorOptions) -> None:
    """Check packages, store, servers, the cluster and what a recipe needs, and suggest fixes.

    Exit code 1 if something is wrong, 3 if something could not be checked. With worker pools it also checks
    SLURM, and that each kind of node sees the store, the same Python, its GPUs and this machine.

    Example: `slvmeval doctor --store STORE`, `slvmeval doctor --gpu --profile site.toml`
    """
    if options.script:
        others = (name for name in type(options).model_fields if name not in _OF_SCRIPT)
        refuse(options, "not with --script", *others)
        print_script(options)
        return
    if options.gpu:
        refuse(options, "not with --gpu", "ask", "probe_nodes", "everything")
        gpu_check(options)
        return
    if options.everything:
        refuse(options, "not with --all, which covers every recipe", "recipe", "changes")
    if options.recipe is None:
        refuse(options, "only with --recipe or --gpu", "changes")
    refuse(options, "only with --gpu", "direct")
    refuse(options, "only with --gpu or --script", "pool")
    from slvmeval.cli.doctor.checks import run_checks
    from slvmeval.cli.doctor.finding import CheckVerdict

    findings = run_checks(
        options,
        options.recipe,
        options.changes,
        everything=options.everything,
        ask=options.ask,
        probe=options.probe_nodes > 0,
        probe_wait_s=120.0 if options.max_wait is None else options.max_wait,
        per_kind=options.probe_nodes,
    )
    counts = Counter(finding.verdict for finding in findings)
    wrong, unseen = counts[CheckVerdict.FAIL], counts[CheckVerdict.UNSEEN]
    terminal.show(
        options.output,
        [vars(finding) for finding in findings],
        *(f"{finding.verdict.value:<5} {finding.what:<16} {finding.message}" for finding in findings),
        _summary(wrong, unseen),
    )
    if wrong or unseen:
        raise typer.Exit(1 if wrong else terminal.SOME_SET_ASIDE)


def print_script(options: DoctorOptions) -> None:
    """Print the job script that a build submits to start a pool's workers.

    RUN and PORT are placeholders for values known only to a build: its name and its scheduler's port. So is
    ADDRESS if SLURM does not respond here.
    """
    from slvmeval.cli.doctor.cluster import ADDRESS, ask_slurm, scheduler_address, script_of
    from slvmeval.cli.doctor.finding import Finding
    from storage_schemas.errors import UserInputError
    from storage_schemas.placement import known_pool

    site, pool = options.site(), options.pool
    if not site.pools:
        raise UserInputError(f"{site.label} has no pools: name another profile with --profile")
    known_pool(pool, site.pools, f"--pool in {site.label}")
    answer = ask_slurm(site)
    address = None if isinstance(answer, Finding) else scheduler_address(site, answer[1])[0]
    terminal.say(script_of(site, pool, address or ADDRESS).rstrip("\n"))


def _summary(wrong: int, unseen: int) -> str:
    """Return the last line: what is wrong, and what could not be checked."""
    things = f"{count_text(unseen, 'item')} could not be checked (marked ?)"
    if wrong:
        problems = f"{count_text(wrong, 'problem')} to fix"
        return f"{problems}; {things}" if unseen else problems
    return f"no problems were found, but {things}" if unseen else "all good"
