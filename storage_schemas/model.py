"""The base of every stored model: frozen and strict about what it does not know."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable record that refuses fields it does not have."""

    model_config = ConfigDict(frozen=True, extra="forbid")
