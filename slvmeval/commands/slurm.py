"""``slvmeval slurm``: what is sent to SLURM."""

from __future__ import annotations

from typing import Annotated

import typer

from slvmeval.commands import shared

app = typer.Typer(no_args_is_help=True, help="What is sent to SLURM.")


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="slurm", rich_help_panel="On a cluster")


@app.command()
def script(
    pool: Annotated[str, typer.Option("--pool", metavar="POOL", help="The worker pool: cpu or h100.")],
    profile: shared.ProfileOption = None,
    store: shared.StoreOption = None,
) -> None:
    """Print the job script with which a build starts the workers of a pool.

    RUN and PORT stand in it for what only a build knows, its name and the port of its scheduler; ADDRESS
    where SLURM does not answer here.

    Example: `slvmeval slurm script --pool h100 --profile site.toml`
    """
    from slvmeval.commands.cluster_checks import (
        ADDRESS,
        ask_slurm,
        profile_place,
        scheduler_address,
        script_of,
    )
    from slvmeval.commands.finding import Finding
    from storage_schemas.errors import UserInputError

    site = shared.settings(profile, store=store)
    where = profile_place(profile)
    if pool not in site.pools:
        have = (
            f"its pools are {', '.join(site.pools)}"
            if site.pools
            else "it has none: name another with --profile"
        )
        raise UserInputError(f"{where} has no pool {pool!r}; {have}")
    asked = ask_slurm(where)
    address = None if isinstance(asked, Finding) else scheduler_address(site, where, asked[1])[0]
    shared.say(script_of(site, pool, address or ADDRESS).rstrip("\n"))
