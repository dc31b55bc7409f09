"""``slvmeval annotate payments``: payments due, alone or compared with a platform's export."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from flows.parameters import Given
from slvmeval.cli import terminal
from slvmeval.cli.annotate.database import one_campaign, opened_desk
from slvmeval.cli.annotate.exchange import CampaignArgument
from slvmeval.cli.declared import CommandGroup, refuse
from storage_schemas.counts import count_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tasks.annotation.campaign import Campaign
    from tasks.annotation.desk.desk import Desk
    from tasks.annotation.desk.organiser import WorkerProgress

NOTE = "the platform does not know this session"
COLUMNS = ("code", "answers", "pay", "currency", "also_for", "standing", "platform", "session", "worker")


class PaymentsOptions(terminal.DeskParameters):
    """Options of `payments`."""

    campaign: CampaignArgument = None
    export: Annotated[Path | None, Given(metavar="FILE")] = Field(
        default=None, description="The platform's export of the study's submissions, as CSV."
    )
    reward: Annotated[float | None, Given(metavar="AMOUNT")] = Field(
        default=None, ge=0, description="Amount that the platform pays for an approved submission."
    )
    out: Annotated[Path | None, Given(("--out",), metavar="DIR")] = Field(
        default=None,
        description="Folder for codes.csv, which is printed by default; with --export for approvals.csv "
        "and bonuses.csv, by default payments.",
    )
    dry_run: bool = Field(default=False, description="With --export: only report; exclude and write nothing.")


def register(annotate: CommandGroup) -> None:
    """Add the command."""
    annotate.command()(payments)


def payments(options: PaymentsOptions) -> None:
    """List completion codes, the tasks that each worker answered, and the pay due. Nothing is paid.

    A worker gets the code with the first answer, or with anything else that is paid: it is included in pay
    and named in also_for. Workers who are not listed are owed nothing.

    With --export and --reward, workers are compared with a platform's submissions: workers whose session it
    does not know are excluded, approvals.csv lists submissions with enough answered tasks, and bonuses.csv
    what is owed beyond the reward, or everything where the platform pays no reward.

    Example: `slvmeval annotate payments spring --store STORE`

    More: `slvmeval annotate payments spring --export prolific.csv --reward 3.00 --store STORE`
    """
    if options.export is None:
        refuse(options, "only with --export FILE", "reward", "dry_run")
        _list_codes(options)
    elif options.reward is None:
        raise typer.BadParameter("give the reward of an approved submission", param_hint="--reward")
    else:
        _reconcile(options, options.export, options.reward)


def _list_codes(options: PaymentsOptions) -> None:
    """Print the codes as CSV, or write them into a new file: an existing one may already have been paid."""
    from storage_schemas.commit import write_atomic
    from storage_schemas.errors import UserInputError

    file = None if options.out is None else options.out / "codes.csv"
    if file is not None and file.exists():
        raise UserInputError(f"{file} already exists: name a new folder")
    with opened_desk(options) as (_, desk):
        name = one_campaign(desk, options.campaign)
        workers = [one for one in desk.organiser.workers(name) if one.code]
        settings = desk.campaigns.get(name)
        pay = _earnings(desk, settings)
    table = _table(workers, pay, settings.currency)
    if file is None:
        typer.echo(table, nl=False)
        return
    write_atomic(file, table.encode("utf-8", "replace"), mode=0o600)
    terminal.say(f"{count_text(len(workers), 'worker')} of campaign {name} in {file}")


def _reconcile(options: PaymentsOptions, export: Path, reward: float) -> None:
    """Exclude workers whose session the platform does not know, and write the payments it has to make."""
    from storage_schemas.commit import write_atomic
    from storage_schemas.votes import Standing
    from tasks.annotation.campaign import decimals
    from tasks.annotation.reconcile import read_export, reconciled
    from tasks.annotation.sync import decide

    out = options.out or Path("payments")
    platform, submissions = read_export(export)
    exported_at = datetime.fromtimestamp(export.stat().st_mtime, UTC).isoformat()
    with opened_desk(options) as (store, desk):
        name = one_campaign(desk, options.campaign)
        settings = desk.campaigns.get(name)
        found = reconciled(
            desk.organiser.workers(name),
            platform,
            submissions,
            _earnings(desk, settings),
            settings.tasks_per_worker or 1,
            reward,
            exported_at,
            lambda participant: desk.workers.name_of(platform, participant),
        )
    new = [one.worker for one in found.unknown if one.standing != Standing.EXCLUDED]
    digits = decimals(settings.currency)
    terminal.say(
        f"{count_text(len(submissions), 'submission')} of {platform}: {len(found.approve)} to approve, "
        f"{len(found.bonuses)} to get a bonus, {len(found.unanswered)} without an answer; "
        f"{count_text(len(found.unknown), 'worker')} with a session that {platform} does not know"
    )
    if options.dry_run:
        return
    for worker in new:
        decide(store, options.database, name, worker, Standing.EXCLUDED, NOTE)
    tables = {
        "approvals.csv": [one.id for one in found.approve],
        # the format of Prolific's bulk bonuses
        "bonuses.csv": [f"{who},{amount:.{digits}f}" for who, amount in found.bonuses],
    }
    for file, lines in tables.items():
        write_atomic(out / file, "".join(f"{line}\n" for line in lines).encode(), mode=0o600)
    terminal.say(f"{count_text(len(new), 'worker')} excluded; {' and '.join(tables)} are in {out}")


def _earnings(desk: Desk, settings: Campaign) -> dict[str, float]:
    """Return what each worker of a campaign has earned, from answers and otherwise."""
    from tasks.annotation.desk.extras import pay_of

    pay, seconds = defaultdict[str, float](float), desk.campaigns.watch_s(settings.name)
    for answer in desk.votes.answers(settings.name):
        pay[answer.worker] += settings.pay_for(seconds[answer.pair_id])
    for one in desk.organiser.workers(settings.name):
        pay[one.worker] += pay_of(one.extras)
    return pay


def _table(workers: Sequence[WorkerProgress], pay: Mapping[str, float], currency: str) -> str:
    from tasks.annotation.campaign import decimals

    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for one in workers:
        # keep text from addresses from being interpreted as a formula
        session = f"'{one.session}" if one.session[:1] in tuple("=+-@\t\r") and one.session else one.session
        owed = f"{pay.get(one.worker, 0):.{decimals(currency)}f}"
        also = " ".join(dict.fromkeys(extra.kind.value for extra in one.extras))
        row = (one.code, one.votes, owed, currency, also, one.standing, one.platform, session, one.worker)
        lines.writerow(row)
    return text.getvalue()
