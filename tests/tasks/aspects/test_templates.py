"""Prompt texts with places to fill in: which are refused, and what is filled in."""

from __future__ import annotations

import pytest

from storage_schemas.errors import UserInputError
from tasks.aspects.object_diffusion import GroundedInpainting
from tasks.llm.prompt_files import checked_template, filled

OPERATION = GroundedInpainting()


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("prompt", "an empty place", r"the placeholder \{scene\} is missing"),
        ("prompt", "{scene} and {colour}", r"the placeholder \{colour\} is unknown"),
        ("prompt", "{scene.__class__}", r"the placeholder \{scene\} is missing"),
        ("prompt", "{scene!r}", r"the placeholder \{scene\} is missing"),
        ("prompt", "{{x}} {scene}", r"the placeholder \{x\} is unknown"),
        ("negative", "ugly", r"the placeholder \{object\} is missing"),
    ],
)
def test_a_wrong_template_is_refused_with_what_is_wrong(field: str, text: str, message: str) -> None:
    with pytest.raises(UserInputError, match=message) as raised:
        OPERATION.parameters(overrides={field: text})
    assert field in str(raised.value)


def test_other_braces_are_text() -> None:
    for text in ('{"x": 1} {scene}', "{scene} {", "{scene} {}"):
        assert OPERATION.parameters(overrides={"prompt": text}).prompt == text


def test_what_is_filled_in_is_no_template_itself() -> None:
    template = checked_template("{object} in {scene}", ["scene"], ["object"])
    assert filled(template, object="{scene}", scene="{0} %s") == "{scene} in {0} %s"
