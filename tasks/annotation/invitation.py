"""Links for workers, as a table to send out."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit

from storage_schemas.errors import UserInputError

COLUMNS = ("number", "link", "note")


def checked_address(url: str) -> str:
    """Return the address at which workers reach the pages, without a slash at its end.

    Raises
    ------
    UserInputError
        If it is none.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UserInputError(
            f"--public-url {url!r}: say where workers reach the pages, as `annotate serve` does: https://HOST"
        )
    return url.rstrip("/")


def link(address: str, campaign: str, token: str) -> str:
    """Return the link of one worker."""
    return f"{address}/c/{campaign}/enter?{urlencode({'token': token})}"


def link_table(address: str, campaign: str, tokens: Sequence[str], note: str) -> bytes:
    """Return a CSV file with a line a link, in UTF-8; a note is kept from being taken for a formula."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    harmless = f"'{note}" if note[:1] in tuple("=+-@\t\r") and note else note
    for number, token in enumerate(tokens, 1):
        table.writerow((number, link(address, campaign, token), harmless))
    return out.getvalue().encode("utf-8", "replace")
