"""The organiser's pages as HTML: every text is escaped, and nothing is loaded from another host."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from fastapi import Request
from starlette.responses import FileResponse, HTMLResponse

from storage_schemas.errors import UserInputError
from storage_schemas.printable import printable_value
from tasks.annotation.campaign import Campaign, money
from tasks.annotation.pace import VoteCount, when

if TYPE_CHECKING:
    from slvmeval.web.annotation.organiser.views import Views

#: Mount point of the pages.
ROOT = "/organiser"

ASSETS = Path(str(files(__package__).joinpath("assets")))


def page(
    request: Request,
    name: str,
    title: str,
    *,
    campaign: Campaign | None = None,
    here: str = "",
    status: int = 200,
    **data: Any,
) -> HTMLResponse:
    """Render a page.

    Parameters
    ----------
    request
        Its session, if any, is shown on the page.
    name
        Name of the template, without its extension.
    campaign
        The campaign that the page is about, if any.
    here
        The page's name in the campaign's menu.
    data
        Further variables of the template.
    """
    views: Views = request.app.state.views
    zone = views.zone

    def local(moment: datetime | str | None, shape: str = "%a %d %b %Y, %H:%M") -> str:
        moment_utc = when(moment) if isinstance(moment, str) else moment
        return moment_utc.astimezone(zone).strftime(shape) if moment_utc else "–"

    text = (
        _environment()
        .get_template(f"{name}.html.j2")
        .render(
            **data,
            local=local,
            title=title,
            root=ROOT,
            session=getattr(request.state, "session", None),
            campaign=campaign,
            here=here,
            several=campaign is not None and len(views.campaigns()) > 1,
        )
    )
    return HTMLResponse(text, status)


def send_video(media: Path | None, file: str, command: str) -> FileResponse:
    """Return a video.

    Parameters
    ----------
    media
        Folder of the videos; None if there is none.
    command
        Command of ``slvmeval annotate`` that writes it.
    """
    path = None if media is None else media / file
    if path is None or not path.is_file():
        raise UserInputError(f"the video is missing: run `slvmeval annotate {command}` again")
    return FileResponse(path, media_type="video/mp4", headers={"Cache-Control": "private, max-age=3600"})


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__ or "slvmeval.web.annotation.organiser"),
        autoescape=True,
        finalize=printable_value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "words": words,
        "money": money,
        "share": share,
        "number": number,
        "duration": duration,
        "short": short,
        "pair": pair,
        "counted": counted,
        "alpha": alpha,
        "signed": signed,
    }
    environment.globals |= {"highest": highest}
    return environment


def words(name: str) -> str:
    """Return an identifier (``object_integrity``) as words (Object integrity)."""
    return name.replace("_", " ").replace("-", " ").capitalize()


def short(worker: str) -> str:
    """Return the prefix of a worker's hash, enough to distinguish thousands of workers."""
    return worker[:10]


def number(value: float, digits: int = 0) -> str:
    """Return a number with thousands separators."""
    return f"{value:,.{digits}f}"


def share(value: float) -> str:
    """Return a share as a percentage, which is 100 only if complete."""
    return "100 %" if value >= 1 else f"{min(99.9, 100 * value):.1f} %"


def duration(seconds: float | None) -> str:
    """Return seconds as ``1:02:03`` or ``2:03``; a dash if unknown."""
    if seconds is None:
        return "–"
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def highest(bars: Sequence[VoteCount]) -> int:
    """Return the largest count, at least 1."""
    return max((bar.count for bar in bars), default=0) or 1


def pair(pair_id: str) -> str:
    """Return the prefix of a pair's id."""
    return pair_id[:12]


def counted(count: int, one: str, many: str) -> str:
    """Return a count with its noun: ``1 task``, ``2,000 tasks``."""
    return f"{count:,} {one if count == 1 else many}"


def alpha(value: float | None) -> str:
    """Return a coefficient with two digits and a true minus sign; a dash if there is none."""
    return "–" if value is None else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def signed(value: float | None) -> str:
    """Return a number with two digits and its sign; a dash if there is none."""
    return "–" if value is None else f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")
