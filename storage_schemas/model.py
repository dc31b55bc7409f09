"""The base of every stored model (frozen.

Strict about unknown fields), and the settings of a model server.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class Frozen(BaseModel):
    """An immutable record that refuses fields it does not have."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ModelServer(Frozen):
    """An OpenAI-compatible server; a plain address stands for one with all else as it is by default."""

    url: str = Field(description="Its address, such as 'http://gpu-head:8000/v1'.")
    model: str | None = Field(
        default=None, description="What it calls the model; by default what the recipe calls it."
    )
    key_variable: str | None = Field(
        default=None, description="Environment variable with its key, on every machine that asks it."
    )
    concurrency: int = Field(
        default=32, ge=1, le=4096, description="Most requests in flight from one worker process."
    )
    timeout_s: float = Field(default=600.0, gt=0, description="Longest time for one answer, seconds.")
    patience_s: float = Field(
        default=300.0, ge=0, description="How long a request is tried again while the server fails, seconds."
    )

    @model_validator(mode="before")
    @classmethod
    def _address_alone(cls, value: Any) -> Any:
        return {"url": value} if isinstance(value, str) else value

    @field_validator("url")
    @classmethod
    def _some_address(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("an address begins with http:// or https://")
        return value
