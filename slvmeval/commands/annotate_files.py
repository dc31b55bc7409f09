"""``slvmeval annotate export`` and ``import``: tasks and answers as files, for a platform of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slvmeval.commands import shared
from slvmeval.commands.annotate_shared import DatabaseOption, one_campaign, opened_desk

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage_schemas.release import Release
    from tasks.annotation.desk import Desk
    from tasks.annotation.tasks import PairTask

CampaignArgument = Annotated[
    str | None,
    typer.Argument(metavar="[CAMPAIGN]", help="Name of the campaign; may be left out if there is one."),
]
CampaignOption = Annotated[
    str | None,
    typer.Option("--campaign", metavar="NAME", help="The campaign; may be left out if there is one."),
]
PrivateOption = Annotated[
    bool,
    typer.Option(
        "--private-audience",
        help="Also sources that may not be passed on: all who see them are under your agreement with their "
        "owner.",
    ),
]


def register(annotate: typer.Typer) -> None:
    """Add the commands."""
    annotate.command()(export)
    annotate.command(name="import")(import_)


def export(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="A new file, FILE.csv or FILE.jsonl.")],
    campaign: CampaignArgument = None,
    links: Annotated[
        str,
        typer.Option(
            "--links",
            metavar="token|worker|none",
            help="A link for one worker a task; links into which the platform writes its worker's id; or "
            "none, for a platform that shows the tasks itself.",
        ),
    ] = "token",
    public_url: Annotated[
        str, typer.Option("--public-url", metavar="URL", help="Where workers reach our pages, for links.")
    ] = "",
    placeholder: Annotated[
        str, typer.Option("--placeholder", help="What the platform replaces by its worker's id.")
    ] = "WORKER_ID",
    media_url: Annotated[
        str,
        typer.Option(
            "--media-url", metavar="URL", help="Where the platform finds the videos, without links."
        ),
    ] = "",
    language: Annotated[
        str, typer.Option("--language", metavar="en|ja", help="Of the questions, without links.")
    ] = "en",
    texts: Annotated[
        Path | None, typer.Option("--texts", metavar="DIR", help="Texts of your own, over ours.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Also tasks that have their votes already.")] = False,
    encoding: Annotated[
        str, typer.Option("--encoding", metavar="utf-8|utf-8-sig|cp932", help="Encoding of the file.")
    ] = "utf-8",
    private_audience: PrivateOption = False,
    database: DatabaseOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
) -> None:
    """Write the tasks that still want votes as a table for a platform of your own, a row a vote.

    Each time links of the kind `token` are new ones; earlier ones stay good. Without links, sources that may
    not be passed on are left out unless --private-audience says otherwise.

    Example: `slvmeval annotate export demo-1 --store STORE --public-url https://HOST --out tasks.csv`
    """
    from typing import cast, get_args

    from storage_schemas.errors import UserInputError
    from tasks.annotation.mapping import Encoding
    from tasks.annotation.places import installation_key
    from tasks.annotation.task_table import LINKS, TableWishes, check_target, task_rows, write_table

    if links not in LINKS:
        raise UserInputError(f"--links {links}: choose {', '.join(LINKS)}")
    if encoding not in get_args(Encoding):
        raise UserInputError(f"--encoding {encoding}: choose {', '.join(get_args(Encoding))}")
    check_target(out)
    wishes = TableWishes(links, public_url, placeholder, media_url, every)
    with opened_desk(store, profile, database) as (found, desk):
        name = one_campaign(desk, campaign)
        release = _release_of(found.root, desk, name)
        free = {row.source_id for row in release.sources() if private_audience or row.redistributable}
        tasks = desk.tasks(name)
        rows = task_rows(
            desk,
            installation_key(found.root),
            name,
            wishes,
            lambda task: task.source_id in free,
            _wording(language, texts),
        )
    if not rows:
        raise UserInputError(f"campaign {name} has no task to write: every pair has its votes, see --all")
    write_table(out, rows, cast(Encoding, encoding))
    shared.say(f"{len(rows)} tasks of campaign {name} in {out}")
    left_out = sum(task.source_id not in free for task in tasks) if links == "none" else 0
    if left_out:
        shared.say(f"{left_out} pairs are of sources that may not be passed on and were left out")


def import_(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Answers: .csv, .tsv or .jsonl; they are only read.")
    ],
    campaign: CampaignOption = None,
    mapping: Annotated[
        Path | None,
        typer.Option("--mapping", metavar="FILE", help="What columns and values mean, as TOML."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would become of them.")] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="FILE", help="Where rows that are left out are listed; beside the first file."
        ),
    ] = None,
    database: DatabaseOption = None,
    store: shared.StoreOption = None,
    profile: shared.ProfileOption = None,
    as_json: shared.JsonOption = False,
) -> None:
    """Take the answers of a platform of your own as votes; workers' ids are hashed on the way in.

    Rows that cannot be used are listed by file and line in a report and left out; mend them and give the same
    files again: what is known is not counted twice. Exit code 3 if rows were left out.

    Example: `slvmeval annotate import answers.csv --campaign demo-1 --mapping platform.toml --store STORE`
    """
    from tasks.annotation.exchange import import_answers, write_report
    from tasks.annotation.mapping import load_mapping
    from tasks.annotation.places import installation_key

    meant = load_mapping(mapping)
    with opened_desk(store, profile, database) as (found, desk):
        name = one_campaign(desk, campaign)
        result = import_answers(desk, installation_key(found.root), name, files, meant, dry_run)
    place = report or files[0].with_name(f"{files[0].stem}.left-out.csv")
    if result.left_out or place.exists():
        # an older report says nothing of these rows any more
        write_report(place, result.left_out)
    if as_json:
        shared.print_json(
            {
                "campaign": name,
                "rows": result.rows,
                "accepted": result.accepted,
                "known": result.known,
                "dry_run": dry_run,
                "left_out": [
                    {"file": row.file, "line": row.line, "reason": row.reason.value, "message": row.message}
                    for row in result.left_out
                ],
            }
        )
    else:
        shared.say(result.in_words())
        for row in result.left_out[:20]:
            shared.say(f"  {row.file}:{row.line}: {row.reason.value}: {row.message}")
        if result.left_out:
            shared.say(f"All {len(result.left_out)} rows that were left out: {place}")
    if result.left_out:
        raise typer.Exit(shared.SOME_SET_ASIDE)


def _release_of(root: Path, desk: Desk, campaign: str) -> Release:
    from storage_schemas.release import Release
    from storage_schemas.store import Store

    settings = desk.campaign(campaign)
    return Release.open(Store.open(root), settings.release, settings.version)


def _wording(language: str, folder: Path | None) -> Callable[[PairTask], dict[str, Any]]:
    """Return what gives a task's question and what it asks afterwards."""
    from slvmeval.annotation.pages.texts import texts

    def wording(task: PairTask) -> dict[str, Any]:
        words = texts(language, task.aspect, folder).aspect
        return {name: words[name] for name in ("question", "instruction", "changed", "clear", "failed")}

    return wording
