"""``slvmeval suite aesthetics-bound``: the bound of LoCoT2V-Bench's aesthetic quality."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slvmeval.cli import terminal


def register(parent: typer.Typer) -> None:
    """Add the command."""
    parent.command(name="aesthetics-bound")(aesthetics_bound)


def aesthetics_bound(
    pictures: Annotated[
        Path,
        typer.Argument(
            metavar="PICTURES", file_okay=False, exists=True, help="A folder of reference pictures."
        ),
    ],
    siglip: Annotated[
        str | None, typer.Option("--siglip", metavar="NAME", help="Another SigLIP of the model folder.")
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", metavar="NAME", help="Another head of the predictor.")
    ] = None,
    model_folders: terminal.ModelFoldersOption = None,
    profile: terminal.ProfileOption = None,
    quiet: terminal.QuietOption = False,
) -> None:
    """Compute the upper bound of LoCoT2V-Bench's aesthetic quality: the mean of the best 10 % of PICTURES.

    The paper's pictures are the part data_1024_10K of Text-to-Image-2M, unpacked into a folder. Without a
    bound, the scores of aesthetic quality are raw.

    Example: `slvmeval suite aesthetics-bound PICTURES --models MODELS`
    """
    from tasks.extras.locot2v.aesthetics_bound import bound_of, pictures_in
    from tasks.models.hub import ModelHub

    site = terminal.settings(profile, model_folders=model_folders)
    hub = ModelHub([Path(folder).expanduser() for folder in site.model_folders])
    paths = pictures_in(pictures)
    names = {key: name for key, name in (("siglip", siglip), ("head", head)) if name}
    with terminal.step_bar("pictures", quiet) as step:
        bound = bound_of(paths, hub, step, **names)
    terminal.say(
        f"{bound:.4f}: the mean of the best 10 % of {len(paths)} pictures",
        f"""slvmeval suite locot2v-bench --set 'visual={{"aesthetics": {{"upper_bound": {bound:.4f}}}}}' …""",
    )
