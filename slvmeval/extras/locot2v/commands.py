"""``slvmeval suite aesthetics-bound``: the bound of LoCoT2V-Bench's aesthetic quality."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from flows.parameters import Given, ModelFolders, SiteParameters
from slvmeval.cli import terminal


def register(parent: typer.Typer) -> None:
    """Add the command."""
    parent.command(name="aesthetics-bound")(aesthetics_bound)


class AestheticsBoundOptions(SiteParameters):
    """Options of `aesthetics-bound`."""

    pictures: Annotated[Path, Given(("pictures",), "PICTURES", folder=True)] = Field(
        description="A folder of reference pictures."
    )
    siglip: Annotated[str | None, Given(metavar="NAME", by_set=True)] = Field(
        default=None, description="A different SigLIP from the model folder."
    )
    head: Annotated[str | None, Given(metavar="NAME", by_set=True)] = Field(
        default=None, description="A different head for the predictor."
    )
    model_folders: ModelFolders = ()
    quiet: terminal.QuietOption = False


def aesthetics_bound(
    options: AestheticsBoundOptions,
) -> None:
    """Compute the upper bound of LoCoT2V-Bench's aesthetic quality: the mean of the best 10 % of PICTURES.

    The paper's pictures are the part data_1024_10K of Text-to-Image-2M, unpacked into a folder. Without a
    bound, the scores of aesthetic quality are raw.

    Example: `slvmeval suite aesthetics-bound PICTURES --model-folder MODELS`
    """
    from tasks.extras.locot2v.aesthetics_bound import bound_of, pictures_in
    from tasks.models.hub import ModelHub

    site = options.site()
    hub = ModelHub([Path(folder).expanduser() for folder in site.model_folders])
    paths = pictures_in(options.pictures)
    names = {key: name for key, name in (("siglip", options.siglip), ("head", options.head)) if name}
    with terminal.step_bar("pictures", options.quiet) as step:
        bound = bound_of(paths, hub, step, **names)
    terminal.say(
        f"{bound:.4f}: the mean of the best 10 % of {len(paths)} pictures",
        "slvmeval suite run locot2v-bench --set "
        f"""'visual={{"aesthetics": {{"upper_bound": {bound:.4f}}}}}' …""",
    )
