"""``slvmeval annotate reconcile``: a platform's export against a campaign's workers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field

from flows.parameters import Given
from slvmeval.cli import terminal
from slvmeval.cli.annotate.database import one_campaign, opened_desk
from slvmeval.cli.annotate.exchange import CampaignArgument
from slvmeval.cli.annotate.workers import earnings
from slvmeval.cli.declared import CommandGroup

NOTE = "the platform does not know this session"


class ReconcileOptions(terminal.DeskParameters):
    """Options of `reconcile`."""

    campaign: CampaignArgument = None
    export: Annotated[Path, Given(metavar="FILE")] = Field(
        description="The platform's export of the study's submissions, as CSV."
    )
    reward: Annotated[float, Given(metavar="AMOUNT")] = Field(
        ge=0, description="What the platform pays for an approved submission."
    )
    out: Annotated[Path, Given(("--out",), metavar="FOLDER")] = Field(
        default=Path(), description="Where approvals.csv and bonuses.csv go."
    )
    dry_run: bool = Field(default=False, description="Only report; exclude and write nothing.")


def register(annotate: CommandGroup) -> None:
    """Add the command."""
    annotate.command()(reconcile)


def reconcile(options: ReconcileOptions) -> None:
    """Exclude workers whose session the platform does not know, and write whom to approve and what to add.

    approvals.csv has the submissions with enough answered tasks, bonuses.csv what is owed beyond the reward,
    or altogether where fewer tasks were answered. Nothing is sent.

    Example: `slvmeval annotate reconcile spring --export prolific.csv --reward 3.00 --store STORE`
    """
    from storage_schemas.commit import write_atomic
    from storage_schemas.votes import Standing
    from tasks.annotation.campaign import decimals
    from tasks.annotation.reconcile import read_export, reconciled
    from tasks.annotation.sync import decide

    platform, submissions = read_export(options.export)
    made = datetime.fromtimestamp(options.export.stat().st_mtime, UTC).isoformat()
    with opened_desk(options) as (store, desk):
        name = one_campaign(desk, options.campaign)
        settings = desk.campaigns.get(name)
        found = reconciled(
            desk.organiser.workers(name),
            platform,
            submissions,
            earnings(desk, settings),
            settings.tasks_per_worker or 1,
            options.reward,
            made,
            lambda participant: desk.workers.name_of(platform, participant),
        )
    new = [one.worker for one in found.unknown if one.standing != Standing.EXCLUDED]
    digits = decimals(settings.currency)
    terminal.say(
        f"{len(submissions)} submissions of {platform}: {len(found.approve)} to approve, "
        f"{len(found.bonuses)} bonuses, {len(found.unanswered)} without an answer; "
        f"{len(found.unknown)} workers with a session that {platform} does not know"
    )
    if options.dry_run:
        return
    for worker in new:
        decide(store, options.database, name, worker, Standing.EXCLUDED, NOTE)
    tables = {
        "approvals.csv": [one.id for one in found.approve],
        # the form in which Prolific takes bonuses in bulk
        "bonuses.csv": [f"{who},{amount:.{digits}f}" for who, amount in found.bonuses],
    }
    for file, lines in tables.items():
        write_atomic(options.out / file, "".join(f"{line}\n" for line in lines).encode(), mode=0o600)
    terminal.say(f"{len(new)} workers excluded; {' and '.join(tables)} are in {options.out}")
