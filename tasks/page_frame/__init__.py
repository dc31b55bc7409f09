"""The frame of all pages: colours, type, a header with the mark and a switch between light and dark."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import jinja2

from storage_schemas.printable import printable_value

#: The style, and the script of the header's switch.
STYLE, SCRIPT = "frame.css", "frame.js"


def page_templates(package: str) -> jinja2.Environment:
    """Return the templates of a package, which can also use those of the frame.

    All values are escaped; a template that names a value that is not there fails.
    """
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package), jinja2.PackageLoader(__package__)]),
        autoescape=True,
        finalize=printable_value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def frame_asset(name: str) -> str:
    """Return the text of `STYLE` or `SCRIPT`."""
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
