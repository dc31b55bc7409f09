"""``slvmeval slurm`` prints job scripts; ``slvmeval serve-llm`` starts a language model server for builds."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slvmeval.cli import terminal
from storage_schemas.names import NAME_RULE, is_name

if TYPE_CHECKING:
    from infra.vllm import VllmModel
    from tasks.models.hub import ModelHub

app = typer.Typer(no_args_is_help=True, help="Job scripts for SLURM.")


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.add_typer(app, name="slurm", rich_help_panel="On a cluster")
    parent.command(name="serve-llm", rich_help_panel="On a cluster")(serve_llm)


@app.command()
def script(
    pool: Annotated[
        str, typer.Option("--pool", metavar="POOL", help="The worker pool, as the profile names it.")
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
    from storage_schemas.placement import known_pool

    site = terminal.settings(profile, store=store)
    where = profile_place(profile)
    if not site.pools:
        raise UserInputError(f"{where} has no pools: name another profile with --profile")
    known_pool(pool, site.pools, f"--pool in {where}")
    answer = ask_slurm(where)
    address = None if isinstance(answer, Finding) else scheduler_address(site, where, answer[1])[0]
    terminal.say(script_of(site, pool, address or ADDRESS).rstrip("\n"))


#: The caption analyser's model and server; a model of one's own takes its place unless --name says otherwise.
CAPTION_MODEL = "qwen3-8b"
#: Memory of an H100 in GB that weights may take, so that some is left for a context.
H100_WEIGHTS_GB = 70


def serve_llm(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A model of the papers, see --list, or one of yours added with --kind served.",
        ),
    ] = CAPTION_MODEL,
    list_models: Annotated[
        bool, typer.Option("--list", help="List the models that the papers serve, and stop.")
    ] = False,
    name: Annotated[
        str,
        typer.Option(
            "--name",
            metavar="NAME",
            help="The server's name in recipes and profiles; by default the model's in --list.",
        ),
    ] = "",
    submit: Annotated[
        bool, typer.Option("--submit", help="Submit the server to SLURM as a job of a GPU pool.")
    ] = False,
    pool: terminal.GpuPoolOption = "",
    script: Annotated[
        bool, typer.Option("--script", help="Print the job script without submitting it.")
    ] = False,
    batches: Annotated[
        bool,
        typer.Option(
            "--batches",
            help="Do not serve: answer what `evaluate --batch` has left for this server, then end.",
        ),
    ] = False,
    command: Annotated[
        str,
        typer.Option("--command", metavar="PROGRAM", help="vLLM's program, in its separate environment."),
    ] = "vllm",
    port: Annotated[int, typer.Option("--port", help="Port of the printed command.")] = 8000,
    max_model_len: Annotated[
        int | None,
        typer.Option(
            "--max-model-len",
            min=1024,
            help="Maximum tokens of prompt and answer together; by default the model's in --list.",
        ),
    ] = None,
    images: Annotated[
        int | None,
        typer.Option("--images", min=0, help="Maximum images of one prompt; by default the model's."),
    ] = None,
    videos: Annotated[
        int | None,
        typer.Option(
            "--videos",
            min=0,
            help="Maximum videos of one prompt, 2 for judges with `frames_as=video`; by default the model's.",
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option("--gpus", min=1, help="Number of GPUs that share the model; by default the model's."),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option("--vllm-arg", metavar="ARG", help="An additional argument for vLLM; repeatable."),
    ] = None,
    profile: terminal.ProfileOption = None,
    store: terminal.StoreOption = None,
    model_folders: terminal.ModelFoldersOption = None,
) -> None:
    """Print the command that serves a language model, or submit it to SLURM.

    vLLM pins its own torch, so it needs a separate environment and is used over HTTP only; any other
    OpenAI-compatible server works as well. A server that runs as a job announces its address in the
    store, where commands find it. `scancel` ends it.

    With `--batches` no server runs: vLLM reads all waiting requests at once, answers them, and ends. The
    profile has `url = "offline"` for this server then.

    Example: `slvmeval serve-llm qwen3-vl-235b --submit --profile site.toml`
    """
    from infra.serving import server_path
    from infra.slurm.server_job import batches_script, server_log, server_script, submit_server
    from infra.vllm import VLLM_ENVIRONMENT, vllm_command
    from storage_schemas.errors import UserInputError
    from storage_schemas.offline_batches import batches_folder, waiting_batches
    from tasks.llm.servers import profile_lines
    from tasks.models.hub import ModelHub

    if list_models:
        _print_models()
        return
    site = terminal.settings(profile, store=store, model_folders=model_folders)
    hub = ModelHub([Path(folder).expanduser() for folder in site.model_folders])
    given = {"context": max_model_len, "images": images, "videos": videos, "gpus": gpus}
    served = _served_model(model, hub).model_copy(
        update={field: value for field, value in given.items() if value is not None}
    )
    name = name or served.server
    if not is_name(name):
        # used as the name of a file and of a job
        raise UserInputError(f"--name {name!r}: use {NAME_RULE}")
    place = Path(site.store).resolve()
    weights, revision = _weights(model, served, hub, required=submit)
    serving = vllm_command(
        weights, served, revision=revision, program=command, more=more or (), batches=batches
    )
    if served.weights_gb is not None:
        terminal.tell(_memory_note(served))
    if batches and not (submit or script):
        folder = batches_folder(place, name)
        answering = ["python", "-P", "-m", "infra.offline_batches", str(folder), "--", *serving]
        terminal.say(shlex.join(answering))
        terminal.tell(f"{len(waiting_batches(folder))} batches wait in {folder}")
        return
    if not (submit or script):
        terminal.say(shlex.join([*serving, "--host", "127.0.0.1", "--port", str(port)]))
        if served.images or served.videos:
            variables = " ".join(f"{name}={value}" for name, value in VLLM_ENVIRONMENT.items())
            terminal.tell(f"set {variables} there, or requests with many frames are refused")
        for line in (
            "run it on the GPU machine, where it listens on loopback. Reach it by "
            f"`ssh -L {port}:127.0.0.1:{port} MACHINE`, as HOST 127.0.0.1, or give it `--host` and a key "
            "(VLLM_API_KEY). Add at the end of the profile:",
            *profile_lines(name, port).split("\n"),
        ):
            terminal.tell(line)
        return
    if batches:
        job = batches_script(site, serving, store=place, name=name, gpus=served.gpus, pool=pool)
    else:
        job = server_script(
            site, serving, store=place, name=name, model=served.repository, gpus=served.gpus, pool=pool
        )
    if script:
        terminal.say(job.rstrip("\n"))
        return
    number = submit_server(site, job, place, name)
    if batches:
        count = len(waiting_batches(batches_folder(place, name)))
        terminal.say(
            f"job {number} answers the batches of {name}: {count} wait",
            f"log:  {server_log(site, place, name, number)}",
            "then: the same `slvmeval evaluate --batch` collects the answers",
        )
        return
    terminal.say(
        f"job {number} serves {model} as {name}",
        f"log:     {server_log(site, place, name, number)}",
        f"address: {server_path(place, name)}, written once it answers, after loading its weights",
        f"stop:    scancel {number}",
    )


def _served_model(model: str, hub: ModelHub) -> VllmModel:
    """Return how a model is served: as the papers', or one of the user's as the caption analyser's."""
    from infra.vllm import VLLM_MODELS
    from storage_schemas.errors import UserInputError, suggestion
    from tasks.models.registry import MODEL_SPECS, SERVED

    known = VLLM_MODELS
    if model in known:
        return known[model]
    if model not in hub.names():
        raise UserInputError(
            f"no model {model!r}: {suggestion(model, known, 'there are', hub.names())}; --list shows the "
            f"papers' models, and `slvmeval models add NAME FOLDER --kind {SERVED}` adds one of yours"
        )
    kind = (MODEL_SPECS.get(model) or hub.glance(model)).kind
    if kind != SERVED:
        raise UserInputError(
            f"{model} is a model of kind {kind}, which builds load themselves: name one of "
            f"{', '.join(known)}, or a model of yours of kind {SERVED}"
        )
    return known[CAPTION_MODEL].model_copy(update={"repository": model, "weights_gb": None})


def _weights(model: str, served: VllmModel, hub: ModelHub, required: bool) -> tuple[str, str | None]:
    """Return the folder with a model's weights; if it may be missing, the hub's repository and its commit."""
    from infra.vllm import VLLM_MODELS
    from storage_schemas.errors import PrerequisiteError, UserInputError
    from tasks.models.registry import MODEL_SPECS

    spec = MODEL_SPECS.get(model)
    try:
        return str(hub.path(model)), None
    except (PrerequisiteError, UserInputError) as problem:
        if model not in VLLM_MODELS:
            raise
        missing = str(problem)
        if spec is None:
            missing = (
                f"weights of model {model} ({served.repository}) are not in "
                f"{', '.join(map(str, hub.model_folders)) or 'a model folder'}; on a machine with internet: "
                f"hf download {served.repository} --local-dir DIR, then slvmeval models add {model} DIR "
                "--kind served"
            )
        if required:
            raise PrerequisiteError(missing) from problem
    terminal.tell(f"note: {missing}; the command below names the hub's repository")
    return served.repository, spec.revision if spec is not None else None


def _memory_note(served: VllmModel) -> str:
    each = (served.weights_gb or 0) / served.gpus
    note = (
        f"weights: {served.weights_gb:g} GB, {each:.0f} GB on each of {served.gpus} GPUs, besides the context"
    )
    if each > H100_WEIGHTS_GB:
        note += "; an H100 has 80 GB: use GPUs with more memory, or more of them (--gpus)"
    return note


def _print_models() -> None:
    from infra.vllm import VLLM_MODELS

    columns = ("model", "GPUs", "context", "images", "videos", "server", "repository")
    rows = [
        (
            name,
            one.gpus,
            f"{one.context:,}",
            f"{one.images:,}" if one.images else "",
            one.videos or "",
            one.server,
            one.repository,
        )
        for name, one in VLLM_MODELS.items()
    ]
    terminal.console().print(terminal.table("models that the papers serve", columns, rows, numbers=4))
