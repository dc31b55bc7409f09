"""``slvmeval annotate publish``, ``translate`` and ``collect``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slvmeval.commands import annotate_files, shared
from slvmeval.commands.annotate_files import CampaignArgument, PrivateOption
from slvmeval.commands.annotate_shared import DatabaseOption, opened_desk

QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


def register(annotate: typer.Typer) -> None:
    """Add the commands."""
    annotate.command()(publish)
    annotate.command()(translate)
    annotate_files.register(annotate)
    annotate.command()(collect)


def publish(
    release: shared.ReleaseArgument = None,
    version: shared.VersionOption = None,
    campaign: Annotated[
        str, typer.Option("--campaign", metavar="NAME", help="Its name; RELEASE-VERSION by default.")
    ] = "",
    settings: Annotated[
        Path | None,
        typer.Option("--settings", metavar="FILE", help="Settings of the campaign, as TOML."),
    ] = None,
    private_audience: PrivateOption = False,
    workers: shared.WorkersOption = None,
    database: DatabaseOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
    as_json: shared.JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Put a release before people: write the videos that they are shown, and queue its pairs.

    It may be stopped and given again: what is there is kept, new settings and translations are taken over. A
    campaign goes on with its version of the release until another is named. Exit code 3 if pairs have no
    videos, because frames are gone and cannot be made again.

    Example: `slvmeval annotate publish demo --store STORE`
    """
    from functools import partial

    from flows.annotate_options import annotate_options
    from flows.annotate_run import annotation
    from infra.executor import ProcessExecutor
    from infra.progress import BuildProgress
    from slvmeval.commands.running import log_to_stderr
    from storage_schemas.store import Store

    site = shared.settings(profile, store=store, workers=workers)
    options = annotate_options(
        site,
        database,
        release=release,
        version=version,
        campaign=campaign,
        campaign_settings="" if settings is None else str(settings),
        private_audience=private_audience,
    )
    log_to_stderr(quiet or as_json)
    with (
        BuildProgress(Store.open(Path(options.store)).cache, quiet or as_json) as progress,
        annotation(options, progress) as made,
    ):
        result = made.publish(partial(ProcessExecutor, site.workers))
    if as_json:
        shared.print_json(
            {
                "campaign": result.campaign.model_dump(mode="json"),
                "pairs": result.shown,
                "new": result.new,
                "retired": result.retired,
                "withheld_sources": list(result.withheld),
                "withheld_pairs": result.withheld_pairs,
                "failed": dict(result.failed),
                "failed_pairs": result.failed_pairs,
            }
        )
    else:
        shared.say(result.in_words(), *(f"  {why}" for why in result.failed.values()))
        shared.say(f"Next: slvmeval annotate serve {result.campaign.name} --store {site.store}")
    if not result.complete:
        raise typer.Exit(shared.SOME_SET_ASIDE)


def translate(
    release: shared.ReleaseArgument = None,
    into: Annotated[
        str, typer.Option("--into", metavar="LANGUAGE", help="ja, en, or a language as the model knows it.")
    ] = "ja",
    model: Annotated[
        str,
        typer.Option(
            "--model", metavar="NAME", help="The model; Qwen/Qwen3-Next-80B-A3B-Instruct-FP8 by default."
        ),
    ] = "",
    server: Annotated[
        str,
        typer.Option(
            "--server",
            metavar="NAME",
            help="Its server in the profile's model_servers; translation by default.",
        ),
    ] = "",
    prompt: Annotated[
        Path | None, typer.Option("--prompt", metavar="FILE", help="A prompt in place of ours.")
    ] = None,
    plain_sampling: Annotated[
        bool,
        typer.Option(
            "--plain-sampling", help="Send nothing that only vLLM knows, such as for OpenAI's servers."
        ),
    ] = False,
    version: shared.VersionOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
    as_json: shared.JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Translate a release's captions by an OpenAI-compatible model; each is asked about once.

    `annotate publish` shows the translations beside the captions. Exit code 3 if captions have none: they are
    shown as they are, and asked about again the next time.

    Example: `slvmeval annotate translate demo --store STORE --profile site.toml`
    """
    from flows.annotate_options import translation_parameters
    from storage_schemas.errors import UserInputError
    from tasks.annotation.kept_translations import KeptTranslations
    from tasks.annotation.translate import translate_captions
    from tasks.models.servers import Servers

    parameters = translation_parameters(
        into, model, server, "" if prompt is None else str(prompt), plain_sampling
    )
    if parameters is None:
        raise UserInputError("say into which language: --into ja")
    opened = shared.open_release(store, release, version, profile)
    site = shared.settings(profile, store=store)
    captions = [clip.caption for row in opened.sources() for clip in opened.clips(row.source_id)]
    root = opened.store.root
    with (
        KeptTranslations(root) as kept,
        shared.step_bar("captions", quiet or as_json) as step,
    ):
        result = translate_captions(captions, parameters, Servers(site.model_servers, root), kept, step)
    if as_json:
        shared.print_json(
            {"translated": len(result.texts), "asked": result.asked, "failed": list(result.failed.values())}
        )
    else:
        shared.say(result.in_words(), "`slvmeval annotate publish` shows them.")
    if result.failed:
        raise typer.Exit(shared.SOME_SET_ASIDE)


def collect(
    campaign: CampaignArgument = None,
    database: DatabaseOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Take votes and decisions over from the pages' database into the store; of all campaigns by default.

    Example: `slvmeval annotate collect --store STORE`
    """
    from dataclasses import asdict

    from tasks.annotation.collect import collect as collect_campaign

    with opened_desk(store, profile, database) as (found, desk):
        names = [campaign] if campaign else [one.name for one in desk.campaigns()]
        done = [collect_campaign(found, desk, name) for name in names]
    if as_json:
        shared.print_json([asdict(one) | {"complete": one.complete} for one in done])
        return
    shared.say(*([one.in_words() for one in done] or ["nothing is published yet: slvmeval annotate publish"]))
