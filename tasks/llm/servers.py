"""Model servers by name: where each one answers, and which models it has."""

from __future__ import annotations

import ipaddress
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ConfigDict, SecretStr, ValidationError

from storage_schemas.errors import PrerequisiteError
from storage_schemas.model import Frozen, ModelServer

_PATIENCE_S = 10.0


class ServerDown(PrerequisiteError):
    """A model server does not answer, for longer than its patience."""


class NotAllowed(PrerequisiteError):
    """A model server will answer nothing of ours: it refuses the key, or does not have the model."""


class ChatServer(Frozen):
    """A server that is asked for chat completions of one model; the fields are those of a profile's."""

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
        """The address below which the interface lies: it ends in ``/v1``."""
        return base_address(self.url)

    def secret(self) -> str | None:
        """Return the server's key, if it wants one.

        Raises
        ------
        PrerequisiteError
            If the variable that has it is not set in this process.
        """
        if self.key_variable is None:
            return None if self.key is None else self.key.get_secret_value()
        found = os.environ.get(self.key_variable)
        if not found:
            raise NotAllowed(
                f"the key of model server {self.name} is in the variable {self.key_variable} (key_variable "
                "in model_servers), which is not set: export it where the build runs, and in the jobs of the "
                "worker pools"
            )
        return found


class _Announced(Frozen):
    """The part of a server's own file that is needed to ask it; see ``slvmeval serve-llm``."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str
    key: SecretStr | None = None


#: OpenAI's own servers, where the profile says nothing else of ``openai``.
OPENAI = ChatServer(name="openai", url="https://api.openai.com/v1", model="", key_variable="OPENAI_API_KEY")


@dataclass(frozen=True)
class Servers:
    """Finds servers by name: among the profile's, else among those that announced themselves in the store.

    ``openai`` is OpenAI's own where neither has one.
    """

    named: Mapping[str, ModelServer] = field(default_factory=dict)
    store: Path | None = None

    def find(self, name: str, model: str) -> ChatServer:
        """Return the server of a name, to be asked for a model.

        Raises
        ------
        PrerequisiteError
            If there is none, with the lines to add to the profile.
        """
        entry = self.named.get(name)
        if entry is not None:
            return ChatServer(name=name, **{**entry.model_dump(), "model": entry.model or model})
        announced = None if self.store is None else self.store / "servers" / f"{name}.json"
        if announced is not None and announced.is_file():
            try:
                found = _Announced.model_validate_json(announced.read_bytes())
            except (OSError, ValidationError) as problem:
                raise PrerequisiteError(
                    f"{announced} does not say where model server {name} answers ({problem}): start it "
                    "again, or name it in the profile"
                ) from problem
            return ChatServer(name=name, url=found.url, key=found.key, model=model)
        if name == OPENAI.name:
            return OPENAI.model_copy(update={"model": model})
        others = f" (it has {', '.join(sorted(self.named))})" if self.named else ""
        raise PrerequisiteError(
            f"the recipe asks model server {name!r} for {model}, and the profile names none{others}. Start "
            "one, `slvmeval serve-llm --help` says how, and add to the profile:\n"
            f'[model_servers]\n{name} = "http://HOST:8000/v1"'
        )


def base_address(url: str) -> str:
    """Return an address with exactly one ``/v1`` at its end."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/") + "/v1"


def is_near(url: str) -> bool:
    """Return whether an address lies on this machine or in its own network, where no proxy leads."""
    host = urlsplit(url).hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host
    return address.is_loopback or address.is_private


def list_models(url: str, key: str | None = None, patience_s: float = _PATIENCE_S) -> list[str]:
    """Return the models that a server says it has.

    Raises
    ------
    OSError, ValueError
        If it does not answer, or not as such a server does; see :func:`why`.
    """
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    asked = urllib.request.Request(f"{base_address(url)}/models", headers=headers)
    near = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener = near if is_near(url) else urllib.request.build_opener()
    try:
        with opener.open(asked, timeout=patience_s) as answer:
            values = json.loads(answer.read().decode("utf-8"))
    except urllib.error.HTTPError as problem:
        problem.close()  # it holds the connection
        raise
    try:
        return [str(model["id"]) for model in values["data"]]
    except (KeyError, TypeError) as problem:
        raise ValueError(f"no list of models in {values!r:.200}") from problem


def why(problem: Exception) -> str:
    """Return why a server did not answer, for a person."""
    if isinstance(problem, urllib.error.HTTPError):
        return f"HTTP {problem.code}"
    if isinstance(problem, urllib.error.URLError):
        return str(problem.reason)
    return f"{type(problem).__name__}: {problem}"


def check_server(server: ChatServer) -> None:
    """Ask a server once whether it is there and has its model.

    Raises
    ------
    PrerequisiteError
        If it does not answer, refuses the key, or has other models only.
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
            f"{where} does not answer as it should ({why(problem)}): start it (`slvmeval serve-llm --help`), "
            f"or change model_servers.{server.name} in the profile"
        ) from problem
    if server.model not in models:
        raise no_such_model(server, models)


def refused_key(server: ChatServer) -> NotAllowed:
    """Return the error of a server that does not know our key."""
    given = "none was given" if server.secret() is None else "it is wrong or may not use this model"
    return NotAllowed(
        f"model server {server.name} at {server.base} refused the key ({given}): set key_variable of "
        f"model_servers.{server.name} in the profile to the variable that has it"
    )


def no_such_model(server: ChatServer, models: list[str] | None = None) -> NotAllowed:
    """Return the error of a server that has other models."""
    has = "" if models is None else f"; it has {', '.join(models) or 'none'}"
    return NotAllowed(
        f"model server {server.name} at {server.base} does not serve {server.model}{has}: serve that model, "
        f"or say in model_servers.{server.name} what it is called there (model = …)"
    )
