"""The command line of vLLM, the documented server of language models."""

from __future__ import annotations

from collections.abc import Sequence


def vllm_command(
    weights: str,
    *,
    served_as: str,
    revision: str | None = None,
    program: str = "vllm",
    max_model_len: int = 32768,
    gpus: int = 1,
    more: Sequence[str] = (),
) -> list[str]:
    """Return the command that serves a Qwen3 model, without host and port.

    Parameters
    ----------
    weights
        Folder of the checkpoint, or a repository of the hub.
    served_as
        The name by which clients ask for it.
    revision
        Commit of the repository, where `weights` is one.
    max_model_len
        Longest prompt and answer together, tokens.
    gpus
        GPUs that share the model.
    more
        Further arguments, last.
    """
    return [
        program,
        "serve",
        weights,
        *("--served-model-name", served_as),
        *(("--revision", revision) if revision else ()),
        *("--dtype", "bfloat16"),
        *("--max-model-len", str(max_model_len)),
        # thoughts apart from the answer: the schema is for the answer alone
        *("--reasoning-parser", "qwen3"),
        *(("--tensor-parallel-size", str(gpus)) if gpus > 1 else ()),
        *more,
    ]
