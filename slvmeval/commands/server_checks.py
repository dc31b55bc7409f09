"""The checks of ``slvmeval doctor`` of servers that builds call: Prefect's, and those of models."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from infra.profile import Profile
from slvmeval.commands.finding import Finding, Verdict
from storage_schemas.errors import PrerequisiteError
from tasks.models.servers import Servers, list_models, why

_PATIENCE_S = 10.0


def check_servers(site: Profile, where: str) -> Iterator[Finding]:
    """Check that Prefect's server and the model servers answer, those that are named."""
    yield from check_prefect(site, where)
    for name in site.model_servers:
        yield check_model_server(name, Servers(site.model_servers, Path(site.store)), where)


def check_prefect(site: Profile, where: str) -> Iterator[Finding]:
    """Check that Prefect's server answers, if there is one but the build's own."""
    address, key = site.prefect_api_url, f"prefect_api_url in {where}"
    if not address:
        address, key = os.environ.get("PREFECT_API_URL"), "the variable PREFECT_API_URL"
    if not address:
        return
    try:
        _get(f"{address.rstrip('/')}/health")
    except (OSError, ValueError) as problem:
        yield Finding(
            "prefect",
            Verdict.FAIL,
            f"{address} does not answer ({why(problem)}): start it (prefect server start), or change {key}",
        )
        return
    yield Finding("prefect", Verdict.OK, f"builds use the server at {address}")


def check_model_server(name: str, servers: Servers, where: str) -> Finding:
    """Check that an OpenAI-compatible server says which models it has."""
    what = f"server {name}"
    server = servers.find(name, "")
    try:
        models = list_models(server.url, server.secret())
    except PrerequisiteError as problem:
        return Finding(what, Verdict.FAIL, str(problem))
    except (OSError, ValueError) as problem:
        return Finding(
            what,
            Verdict.FAIL,
            f"{server.base}/models does not answer as it should ({why(problem)}): start that server, or "
            f"change model_servers.{name} in {where}",
        )
    if server.model and server.model not in models:
        return Finding(
            what, Verdict.FAIL, f"it has {', '.join(models) or 'no models'}, and not {server.model}: {where}"
        )
    return Finding(
        what, Verdict.OK, f"{server.base.removesuffix('/v1')} has {', '.join(models) or 'no models'}"
    )


def _get(address: str) -> str:
    if not address.startswith(("http://", "https://")):
        raise ValueError("an address begins with http:// or https://")
    with urllib.request.urlopen(address, timeout=_PATIENCE_S) as answer:
        return str(answer.read().decode("utf-8"))
