"""Render a page from its template, a language and data."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import jinja2
from markupsafe import Markup

from slvmeval.web.annotation.pages.texts import texts
from storage_schemas.printable import printable_value
from tasks.annotation.campaign import PLAYHEAD, money
from tasks.annotation.pair_task import MAX_COMMENT_LENGTH
from tasks.publish.gallery.data import script_json

PageName = Literal["enter", "consent", "question", "task", "rating", "done", "refused"]
#: The pages with a script, which is named like the page; the other files are modules shared by them.
_SCRIPTED = ("task", "rating")
#: Scripts of pages without initial data; not a module of the others.
_OWN = ("done",)

#: The folder of style sheets and scripts, served under `ASSETS_URL`.
ASSETS = Path(str(files(__package__).joinpath("assets")))
ASSETS_URL = "/assets"


def render(name: PageName, language: str, *, folder: Path | None = None, **data: Any) -> str:
    """Render a page as HTML.

    Every page takes ``campaign`` (a `Campaign`; None only on `refused`, where none is known) and, from the
    moment there is a session, ``csrf`` (the token for hidden fields and for the header ``X-CSRF``).

    Parameters
    ----------
    name
        Name of the page.
    language
        The language, one of the campaign's.
    folder
        Folder with the campaign's own texts; see `texts`.
    """
    view = data.get("view")
    offered = data["campaign"].languages if data.get("campaign") else ()
    asked = view["aspect"] if view and name == "task" else data.get("aspect")
    words = texts(language, asked, folder)
    # so that the browser loads all modules at once instead of one after the other
    others = {f"{one}.js" for one in (*_SCRIPTED, *_OWN) if one != name}
    modules = sorted(path.name for path in ASSETS.glob("*.js") if path.name not in others)
    template = _environment().get_template(f"{name}.html.j2")
    embedded = Markup(script_json(_island(words.words, data))) if name in _SCRIPTED else ""
    return template.render(
        {
            "csrf": "",
            "pay": "",
            "minutes": "",
            "answer_pay": "",
            "owed": False,
            "sum": "",
            "extras": (),
            "why": "",
            "back": "",
            **data,
            "page": name,
            "language": language,
            "t": words,
            "names": {code: texts(code, None, folder).words["page"]["name"] for code in offered},
            "w": words.words,
            "assets": ASSETS_URL,
            "scripts": modules if name in _SCRIPTED else [],
            "island": embedded,
            "longest_comment": MAX_COMMENT_LENGTH,
        }
    )


def _island(words: Any, data: dict[str, Any]) -> dict[str, Any]:
    """Return the initial data of the page's script."""
    refused = {reason: texts for reason, texts in words["refused"].items() if isinstance(texts, dict)}
    own = words["rating"] if "guide" in data else {}
    if own:
        refused["not_seen"] = own["not_seen"]
    return {
        "view": data["view"],
        "urls": data["urls"],
        "csrf": data["csrf"],
        "words": {**words["script"], **own},
        "refused": refused,
        "next_page": words["refused"]["next_page"],
    }


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(__package__ or "slvmeval.web.annotation.pages"),
        autoescape=True,
        finalize=printable_value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["money"] = money
    made.globals["PLAYHEAD"] = PLAYHEAD
    return made
