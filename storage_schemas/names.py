"""Names that users give: of releases, models, servers, variants and runs, and settings as ``KEY=VALUE``."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from pydantic import StringConstraints

from storage_schemas.errors import UsageError

#: A name is a part of file names, of ids and of addresses.
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
Name = Annotated[str, StringConstraints(pattern=rf"^{_NAME}$")]
# the rules for names, for messages
NAME_RULE = "at most 64 letters, digits, '.', '_' and '-', starting with a letter or digit"
CAMPAIGN_NAME_RULE = "at most 64 letters, digits, '_' and '-', starting with a letter or digit"
EVALUATOR_NAME_RULE = "at most 100 letters, digits, '.', '_', '+' and '-', starting with a letter or digit"


def is_name(text: str) -> bool:
    """Return whether a text is a name.

    Examples
    --------
    >>> is_name("eight-2.1"), is_name("../up"), is_name("a\\n")
    (True, False, False)
    """
    return re.fullmatch(_NAME, text) is not None


def is_campaign_name(text: str) -> bool:
    """Return whether a text is a campaign's name: a name without a dot.

    Examples
    --------
    >>> is_campaign_name("pilot-2_b"), is_campaign_name("pilot.b"), is_campaign_name("-pilot")
    (True, False, False)
    """
    return is_name(text) and "." not in text


def is_evaluator_name(text: str) -> bool:
    """Return whether a text is an evaluator's name or label; labels join names with a plus.

    Examples
    --------
    >>> is_evaluator_name("qwen3-vl+blind"), is_evaluator_name("+blind"), is_evaluator_name("")
    (True, False, False)
    """
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}", text) is not None


def key_value(text: str, what: str, example: str = "KEY=VALUE") -> tuple[str, Any]:
    """Return key and value of ``KEY=VALUE``; the value is JSON, else text.

    Parameters
    ----------
    what
        What the message names if it is invalid.
    example
        The format to use instead.

    Raises
    ------
    UserInputError
        Without a key or an equals sign.

    Examples
    --------
    >>> key_value("clips=3", "--set"), key_value("fps=1/2", "--set")
    (('clips', 3), ('fps', '1/2'))
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"{what}: write {example}")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value
