"""HTML from data: every text is escaped, and a page asks nothing of the network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from tasks.publish.report.formats import accuracy_text, counts_text, interval_text


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tasks.publish.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "accuracy_text": accuracy_text,
        "interval_text": interval_text,
        "counts_text": counts_text,
        "clock": clock,
    }
    return environment


def render(template: str, data: Mapping[str, Any], script: str = "") -> bytes:
    """Return a page.

    Parameters
    ----------
    template
        Name of the template.
    data
        What the template needs.
    script
        Name of the one script that the page may run, if any; no other runs, whatever the data hold.
    """
    code = _asset(script) if script else ""
    allowed = (
        f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'" if code else "'none'"
    )
    page = (
        _environment()
        .get_template(template)
        .render(
            # our own files, which hold no data
            css=Markup(_asset("report.css")),
            script=Markup(code),
            allowed=Markup(allowed),
            **data,
        )
    )
    return page.encode("utf-8", "replace")


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def clock(seconds: float) -> str:
    """Return seconds as 1:02:03 or 2:03."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
