"""What is read from a model's answer: nothing is guessed."""

from __future__ import annotations

import pytest

from storage_schemas.judgements import Failure
from tasks.llm.answers import objects
from tasks.llm.exchange import ChatAnswer
from tasks.llm.requests import read
from tasks.llm.usage import NotJudged
from tasks.scoring.instructions import read_choice
from tasks.scoring.judges.vlm_text import description_in


@pytest.mark.parametrize(
    "inner", ['"first", "better": "second"', '"second", "better": "second"', '{"better": "first"}']
)
def test_a_choice_that_stands_twice_is_none(inner: str) -> None:
    with pytest.raises(NotJudged) as refused:
        read_choice(ChatAnswer(text=f'{{"better": {inner}}}'))
    assert refused.value.failure is Failure.NOT_UNDERSTOOD


def test_half_a_sign_does_not_lose_a_description() -> None:
    text = '{"description": "a sun \\ud83c\\udf1e and half \\ud83c"}'
    schema = objects({"description": {"type": "string"}})
    assert read(text, None, description_in, schema)[0] == "a sun \U0001f31e and half \ufffd"
