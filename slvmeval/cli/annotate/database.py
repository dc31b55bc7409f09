"""Opening the database of the ``slvmeval annotate`` commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from slvmeval.cli import terminal

if TYPE_CHECKING:
    from storage_schemas.store import Store
    from tasks.annotation.desk.desk import Desk


@contextmanager
def opened_desk(options: terminal.DeskParameters) -> Iterator[tuple[Store, Desk]]:
    """Open the store from the settings, and its desk."""
    from tasks.annotation.desk.desk import Desk
    from tasks.annotation.installation import database_url, installation_key

    opened = terminal.open_store(options)
    # the key first: this fails if a database exists without its key
    key = installation_key(opened.root)
    desk = Desk.open(database_url(opened.root, options.database), key)
    try:
        yield opened, desk
    finally:
        desk.close()


def pairs_campaign(desk: Desk, campaign: str | None, instead: str) -> str:
    """Return the name of the given pair campaign, or of the only campaign.

    Raises
    ------
    UserInputError
        If it is a campaign of ratings; `instead` says what to do.
    """
    from storage_schemas.errors import UserInputError

    name = one_campaign(desk, campaign)
    if desk.campaigns.get(name).kind != "pairs":
        raise UserInputError(f"campaign {name} rates single videos: {instead}")
    return name


def one_campaign(desk: Desk, campaign: str | None) -> str:
    """Return the name of the given campaign, or of the only one."""
    from storage_schemas.errors import UserInputError

    names = [one.name for one in desk.campaigns.all()]
    if campaign is None and len(names) != 1:
        raise UserInputError(
            f"name one of the campaigns: {', '.join(names)}" if names else "no campaign is published yet"
        )
    return desk.campaigns.get(campaign or names[0]).name
