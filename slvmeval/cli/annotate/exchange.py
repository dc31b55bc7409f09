"""``slvmeval annotate publish``, ``translate`` and ``collect``; ``export`` and ``import`` for platforms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field

from flows.annotate.parameters import AnnotateParameters, PrivateAudience
from flows.parameters import RARE, Given, OwnPrompts, ReleaseParameters
from slvmeval.cli import terminal
from slvmeval.cli.annotate.database import opened_desk, pairs_campaign
from slvmeval.cli.declared import Only, refuse
from slvmeval.command_line import command_line
from storage_schemas.counts import count_text
from storage_schemas.model import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage_schemas.release import Release
    from tasks.annotation.desk.desk import Desk
    from tasks.annotation.pair_task import PairTask


CampaignArgument = Annotated[
    str | None,
    Given(("argument",), "CAMPAIGN"),
    Field(description="Name of the campaign; optional if there is only one."),
]
CampaignOption = Annotated[
    str | None,
    Given(("--campaign",), "NAME"),
    Field(description="The campaign; optional if there is only one."),
]
TextsOption = Annotated[
    Path | None,
    Given(("--texts",), "DIR"),
    Field(description="Folder of texts that replace the built-in ones."),
]


def register(annotate: typer.Typer) -> None:
    """Add the commands."""
    annotate.command()(export)
    annotate.command(name="import")(import_)
    annotate.command()(publish)
    annotate.command()(translate)
    annotate.command()(collect)


class ExportOptions(terminal.DeskParameters):
    """Options of `export`."""

    out: Annotated[Path, Given(metavar="FILE")] = Field(
        default=Path("tasks.csv"), description="New file: FILE.csv or FILE.jsonl."
    )
    campaign: CampaignArgument = None
    links: Annotated[Literal["token", "worker", "none"], Given(metavar="token|worker|none")] = Field(
        default="token",
        description="token: a link for one worker per task; worker: links into which the platform inserts "
        "its "
        "worker's id; none: for a platform that shows the tasks itself.",
    )
    public_url: Annotated[str, Given(metavar="URL", panel=RARE)] = Field(
        default="", description="Address of our pages, for links; by default the campaign's public_url."
    )
    placeholder: Annotated[str, Given(by_set=True)] = Field(
        default="WORKER_ID", description="Placeholder that the platform replaces with its worker id."
    )
    media_url: Annotated[str, Given(metavar="URL", by_set=True)] = Field(
        default="", description="Base address of the videos on the platform, without links."
    )
    language: Annotated[str, Given(metavar="en|ja", panel=RARE)] = Field(
        default="en", description="Language of the questions, without links."
    )
    texts: Annotated[TextsOption, Given(panel=RARE)] = None
    every: Annotated[bool, Given(("--all",))] = Field(
        default=False, description="Include tasks that already have their votes."
    )
    encoding: Annotated[
        Literal["utf-8", "utf-8-sig", "cp932"], Given(metavar="utf-8|utf-8-sig|cp932", by_set=True)
    ] = Field(default="utf-8", description="Encoding of the file.")
    private_audience: PrivateAudience = False


def export(
    given: ExportOptions,
) -> None:
    """Write the tasks that still need votes as a table for another platform, one row per vote.

    Links of the kind `token` are new each time; earlier ones stay valid. Without links, sources that may
    not be redistributed are left out unless --private is given.

    Example: `slvmeval annotate export demo-1 --store STORE --public-url https://HOST --out tasks.csv`
    """
    from storage_schemas.errors import UserInputError
    from tasks.annotation.exchange.task_table import TableOptions, check_target, task_rows, write_table
    from tasks.annotation.installation import installation_key

    if given.links == "none":
        refuse(given, "only with --links token or worker", "public_url", "placeholder")
    else:
        why = "only with --links none"
        refuse(given, why, "media_url", "language", "texts", "private_audience")
        if given.links == "token":
            refuse(given, "only with --links worker", "placeholder")
    check_target(given.out)
    with opened_desk(given) as (opened, desk):
        name = pairs_campaign(desk, given.campaign, "send raters links (`slvmeval annotate links`)")
        address = given.public_url or desk.campaigns.get(name).public_url
        options = TableOptions(given.links, address, given.placeholder, given.media_url, given.every)
        release = _release_of(opened.root, desk, name)
        free = {row.source_id for row in release.sources() if given.private_audience or row.redistributable}
        tasks = desk.campaigns.tasks(name)
        rows = task_rows(
            desk,
            installation_key(opened.root),
            name,
            options,
            lambda task: task.source_id in free,
            _wording(given.language, given.texts),
        )
    if not rows:
        raise UserInputError(f"campaign {name} has no tasks to write: every pair has its votes (see --all)")
    write_table(given.out, rows, given.encoding)
    terminal.say(f"{len(rows)} tasks of campaign {name} in {given.out}")
    left_out = sum(task.source_id not in free for task in tasks) if given.links == "none" else 0
    if left_out:
        pairs = count_text(left_out, "pair")
        terminal.say(f"left out, since their sources may not be redistributed: {pairs}")


class ImportOptions(terminal.DeskParameters):
    """Options of `import`."""

    files: Annotated[tuple[Path, ...], Given(("files",), "FILE")] = Field(
        description="Answers: .csv, .tsv or .jsonl; they are only read."
    )
    campaign: CampaignOption = None
    mapping: Annotated[Path | None, Given(metavar="FILE")] = Field(
        default=None, description="Mapping of columns and values, as TOML."
    )
    dry_run: bool = Field(default=False, description="Only report what would be imported.")
    report: Annotated[Path | None, Given(("--out",), metavar="FILE")] = Field(
        default=None, description="Report of the rows left out; by default next to the first file."
    )
    output: terminal.FormatOption = "table"


def import_(
    options: ImportOptions,
) -> None:
    """Import another platform's answers as votes; workers' ids are hashed.

    Unusable rows are left out and listed by file and line in a report. Correct them and import the same
    files again: no vote is counted twice. Exit code 3 if rows were left out.

    Example: `slvmeval annotate import answers.csv --campaign demo-1 --mapping platform.toml --store STORE`
    """
    from tasks.annotation.exchange.answers import import_answers, write_report
    from tasks.annotation.exchange.mapping import load_mapping
    from tasks.annotation.installation import installation_key

    columns = load_mapping(options.mapping)
    with opened_desk(options) as (opened, desk):
        instead = "pass a file of ratings directly to `slvmeval suite alignment --ratings FILE`"
        name = pairs_campaign(desk, options.campaign, instead)
        result = import_answers(
            desk, installation_key(opened.root), name, options.files, columns, options.dry_run
        )
    report = options.report or options.files[0].with_name(f"{options.files[0].stem}.left-out.csv")
    if result.left_out or report.exists():
        # an older report does not apply to these rows
        write_report(report, result.left_out)
    terminal.show(
        options.output,
        {
            "campaign": name,
            "rows": result.rows,
            "accepted": result.accepted,
            "known": result.known,
            "dry_run": options.dry_run,
            "left_out": [
                {"file": row.file, "line": row.line, "reason": row.reason.value, "message": row.message}
                for row in result.left_out
            ],
        },
        result.in_words(),
        *(f"  {row.file}:{row.line}: {row.reason.value}: {row.message}" for row in result.left_out[:20]),
        *([f"all {len(result.left_out)} rows that were left out: {report}"] if result.left_out else []),
    )
    if result.left_out:
        raise typer.Exit(terminal.SOME_SET_ASIDE)


def _release_of(root: Path, desk: Desk, campaign: str) -> Release:
    from storage_schemas.release import Release
    from storage_schemas.store import Store

    settings = desk.campaigns.get(campaign)
    return Release.open(Store.open(root), settings.release, settings.version)


def _wording(language: str, folder: Path | None) -> Callable[[PairTask], dict[str, Any]]:
    """Return the function for a task's texts."""
    from slvmeval.web.annotation.pages.texts import texts

    def wording(task: PairTask) -> dict[str, Any]:
        words = texts(language, task.aspect, folder).aspect
        return {name: words[name] for name in ("question", "instruction", "changed", "clear", "failed")}

    return wording


class PublishOptions(Frozen):
    """Options of `publish`."""

    dry_run: bool = Field(
        default=False, description="Only print the number of answers needed, with time and pay."
    )


def publish(
    parameters: Annotated[
        AnnotateParameters,
        Only(
            "release",
            "campaign",
            "settings",
            "private_audience",
            "workers",
            "database",
            "store",
            "profile",
        ),
    ],
    run: Annotated[terminal.RunSwitches, Only("output", "quiet")],
    given: PublishOptions,
) -> None:
    """Publish a release to annotators: write the videos they see, and queue its pairs.

    It can be stopped and run again: existing videos are kept, new settings and translations are applied.
    A campaign keeps its version of the release until you name another. Exit code 3 if pairs have no
    videos because their frames are gone and cannot be recreated.

    Example: `slvmeval annotate publish demo --store STORE`
    """
    from dataclasses import asdict
    from functools import partial

    from flows.annotate.options import annotate_options
    from flows.annotate.run import annotation
    from flows.command_runs import log_to_stderr
    from infra.executor import ProcessExecutor
    from infra.progress import BuildProgress

    site = parameters.site()
    options = annotate_options(parameters, site)
    output, quiet = run.output, run.quiet or run.output != "table"
    log_to_stderr(quiet)
    with (
        BuildProgress(options.open_store().cache, quiet, "annotation") as progress,
        annotation(options, progress) as prepared,
    ):
        if given.dry_run:
            plan = prepared.plan()
            terminal.show(
                output, {**asdict(plan), "campaign": plan.campaign.model_dump(mode="json")}, *plan.in_words()
            )
            return
        result = prepared.publish(partial(ProcessExecutor, site.workers))
    private = ("--private",) if options.private_audience else ()
    terminal.show(
        output,
        {
            "campaign": result.campaign.model_dump(mode="json"),
            "pairs": result.shown,
            "new": result.new,
            "retired": result.retired,
            "withheld_sources": list(result.withheld),
            "withheld_pairs": result.withheld_pairs,
            "failed": dict(result.failed),
            "failed_pairs": result.failed_pairs,
        },
        result.in_words(),
        *(f"  {why}" for why in result.failed.values()),
        f"Next: {command_line('annotate', 'serve', result.campaign.name, *private, store=site.store)}",
    )
    if not result.complete:
        raise typer.Exit(terminal.SOME_SET_ASIDE)


class TranslateOptions(ReleaseParameters):
    """Options of `translate`."""

    into: Annotated[str, Given(("--language",), metavar="LANGUAGE")] = Field(
        default="ja", description="ja, en, or a language name known to the model."
    )
    model: Annotated[str, Given(metavar="NAME", panel=RARE)] = Field(
        default="", description="The model; Qwen/Qwen3-Next-80B-A3B-Instruct-FP8 by default."
    )
    server: Annotated[str, Given(metavar="NAME", panel=RARE)] = Field(
        default="", description="Its server in the profile's model_servers; translation by default."
    )
    prompt_suite: Annotated[Path | None, Given(metavar="FILE")] = Field(
        default=None, description="Translate the prompts of rated videos instead of captions."
    )
    suite: Annotated[str, Given(metavar="NAME")] = Field(
        default="", description="Suite whose authors published the file."
    )
    prompts: OwnPrompts = None
    plain_sampling: Annotated[bool, Given(by_set=True)] = Field(
        default=False, description="Omit vLLM's extra fields, for example for OpenAI's servers."
    )
    output: terminal.FormatOption = "table"
    quiet: terminal.QuietOption = False


def translate(
    options: TranslateOptions,
) -> None:
    """Translate a release's captions with an OpenAI-compatible model; each is requested once.

    `annotate publish` shows the translations next to the captions, `annotate publish-ratings` next to the
    prompts. Texts without a translation are shown untranslated and retried by the next run; the exit code is
    then 3.

    Example: `slvmeval annotate translate demo --store STORE --profile site.toml`
    """
    from flows.annotate.options import translation_parameters
    from storage_schemas.errors import UsageError
    from storage_schemas.store import Store
    from tasks.annotation.translation import TranslationStore, translate_captions
    from tasks.llm.servers import Servers

    parameters = translation_parameters(
        options.into,
        options.model,
        options.server,
        options.prompts,
        options.plain_sampling,
    )
    if parameters is None:
        raise UsageError("name the language: --language ja")
    site = options.site()
    if options.prompt_suite is None:
        refuse(options, "only with --prompt-suite FILE", "suite")
        opened = terminal.open_release(options)
        captions = [clip.caption for row in opened.sources() for clip in opened.clips(row.source_id)]
        root = opened.store.root
    else:
        refuse(options, "not with --prompt-suite", "release")
        root = Store.create(Path(site.store)).root
        captions = prompt_texts(options.prompt_suite, options.suite, root)
    with (
        TranslationStore(root) as translations,
        terminal.step_bar("captions", options.quiet or options.output != "table") as step,
    ):
        result = translate_captions(
            captions, parameters, Servers(site.model_servers, root), translations, step
        )
    command = "publish" if options.prompt_suite is None else "publish-ratings"
    terminal.show(
        options.output,
        {"translated": len(result.texts), "asked": result.asked, "failed": list(result.failed.values())},
        result.in_words(),
        f"`slvmeval annotate {command}` shows them.",
    )
    if result.failed:
        raise typer.Exit(terminal.SOME_SET_ASIDE)


def prompt_texts(path: Path, suite: str, root: Path) -> list[str]:
    """Return the texts in a file of prompts; `suite` names the suite, if any, whose authors published it."""
    from tasks.scoring.setup import Setup
    from tasks.scoring.suites.prompts import load_prompts
    from tasks.scoring.suites.registry import make_suite

    made = make_suite(suite, Setup(store_path=str(root))) if suite else None
    return [prompt.text for prompt in load_prompts(path, made).by_id.values()]


class CollectOptions(terminal.DeskParameters):
    """Options of `collect`."""

    campaign: CampaignArgument = None
    output: terminal.FormatOption = "table"


def collect(
    options: CollectOptions,
) -> None:
    """Copy votes and decisions from the pages' database into the store, by default for all campaigns.

    For a rating campaign it writes `annotation/ratings/CAMPAIGN.csv`, which `suite alignment` reads, and
    next to it the ratings left out: not confirmed, sent back, or by an excluded rater. Exit code 3 while any
    of these may still be used or replaced.

    Example: `slvmeval annotate collect --store STORE`
    """
    from dataclasses import asdict

    from tasks.annotation.ratings_file import CollectedRatings, collect_ratings
    from tasks.annotation.sync import collect as collect_campaign

    with opened_desk(options) as (opened, desk):
        selected = [desk.campaigns.get(options.campaign)] if options.campaign else desk.campaigns.all()
        done = [
            (collect_ratings if one.kind == "ratings" else collect_campaign)(opened, desk, one.name)
            for one in selected
        ]
    rows = [asdict(one) | {"complete": one.complete} for one in done]
    nothing = "nothing is published yet: slvmeval annotate publish"
    terminal.show(
        options.output,
        [{key: _plain(value) for key, value in row.items()} for row in rows],
        *([one.in_words() for one in done] or [nothing]),
    )
    if any(isinstance(one, CollectedRatings) and one.waiting for one in done):
        raise typer.Exit(terminal.SOME_SET_ASIDE)


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value
