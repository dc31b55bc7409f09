"""``slvmeval doctor --script``: the job script of a pool's workers."""

from __future__ import annotations

from flows.parameters import SiteParameters
from slvmeval.cli import terminal


def print_script(options: SiteParameters, pool: str) -> None:
    """Print the job script that a build submits to start a pool's workers.

    RUN and PORT are placeholders for values known only to a build: its name and its scheduler's port. So is
    ADDRESS if SLURM does not respond here.
    """
    from slvmeval.cli.doctor.cluster import ADDRESS, ask_slurm, scheduler_address, script_of
    from slvmeval.cli.doctor.finding import Finding
    from storage_schemas.errors import UserInputError
    from storage_schemas.placement import known_pool

    site = options.site()
    if not site.pools:
        raise UserInputError(f"{site.place} has no pools: name another profile with --profile")
    known_pool(pool, site.pools, f"--pool in {site.place}")
    answer = ask_slurm(site)
    address = None if isinstance(answer, Finding) else scheduler_address(site, answer[1])[0]
    terminal.say(script_of(site, pool, address or ADDRESS).rstrip("\n"))
