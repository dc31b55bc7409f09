from __future__ import annotations

import pickle

import pytest

from storage_schemas.errors import Reason, SetAside, UserInputError
from storage_schemas.printable import printable
from storage_schemas.set_aside import SetAsideRow


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred", "a\\x1b[31mred"),
        ("a\nb\u2028c", "a\\nb\\u2028c"),
        ("x\u202egpj", "x\\u202egpj"),
        ("\udcff", "\\udcff"),
        ("👩\u200d🚀 日本 é", "👩\u200d🚀 日本 é"),
    ],
)
def test_what_a_terminal_obeys_is_escaped_once(text: str, shown: str) -> None:
    assert printable(text) == printable(shown) == shown


def test_every_message_and_row_is_printable_but_keeps_its_lines() -> None:
    name = "/videos/a\x1b[2J.mp4"
    assert str(UserInputError(f"{name}: bad\nsee below")) == "/videos/a\\x1b[2J.mp4: bad\nsee below"
    problem = pickle.loads(pickle.dumps(SetAside(Reason.NOT_A_VIDEO, f"{name} is no video")))
    assert problem.message == "/videos/a\\x1b[2J.mp4 is no video"
    row = SetAsideRow(source_id="v", stage="s", reason=Reason.NOT_A_VIDEO, message=name, location=name)
    assert row.message == row.location == "/videos/a\\x1b[2J.mp4"
