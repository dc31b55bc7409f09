from __future__ import annotations

import json
import logging
import pickle
import unicodedata
from pathlib import Path

import jinja2
import pytest
from markupsafe import Markup

from slvmeval.cli import terminal
from slvmeval.web.annotation.organiser import pages as organiser_pages
from slvmeval.web.annotation.pages import render
from storage_schemas.errors import Reason, SetAside, UserInputError, did_you_mean, suggestion
from storage_schemas.printable import printable, printable_json
from storage_schemas.regular_files import in_either_form
from storage_schemas.secrets import strike_out_of_logs
from storage_schemas.set_aside import SetAsideRow
from tasks.page_frame import page_templates
from tasks.report import formats


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred", "a\\x1b[31mred"),
        ("a\nb\u2028c", "a\\nb\\u2028c"),
        ("x\u202egpj", "x\\u202egpj"),
        ("\udcff", "\\udcff"),
        ("a\u200f\u061cb", "a\\u200f\\u061cb"),
        ("👩\u200d🚀 日本 é", "👩\u200d🚀 日本 é"),
    ],
)
def test_what_a_terminal_obeys_is_escaped_once(text: str, shown: str) -> None:
    assert printable(text) == printable(shown) == shown


def test_every_message_and_row_is_printable_but_keeps_its_lines() -> None:
    name = "/videos/a\x1b[2J.mp4"
    assert str(UserInputError(f"{name}: bad\nsee below")) == "/videos/a\\x1b[2J.mp4: bad\nsee below"
    problem = pickle.loads(pickle.dumps(SetAside(Reason.NOT_A_VIDEO, f"{name} is not a video")))
    assert problem.message == "/videos/a\\x1b[2J.mp4 is not a video"
    row = SetAsideRow(source_id="v", stage="s", reason=Reason.NOT_A_VIDEO, message=name, location=name)
    assert row.message == row.location == "/videos/a\\x1b[2J.mp4"


ENVIRONMENTS = [
    organiser_pages._environment(),
    render._environment(),
    formats._environment(),
    page_templates("tasks.publish.gallery"),
]
NAME = "a\u202egpj\x9b2J\u200f.mp4"
SHOWN = "a\\u202egpj\\x9b2J\\u200f.mp4"


def test_listings_logs_and_json_show_names_escaped(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.say(NAME)
    terminal.tell(NAME)
    terminal.say(terminal.Grid(NAME, ("video",), [(NAME,)]))
    terminal.print_json({"name": NAME})
    printed = capsys.readouterr()
    assert printed.out.count(SHOWN) == 3
    assert SHOWN in printed.err
    assert not set("\u202e\x9b\u200f") & set(printed.out + printed.err)
    assert json.loads(printable_json(json.dumps({"name": NAME}, ensure_ascii=False))) == {"name": NAME}
    monkeypatch.setattr(logging, "_logRecordFactory", logging.getLogRecordFactory())
    strike_out_of_logs()
    logging.getLogger("here").warning("%s", NAME)
    assert SHOWN in caplog.text


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_pages_show_names_escaped_and_markup_as_it_is(environment: jinja2.Environment) -> None:
    shown = environment.from_string("{{ name }} {{ mark }}").render(name=f"<{NAME}>\n", mark=Markup("<b>"))
    assert shown == f"&lt;{SHOWN}&gt;\n <b>"


def test_names_in_two_unicode_forms_show_their_difference() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    for said in (did_you_mean(composed, [decomposed]), suggestion(composed, [decomposed])):
        assert "another Unicode form: 'cafe\\u0301', not 'caf\\xe9')" in said
    assert "Unicode" not in suggestion("rond", ["rounds"])


def test_a_file_is_found_in_either_form_of_its_name(tmp_path: Path) -> None:
    for form, other in (("NFC", "NFD"), ("NFD", "NFC")):
        there, asked = (tmp_path / unicodedata.normalize(one, "café") for one in (form, other))
        there.touch()
        assert in_either_form(asked) == there
        assert in_either_form(there) == there
        there.unlink()
        assert in_either_form(asked) == asked
