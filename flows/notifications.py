"""Messages about deployed runs that failed or set something aside, sent by the Prefect server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast
from urllib.parse import urlsplit
from uuid import UUID

from prefect.blocks.webhook import Webhook
from prefect.client.orchestration import SyncPrefectClient
from prefect.events.actions import CallWebhook, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound
from pydantic import SecretStr

from flows.flow_names import flow_names
from flows.shell import INCOMPLETE
from storage_schemas.errors import UsageError, UserInputError

#: Name of the automation, and of the block that holds the address.
NOTIFICATION = "slvmeval: a run failed or is incomplete"
BLOCK = "slvmeval-notifications"
_SUBJECT = "{{ flow.name }}: {{ flow_run.state.name }}"
_TEXT = "{{ flow_run.name }} ({{ flow_run|ui_url }}): {{ flow_run.state.message }}"
#: The format that Slack, Mattermost and others accept.
_PAYLOAD = """{"text": {{ (flow.name ~ ": " ~ flow_run.state.name ~ ". " ~ flow_run.name
  ~ " (" ~ (flow_run|ui_url) ~ "): " ~ flow_run.state.message)|tojson }}}"""


def notify(client: SyncPrefectClient, where: str) -> bool:
    """Create or update the automation that sends a message; return whether it was created.

    Parameters
    ----------
    where
        Address of a webhook that accepts ``{"text": …}``, or ``TYPE/NAME`` of a notification block on the
        server, such as ``sendgrid-email/lab``.

    Raises
    ------
    UserInputError
        If it is neither, or there is no such block.
    """
    action: CallWebhook | SendNotification
    if "://" in where:
        action = CallWebhook(block_document_id=_webhook(where), payload=_PAYLOAD)
    else:
        kind, slash, name = where.partition("/")
        if not slash or not kind or not name:
            raise UsageError(
                f"--notify {where}: give the https:// address of a webhook, or TYPE/NAME of a block"
            )
        try:
            block = client.read_block_document_by_name(name, kind)
        except ObjectNotFound as problem:
            raise UserInputError(
                f"--notify {where}: no block {name!r} of type {kind!r} on the server; create it on "
                "the page Blocks"
            ) from problem
        assert block.id is not None
        action = SendNotification(block_document_id=block.id, subject=_SUBJECT, body=_TEXT)
    automation = _automation([action])
    before = client.read_automations_by_name(NOTIFICATION)
    for old in before:
        client.update_automation(old.id, automation)
    if not before:
        client.create_automation(automation)
    return not before


def _webhook(address: str) -> UUID:
    """Store an address on the server as a secret; return the id of its block."""
    if urlsplit(address).scheme not in ("http", "https"):
        raise UsageError(f"--notify: the address of a webhook begins with https://, not {address[:12]}…")
    block = Webhook(url=SecretStr(address), headers={"Content-Type": "application/json"})
    return cast(UUID, block.save(BLOCK, overwrite=True))


def _automation(actions: Sequence[CallWebhook | SendNotification]) -> AutomationCore:
    return AutomationCore(
        name=NOTIFICATION,
        description=f"Sends a message when a deployed run of {' or '.join(flow_names())} fails, or "
        "completes with items set aside.",
        trigger=EventTrigger(
            posture=Posture.Reactive,
            match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
            match_related=ResourceSpecification(
                {"prefect.resource.role": "deployment", "prefect.resource.name": [*flow_names(), "nightly"]}
            ),
            for_each={"prefect.resource.id"},
            expect={f"prefect.flow-run.{state}" for state in ("Failed", "Crashed", "TimedOut", INCOMPLETE)},
            threshold=1,
        ),
        actions=list(actions),
    )
