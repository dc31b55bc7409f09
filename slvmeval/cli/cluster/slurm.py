"""``slvmeval serve-llm`` starts a language model server for builds."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from flows.parameters import Given, ModelFolders, SiteParameters
from slvmeval.cli import terminal
from slvmeval.cli.declared import refuse
from slvmeval.cli.listing import KINDS, ListOptions, chosen
from storage_schemas.names import NAME_RULE, is_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from infra.vllm import VllmModel
    from tasks.models.hub import ModelHub


def register(parent: typer.Typer) -> None:
    """Add the group."""
    parent.command(name="serve-llm", rich_help_panel="On a cluster")(serve_llm)
    KINDS["served-models"] = list_served


#: The caption analyser's model and server; your own model replaces it unless `name` says otherwise.
CAPTION_MODEL = "qwen3-8b"
#: Memory of an H100, in GB, that weights may use, leaving room for the context.
H100_WEIGHTS_GB = 70


#: Settings of a served model that `--set` can change.
_SERVED_SETTINGS = ("gpus", "context", "images", "videos")


class ServeLlmOptions(SiteParameters):
    """Options of `serve-llm`."""

    model: Annotated[str, Given(("model",), "MODEL")] = Field(
        default=CAPTION_MODEL,
        description="A model of the papers, see `slvmeval list served-models`, or one of yours added with "
        "--kind served.",
    )
    name: Annotated[str, Given(metavar="NAME", by_set=True)] = Field(
        default="", description="The server's name in recipes and profiles; by default the model's own."
    )
    submit: bool = Field(default=False, description="Submit the server to SLURM as a job of a GPU pool.")
    pool: terminal.GpuPoolOption = ""
    script: bool = Field(default=False, description="Print the job script without submitting it.")
    batch: bool = Field(
        default=False,
        description="Do not serve: answer the batches that `evaluate --batch` wrote for this server, "
        "then exit.",
    )
    command: Annotated[str, Given(metavar="PROGRAM", by_set=True)] = Field(
        default="vllm", description="The vllm program, in its separate environment."
    )
    port: int = Field(default=8000, description="Port of the printed command.")
    settings: Annotated[tuple[str, ...], Given(("--set",), "KEY=VALUE")] = Field(
        default=(),
        description="Serving settings, by default those of `slvmeval list served-models`: gpus, context "
        "(tokens of prompt and answer together), images and videos (per prompt; 2 videos for "
        "judges with frames_as=video).",
    )
    more: Annotated[tuple[str, ...], Given(("--vllm-arg",), "ARG", by_set=True)] = Field(
        default=(), description="An additional argument for vLLM."
    )
    model_folders: ModelFolders = ()


def serve_llm(
    options: ServeLlmOptions,
) -> None:
    """Print the command that serves a language model, or submit it to SLURM.

    vLLM pins its own torch, so it needs a separate environment and is used over HTTP only; any other
    OpenAI-compatible server works as well. A server that runs as a job writes its address into the store,
    where commands find it. `scancel` ends it.

    With `--batch` no server runs: vLLM reads all waiting requests at once, answers them, and ends. Set `url
    = "offline"` for this server in the profile.

    Example: `slvmeval serve-llm qwen3-vl-235b --submit --profile site.toml`
    """
    from infra.serving import server_path
    from infra.slurm.server_job import batches_script, server_log, server_script, submit_server
    from infra.vllm import VLLM_ENVIRONMENT, vllm_command
    from storage_schemas.errors import UsageError
    from storage_schemas.offline_batches import batches_folder, waiting_batches
    from tasks.llm.servers import profile_lines
    from tasks.models.hub import ModelHub

    if options.submit or options.script:
        refuse(options, "only for the printed command", "port")
        refuse(options, "not with --submit", *(["script"] if options.submit else []))
    else:
        refuse(options, "only with --submit or --script", "pool")
        refuse(options, "not with --batch", *(["port"] if options.batch else []))
    site = options.site()
    hub = ModelHub([Path(folder).expanduser() for folder in site.model_folders])
    served = _with_settings(_served_model(options.model, hub), options.settings)
    name = options.name or served.server
    if not is_name(name):
        # used as a file name and a job name
        raise UsageError(f"--set name={name!r}: use {NAME_RULE}")
    store = Path(site.store).resolve()
    weights, revision = _weights(options.model, served, hub, required=options.submit)
    serving = vllm_command(
        weights,
        served,
        revision=revision,
        program=options.command,
        more=options.more or (),
        batches=options.batch,
    )
    if served.weights_gb is not None:
        terminal.tell(_memory_note(served))
    if options.batch and not (options.submit or options.script):
        folder = batches_folder(store, name)
        answering = ["python", "-P", "-m", "infra.offline_batches", str(folder), "--", *serving]
        terminal.say(shlex.join(answering))
        terminal.tell(f"{len(waiting_batches(folder))} batches are waiting in {folder}")
        return
    if not (options.submit or options.script):
        terminal.say(shlex.join([*serving, "--host", "127.0.0.1", "--port", str(options.port)]))
        if served.images or served.videos:
            variables = " ".join(f"{name}={value}" for name, value in VLLM_ENVIRONMENT.items())
            terminal.tell(f"set {variables} there, or requests with many frames are rejected")
        for line in (
            "run it on the GPU machine, where it listens on loopback. Reach it by "
            f"`ssh -L {options.port}:127.0.0.1:{options.port} MACHINE`, as HOST 127.0.0.1, or give it "
            f"`--host` and a key "
            "(VLLM_API_KEY). Add at the end of the profile:",
            *profile_lines(name, options.port).split("\n"),
        ):
            terminal.tell(line)
        return
    if options.batch:
        job = batches_script(site, serving, store=store, name=name, gpus=served.gpus, pool=options.pool)
    else:
        job = server_script(
            site,
            serving,
            store=store,
            name=name,
            model=served.repository,
            gpus=served.gpus,
            pool=options.pool,
        )
    if options.script:
        terminal.say(job.rstrip("\n"))
        return
    number = submit_server(site, job, store, name)
    if options.batch:
        count = len(waiting_batches(batches_folder(store, name)))
        terminal.say(
            f"job {number} answers the batches of {name}: {count} wait",
            f"log:  {server_log(site, store, name, number)}",
            "then: the same `slvmeval evaluate --batch` collects the answers",
        )
        return
    terminal.say(
        f"job {number} serves {options.model} as {name}",
        f"log:     {server_log(site, store, name, number)}",
        f"address: {server_path(store, name)}, written once it answers, after loading its weights",
        f"stop:    scancel {number}",
    )


def _served_model(model: str, hub: ModelHub) -> VllmModel:
    """Return how a model is served: as in the papers; a user's model like the caption analyser's."""
    from infra.vllm import VLLM_MODELS
    from storage_schemas.errors import UserInputError, suggestion
    from tasks.models.registry import MODEL_SPECS, SERVED

    models = VLLM_MODELS
    if model in models:
        return models[model]
    if model not in hub.names():
        raise UserInputError(
            f"no model {model!r}: {suggestion(model, models, 'there are', hub.names())}; `slvmeval list "
            f"served-models` shows the "
            f"papers' models, and `slvmeval models add NAME FOLDER --kind {SERVED}` adds one of yours"
        )
    kind = (MODEL_SPECS.get(model) or hub.glance(model)).kind
    if kind != SERVED:
        raise UserInputError(
            f"{model} is a model of kind {kind}, which builds load themselves: name one of "
            f"{', '.join(models)}, or a model of yours of kind {SERVED}"
        )
    return models[CAPTION_MODEL].model_copy(update={"repository": model, "weights_gb": None})


def _with_settings(served: VllmModel, settings: Sequence[str]) -> VllmModel:
    from flows.parameters import validated
    from storage_schemas.errors import UsageError, suggestion
    from storage_schemas.names import key_value

    given = dict(key_value(text, f"--set {text}") for text in settings)
    for key in given:
        if key not in _SERVED_SETTINGS:
            raise UsageError(f"--set {key}: {suggestion(key, _SERVED_SETTINGS, 'the settings are')}")
    return validated(type(served), {**served.model_dump(), **given})


def _weights(model: str, served: VllmModel, hub: ModelHub, required: bool) -> tuple[str, str | None]:
    """Return the folder of a model's weights; if it may be missing, the hub's repository and commit."""
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
    note = f"weights: {served.weights_gb:g} GB, {each:.0f} GB on each of {served.gpus} GPUs, plus the context"
    if each > H100_WEIGHTS_GB:
        note += "; an H100 has 80 GB: use GPUs with more memory, or more of them (--set gpus=N)"
    return note


def list_served(options: ListOptions) -> None:
    """Print the served models of the papers."""
    from infra.vllm import VLLM_MODELS

    served = {name: VLLM_MODELS[name] for name in chosen(options, VLLM_MODELS)}
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
        for name, one in served.items()
    ]
    terminal.show(
        options.output,
        {name: one.model_dump(mode="json") for name, one in served.items()},
        terminal.Grid("models that the papers serve", columns, rows, numbers=4),
    )
