"""Prompt texts with places to fill in: which are refused, and what is filled in."""

from __future__ import annotations

import pytest

from storage_schemas.errors import UserInputError
from tasks.aspects.object_diffusion import GroundedInpainting
from tasks.llm.prompt_files import checked_template

OPERATION = GroundedInpainting()


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("prompt", "an empty place", r"the placeholder \{scene\} is missing"),
        ("prompt", "{scene} and {colour}", r"unknown placeholder \{colour\}"),
        ("prompt", "{scene.__class__}", r"unknown placeholder \{scene.__class__\}"),
        ("prompt", "{scene!r}", "unknown placeholder"),
        ("prompt", "{scene:>9}", "unknown placeholder"),
        ("prompt", "{scene} {", "literal braces"),
        ("negative", "ugly", r"the placeholder \{object\} is missing"),
    ],
)
def test_a_wrong_template_is_refused_with_what_is_wrong(field: str, text: str, message: str) -> None:
    with pytest.raises(UserInputError, match=message) as raised:
        OPERATION.parameters(overrides={field: text})
    assert field in str(raised.value)


def test_braces_may_be_doubled() -> None:
    assert OPERATION.parameters(overrides={"prompt": "{{x}} {scene}"}).prompt == "{{x}} {scene}"


def test_what_is_filled_in_is_no_template_itself() -> None:
    template = checked_template("{object} in {scene}", ["scene"], ["object"])
    assert template.format(object="{scene}", scene="{0} %s") == "{scene} in {0} %s"
