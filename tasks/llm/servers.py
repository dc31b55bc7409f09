"""Model servers by name: their addresses, and the models they have."""

from __future__ import annotations

import json
import logging
import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
from pydantic import ConfigDict, SecretStr, ValidationError

from storage_schemas.errors import PrerequisiteError, UserInputError
from storage_schemas.extras import require_package
from storage_schemas.model import (
    OFFLINE,
    PROVIDER_KEYS,
    PROVIDER_URLS,
    Frozen,
    ModelServer,
    ProviderName,
    StructuredAnswers,
)
from storage_schemas.offline_batches import batches_folder
from storage_schemas.proxies import is_near
from storage_schemas.regular_files import read_regular
from storage_schemas.secrets import know, strike_out
from storage_schemas.value_problems import first_error

log = logging.getLogger(__name__)

_PATIENCE_S = 10.0


class CannotAsk(PrerequisiteError):
    """A model server cannot be asked.

    Attributes
    ----------
    lost
        Number of earlier attempts that may have been charged.
    """

    lost = 0


class ServerDown(CannotAsk):
    """A model server has not answered within its patience."""


class NotAllowed(CannotAsk):
    """A model server rejects all requests: it refuses the key, or does not have the model."""


class QuotaUsedUp(NotAllowed):
    """The account of a model server has no credit or quota left."""


class ChatServer(Frozen):
    """A server with the model to request from it; the other fields are those of the profile."""

    name: str
    url: str
    provider: ProviderName = "openai"
    model: str
    key_variable: str | None = None
    key: SecretStr | None = None
    concurrency: int = 32
    timeout_s: float = 600.0
    patience_s: float = 300.0
    structured: StructuredAnswers = "schema"
    token_limit: str = "max_completion_tokens"
    #: Folder of the batches of a model without a server.
    offline: Path | None = None
    #: File of the store that announces the address; None for one that was given or is in the profile.
    announced: Path | None = None

    @property
    def where(self) -> str:
        """The server's name and address for messages."""
        named = "" if is_address(self.name) else f"{self.name} at "
        return f"model server {named}{self.base}"

    @property
    def correction(self) -> str:
        """What to do about a wrong address, depending on where it was found."""
        if is_address(self.name):
            return "correct the address in the command or in its settings file"
        if self.announced is not None:
            return f"remove {self.announced}, which announces it, if its job has ended"
        return f"change {entry_of(self.name)} in the profile"

    @property
    def base(self) -> str:
        """The base address of the interface; OpenAI's ends in a version, such as ``/v1``."""
        return base_address(self.url) if self.provider == "openai" else self.url.rstrip("/")

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


#: The providers' own servers, used if the profile does not define these names.
PROVIDERS: Mapping[str, ChatServer] = {
    name: ChatServer(name=name, url=PROVIDER_URLS[name], provider=name, model="", key_variable=key_variable)
    for name, key_variable in PROVIDER_KEYS.items()
}


@dataclass(frozen=True)
class Servers:
    """Finds servers by name (in the profile, else among those announced in the store) or by address.

    ``openai``, ``anthropic`` and ``google`` are the providers' own servers if neither defines them.
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
            server = ChatServer(name=name, **{**entry.model_dump(), "model": entry.model or model})
            if entry.url != OFFLINE or self.store is None:
                return server
            return server.model_copy(update={"offline": batches_folder(self.store, name)})
        if is_address(name):
            return _server_at(name, model)
        announced = None if self.store is None else self.store / "servers" / f"{name}.json"
        if announced is not None and announced.is_file():
            try:
                announcement = _Announced.model_validate_json(read_regular(announced))
            except (OSError, ValidationError) as problem:
                why = problem.strerror if isinstance(problem, OSError) else first_error(problem)
                raise PrerequisiteError(
                    f"{announced} does not have the address of model server {name} ({why}): start it "
                    "again, or name it in the profile"
                ) from problem
            found = ChatServer(name=name, url=announcement.url, key=announcement.key, model=model)
            return found.model_copy(update={"announced": announced})
        if name in PROVIDERS:
            return PROVIDERS[name].model_copy(update={"model": model})
        others = f" (it has {', '.join(sorted(self.named))})" if self.named else ""
        of = f", for {model}," if model else ""
        raise PrerequisiteError(
            f"model server {name!r}{of} is not in the profile{others}. Start one "
            f"(see `slvmeval serve-llm --help`), and give its address (http://…) or add at "
            f"the end of the profile:\n{profile_lines(name)}"
        )


def is_address(name: str) -> bool:
    """Return whether a server is not named, but given by its address."""
    return "://" in name


def _server_at(address: str, model: str) -> ChatServer:
    try:
        entry = ModelServer(url=address)
    except ValidationError as problem:
        raise UserInputError(f"model server {strike_out(address)}: {first_error(problem)}") from None
    if "@" in urlsplit(address).netloc:
        # evaluators' settings are stored and published
        raise UserInputError(
            f"model server {strike_out(address)}: an address with a password would be stored with the "
            f"answers; add it at the end of the profile and give its name:\n{profile_lines('NAME')}"
        )
    return ChatServer(name=address, **{**entry.model_dump(), "model": model})


def toml_key(name: str) -> str:
    """Return a name as a key of a TOML file, quoted where it is not a bare key.

    Examples
    --------
    >>> toml_key("openai"), toml_key("qwen2.5-vl")
    ('openai', '"qwen2.5-vl"')
    """
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def profile_lines(name: str, port: int = 8000) -> str:
    """Return the lines that define a server, valid at the end of any profile that does not define it yet."""
    return f'[{entry_of(name)}]\nurl = "http://HOST:{port}/v1"'


def entry_of(name: str) -> str:
    """Return what the profile calls a server's entry: ``model_servers.NAME``."""
    return f"model_servers.{toml_key(name)}"


def base_address(url: str) -> str:
    """Return an address with ``/v1`` at its end, unless its path names a version.

    Examples
    --------
    >>> base_address("http://h:1/"), base_address("http://h:1/api/v3/")
    ('http://h:1/v1', 'http://h:1/api/v3')
    """
    base = url.rstrip("/")
    return base if _VERSION.search(urlsplit(base).path) else f"{base}/v1"


_VERSION = re.compile(r"/v[0-9]+[a-z0-9]*(/|$)")


class HttpStatus(OSError):
    """A server answered with a status that is an error.

    Attributes
    ----------
    code
        The status.
    text
        The answer's text, without secrets.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"HTTP {code}")
        self.code, self.text = code, text


def json_client(server: ChatServer) -> httpx2.Client:
    """Return a client for :func:`ask_json`; the environment's proxy is not used for nearby servers."""
    # the client is never closed
    return httpx2.Client(**client_options(server), limits=httpx2.Limits(max_keepalive_connections=0))


def client_options(server: ChatServer) -> dict[str, Any]:
    """Return the options of every HTTP client for a server."""
    return {
        # the environment's proxy may not reach servers on the local network
        "trust_env": not is_near(server.url),
        # a key in a provider-specific header would be passed on to another host
        "follow_redirects": False,
        "verify": _tls(),
    }


@cache
def _tls() -> ssl.SSLContext:
    """Return the TLS context that all clients share: reading the certificate authorities takes 16 ms."""
    return httpx2.create_ssl_context()


def ask_json(
    http: httpx2.Client,
    server: ChatServer,
    path: str,
    body: Mapping[str, Any] | None = None,
    timeout_s: float | None = None,
) -> Any:
    """Return the JSON value at a path of a server; a body is posted.

    Raises
    ------
    HttpStatus
        If the server answers with an error.
    OSError, ValueError
        If it does not answer, or not with JSON; see :func:`why`.
    """
    key = server.secret()
    name = "x-goog-api-key" if server.provider == "google" else "Authorization"
    headers = {} if key is None else {name: key if server.provider == "google" else f"Bearer {key}"}
    if server.provider == "anthropic":
        headers["anthropic-version"] = _ANTHROPIC_VERSION
    try:
        response = http.request(
            "GET" if body is None else "POST",
            f"{server.base}{path}",
            json=body,
            headers=headers,
            timeout=server.timeout_s if timeout_s is None else timeout_s,
        )
    except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
        raise ConnectionError(str(problem) or type(problem).__name__) from problem
    if not response.is_success:
        raise HttpStatus(response.status_code, strike_out(response.text[:10_000]))
    return response.json()


def list_models(server: ChatServer, patience_s: float = _PATIENCE_S) -> list[str]:
    """Return the models that a server lists.

    Raises
    ------
    OSError, ValueError
        If it does not answer, or answers unexpectedly; see :func:`why`.
    """
    path, list_name, name = _LISTS[server.provider]
    with json_client(server) as http:
        values = ask_json(http, server, path, timeout_s=patience_s)
    try:
        return [strike_out(str(model[name])).removeprefix("models/") for model in values[list_name]]
    except (KeyError, TypeError) as problem:
        raise ValueError(f"no list of models in {strike_out(repr(values)):.200}") from problem


#: By provider: path of the list of models, and the names of the list and of a model's id in it.
_LISTS: Mapping[ProviderName, tuple[str, str, str]] = {
    "openai": ("/models", "data", "id"),
    "anthropic": ("/v1/models?limit=1000", "data", "id"),
    "google": ("/v1beta/models?pageSize=1000", "models", "name"),
}


#: The version of the interface; the pinned library requests the same one.
_ANTHROPIC_VERSION = "2026-10-21"


def why(problem: Exception) -> str:
    """Return a readable reason why a server did not answer."""
    if isinstance(problem, HttpStatus | ConnectionError):
        return str(problem)
    return f"{type(problem).__name__}: {problem}"


def require_address(server: ChatServer) -> None:
    """Raise PrerequisiteError for a model without a server, which is asked in batches only."""
    if server.url == OFFLINE:
        raise PrerequisiteError(
            f"{server.name} is a model without a server, which is asked in batches only: add --batch, or "
            "name the address of a server in the profile"
        )


def require_videos(server: ChatServer) -> None:
    """Raise UserInputError for a server whose interface takes no videos: Anthropic's, and OpenAI's own."""
    if server.provider == "anthropic" or urlsplit(server.url).hostname == "api.openai.com":
        raise UserInputError(
            f"{server.model}: frames_as=video sends videos, and {server.where} "
            "takes images only: write frames_as=images, or name a server that takes videos (vLLM, Google's)"
        )


def require_logprobs(server: ChatServer) -> None:
    """Raise UserInputError for a server whose interface has no log probabilities that we read."""
    if server.provider != "openai":
        raise UserInputError(
            f"{server.model}: logprobs=true needs a server with OpenAI's chat completions, and model server "
            f"{server.name} has provider = {server.provider!r}: leave logprobs out"
        )


def check_server(server: ChatServer) -> None:
    """Check once that a server is available and has its model.

    Raises
    ------
    PrerequisiteError
        If it does not answer, refuses the key, or lacks the model.
    """
    if server.offline is not None:
        return
    where = server.where
    need_library(server.provider)
    try:
        models = _models_like(server)
    except HttpStatus as problem:
        if problem.code in (401, 403):
            raise refused_key(server, told_by(problem.text)) from problem
        if problem.code == 402:
            raise quota_used_up(server, told_by(problem.text)) from problem
        if problem.code in WITHOUT_LIST:
            log.warning(
                "%s does not list its models (%s): whether it has %s is seen at the first request",
                where,
                why(problem),
                server.model,
            )
            return
        raise PrerequisiteError(f"{where} answers {why(problem)}: is it another kind of server?") from problem
    except (OSError, ValueError) as problem:
        raise PrerequisiteError(
            f"{where} does not answer as expected ({why(problem)}): start it (`slvmeval serve-llm --help`), "
            f"or {server.correction}"
        ) from problem
    if server.model not in models:
        raise no_such_model(server, models)


#: Statuses from servers without a list of models.
WITHOUT_LIST = frozenset({404, 405, 501})


def quota_used_up(server: ChatServer, text: str = "") -> QuotaUsedUp:
    """Return the error for a server whose account has no credit or quota left."""
    return QuotaUsedUp(
        f"the quota of {server.where} is used up{text}: add credit or raise the "
        "limit there, or wait until it is renewed, then run the same command again: answers received so far "
        "are stored"
    )


def _models_like(server: ChatServer) -> list[str]:
    """Return the models that a server lists, with its own if it knows that by another name."""
    models = list_models(server)
    if server.model in models or server.provider == "openai":
        return models
    path = f"{_LISTS[server.provider][0].partition('?')[0]}/{quote(server.model)}"
    try:
        with json_client(server) as http:
            ask_json(http, server, path, timeout_s=_PATIENCE_S)
    except HttpStatus as problem:
        if problem.code == 404:
            return models
        raise
    return [*models, server.model]


#: By provider: the additional library that it needs.
_LIBRARIES: Mapping[str, str] = {"anthropic": "anthropic", "google": "google.genai"}


def need_library(provider: ProviderName) -> None:
    """Raise PrerequisiteError if the library of a provider is not installed."""
    if name := _LIBRARIES.get(provider):
        require_package(name)


def told_by(text: str) -> str:
    """Return the message in an error's body, to append to ours in brackets; or nothing."""
    try:
        error = json.loads(text)["error"]
        text = str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, LookupError, TypeError, RecursionError):
        pass
    return f" ({strike_out(text):.300})" if text.strip() else ""


def refused_key(server: ChatServer, said: str = "") -> NotAllowed:
    """Return the error for a server that refuses the key; `said` are its words, in brackets."""
    given = "none was given" if server.secret() is None else "it is wrong or may not use this model"
    entry = "an entry of model_servers" if is_address(server.name) else entry_of(server.name)
    return NotAllowed(
        f"{server.where} refused the key ({given}){_in_words(said)}: set key_variable of {entry} in the "
        "profile to the variable that contains it"
    )


def _in_words(said: str) -> str:
    return said and f", in its words{said}"


def no_such_model(server: ChatServer, models: list[str] | None = None, said: str = "") -> NotAllowed:
    """Return the error for a server that lacks the model; `said` are its words, in brackets."""
    has = "" if models is None else f"; it has {', '.join(models) or 'none'}"
    remedy = f"set its name there in {entry_of(server.name)} (model = …)"
    return NotAllowed(
        f"{server.where} does not serve {server.model}{has}{_in_words(said)}: serve that model, or "
        f"{'name one that it has' if is_address(server.name) else remedy}"
    )
