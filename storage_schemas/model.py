"""The base class of all stored models, and the settings of a model server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from storage_schemas.secrets import know_address


class Frozen(BaseModel):
    """An immutable model that rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


#: Protocols of model servers: OpenAI's chat completions, which most servers speak, Anthropic's messages, and
#: Google's Gemini.
ProviderName = Literal["openai", "anthropic", "google"]
#: The providers' own servers, and the variables that usually hold their keys.
PROVIDER_URLS: Mapping[ProviderName, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
}
PROVIDER_KEYS: Mapping[ProviderName, str] = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GEMINI_API_KEY",
}


#: In place of an address: a model without a server, whose requests are answered in batches by jobs.
OFFLINE = "offline"


#: How a server is asked for the format of an answer.
StructuredAnswers = Literal["schema", "json", "none"]


class ModelServer(Frozen):
    """A model server; a plain URL means default values for all other settings."""

    url: str = Field(
        description="Base URL, such as 'http://gpu-head:8000/v1'; may be left out with a provider. "
        "'offline' for a model without a server, used only in batches (`evaluate --batch`)."
    )
    provider: ProviderName = Field(
        default="openai", description="Protocol: 'openai' (compatible servers too), 'anthropic' or 'google'."
    )
    model: str | None = Field(
        default=None, description="Model name on the server; defaults to the recipe's name."
    )
    key_variable: str | None = Field(
        default=None,
        description="Environment variable that holds the API key, on every machine that uses the server.",
    )
    concurrency: int = Field(
        default=32, ge=1, le=4096, description="Maximum concurrent requests per worker process."
    )
    timeout_s: float = Field(default=600.0, gt=0, description="Timeout of one request, seconds.")
    patience_s: float = Field(
        default=300.0, ge=0, description="How long to retry a request while the server fails, seconds."
    )
    structured: StructuredAnswers = Field(
        default="schema",
        description="How the format of an answer is requested: 'schema' (JSON Schema), 'json' (any JSON "
        "object) or 'none' for servers that support neither.",
    )
    token_limit: str = Field(
        default="max_completion_tokens",
        pattern="^[a-z][a-z0-9_]*$",
        description="Name of the field that limits an answer's tokens; 'max_tokens' for older servers.",
    )

    @model_validator(mode="before")
    @classmethod
    def _address_alone(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"url": value}
        # a list cannot be hashed, and becomes an error of the field
        providers = tuple(PROVIDER_URLS)
        if isinstance(value, dict) and "url" not in value and value.get("provider") in providers:
            provider = value["provider"]
            return {"key_variable": PROVIDER_KEYS[provider], **value, "url": PROVIDER_URLS[provider]}
        return value

    @field_validator("url")
    @classmethod
    def _some_address(cls, value: str) -> str:
        if value != OFFLINE and not value.startswith(("http://", "https://")):
            raise ValueError(f"an address must begin with http:// or https://, or be '{OFFLINE}'")
        know_address(value, "password of a model server")
        if value != OFFLINE and not _is_whole_address(value):
            raise ValueError("an address must be http://HOST, optionally with a port and a path")
        return value


def _is_whole_address(address: str) -> bool:
    """Return whether an address has a host, a valid port if any, and nothing after its path."""
    try:
        parts = urlsplit(address)
        # raises ValueError if the port is not valid
        port = parts.port
    except ValueError:
        return False
    return (
        bool(parts.hostname)
        and port != 0
        and not parts.query
        and not parts.fragment
        and address.split() == [address]
    )
