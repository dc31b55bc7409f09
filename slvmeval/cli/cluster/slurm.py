"""``slvmeval slurm`` prints job scripts; ``slvmeval serve-llm`` starts a language model server for builds."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from slvmeval.cli import terminal

app = typer.Typer(no_args_is_help=True, help="Job scripts for SLURM.")


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="slurm", rich_help_panel="On a cluster")
    parent.command(name="serve-llm", rich_help_panel="On a cluster")(serve_llm)


@app.command()
def script(
    pool: Annotated[
        str, typer.Option("--pool", metavar="POOL", help="The worker pool: cpu, or h100 for GPUs.")
    ],
    profile: terminal.ProfileOption = None,
    store: terminal.StoreOption = None,
) -> None:
    """Print the job script that a build submits to start a pool's workers.

    RUN and PORT are placeholders for what only a build knows: its name and its scheduler's port. ADDRESS is
    one if SLURM does not answer here.

    Example: `slvmeval slurm script --pool h100 --profile site.toml`
    """
    from slvmeval.cli.doctor.cluster import ADDRESS, ask_slurm, profile_place, scheduler_address, script_of
    from slvmeval.cli.doctor.finding import Finding
    from storage_schemas.errors import UserInputError

    site = terminal.settings(profile, store=store)
    where = profile_place(profile)
    if pool not in site.pools:
        pools = (
            f"its pools are {', '.join(site.pools)}"
            if site.pools
            else "it has no pools: name another profile with --profile"
        )
        raise UserInputError(f"{where} has no pool {pool!r}; {pools}")
    answer = ask_slurm(where)
    address = None if isinstance(answer, Finding) else scheduler_address(site, where, answer[1])[0]
    terminal.say(script_of(site, pool, address or ADDRESS).rstrip("\n"))


#: Server name and model used by the recipe `paper`.
CAPTION_ANALYSIS = "caption-analysis"
#: Valid server names in recipes.
SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def serve_llm(
    model: Annotated[
        str, typer.Argument(metavar="[MODEL]", help="A model for a server, see `slvmeval models list`.")
    ] = "qwen3-8b",
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The server's name in recipes and profiles.")
    ] = CAPTION_ANALYSIS,
    submit: Annotated[
        bool, typer.Option("--submit", help="Submit the server to SLURM as a job of the GPU pool.")
    ] = False,
    script: Annotated[
        bool, typer.Option("--script", help="Print the job script without submitting it.")
    ] = False,
    command: Annotated[
        str,
        typer.Option("--command", metavar="PROGRAM", help="vLLM's program, in its separate environment."),
    ] = "vllm",
    port: Annotated[int, typer.Option("--port", help="Port of the printed command.")] = 8000,
    max_model_len: Annotated[
        int, typer.Option("--max-model-len", min=1024, help="Maximum tokens of prompt and answer together.")
    ] = 32768,
    gpus: Annotated[int, typer.Option("--gpus", min=1, help="Number of GPUs that share the model.")] = 1,
    more: Annotated[
        list[str] | None,
        typer.Option("--vllm-arg", metavar="ARG", help="An additional argument for vLLM; repeatable."),
    ] = None,
    profile: terminal.ProfileOption = None,
    store: terminal.StoreOption = None,
    model_folders: terminal.ModelFoldersOption = None,
) -> None:
    """Print the command that serves a language model for builds, or submit it to SLURM.

    vLLM pins its own torch, so it needs a separate environment and is used over HTTP only; any other
    OpenAI-compatible server works as well. A server that runs as a job announces its address in the
    store, where builds find it. `scancel` ends it.

    Example: `slvmeval serve-llm --submit --profile site.toml`
    """
    from infra.serving import server_path, vllm_command
    from infra.slurm.server_job import server_log, server_script, submit_server
    from storage_schemas.errors import PrerequisiteError, UserInputError
    from tasks.llm.servers import profile_lines
    from tasks.models.hub import ModelHub
    from tasks.models.registry import MODEL_SPECS, SERVED

    site = terminal.settings(profile, store=store, model_folders=model_folders)
    hub = ModelHub([Path(folder).expanduser() for folder in site.model_folders])
    known = MODEL_SPECS.get(model) or hub.glance(model)
    if known.kind != SERVED:
        raise UserInputError(
            f"{model} is a model of kind {known.kind}, which builds load themselves: name a model of kind "
            f"{SERVED}"
        )
    spec = MODEL_SPECS.get(model)
    repository = model if spec is None else spec.repository
    if not SERVER_NAME.fullmatch(name):
        # used as the name of a file and of a job
        raise UserInputError(f"--name {name!r}: use at most 64 letters, digits, '.', '_' and '-'")
    place = Path(site.store).resolve()
    try:
        weights, revision = str(hub.path(model)), None
    except PrerequisiteError as problem:
        if submit or spec is None:
            raise
        terminal.tell(f"note: {problem}; the command below names the hub's repository")
        weights, revision = repository, spec.revision
    serving = vllm_command(
        weights,
        served_as=repository,
        revision=revision,
        program=command,
        max_model_len=max_model_len,
        gpus=gpus,
        more=more or (),
    )
    if not (submit or script):
        terminal.say(shlex.join([*serving, "--host", "127.0.0.1", "--port", str(port)]))
        for line in (
            "run it on the GPU machine, then add at the end of the profile:",
            *profile_lines(name, port).split("\n"),
        ):
            terminal.tell(line)
        return
    job = server_script(site, serving, store=place, name=name, model=repository, gpus=gpus)
    if script:
        terminal.say(job.rstrip("\n"))
        return
    number = submit_server(site, job, place, name)
    terminal.say(
        f"job {number} serves {model} as {name}",
        f"log:     {server_log(site, place, name, number)}",
        f"address: {server_path(place, name)}, written once it answers, after loading its weights",
        f"stop:    scancel {number}",
    )
