"""The stand-in for a model server: its answers are valid, and nobody can take them for real ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from pydantic import BaseModel, Field

from infra.stand_in_server import MODEL, SENTENCE, smallest
from storage_schemas.errors import UserInputError
from tasks.llm.preference import first_share
from tasks.llm.providers.openai_chat import read_answer
from tasks.scoring.instructions import CHOICE_SCHEMA


class Part(BaseModel):
    kind: str = Field(max_length=4)
    weight: float = Field(ge=0.5)


class Judgement(BaseModel):
    winner: str = Field(json_schema_extra={"enum": ["A", "B"]})
    parts: list[Part] = Field(min_length=2)
    sure: bool
    note: str | None


def test_the_smallest_value_fits_a_schema_with_references() -> None:
    value = Judgement.model_validate(smallest(Judgement.model_json_schema()))
    assert (value.winner, len(value.parts), value.parts[0].weight) == ("A", 2, 0.5)
    with pytest.raises(UserInputError, match="has no value"):
        smallest({"not": {}})


def test_without_a_key_it_does_not_start() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "VLLM_API_KEY"}
    command = [sys.executable, "-m", "infra.stand_in_server"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, "VLLM_API_KEY" in ran.stderr) == (1, True)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [sys.executable, "-m", "infra.stand_in_server", "--port", "0"]
    environment = os.environ | {"VLLM_API_KEY": "the right key"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.terminate()


def test_an_openai_client_gets_answers_that_say_what_they_are(url: str) -> None:
    with openai.OpenAI(base_url=url, api_key="the right key", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == [MODEL]
        ask = [{"role": "user", "content": "Which is better?"}]
        plain = client.chat.completions.create(model=MODEL, messages=ask)  # type: ignore[arg-type]
        assert (plain.model, plain.choices[0].message.content) == (MODEL, SENTENCE)
        schema = {"name": "j", "schema": Judgement.model_json_schema()}
        formed = client.chat.completions.create(
            model=MODEL,
            messages=ask,  # type: ignore[arg-type]
            response_format={"type": "json_schema", "json_schema": schema},  # type: ignore[arg-type]
        )
        Judgement.model_validate(json.loads(formed.choices[0].message.content or ""))
        wanted = {"name": "j", "schema": CHOICE_SCHEMA}
        chosen = client.chat.completions.create(
            model=MODEL,
            messages=ask,  # type: ignore[arg-type]
            response_format={"type": "json_schema", "json_schema": wanted},  # type: ignore[arg-type]
            logprobs=True,
            top_logprobs=5,
        )
        assert first_share(read_answer(chosen.model_dump())) == pytest.approx(0.5)


JPEG = "/9j/2wBD"


@pytest.mark.parametrize(
    ("address", "extra", "why"),
    [
        (f"data:video/jpeg;base64,{JPEG},{JPEG}", {"fps": 1.0, "num_frames": -1}, None),
        (f"data:video/jpeg;base64,{JPEG},{JPEG}", {"fps": 1.0}, "num_frames -1"),
        (f"data:video/jpeg;base64,{JPEG},{JPEG}", {"num_frames": -1}, "its fps"),
        (f"data:video/jpeg;base64,{JPEG},QUJD", {"fps": 1.0, "num_frames": -1}, "JPEG frames"),
        ("data:video/mp4;base64,QUJD", {"fps": 1.0, "num_frames": -1}, "JPEG frames"),
    ],
)
def test_a_video_is_jpeg_frames_with_their_rate(
    url: str, address: str, extra: dict[str, float], why: str | None
) -> None:
    content = [{"type": "video_url", "video_url": {"url": address}}]
    with openai.OpenAI(base_url=url, api_key="the right key", max_retries=0) as client:
        given: Any = {
            "model": MODEL,
            "messages": [{"role": "user", "content": content}],
            "extra_body": {"media_io_kwargs": {"video": extra}},
        }
        if why is None:
            assert client.chat.completions.create(**given).choices[0].message.content == SENTENCE
        else:
            with pytest.raises(openai.BadRequestError, match=why):
                client.chat.completions.create(**given)


def test_a_wrong_key_is_refused(url: str) -> None:
    with (
        openai.OpenAI(base_url=url, api_key="another", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError, match="wrong key"),
    ):
        client.models.list()
