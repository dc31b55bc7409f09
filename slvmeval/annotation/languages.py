"""Which language a browser wants."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from tasks.annotation.campaign import Campaign


def language_for(connection: HTTPConnection, campaign: Campaign | None) -> str:
    """Return the campaign's language that the browser likes best; its first where it names none."""
    offered: tuple[str, ...] = ("en", "ja") if campaign is None else campaign.languages
    liked: list[tuple[float, int, str]] = []
    for place, part in enumerate(connection.headers.get("accept-language", "").split(",")[:20]):
        name, _, weight = part.strip().partition(";q=")
        try:
            worth = float(weight or 1)
        except ValueError:
            continue
        liked.append((-worth, place, name.split("-")[0].lower()))
    return next((name for worth, _, name in sorted(liked) if name in offered and worth < 0), offered[0])
