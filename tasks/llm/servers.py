"""Model servers by name: their addresses, and the models they have."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ConfigDict, SecretStr, ValidationError

from storage_schemas.errors import PrerequisiteError
from storage_schemas.model import Frozen, ModelServer
from storage_schemas.secrets import know, strike_out

_PATIENCE_S = 10.0


class ServerDown(PrerequisiteError):
    """A model server has not answered within its patience."""


class NotAllowed(PrerequisiteError):
    """A model server rejects all requests: it refuses the key, or does not have the model."""


class ChatServer(Frozen):
    """A server with the model to request from it; the other fields are those of the profile."""

    name: str
    url: str
    model: str
    key_variable: str | None = None
    key: SecretStr | None = None
    concurrency: int = 32
    timeout_s: float = 600.0
    patience_s: float = 300.0

    @property
    def base(self) -> str:
        """The base address of the interface, which ends in ``/v1``."""
        return base_address(self.url)

    def secret(self) -> str | None:
        """Return the server's key, if it has one.

        Raises
        ------
        PrerequisiteError
            If its environment variable is not set in this process.
        """
        if self.key_variable is None:
            key = None if self.key is None else self.key.get_secret_value()
            know(key, f"key of {self.name}")
            return key
        key = os.environ.get(self.key_variable)
        if not key:
            raise NotAllowed(
                f"the key of model server {self.name} is in the variable {self.key_variable} (key_variable "
                "in model_servers), which is not set: export it where the command runs, and in the jobs of "
                "worker pools"
            )
        know(key, self.key_variable)
        return key


class _Announced(Frozen):
    """The fields of a server's announcement that a client needs; see ``slvmeval serve-llm``."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str
    key: SecretStr | None = None


#: OpenAI's own servers, used if the profile does not define ``openai``.
OPENAI = ChatServer(name="openai", url="https://api.openai.com/v1", model="", key_variable="OPENAI_API_KEY")


@dataclass(frozen=True)
class Servers:
    """Finds servers by name: in the profile, else among those announced in the store.

    ``openai`` is OpenAI's own server if neither defines it.
    """

    named: Mapping[str, ModelServer] = field(default_factory=dict)
    store: Path | None = None

    def find(self, name: str, model: str) -> ChatServer:
        """Return the server of a name, for requests to a model.

        Raises
        ------
        PrerequisiteError
            If there is none; the message has the lines to add to the profile.
        """
        entry = self.named.get(name)
        if entry is not None:
            return ChatServer(name=name, **{**entry.model_dump(), "model": entry.model or model})
        announced = None if self.store is None else self.store / "servers" / f"{name}.json"
        if announced is not None and announced.is_file():
            try:
                announcement = _Announced.model_validate_json(announced.read_bytes())
            except (OSError, ValidationError) as problem:
                raise PrerequisiteError(
                    f"{announced} does not have the address of model server {name} ({problem}): start it "
                    "again, or name it in the profile"
                ) from problem
            return ChatServer(name=name, url=announcement.url, key=announcement.key, model=model)
        if name == OPENAI.name:
            return OPENAI.model_copy(update={"model": model})
        others = f" (it has {', '.join(sorted(self.named))})" if self.named else ""
        raise PrerequisiteError(
            f"model server {name!r}, for {model}, is not in the profile{others}. Start one "
            f"(see `slvmeval serve-llm --help`), and add at the end of the profile:\n{profile_lines(name)}"
        )


def toml_key(name: str) -> str:
    """Return a name as a key of a TOML file, quoted where it is no bare key.

    Examples
    --------
    >>> toml_key("openai"), toml_key("qwen2.5-vl")
    ('openai', '"qwen2.5-vl"')
    """
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def profile_lines(name: str, port: int = 8000) -> str:
    """Return the lines that name a server, valid at the end of any profile that does not name it yet."""
    return f'[{entry_of(name)}]\nurl = "http://HOST:{port}/v1"'


def entry_of(name: str) -> str:
    """Return what the profile calls a server's entry: ``model_servers.NAME``."""
    return f"model_servers.{toml_key(name)}"


def base_address(url: str) -> str:
    """Return an address that ends in exactly one ``/v1``."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/") + "/v1"


def is_near(url: str) -> bool:
    """Return whether an address is on this machine or its local network, which proxies do not serve."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host
    return address.is_loopback or address.is_private


def list_models(url: str, key: str | None = None, patience_s: float = _PATIENCE_S) -> list[str]:
    """Return the models that a server lists.

    Raises
    ------
    OSError, ValueError
        If it does not answer, or with something else; see :func:`why`.
    """
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    request = urllib.request.Request(f"{base_address(url)}/models", headers=headers)
    near = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener = near if is_near(url) else urllib.request.build_opener()
    try:
        with opener.open(request, timeout=patience_s) as answer:
            values = json.loads(answer.read().decode("utf-8"))
    except urllib.error.HTTPError as problem:
        problem.close()  # releases the connection
        raise
    try:
        return [strike_out(str(model["id"])) for model in values["data"]]
    except (KeyError, TypeError) as problem:
        raise ValueError(f"no list of models in {strike_out(repr(values)):.200}") from problem


def why(problem: Exception) -> str:
    """Return a readable reason why a server did not answer."""
    if isinstance(problem, urllib.error.HTTPError):
        return f"HTTP {problem.code}"
    if isinstance(problem, urllib.error.URLError):
        return str(problem.reason)
    return f"{type(problem).__name__}: {problem}"


def check_server(server: ChatServer) -> None:
    """Check once that a server is available and has its model.

    Raises
    ------
    PrerequisiteError
        If it does not answer, refuses the key, or lacks the model.
    """
    where = f"model server {server.name} at {server.base}"
    try:
        models = list_models(server.url, server.secret())
    except urllib.error.HTTPError as problem:
        if problem.code in (401, 403):
            raise refused_key(server) from problem
        raise PrerequisiteError(f"{where} answers {why(problem)}: is it another kind of server?") from problem
    except (OSError, ValueError) as problem:
        raise PrerequisiteError(
            f"{where} does not answer as expected ({why(problem)}): start it (`slvmeval serve-llm --help`), "
            f"or change {entry_of(server.name)} in the profile"
        ) from problem
    if server.model not in models:
        raise no_such_model(server, models)


def refused_key(server: ChatServer) -> NotAllowed:
    """Return the error for a server that refuses the key."""
    given = "none was given" if server.secret() is None else "it is wrong or may not use this model"
    return NotAllowed(
        f"model server {server.name} at {server.base} refused the key ({given}): set key_variable of "
        f"{entry_of(server.name)} in the profile to the variable that contains it"
    )


def no_such_model(server: ChatServer, models: list[str] | None = None) -> NotAllowed:
    """Return the error for a server that lacks the model."""
    has = "" if models is None else f"; it has {', '.join(models) or 'none'}"
    return NotAllowed(
        f"model server {server.name} at {server.base} does not serve {server.model}{has}: serve that model, "
        f"or set its name there in {entry_of(server.name)} (model = …)"
    )
