"""``slvmeval annotate publish-ratings``: people rate generated videos in the dimensions of a suite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from flows.parameters import RARE, Given
from flows.score.parameters import SuiteParameters
from slvmeval.cli import terminal
from slvmeval.cli.declared import Only
from slvmeval.command_line import command_line


def register(annotate: typer.Typer) -> None:
    """Add the command."""
    annotate.command(name="publish-ratings")(publish_ratings)


class PublishRatingsOptions(terminal.DeskParameters):
    """Options of `publish-ratings`, in addition to those of a suite's run."""

    suite: Annotated[str, Given(("suite",), "SUITE")] = Field(description="The suite, such as video-bench.")
    campaign: Annotated[str, Given(metavar="NAME")] = Field(
        default="", description="Name of the campaign; by default the name in --settings, else SUITE-ratings."
    )
    settings: Annotated[Path | None, Given(metavar="FILE", panel=RARE)] = Field(
        default=None, description="Settings of the campaign, as TOML."
    )
    guides: Annotated[Path | None, Given(("--texts",), metavar="DIR", panel=RARE)] = Field(
        default=None, description="Folder with your own guides for raters, LANGUAGE/DIMENSION.txt."
    )
    output: terminal.FormatOption = "table"
    quiet: terminal.QuietOption = False


def publish_ratings(
    options: PublishRatingsOptions,
    rated: Annotated[
        SuiteParameters,
        Only("videos", "prompt_suite", "manifest", "dimensions", "generators", "mini", "seed", "prompts"),
    ],
) -> None:
    """Publish generated videos to raters: each task is one video and one dimension, with the guide's levels.

    Each video gets four ratings in each dimension by four of at most ten raters, unless the settings say
    otherwise; a second person checks them on the organiser's pages. `annotate collect` then writes the file
    that `suite alignment` reads. It can be run again with more videos. Exit code 3 if videos, prompts or
    lines were left out.

    Example: `slvmeval annotate publish-ratings video-bench --videos DIR --prompt-suite FILE --store STORE`
    """
    from dataclasses import asdict

    from flows.parameters import checked_prompts, required
    from storage_schemas.store import Store
    from tasks.annotation.desk.desk import Desk
    from tasks.annotation.installation import database_url, installation_key
    from tasks.annotation.publish_ratings import publish_ratings as publish
    from tasks.annotation.publish_ratings import rating_campaign
    from tasks.scoring.setup import Setup
    from tasks.scoring.suites.manifest import find_manifest, load_manifest
    from tasks.scoring.suites.plan import bring_together
    from tasks.scoring.suites.prompts import load_prompts
    from tasks.scoring.suites.registry import make_suite

    site = options.site()
    root = Store.create(Path(site.store)).root
    own = checked_prompts(rated.prompts)
    videos = Path(required("videos", rated.videos))
    manifest = Path(rated.manifest) if rated.manifest else find_manifest(videos)
    suite = make_suite(
        options.suite, Setup(store_path=str(root), model_servers=site.model_servers, prompts=own)
    )
    names = [suite.dimension(name).name for name in rated.dimensions] or [
        one.name for one in suite.dimensions
    ]
    material = bring_together(
        load_prompts(Path(required("prompt_suite", rated.prompt_suite)), suite),
        load_manifest(manifest, videos, rated.generators),
    )
    key = installation_key(root)
    with (
        Desk.open(database_url(root, options.database), key) as desk,
        terminal.step_bar("videos", options.quiet or options.output != "table") as step,
    ):
        wanted = rating_campaign(
            desk.campaigns.all(), suite, names, options.campaign, options.settings, options.guides
        )
        result = publish(desk, root, key, wanted, suite, material, rated.mini or 0, rated.seed, step)
    output = {"campaign": wanted.name, "settings": wanted.model_dump(mode="json")}
    counts = {name: getattr(result, name) for name in ("new", "known", "retired", "videos", "pay")}
    terminal.show(
        options.output,
        {**output, **counts, "left_out": [asdict(one) for one in result.left_out]},
        result.in_words(),
        lambda: terminal.say_left_out(result.left_out, see="--format json"),
        f"Next: {command_line('annotate', 'serve', wanted.name, store=root)}",
    )
    if result.left_out:
        raise typer.Exit(terminal.SOME_SET_ASIDE)
